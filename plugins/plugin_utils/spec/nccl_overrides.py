# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks ``nccl_overrides`` against what NCCL reads, and against the other keys.

NCCL ignores a variable that it does not know and reads ``true`` or ``0,3,5,7`` as the
integer 0, both without a word; so they are refused here.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import NCCL_RELEASE
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, dscp_of, priority_of
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers

from ..nccl_catalogue import variables
from ..nccl_catalogue.variables import NEVER_IN_NCCL, OWNED_BY_OTHERS, PLUGIN_VARIABLES, RANGES, REMOVED, VARIABLES, Other, Variable
from .check_qos import arithmetic
from .findings import MISSING, Findings
from .values import type_name

# The grammar of nccl.conf: one line, at most 1023 bytes; nothing else can reach NCCL from a file.
VALUE_LIMIT = 1023
INTEGER = r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)"
LEGACY_LEVEL = r"[0-9]"
NOT_FROM_FILE = {"NCCL_CONF_FILE": "is read from the process environment only, before any file"}
# The small clear-to-send messages of NCCL_IB_FIFO_TC may have a fast lane of their own; data must be where the profile says.
TRAFFIC_CLASSES = ("NCCL_IB_TC", "NCCL_GIN_IB_TC", "NCCL_IB_FIFO_TC")
NODE_OWNED = {
    "NCCL_IB_HCA": ("is rendered on each node from the rails' match; device names differ between nodes and change with updates",
                    "leave it out"),
    "NCCL_SOCKET_IFNAME": ("is set from rdma_bootstrap_interface", "rdma_bootstrap_interface: NAME"),
}
# name -> (values, what to write): they make NCCL go over TCP sockets, whatever the nodes have (src/plugin/net.cc, src/misc/param.cc).
RDMA_OFF = {
    "NCCL_IB_DISABLE": (r"[+-]?0*[1-9][0-9]*", "NCCL_IB_DISABLE=0, or leave it out"),
    "NCCL_NET": (r"(?i)socket", "NCCL_NET=IB, or leave it out"),
}
TURNS_OFF = "turns RDMA off: NCCL goes over TCP sockets"
# Set to anything but 0, they let a job go on with less than it has, and nothing tells (NVIDIA/nccl 2428, 2157).
HIDES = {
    "NCCL_IGNORE_NET_MISMATCH": "a node with fewer NICs than the others slows or hangs the job without an error (NVIDIA/nccl 2428)",
    "NCCL_IGNORE_COLLNET_MISMATCH": "a node with fewer CollNet devices than the others turns it off without an error",
    "NCCL_IGNORE_DISABLED_P2P": "GPUs without peer access go through host memory without an error",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER": "a rail that failed is carried by another and need not come back: the job is slow without an error "
                                        "(NVIDIA/nccl 2157)",
}
LOOPBACK = "is the loopback interface, over which no other node is reached"


def rdma_off(name: str, text: str) -> bool:
    return name in RDMA_OFF and re.fullmatch(RDMA_OFF[name][0], text) is not None


def check_overrides(overrides: Mapping[Any, Any], qos: QosProfile | None, findings: Findings, nccl: str | None = None) -> Any:
    """The overrides with text values (None: leave the profile's variable out), or MISSING. ``nccl``: as for check_name."""
    checked: dict[str, str | None] = {}
    before = findings.error_count()
    for name, value in overrides.items():
        path = f"nccl_overrides.{name}"
        row = check_name(name, path, findings, nccl)
        if row is None:
            continue
        text = _text(value, path, findings)
        if text is not None:
            check_value(row, text, qos, path, findings)
            if name in NODE_OWNED:
                findings.warning(path, text, *NODE_OWNED[row.name])
        elif value is None and name == "NCCL_IB_TC" and qos is not None and priority_of(0) not in qos.lossless:
            findings.warning(path, None, "RoCE is unmarked unless the job marks it: " + arithmetic(0, qos), "leave it to rdma_qos_profile")
        checked[row.name] = text
    after = findings.error_count()
    return checked if after == before else MISSING


def check_name(name: Any, path: str, findings: Findings, nccl: str | None = None) -> Variable | None:
    """Return the catalogue row of a name, or None after an error that says what to use instead.

    ``nccl`` is the release that reads it (None: unknown). An unknown name may be valid in a release newer than the table.
    """
    if not isinstance(name, str):
        findings.error(path, None, f"must be the name of a variable, not {type_name(name)}", "NCCL_...")
        return None
    if name in VARIABLES or name in PLUGIN_VARIABLES:
        row = VARIABLES.get(name) or PLUGIN_VARIABLES[name]
        if row.deprecated is not None:
            findings.warning(path, None, "is deprecated", row.deprecated or "leave it out")
        elif nccl is not None and numbers(nccl) < numbers(row.since[1:]):
            findings.warning(path, None, f"is not read by NCCL {nccl}, only since {row.since}", "a newer nccl_version, or leave it out")
        return row
    if name in REMOVED:
        gone = REMOVED[name]
        reads_it = numbers(nccl or NCCL_RELEASE) <= numbers(gone.existed.split("..")[1].strip(" v"))
        findings.add("warning" if reads_it else "error", path, None, f"was removed from NCCL (it existed in {gone.existed})",
                     gone.replacement or "leave it out")
        return Variable(name, "string", "unset", "", "") if reads_it else None
    owner = owner_of(name)
    if name in NEVER_IN_NCCL:
        findings.error(path, None, "has never been a variable of NCCL", NEVER_IN_NCCL[name] or "leave it out")
    elif owner is not None:
        findings.error(path, None, f"is not read by NCCL but by {owner.owner}", owner.use_instead or "set it in the job's environment")
    else:
        return _unknown(name, path, findings, nccl)
    return None


def _unknown(name: str, path: str, findings: Findings, nccl: str | None) -> Variable | None:
    other, table = meant(name), variables.VERSION
    if re.fullmatch(r"NCCL_[A-Z0-9_]+", name) is None or (nccl is not None and numbers(nccl) <= numbers(table)):
        findings.error(path, None, "is no variable of NCCL", other or f"a variable of NCCL {table}")
        return None
    findings.warning(path, None, f"is newer than the table (NCCL {table}) or misspelt", other or "")
    return Variable(name, "string", "unset", "", "")


def meant(name: str) -> str | None:
    """Return the one variable with the same words as a misspelt name, except for two letters after its prefix (NCCL_IB)."""
    words = name.upper().split("_")
    found = [other for other in VARIABLES if abs(len(other) - len(name)) <= 2 and _same_words(words, other.split("_"))]
    return found[0] if len(found) == 1 else None


def _same_words(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether at most two letters differ, and less than half of each word: TC for SL, or MIN for MAX, is another meaning."""
    if len(words) != len(others) or words[:-1][:2] != others[:-1][:2]:
        return False
    slips = [(_letters(one, other), max(len(one), len(other))) for one, other in zip(words, others, strict=True) if one != other]
    return sum(many for many, _length in slips) <= 2 and all(many * 2 < length for many, length in slips)


def _letters(one: str, other: str) -> int:
    codes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(end - start, last - first) for kind, start, end, first, last in codes if kind != "equal")


def owner_of(name: str) -> Other | None:
    """Who reads a variable that looks like NCCL's: PyTorch, a plugin, nccl-tests."""
    return next((other for other in OWNED_BY_OTHERS if re.fullmatch(other.name.replace("*", ".*"), name)), None)


def check_variable(name: str, text: str, path: str, findings: Findings) -> None:
    """A variable in the environment of a program that uses NCCL. The program and its plugins may read names of their own there."""
    if not name.startswith("NCCL_") or owner_of(name) is not None:
        return
    row = check_name(name, path, findings)
    if row is not None:
        _check_type(row, text, path, findings)
        if rdma_off(name, text):
            findings.warning(path, text, TURNS_OFF, RDMA_OFF[name][1])
        _check_hides(name, text, path, findings)


def _text(value: Any, path: str, findings: Findings) -> str | None:
    """The value as NCCL would get it; None for null and after an error."""
    if value is None:
        return None
    if isinstance(value, bool):
        findings.error(path, value, "NCCL has no booleans: it reads the word as the integer 0", "1 or 0")
        return None
    if not isinstance(value, (str, int)):
        findings.error(path, value, f"must be text or an integer, not {type_name(value)}", "text or an integer")
        return None
    text = str(value)
    if not re.fullmatch(r"[\x20-\x7e]+", text):
        findings.error(path, value, "must be one line of printable ASCII" if text else "is empty",
                       "text, or null to leave the variable out")
        return None
    if len(text) > VALUE_LIMIT:
        findings.error(path, text[:40] + "...", "is longer than nccl.conf can hold", f"at most {VALUE_LIMIT} characters")
        return None
    return text


def check_value(row: Variable, text: str, qos: Any, path: str, findings: Findings) -> None:
    """How NCCL reads this text, and whether it contradicts the QoS profile (None: there is none to contradict)."""
    _check_type(row, text, path, findings)
    _check_meaning(row.name, text, qos, path, findings)


def _check_type(row: Variable, text: str, path: str, findings: Findings) -> None:
    if row.type == "int":
        if not re.fullmatch(INTEGER, text):
            findings.error(path, text, f"NCCL reads it as the integer {_strtoll(text)}: it stops at the first character that is no digit",
                           "an integer")
        elif row.name in RANGES and not RANGES[row.name][0] <= _strtoll(text) <= RANGES[row.name][1]:
            findings.error(path, text, "is out of range", "an integer from %d to %d" % RANGES[row.name])
        elif re.fullmatch(r"[+-]?0[0-9]+", text):
            findings.error(path, text, f"NCCL reads a leading 0 as octal: {_strtoll(text)}", "an integer without leading zeros")
    elif row.type == "bool" and text not in ("0", "1"):
        findings.error(path, text, "is a switch; NCCL before 2.28 reads words as 0", "1 or 0")
    elif row.type == "enum" and row.values and not _in_values(row, text):
        findings.error(path, text, f"is not a value of {row.name}", ", ".join(row.values))
    elif row.name in ("NCCL_ALGO", "NCCL_PROTO"):
        _check_choice_list(row, text, path, findings)
    elif row.name in ("NCCL_DEBUG_SUBSYS", "NCCL_CTA_POLICY"):
        _check_flags(row, text, path, findings)


def _in_values(row: Variable, text: str) -> bool:
    for value in row.values:
        if value.startswith("legacy int"):
            if re.fullmatch(LEGACY_LEVEL, text):
                return True
        elif value == "MAX:n":
            if re.fullmatch(r"MAX:[0-9]+", text):
                return True
        # path levels are compared with strcmp, the words of these two with strcasecmp
        elif text == value or (row.name in ("NCCL_DEBUG", "NCCL_IB_RAIL_POLICY") and text.upper() == value):
            return True
    return False


def _check_choice_list(row: Variable, text: str, path: str, findings: Findings) -> None:
    known = [value.lower() for value in row.values]
    for group in text.split(";"):
        for token in group.rpartition(":")[2].lstrip("^").split(","):
            if token.lower() not in known:
                findings.error(path, text, f"{token or 'nothing'} is not a value of {row.name}", ", ".join(row.values))
                return


def _check_flags(row: Variable, text: str, path: str, findings: Findings) -> None:
    """Words that add up, [^]INIT,NET and EFFICIENCY|ZERO; one that NCCL does not know it passes over."""
    joint, numbers = (",", False) if row.name == "NCCL_DEBUG_SUBSYS" else ("|", True)
    known = [value for value in row.values if not value.startswith("legacy")]
    for word in text.lstrip("^").split(joint):
        if word.upper() not in known and not (numbers and re.fullmatch(r"[0-2]", text)):
            findings.error(path, text, f"{word or 'nothing'} is not a value of {row.name}", ", ".join(known))
            return


def _check_meaning(name: str, text: str, qos: QosProfile | None, path: str, findings: Findings) -> None:
    """Values that NCCL takes and that contradict the rest of the inventory."""
    if name in NOT_FROM_FILE:
        findings.error(path, text, NOT_FROM_FILE[name], "leave it out")
    elif name == "NCCL_IB_GID_INDEX" and text != "-1":
        findings.warning(path, text, "the GID index differs between NICs; NCCL picks it by address and type since 2.21", "leave it out")
    elif name == "NCCL_SOCKET_IFNAME" and re.fullmatch(r"=?lo(,lo)*,?", text):
        findings.error(path, text, LOOPBACK, "an interface that all nodes reach")
    elif name in HIDES:
        _check_hides(name, text, path, findings)
    elif name in TRAFFIC_CLASSES and re.fullmatch(INTEGER, text):
        _check_traffic_class(name, text, qos, path, findings)


def _check_hides(name: str, text: str, path: str, findings: Findings) -> None:
    if name in HIDES and re.fullmatch(INTEGER, text) and _strtoll(text):
        findings.warning(path, text, f"hides what is wrong: {HIDES[name]}", "0, or leave it out")


def _check_traffic_class(name: str, text: str, qos: QosProfile | None, path: str, findings: Findings) -> None:
    tc = _strtoll(text)
    if not -1 <= tc <= 255:
        findings.error(path, text, "is not a traffic class byte", "0 to 255")
        return
    carries_data = tc != -1 if name == "NCCL_GIN_IB_TC" else name == "NCCL_IB_TC"
    if qos is None or not carries_data or tc == qos.tc:
        return
    used = max(tc, 0)  # without one, and without the communicator's, NCCL marks 0
    why = f"{'unless the communicator has one, ' if tc == -1 else ''}{arithmetic(used, qos)}"
    if dscp_of(used) == qos.dscp:
        why = f"{used} & 3 = ECN bits {used & 3}, and not {qos.ecn}"
    findings.error(path, text, f"contradicts rdma_qos_profile {qos.name}: {why}; the profile's TC is {qos.tc}, DSCP {qos.dscp}",
                   f"{qos.tc}, or another rdma_qos_profile")


def _strtoll(text: str) -> int:
    """What C's strtoll(text, 0, 0) makes of a text: the longest leading integer, else 0."""
    found = re.match(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|0([0-7]*)|([1-9][0-9]*))", text)
    if found is None:
        return 0
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal or "0")
    return -number if sign == "-" else number
