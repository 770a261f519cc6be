# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of the kernel become values only when the whole text has the documented form."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats import sysfs_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4: ACTIVE\n", "ACTIVE"),
        ("1: DOWN", "DOWN"),
        ("5: LinkUp\n", "LinkUp"),
        ("2: Polling", "Polling"),
        ("4: RNIC", "RNIC"),
        ("7: Phy Test", "Phy Test"),
        ("5: ACTIVE_DEFER", "ACTIVE_DEFER"),
        ("4:", None),
        ("4", None),
        ("", None),
        (None, None),
        ("4: AC\x00IVE", None),
        ("4: \ufffd\ufffd", None),
        ("4: ACTIVE\n5: DOWN", None),
    ],
)
def test_enumerations_lose_their_number(text: str | None, value: str | None) -> None:
    assert sysfs_values.enum_text(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("400 Gb/sec (4X NDR)\n", 400),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("100 Gb/sec", 100),
        ("800 Gb/sec (4X XDR)", 800),
        ("400 Gb", None),
        ("40", None),
        ("400 Gb/sec (4X", None),
        ("Gb/sec", None),
        ("-1 Gb/sec", None),
        (None, None),
    ],
)
def test_rates_are_numbers(text: str | None, value: float | None) -> None:
    assert sysfs_values.rate_gbps(text) == value
    assert type(sysfs_values.rate_gbps(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1c\n", 28),
        ("28", 28),
        ("0", 0),
        ("0xffff", 65535),
        ("-1", -1),
        ("18446744073709551615", 2**64 - 1),
        ("N/A (no PMA)", None),
        ("0x", None),
        ("12 apples", None),
        ("9" * 400, None),
        ("\u0663", None),
        ("", None),
        (None, None),
    ],
)
def test_integers_are_hexadecimal_or_decimal(text: str | None, value: int | None) -> None:
    assert sysfs_values.integer(text) == value


def test_guids_and_gids_keep_their_spelling() -> None:
    assert sysfs_values.guid("B8CE:f603:00ab:cdef\n") == "B8CE:f603:00ab:cdef"
    assert sysfs_values.guid("b8ce:f603:00ab") is None
    assert sysfs_values.gid("fe80:0000:0000:0000:b8ce:f603:00ab:cdef") == "fe80:0000:0000:0000:b8ce:f603:00ab:cdef"
    assert sysfs_values.gid("fe80::b8ce:f603:00ab:cdef") is None


def test_natural_order() -> None:
    names = ["mlx5_10", "mlx5_2", "mlx5_bond_0", "erdma_1", "mlx5_1", "1", "10", "2"]
    assert sorted(names, key=sysfs_values.natural_key) == ["1", "2", "10", "erdma_1", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_bond_0"]


@pytest.mark.parametrize("text", ["../../etc/passwd", "eth0/../lo", "..", ".", "", "eth 0", "eth0\x00", "é", "-rf", "x" * 65, "{{ x }}"])
def test_what_a_node_says_never_becomes_a_path(text: str) -> None:
    assert sysfs_values.name(text) is None


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("../../../0000:1A:00.0", "0000:1a:00.0"),
        ("../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0", "0000:00:03.0"),
        ("../../devices/pci0000:17/0000:17:01.0/0000:18:00.1/infiniband/mlx5_1", "0000:18:00.1"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("../../devices/virtual/net/lo", None),
        ("../../../ice.roce.0", None),
        (None, None),
    ],
)
def test_the_innermost_pci_function_counts(path: str | None, address: str | None) -> None:
    assert sysfs_values.last_pci_address(path) == address


def test_macs_in_guids() -> None:
    assert sysfs_values.mac_of_guid("0216:3eff:fe11:2201") == "00:16:3e:11:22:01"
    assert sysfs_values.mac_of_guid("b8ce:f603:00ab:cdef") is None
    assert sysfs_values.mac_of_guid(None) is None


def test_key_values_take_quotes_off_and_leave_garbage_out() -> None:
    text = "ID=ubuntu\nNAME='Ubuntu'\nPRETTY_NAME=\"Ubuntu 24.04\"\n# ID=x\nno equals\nBAD=\x00\nEMPTY=\n"
    assert sysfs_values.key_values(text) == {"ID": "ubuntu", "NAME": "Ubuntu", "PRETTY_NAME": "Ubuntu 24.04", "EMPTY": ""}
