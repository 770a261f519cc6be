# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware parameters of NVIDIA NICs that people set for RDMA and GPUs, and what each can be. Controller only.

mstconfig knows hundreds, and they differ by board: a name that is not here is the NIC's own to refuse. A
name with P1 stands for every port.
"""

import re
from typing import Any, NamedTuple, Optional, Tuple


class Parameter(NamedTuple):
    """``words`` (with the numbers that stand for them) or a range of integers; a switch is False, True."""

    name: str
    words: Tuple[Tuple[str, int], ...]
    low: int
    high: int
    meaning: str
    source: str


_SWITCH = (("False", 0), ("True", 1))
_NCO = "Mellanox/nic-configuration-operator (configvalidation.go)"
PARAMETERS: Tuple[Parameter, ...] = (
    Parameter("ATS_ENABLED", _SWITCH, 0, 1, "Address Translation Services: off on bare metal, on in virtual machines with GPUDirect", _NCO),
    Parameter("SRIOV_EN", _SWITCH, 0, 1, "SR-IOV", _NCO),
    Parameter("NUM_OF_VFS", (), 0, 127, "virtual functions of each port", _NCO),
    Parameter("LINK_TYPE_P1", (("IB", 1), ("ETH", 2), ("VPI", 3)), 1, 3, "InfiniBand or Ethernet", _NCO),
    Parameter("ROCE_CC_PRIO_MASK_P1", (), 0, 255, "priorities with RoCE congestion control, a bit each", _NCO),
    Parameter("CNP_DSCP_P1", (), 0, 63, "DSCP of congestion notification packets", _NCO),
    Parameter("CNP_802P_PRIO_P1", (), 0, 7, "priority of congestion notification packets", _NCO),
    Parameter("ADVANCED_PCI_SETTINGS", _SWITCH, 0, 1, "shows further PCI parameters", _NCO),
    Parameter("MAX_ACC_OUT_READ", (), 0, 256, "outstanding PCI reads; 0: automatic", _NCO),
    Parameter("PCI_WR_ORDERING", (("per_mkey", 0), ("force_relax", 1)), 0, 1, "relaxed ordering by memory region, or always",
              "NVIDIA (mlxconfig, PCI settings)"),
)
NAMES = tuple(row.name for row in PARAMETERS)


def find_parameter(name: str) -> Optional[Parameter]:
    """The row of a parameter, for any port."""
    return next((row for row in PARAMETERS if row.name == re.sub(r"_P[1-4]\Z", "_P1", name)), None)


def value_fits(row: Parameter, value: Any) -> bool:
    """Whether a value, as people write it (true, 1, True(1), ETH), is one that the parameter can have."""
    if isinstance(value, bool):
        return row.words == _SWITCH
    word, _bracket, number = str(value).partition("(")
    if number:
        return any(word.lower() == name.lower() and number == "%d)" % code for name, code in row.words)
    if re.match(r"[0-9]+\Z", word):
        return row.low <= int(word) <= row.high
    return any(word.lower() == name.lower() for name, _code in row.words)


def allowed(row: Parameter) -> str:
    if row.words == _SWITCH:
        return "true or false"
    return ", ".join(name for name, _code in row.words) if row.words else "an integer from %d to %d" % (row.low, row.high)
