# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NIC's QoS will be after a reboot: the settings file of railwright, its unit, and where the runtime is otherwise.

Also the names and the grammar of that form, which ``areas/roce_qos_boot.py`` writes: one line an effect, one tab between
two words. Values are read back into the terms of ``facts["qos"]["nics"]``; a line that sets something else is left out.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..host import Host
from . import parse
from .qos_dcb import OBJECTS, PRIORITIES

DIRECTORY = "/etc/railwright/roce-qos"
UNIT_DIRECTORY = "/etc/systemd/system"
TEMPLATE = "railwright-roce-qos@.service"
PROFILE = "# profile "  # the settings file's second line
MAC, RUN, VALUE, MKDIR = "mac", "run", "value", "mkdir"
SECONDS = 10.0
_PLAIN = re.compile(r"[A-Za-z0-9:_.]")
_STATE = re.compile(r"[a-z-]{1,32}\Z")
_ENABLE = re.compile(r"/sys/class/net/[^/]+/ecn/roce_(np|rp)/enable/([0-7])\Z")
# The end of an attribute's path -> part and key of the facts.
_VALUES = (
    ("/roce_np/cnp_dscp", "cnp", "dscp"), ("/cc_params/np_cnp_dscp", "cnp", "dscp"),
    ("/roce_np/cnp_802p_prio", "cnp", "priority"), ("/cc_params/np_cnp_prio", "cnp", "priority"),
    ("/default_roce_mode", "rdma_cm", "mode"), ("/default_roce_tos", "rdma_cm", "tos"),
)
_PART_OF = {name: part for part, name in OBJECTS}


def settings_path(netdev):
    # type: (str) -> str
    return "%s/%s" % (DIRECTORY, netdev)


def unit_of(netdev):
    # type: (str) -> str
    return TEMPLATE.replace("@", "@" + escape(netdev))


def device_unit(netdev):
    # type: (str) -> str
    """The unit that systemd has for an interface for as long as udev knows it."""
    return "sys-subsystem-net-devices-%s.device" % escape(netdev)


def enable_link(netdev):
    # type: (str) -> str
    return "%s/%s.wants/%s" % (UNIT_DIRECTORY, device_unit(netdev), unit_of(netdev))


def escape(name):
    # type: (str) -> str
    r"""As systemd-escape(1) does: what may not stand in a unit's name is \xNN."""
    return "".join(char if _PLAIN.match(char) and not (at == 0 and char == ".") else "".join("\\x%02x" % byte for byte in char.encode())
                   for at, char in enumerate(name))


def observe_boot_form(host, netdev, told):
    # type: (Host, str, Mapping[str, Any]) -> Dict[str, Any]
    """``facts["qos"]["nics"][i]["boot"]``; ``told``: the rest of that entry, which is the runtime."""
    text = host.read(settings_path(netdev))
    enabled = host.readlink(enable_link(netdev)) is not None
    return {
        "file": settings_path(netdev) if text is not None else None,
        "enabled": enabled,
        "unit": _unit(host, netdev) if enabled or text is not None else None,
        "profile": _profile(text or ""),
        "differs": differing(sets(lines_of(text or "")), told),
    }


def _unit(host, netdev):
    # type: (Host, str) -> Optional[Dict[str, str]]
    """What systemd says of the last run; None when it does not answer."""
    values = parse.key_values(host.run(("systemctl", "show", "-p", "ActiveState,Result", unit_of(netdev)), SECONDS).out)
    state, result = values.get("ActiveState", ""), values.get("Result", "")
    return {"state": state, "result": result} if _STATE.match(state) and _STATE.match(result) else None


def _profile(text):
    # type: (str) -> Optional[str]
    for line in text.splitlines()[:4]:
        if line.startswith(PROFILE):
            return parse.name(line[len(PROFILE):].partition(":")[0])
    return None


def lines_of(text):
    # type: (str) -> List[Tuple[str, ...]]
    return [tuple(line.split("\t")) for line in text.splitlines() if line and not line.startswith("#")]


def sets(lines):
    # type: (Sequence[Tuple[str, ...]]) -> Dict[str, Any]
    """Part -> what the lines set of it. Of what cannot be read the whole line is left out: the plan compares the text itself."""
    found = {}  # type: Dict[str, Any]
    for words in lines:
        part = {}  # type: Dict[str, Any]
        try:
            if words[:2] == (RUN, "dcb") and len(words) > 6:
                part = _dcb(words[2], words[6:])
            elif words[:2] == (RUN, "mlnx_qos"):
                part = _mlnx_qos(words[4:])
            elif words[0] == VALUE and len(words) == 3:
                part = _attribute(words[1], words[2])
        except (ValueError, KeyError, IndexError):
            continue
        for name, value in part.items():
            if isinstance(value, dict):
                found.setdefault(name, {}).update(value)
            else:
                found[name] = value
    return found


def _dcb(name, words):
    # type: (str, Tuple[str, ...]) -> Dict[str, Any]
    """The words after ``dcb OBJECT set dev NETDEV``."""
    pairs = {}  # type: Dict[str, Dict[str, str]]
    keyword = ""
    for word in words:
        key, colon, value = word.partition(":")
        if colon:
            pairs[keyword][key] = value
        else:
            keyword = word
            pairs[keyword] = {}
    if name == "dcbx":
        return {"dcbx": "host"} if "host" in words else {}
    if name == "apptrust":
        return {"trust": " ".join(words[1:])}
    if name == "pfc":
        return {"pfc": [priority for priority in range(PRIORITIES) if pairs["prio-pfc"].get(str(priority)) == "on"]}
    if name == "app":
        return {"dscp_priority": {int(dscp): int(priority) for dscp, priority in pairs["dscp-prio"].items()}}
    if name == "ets":
        return {"ets": {"tc": _row(pairs["prio-tc"]), "tsa": _words(pairs["tc-tsa"]), "percent": _row(pairs["tc-bw"])}}
    return {_PART_OF[name]: {"of_priority": _row(pairs["prio-buffer"])}}


def _words(pairs):
    # type: (Mapping[str, str]) -> List[str]
    return [pairs[str(number)] for number in range(PRIORITIES)]


def _row(pairs):
    # type: (Mapping[str, str]) -> List[int]
    return [int(word) for word in _words(pairs)]


def _mlnx_qos(words):
    # type: (Tuple[str, ...]) -> Dict[str, Any]
    """The words after ``mlnx_qos -i NETDEV``: an option and its value each."""
    found = {}  # type: Dict[str, Any]
    for option, value in zip(words[::2], words[1::2]):
        fields = value.split(",")
        if option == "-d":
            found["dcbx"] = {"os": "host", "fw": "firmware"}[value]
        elif option == "--trust":
            found["trust"] = value
        elif option == "--pfc":
            found["pfc"] = [priority for priority, flag in enumerate(fields) if flag == "1"]
        elif option == "--dscp2prio":
            found.setdefault("dscp_priority", {})[int(fields[1])] = int(fields[2])
        elif option == "-s":
            found.setdefault("ets", {})["tsa"] = fields
        elif option in ("-p", "-t"):
            found.setdefault("ets", {})["tc" if option == "-p" else "percent"] = [int(field) for field in fields]
        elif option == "--prio2buffer":
            found["buffers"] = {"of_priority": [int(field) for field in fields]}
    return found


def _attribute(path, content):
    # type: (str, str) -> Dict[str, Any]
    enable = _ENABLE.match(path)
    if enable is not None:
        return {"ecn": {(enable.group(1), int(enable.group(2))): content == "1"}}
    if path.startswith("/sys/class/infiniband/") and path.endswith("/traffic_class"):
        return {"forced_tc": int(content)}
    for end, part, key in _VALUES:
        if path.endswith(end):
            return {part: {key: content if key == "mode" else int(content)}}
    return {}


def differing(wanted, told):
    # type: (Mapping[str, Any], Mapping[str, Any]) -> List[str]
    """The parts that are otherwise now than what ``sets`` says. What the runtime does not tell is not held against it."""
    return sorted(part for part, value in wanted.items() if told.get(part) is not None and not _agrees(part, value, told[part]))


def _agrees(part, wanted, now):
    # type: (str, Any, Any) -> bool
    if part == "dscp_priority":  # the other DSCPs are nobody's
        return all([pair[1] for pair in now if pair[0] == dscp] == [priority] for dscp, priority in wanted.items())
    if part == "ecn":
        return all((priority in now[point]) == flag for (point, priority), flag in wanted.items())
    if part == "ets":
        return _ets_agrees(wanted, now)
    if part == "forced_tc":
        return bool(now == [wanted])
    if part in ("cnp", "rdma_cm", "buffers"):  # the NIC rounds the sizes of buffers, so that only their places are compared
        return all(now.get(key) == value for key, value in wanted.items())
    return bool(now == wanted)


def _ets_agrees(wanted, now):
    # type: (Mapping[str, Any], Mapping[str, Any]) -> bool
    """Shares count for classes that share; those that do not may be called strict or vendor's, and have any number."""
    if wanted.get("tc") != now["tc"] or not wanted.get("tsa") or not wanted.get("percent"):
        return False
    rows = zip(wanted["tsa"], wanted["percent"], now["tsa"], now["percent"])
    return all((kind, share) == (found, percent) if kind == "ets" else found != "ets" for kind, share, found, percent in rows)
