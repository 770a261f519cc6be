# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NIC's QoS will be after a reboot: the settings file of railwright, its unit, and where the runtime is otherwise.

Also the names and the grammar of that form, which ``areas/qos/boot.py`` writes: one line an effect, one tab between
two words. Values are read back into the terms of ``facts["qos"]["nics"]``; a line that sets something else is left out.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
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


def settings_path(netdev: str) -> str:
    return "%s/%s" % (DIRECTORY, netdev)


def unit_of(netdev: str) -> str:
    return TEMPLATE.replace("@", "@" + escape(netdev))


def device_unit(netdev: str) -> str:
    """The unit that systemd has for an interface for as long as udev knows it."""
    return "sys-subsystem-net-devices-%s.device" % escape(netdev)


def enable_link(netdev: str) -> str:
    return "%s/%s.wants/%s" % (UNIT_DIRECTORY, device_unit(netdev), unit_of(netdev))


def escape(name: str, *, first: bool = True) -> str:
    r"""As systemd-escape(1) does: what may not stand in a unit's name is \xNN. ``first``: the name begins so, and not with a dot."""
    return "".join(char if _PLAIN.match(char) and not (first and at == 0 and char == ".") else "".join(
        "\\x%02x" % byte for byte in char.encode()) for at, char in enumerate(name))


def with_boot(host: Host, qos: Mapping[str, Any]) -> Dict[str, Any]:
    """The ``qos`` part of the facts, each NIC with what it will be after a reboot."""
    return dict(qos, nics=[dict(nic, boot=observe_boot_form(host, nic["netdev"], nic)) for nic in qos["nics"]])


def observe_boot_form(host: Host, netdev: str, told: Mapping[str, Any]) -> Dict[str, Any]:
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


def _unit(host: Host, netdev: str) -> Optional[Dict[str, str]]:
    """What systemd says of the last run; None when it does not answer."""
    name = unit_of(netdev)
    values = sysfs_values.key_values(host.run(("systemctl", "show", "-p", "ActiveState,Result", name), SECONDS).out)
    state, result = values.get("ActiveState", ""), values.get("Result", "")
    return {"name": name, "state": state, "result": result} if _STATE.match(state) and _STATE.match(result) else None


def _profile(text: str) -> Optional[str]:
    lines = [line for line in lines_in(text)[:4] if line.startswith(PROFILE)]
    return sysfs_values.name(lines[0][len(PROFILE):].partition(":")[0]) if lines else None


def lines_of(text: str) -> List[Tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in lines_in(text) if line and not line.startswith("#")]


def sets(lines: Sequence[Tuple[str, ...]]) -> Dict[str, Any]:
    """Part -> what the lines set of it. Of what cannot be read the whole line is left out: the plan compares the text itself."""
    found: Dict[str, Any] = {}
    for words in lines:
        part: Dict[str, Any] = {}
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


def _dcb(name: str, words: Tuple[str, ...]) -> Dict[str, Any]:
    """The words after ``dcb OBJECT set dev NETDEV``."""
    pairs: Dict[str, Dict[str, str]] = {}
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
        return {"ets": {"tc": _numbers(_words(pairs["prio-tc"])), "tsa": _eight(_words(pairs["tc-tsa"])),
                        "percent": _numbers(_words(pairs["tc-bw"]), 101)}}
    return {_PART_OF[name]: {"of_priority": _numbers(_words(pairs["prio-buffer"]))}}


def _words(pairs: Mapping[str, str]) -> List[str]:
    return [pairs[str(number)] for number in range(PRIORITIES)]


def _eight(words: List[str]) -> List[str]:
    if len(words) != PRIORITIES:
        raise ValueError("not one for each priority or class")
    return words


def _numbers(words: List[str], below: int = PRIORITIES) -> List[int]:
    found = [int(word) for word in _eight(words)]
    if not all(0 <= number < below for number in found):
        raise ValueError("no such priority, class, buffer or share")
    return found


def _mlnx_qos(words: Tuple[str, ...]) -> Dict[str, Any]:
    """The words after ``mlnx_qos -i NETDEV``: an option and its value each."""
    found: Dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2]):
        fields = value.split(",")
        if option == "-d":
            found["dcbx"] = {"os": "host", "fw": "firmware"}[value]
        elif option == "--trust":
            found["trust"] = value
        elif option == "--pfc":
            found["pfc"] = [priority for priority, flag in enumerate(_eight(fields)) if flag == "1"]
        elif option == "--dscp2prio":
            found.setdefault("dscp_priority", {})[int(fields[1])] = int(fields[2])
        elif option == "-s":
            found.setdefault("ets", {})["tsa"] = _eight(fields)
        elif option == "-p":
            found.setdefault("ets", {})["tc"] = _numbers(fields)
        elif option == "-t":
            found.setdefault("ets", {})["percent"] = _numbers(fields, 101)
        elif option == "--prio2buffer":
            found["buffers"] = {"of_priority": _numbers(fields)}
    return found


def _attribute(path: str, content: str) -> Dict[str, Any]:
    enable = _ENABLE.match(path)
    if enable is not None:
        return {"ecn": {(enable.group(1), int(enable.group(2))): content == "1"}}
    if path.startswith("/sys/class/infiniband/") and path.endswith("/traffic_class"):
        return {"forced_tc": int(content)}
    for end, part, key in _VALUES:
        if path.endswith(end):
            return {part: {key: content if key == "mode" else int(content)}}
    return {}


def differing(wanted: Mapping[str, Any], told: Mapping[str, Any]) -> List[str]:
    """The parts that are otherwise now than what ``sets`` says. What the runtime does not tell is not held against it."""
    return sorted(part for part, value in wanted.items() if told.get(part) is not None and not _agrees(part, value, told[part]))


def _agrees(part: str, wanted: Any, now: Any) -> bool:
    if part == "dscp_priority":  # the other DSCPs are nobody's
        return all([pair[1] for pair in now if pair[0] == dscp] == [priority] for dscp, priority in wanted.items())
    if part == "ecn":
        return all((priority in now[point]) == flag for (point, priority), flag in wanted.items())
    if part == "ets":
        return _ets_agrees(wanted, now)
    if part == "trust":  # the first selector that applies decides
        return str(now).split()[:1] == str(wanted).split()[:1]
    if part == "forced_tc":  # NICs set the ECN bits themselves; both together are a mark
        return bool(now) and all(tc >> 2 == wanted >> 2 and tc & 3 != 3 for tc in now)
    if part in ("cnp", "rdma_cm", "buffers"):  # the NIC rounds the sizes of buffers, so that only their places are compared
        return all(now.get(key) == value for key, value in wanted.items())
    return bool(now == wanted)


def _ets_agrees(wanted: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Each priority with a share has it in a class of its own. Those without may be called strict or vendor's, and have any number."""
    if set(wanted) != {"tc", "tsa", "percent"}:
        return True
    for priority, tc in enumerate(wanted["tc"]):
        found = now["tc"][priority]
        alone = now["tc"].count(found) == 1
        if wanted["tsa"][tc] == "ets" and (now["tsa"][found], now["percent"][found], alone) != ("ets", wanted["percent"][tc], True):
            return False
    return True
