# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of mstflint's tools, in formats recorded from its source, and what people write for a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.node_firmware import HEALTHY, config_table, flash_query, old_config_table

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.firmware import (
    Value,
    argument_of,
    parse_config,
    same_value,
    version_in_flash,
)

ADDRESS = "0000:18:00.0"
# Lines as an operator's manual of a Slingshot system shows them: mstflint 4.1x.
SLINGSHOT = """
Device #1:
----------

Device type:    ConnectX5
Name:           MCX515A-CCA_Ax_Bx
Device:         /dev/mst/mt4119_pciconf0

Configurations:                              Default         Current         Next Boot
         MEMIC_BAR_SIZE                      0               0               0
         MEMIC_SIZE_LIMIT                    _256KB(1)       _256KB(1)       _256KB(1)
*        ADVANCED_PCI_SETTINGS               False(0)        True(1)         True(1)
The '*' shows parameters with next value different from default/current value.
"""


@pytest.mark.parametrize("table", [config_table(ADDRESS, HEALTHY), old_config_table(ADDRESS, HEALTHY)], ids=["new", "old"])
def test_recorded_formats_are_read_whole(table: str) -> None:
    assert parse_config(table) == {name: Value(*row) for name, row in HEALTHY.items()}


def test_a_documented_output_is_read() -> None:
    assert parse_config(SLINGSHOT)["ADVANCED_PCI_SETTINGS"] == Value("False(0)", "True(1)", "True(1)")
    assert len(parse_config(SLINGSHOT)) == 3


def test_read_only_rows_and_starred_ones() -> None:
    rows = {"RO_ONE": ("1", "1", "1"), "RO_TWO": ("1", "1", "2"), "PLAIN": ("N/A", "3", "3")}
    found = parse_config(config_table(ADDRESS, rows, read_only=("RO_ONE", "RO_TWO")))
    assert found == {"RO_ONE": Value("1", "1", "1"), "RO_TWO": Value("1", "1", "2"), "PLAIN": Value(None, "3", "3")}


def test_devices_that_tell_the_next_boot_only() -> None:
    found = parse_config(config_table(ADDRESS, HEALTHY, current=False))
    assert found["NUM_OF_VFS"] == Value(None, None, "0")


@pytest.mark.parametrize(("text", "version"), [
    (flash_query("28.47.1080", "MT_0000000838"), "28.47.1080"),
    (flash_query("28.47.1080", "MT_0000000838", "28.41.1000"), "28.47.1080"),
    ("-E- Failed to open device\n", None),
])
def test_version_in_flash(tmp_path: Path, text: str, version: str | None) -> None:
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd" / "mstflint_-d_x_q").write_text(text, encoding="utf-8")
    assert version_in_flash(TreeHost(str(tmp_path)), "mstflint", "x") == version


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        (True, "True(1)", True),
        (False, "False(0)", True),
        (1, "True(1)", True),
        ("1", "True(1)", True),
        ("true", "True(1)", True),
        ("True(1)", "True(1)", True),
        (True, "False(0)", False),
        ("ETH", "ETH(2)", True),
        ("eth", "ETH(2)", True),
        (2, "ETH(2)", True),
        ("IB", "ETH(2)", False),
        (16, "16", True),
        ("0x10", "16", True),
        (16, "160", False),
        ("_256KB", "_256KB(1)", True),
        (True, None, False),
    ],
)
def test_values_as_people_write_them(wanted: Any, printed: str | None, same: bool) -> None:
    assert same_value(wanted, printed) is same


@pytest.mark.parametrize(
    ("value", "text"), [(True, "1"), (False, "0"), (16, "16"), ("ETH", "ETH"), ("ETH(2)", "2"), ("True(1)", "1"), ("0x10", "16")]
)
def test_what_set_is_given(value: Any, text: str) -> None:
    assert argument_of(value) == text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_garbage_never_raises(text: str) -> None:
    parse_config(text)
    assert all(isinstance(value, Value) for value in parse_config("Configurations:  Default Current Next Boot\n" + text).values())
