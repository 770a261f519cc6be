# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware of NVIDIA NICs: versions, board, and the stored configuration with its three values.

A parameter has a default, a current value (what the firmware loaded at the last reset) and one for the next boot. The
formats are those of mstflint's mlxconfig (mlxcfg_ui.cpp) and flint (subcommands.cpp); MFT's mlxconfig and flint are the same
programs under the vendor's names. Two ports of a NIC are two PCI functions of one device and have one configuration.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..host.threads import ask_at_once
from .devices import CLASS_INFINIBAND, PCI_DEVICES, attribute, entries, pci_of
from .pci import is_virtual_function

CONFIG_TOOLS = ("mstconfig", "mlxconfig")
FLASH_TOOLS = ("mstflint", "flint")
NVIDIA_NETWORKING = "0x15b3"
# Virtual functions by device id (drivers/net/ethernet/mellanox/mlx5/core/main.c, MLX5_PCI_DEV_IS_VF): in a guest nothing else tells.
VIRTUAL_FUNCTIONS = ("0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e", "0xa2d3")
# What facts show of a configuration that may have 200 parameters; and every parameter that is not at its default.
SHOWN = ("ATS_ENABLED", "PCI_WR_ORDERING", "ADVANCED_PCI_SETTINGS", "MAX_ACC_OUT_READ", "SRIOV_EN", "NUM_OF_VFS", "LINK_TYPE_P1",
         "LINK_TYPE_P2", "ROCE_CC_PRIO_MASK_P1", "ROCE_CC_PRIO_MASK_P2", "CNP_DSCP_P1", "CNP_802P_PRIO_P1", "ROCE_RTT_RESP_DSCP_P1",
         "IB_ROUTING_MODE_P1", "INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE")
QUERY_SECONDS = 60.0
_COLUMN = re.compile(r"Default|Current|Next Boot|New")
_PARAMETER = re.compile(r"[A-Z][A-Za-z0-9_]*(\[[0-9.]+\])?\Z")
_NUMBERED = re.compile(r"(.*)\((\d{1,18})\)\Z")
_ERROR = re.compile(r"^[ \t]*-E-[ \t]*(\S.*)", re.MULTILINE)
# What it says of a parameter, not of the device: mlxcfg_generic_commander.cpp, mlxcfg_tlv.cpp.
_OF_PARAMETER = re.compile(r"[Pp]arameter|[Rr]ead.only")
_FLASH_LINE = re.compile(r"^FW Version:[ \t]+(\S+)[ \t]*$", re.MULTILINE)


class Value(NamedTuple):
    """One parameter as the tool prints it (``True(1)``, ``ETH(2)``, ``16``); None where the device does not tell."""

    default: Optional[str]
    current: Optional[str]
    next: Optional[str]


class Config(NamedTuple):
    """``errors``: what the tool said of single parameters; ``failure``: of the device as a whole."""

    values: Dict[str, Value]
    errors: Dict[str, str]
    failure: Optional[str]


def parse_config(text: str) -> Dict[str, Value]:
    """The table of ``mstconfig -e q``; lines of another form are left out."""
    columns: List[str] = []
    found: Dict[str, Value] = {}
    for line in lines_in(text):
        if line.strip().startswith("Configurations:"):
            columns = _COLUMN.findall(line)
            continue
        words = line.split()
        while words and words[0] in ("*", "RO", "*RO"):
            words = words[1:]
        if columns and len(words) == len(columns) + 1 and _PARAMETER.match(words[0]):
            by_column = {column: word for column, word in zip(columns, words[1:]) if word != "N/A"}
            found[words[0]] = Value(*map(by_column.get, ("Default", "Current", "Next Boot")))
    return found


def query_config(host: Host, tool: str, address: str, names: Sequence[str] = ()) -> Config:
    """Ask for these parameters, or for all. One unknown name fails the whole question, so then each is asked by itself."""
    result = host.run((tool, "-d", address, "-e", "q") + tuple(names), timeout=QUERY_SECONDS)
    values = parse_config(result.out)
    said = _ERROR.search(result.out) or _ERROR.search(result.err)
    complaint = said.group(1).rstrip()[:300] if said is not None else None
    if complaint is None and result.rc != 0:
        complaint = (lines_in((result.err or result.out).strip()) or ["exit %d" % result.rc])[-1][:300]
    if complaint is None or not names:
        return Config(values, {}, complaint if not values else None)
    if _OF_PARAMETER.search(complaint) is None:
        return Config({}, {}, complaint)
    if len(names) == 1:
        return Config(values, {names[0]: complaint}, None)
    errors: Dict[str, str] = {}
    for name in names:
        one = query_config(host, tool, address, (name,))
        if one.failure is not None:
            return one
        values.update(one.values)
        errors.update(one.errors)
    return Config(values, errors, None)


def version_in_flash(host: Host, tool: str, address: str) -> Optional[str]:
    """The next boot's; the running version has a line of its own where it differs."""
    return next(iter(_FLASH_LINE.findall(host.run((tool, "-d", address, "q"), timeout=QUERY_SECONDS).out)), None)


def find_tool(host: Host, names: Sequence[str]) -> Optional[str]:
    return next((name for name in names if host.which(name) is not None), None)


def same_value(wanted: Any, printed: Optional[str]) -> bool:
    """Whether what a person wrote (true, 1, "True(1)", "ETH", 2) is what the tool printed."""
    if printed is None:
        return False
    one, other = _reading(wanted), _reading(printed)
    return one[0].lower() == other[0].lower() if None in (one[1], other[1]) else one[1] == other[1]


def _reading(value: Any) -> Tuple[str, Optional[int]]:
    """Text and number of a value; True(1) has both."""
    if isinstance(value, bool):
        return ("True", 1) if value else ("False", 0)
    text = str(value).strip()
    found = _NUMBERED.match(text)
    if found is not None:
        return found.group(1), int(found.group(2))
    return text, sysfs_values.integer(text)


def argument_of(value: Any) -> str:
    """A value as ``set`` takes it: the number where there is one."""
    text, number = _reading(value)
    return str(number) if number is not None else text


def device_of(address: str) -> str:
    """The NIC that a function belongs to: 0000:18:00."""
    return address.rpartition(".")[0]


def is_guest_function(host: Host, address: str) -> bool:
    """A virtual function: its firmware is configured where the physical one is."""
    found = sysfs_values.hex_text(attribute(host, "%s/%s/device" % (PCI_DEVICES, address)))
    return is_virtual_function(host, address) or found in VIRTUAL_FUNCTIONS


def board_of(host: Host, address: str) -> Tuple[Optional[str], Optional[str]]:
    """PSID and running version of a NIC, from the RDMA device on any of its functions."""
    paths = ("%s/%s" % (CLASS_INFINIBAND, name) for name in entries(host, CLASS_INFINIBAND))
    own = next((path for path in paths if device_of(pci_of(host, path) or "") == device_of(address)), None)
    return (None, None) if own is None else (
        sysfs_values.token(attribute(host, own + "/board_id")), sysfs_values.token(attribute(host, own + "/fw_ver")))


def firmware_facts(host: Host, hcas: Sequence[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """``firmware`` of every NVIDIA NIC by its device (0000:18:00), all asked at once: each takes seconds to answer."""
    addresses: Dict[str, str] = {}
    for hca in hcas:
        address = hca.get("pci_address")
        if address and hca.get("vendor_id") == NVIDIA_NETWORKING and not is_guest_function(host, address):
            addresses.setdefault(device_of(address), address)
    tools = find_tool(host, CONFIG_TOOLS), find_tool(host, FLASH_TOOLS)
    if not addresses:
        return {}
    rows = ask_at_once(lambda address: _facts_of(host, address, tools), list(addresses.values()), 8)
    return dict(zip(addresses, rows))


def _facts_of(host: Host, address: str, tools: Tuple[Optional[str], Optional[str]]) -> Dict[str, Any]:
    values = query_config(host, tools[0], address).values if tools[0] is not None else {}
    flash = version_in_flash(host, tools[1], address) if tools[1] is not None else None
    shown = {name: dict(value._asdict()) for name, value in sorted(values.items()) if name in SHOWN or _changed(value)}
    return {"flash": flash, "config": shown if values else None}


def _changed(value: Value) -> bool:
    """Not at its default, now or at the next boot."""
    return value.default is not None and any(other not in (None, value.default) for other in (value.current, value.next))
