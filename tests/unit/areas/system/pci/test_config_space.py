# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration space written from the PCI Express specification's layout, and bytes that no device would give."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.node_pci import ACS_AT, DOWNSTREAM, EXPRESS_AT, ROOT_PORT, config_space

from ansible_collections.railwright.rdma.plugins.module_utils.observe.pci import acs_names, parse_config, read_request_code


def test_an_endpoint_is_read_register_by_register() -> None:
    found = parse_config(config_space(0x15B3, 0x1021, read_request=512, relaxed=True, speed=4, width=8, max_speed=5, max_width=16))
    assert found is not None
    assert found.express is not None
    assert (found.vendor, found.device, found.bridge, found.acs) == (0x15B3, 0x1021, False, None)
    express = found.express
    assert (express.max_read_request, express.max_payload, express.relaxed_ordering) == (512, 256, True)


@pytest.mark.parametrize(("size", "code"), [(128, 0), (256, 0x1000), (512, 0x2000), (1024, 0x3000), (2048, 0x4000), (4096, 0x5000)])
def test_max_read_request_there_and_back(size: int, code: int) -> None:
    assert read_request_code(size) == code
    found = parse_config(config_space(0x15B3, 0x1021, read_request=size))
    assert found is not None
    assert found.express is not None
    assert found.express.max_read_request == size
    assert found.express.control & 0x7000 == code


@pytest.mark.parametrize("code", [6, 7])
def test_reserved_sizes_are_unknown(code: int) -> None:
    data = bytearray(config_space(0x15B3, 0x1021))
    data[EXPRESS_AT + 9] = data[EXPRESS_AT + 9] & 0x8F | code << 4
    found = parse_config(bytes(data))
    assert found is not None
    assert found.express is not None
    assert found.express.max_read_request is None


def test_acs_of_bridges() -> None:
    found = parse_config(config_space(0x1000, 0xC030, DOWNSTREAM, acs=0x1D))
    assert found is not None
    assert found.acs is not None
    assert found.bridge
    assert acs_names(found.acs.control) == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    off = parse_config(config_space(0x1000, 0xC030, ROOT_PORT, acs=0))
    assert off is not None
    assert off.acs is not None
    assert off.acs.control == 0


def test_what_an_ordinary_user_is_given_is_unknown_not_absent() -> None:
    found = parse_config(config_space(0x15B3, 0x1021, acs=0x1D)[:64])
    assert found is not None
    assert (found.vendor, found.complete, found.extended, found.express, found.acs) == (0x15B3, False, False, None, None)


def test_conventional_pci_has_no_extended_space() -> None:
    found = parse_config(config_space(0x15B3, 0x1021, acs=0x1D)[:256])
    assert found is not None
    assert found.complete
    assert not found.extended
    assert found.express is not None
    assert found.acs is None


@pytest.mark.parametrize("data", [None, b"", b"\xb3\x15", b"\xff" * 4096, config_space(1, 1)[:63]])
def test_no_header_or_no_answer_is_none(data: bytes | None) -> None:
    assert parse_config(data) is None


def test_loops_of_capabilities_end() -> None:
    data = bytearray(config_space(0x15B3, 0x1021, acs=0))
    data[EXPRESS_AT] = 0x05  # no PCI Express capability any more …
    data[EXPRESS_AT + 1] = EXPRESS_AT  # … and this one points at itself
    data[ACS_AT : ACS_AT + 4] = (0x0002 | 1 << 16 | ACS_AT << 20).to_bytes(4, "little")
    found = parse_config(bytes(data))
    assert found is not None
    assert found.express is None
    assert found.acs is None


@settings(max_examples=400, deadline=None)
@given(
    length=st.sampled_from((64, 65, 100, 256, 257, 300, 1000, 4095, 4096)),
    flips=st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=60),
)
def test_damaged_bytes_never_raise_and_give_only_possible_values(length: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(config_space(0x15B3, 0x1021, acs=0x1D)[:length])
    for at, value in flips:
        data[at % length] = value
    found = parse_config(bytes(data))
    if found is not None and found.express is not None:
        assert found.express.max_read_request in (None, 128, 256, 512, 1024, 2048, 4096)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=600))
def test_garbage_never_raises(data: bytes) -> None:
    parse_config(data)


def test_functions_of_this_machine_are_read() -> None:
    """Whatever runs the tests: live files of the kernel, no fixture."""
    for config in Path("/sys/bus/pci/devices").glob("*/config"):
        found = parse_config(config.read_bytes())
        vendor = int((config.parent / "vendor").read_text(), 16)
        assert found is None or found.vendor == vendor
