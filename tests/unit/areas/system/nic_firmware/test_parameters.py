# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of firmware parameters: values as people write them, and the ends of every range."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nic_parameters import PARAMETERS, allowed, find_parameter, value_fits


@pytest.mark.parametrize("row", PARAMETERS, ids=[row.name for row in PARAMETERS])
def test_every_row(row: Any) -> None:
    assert find_parameter(row.name) == row
    assert value_fits(row, row.low)
    assert value_fits(row, row.high)
    assert not value_fits(row, row.high + 1)
    assert not value_fits(row, "perhaps")
    assert all(value_fits(row, name) and value_fits(row, f"{name}({code})") for name, code in row.words)
    assert not any(value_fits(row, f"{name}({code + 9})") for name, code in row.words)
    assert allowed(row)


@pytest.mark.parametrize(("name", "value", "good"), [
    ("ATS_ENABLED", True, True), ("ATS_ENABLED", "false", True), ("NUM_OF_VFS", True, False), ("NUM_OF_VFS", "16", True),
    ("LINK_TYPE_P2", "eth", True), ("LINK_TYPE_P2", "ETHER", False), ("CNP_DSCP_P4", 64, False),
])
def test_values_as_people_write_them(name: str, value: Any, good: bool) -> None:
    row = find_parameter(name)
    assert row is not None
    assert value_fits(row, value) is good


def test_others_are_the_nics_own() -> None:
    assert find_parameter("MEMIC_BAR_SIZE") is None
