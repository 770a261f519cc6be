# SPDX-License-Identifier: GPL-3.0-or-later
"""What each GPU says of itself, by ``nvidia-smi -q -x``: one command, no root, nothing is disturbed. And the errors of its NVLinks.

The form is that of drivers 450 to 580 (nvsmi_device_v11 to v13.dtd). It is no place for a parser of XML: elements without attributes that
count, no entities that matter. What a driver has not, or says as N/A, is None.
"""

import itertools
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..formats.outside import json_object, lines_in, list_or_empty, mapping, number, whole
from ..formats.program_output import one_line
from ..formats.sysfs_values import pci_address, token
from ..host.host import Host
from ..types import Gpu
from .devices import PCI_DEVICES, linked_name
from .nvidia_smi import GPU_LINE, PERSISTENCE, query

QUERY = ("nvidia-smi", "-q", "-x")
ERRORS = ("nvidia-smi", "nvlink", "-e")
DCGM = ("dcgmi", "health", "-g", "0", "-c", "-j")  # what its daemon has seen of all GPUs; it sets and starts nothing
DCGM_WORDS = ("Healthy", "Warning", "Failure")
PROCESS = "processes/process_info/"
SECONDS = 5.0
TIMED_OUT, NOT_THERE = 124, 127
DENIED = "Insufficient Permissions"
GPUS, PIDS, DEPTH, ELEMENTS = 64, 64, 16, 200000
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_]{0,79})(?: id=\"([0-9A-Fa-f:.]{1,20})\")?(/?)>([^<]{0,200})")
INFORMATION, DEVICE_FILE = "/proc/driver/nvidia/gpus/%s/information", "/dev/nvidia%d"
_MINOR = re.compile(r"^Device Minor:[ \t]{0,16}([0-9]{1,3})$", re.MULTILINE)
_UNIT = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,6})?)(?: ?(?:C|W|us))?\Z")
_NUMBERS = {  # our name -> places in the answer, the newest driver's first
    "volatile_uncorrected": ("ecc_errors/volatile/sram_uncorrectable", "ecc_errors/volatile/sram_uncorrectable_parity",
                             "ecc_errors/volatile/sram_uncorrectable_secded", "ecc_errors/volatile/dram_uncorrectable",
                             "ecc_errors/volatile/double_bit/total"),
    "aggregate_uncorrected": ("ecc_errors/aggregate/sram_uncorrectable", "ecc_errors/aggregate/sram_uncorrectable_parity",
                              "ecc_errors/aggregate/sram_uncorrectable_secded", "ecc_errors/aggregate/dram_uncorrectable",
                              "ecc_errors/aggregate/double_bit/total"),
    "volatile_corrected": ("ecc_errors/volatile/sram_correctable", "ecc_errors/volatile/dram_correctable",
                           "ecc_errors/volatile/single_bit/total"),
    "remapped_uncorrected": ("remapped_rows/remapped_row_unc",), "remapped_corrected": ("remapped_rows/remapped_row_corr",),
    "celsius": ("temperature/gpu_temp",), "margin_celsius": ("temperature/gpu_temp_tlimit",),
    "slow_celsius": ("temperature/gpu_temp_slow_threshold",), "memory_celsius": ("temperature/memory_temp",),
    "memory_limit_celsius": ("temperature/gpu_temp_max_mem_threshold",),
    "default_watts": ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"),
    "limit_watts": ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
    "pcie_replays": ("pci/replay_counter",),
    "hw_thermal_us": ("clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown",),
    "sw_thermal_us": ("clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown",),
}
_LIMITS = ("default_watts", "limit_watts", "slow_celsius")  # no board has one of zero
_SUMS = ("volatile_uncorrected", "aggregate_uncorrected", "volatile_corrected")
_TEXTS = {
    "recovery": ("gpu_recovery_action",), "ecc": ("ecc_mode/current_ecc",), "mig": ("mig_mode/current_mig",),
    "mig_pending": ("mig_mode/pending_mig",), "fabric_health": ("fabric/health/summary",), "fabric_bandwidth": ("fabric/health/bandwidth",),
    "fabric_route": ("fabric/health/route_unhealthy",), "fabric_state": ("fabric/state",), "fabric_status": ("fabric/status",),
    "fabric_clique": ("fabric/cliqueId",), "fabric_cluster": ("fabric/clusterUuid",),
    "reset_required": ("gpu_reset_status/reset_required",),
}
_YES = {
    "remap_pending": ("remapped_rows/remapped_row_pending", "ecc_errors/channel_repair_pending", "ecc_errors/tpc_repair_pending"),
    "remap_failed": ("remapped_rows/remapped_row_failure", "ecc_errors/unrepairable_memory"),
    "retire_pending": ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    "sram_threshold": ("ecc_errors/aggregate/sram_threshold_exceeded",),
}
REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "sw_power_cap")
_REASON_PLACES = {name: tuple(form % name for form in ("clocks_event_reasons/clocks_event_reason_%s",
                                                       "clocks_throttle_reasons/clocks_throttle_reason_%s"))
                  for name in REASONS + ("gpu_idle",)}
# The documented words of a text; any other one says nothing. Of other texts each word counts.
_WORDS = {"ecc": ("Enabled", "Disabled"), "mig": ("Enabled", "Disabled"), "mig_pending": ("Enabled", "Disabled"),
          "fabric_health": ("Healthy", "Unhealthy", "Limited Capacity"), "fabric_bandwidth": ("Full", "Degraded"),
          "fabric_route": ("True", "False", "Yes", "No")}
_STATES = ("Active", "Not Active")
_NOTHING = ("", "N/A", "[N/A]", "Not Supported", "Requested functionality has been deprecated")
_SMI_ERRORS = re.compile(r"\s{0,8}Link [0-9]{1,3}: (Replay|Recovery|CRC) Errors: ?(.{0,40})\Z")


def observe_gpu_health(host: Host, gpus: Sequence[Gpu], facts: Sequence[Dict[str, Any]], container: bool) -> Optional[Dict[str, Any]]:
    """``rc`` and ``why``: how nvidia-smi ended, and what kept it from answering. None where no GPU has NVIDIA's driver.

    ``facts``: of the GPUs (NVLinks that are up). One that hung, as it was asked for the driver's facts, is not waited for twice.
    ``hidden``: GPUs that nvidia-smi does not show because this process may not open their device files.
    """
    driven = [gpu.pci for gpu in gpus if linked_name(host, "%s/%s/driver" % (PCI_DEVICES, gpu.pci)) == "nvidia"]
    if not driven:
        return None
    answer = host.run(query(PERSISTENCE), SECONDS)
    answer = answer if answer.rc == TIMED_OUT else host.run(QUERY, SECONDS)
    found = gpus_of(answer.out) if answer.ok else []
    said = answer.err.strip() or answer.out.strip()
    why = None if answer.ok and found else one_line(lines_in(said)[-1] if said else "it said nothing", 200)
    if found and any(gpu.get("nvlinks") for gpu in facts):
        errors = nvlink_errors(host.run(ERRORS, SECONDS).out)
        for gpu in found:
            gpu["nvlink_errors"] = errors.get(gpu["uuid"])
    dcgm = dcgm_health(host.run(DCGM, SECONDS).out) if found and host.which(DCGM[0]) is not None else None
    shown = [gpu["pci"] for gpu in found]
    hidden = [pci for pci in driven if pci not in shown and is_hidden(host, pci, container)] if answer.rc != TIMED_OUT else []
    return {"rc": answer.rc, "dcgm": dcgm, "answered": bool(found), "denied": DENIED in said, "why": why, "driven": driven,
            "hidden": hidden, "gpus": found}


def is_hidden(host: Host, pci: str, container: bool) -> bool:
    """Whether a device filter keeps this process from a GPU that the driver lists. A container lacks the files of GPUs that it was not
    given; elsewhere a file that is missing says nothing."""
    minor = _MINOR.search(host.read(INFORMATION % pci, 4096) or "")
    if minor is None:
        return False
    path = DEVICE_FILE % int(minor.group(1))
    return is_filtered(host, path) or (container and not host.exists(path))


def is_filtered(host: Host, path: str) -> bool:
    """Whether a cgroup's device filter (DeviceAllow= of systemd, a job's) denies a device file whose permissions allow it: the kernel asks
    the filter for access(2) too (devcgroup_inode_permission). In a captured tree a file without permissions represents a denied one."""
    mode = host.mode(path)
    if mode is None or not host.live:
        return mode == 0
    return (host.user() == 0 or mode & 0o006 == 0o006) and not host.may_open(path)


def gpus_of(text: str) -> List[Dict[str, Any]]:
    rows = ((pci_address(address[-12:]), values) for address, values in _elements(text))
    return list(itertools.islice((gpu_row(pci, values) for pci, values in rows if pci is not None), GPUS))


def _elements(text: str) -> Iterator[Tuple[str, Dict[str, str]]]:
    """Each GPU with the text of its elements by their path; of several at one path the first."""
    address = ""
    path: List[str] = []
    values: Dict[str, str] = {}
    for count, tag in enumerate(_TAG.finditer(text)):
        closes, name, given, empty, inside = tag.groups()
        if count > ELEMENTS or len(path) > DEPTH:
            return
        if name == "gpu" and not path:
            if closes and address:
                yield address, values
            address, values = ("" if closes else given or ""), {}
        elif address and closes:
            path = path[:path.index(name)] if name in path else path
        elif address and not empty:
            path.append(name)
            place = "/".join(path)
            if place == PROCESS + "pid":
                values["pids"] = "%s %s" % (values.get("pids", ""), inside.strip())
            elif place == PROCESS + "type" and inside.strip() == "G":  # draws on a screen, and computes nothing
                values["pids"] = values.get("pids", "").rpartition(" ")[0]
            values.setdefault(place, inside.strip())


def gpu_row(pci: str, values: Dict[str, str]) -> Dict[str, Any]:
    """``values``: texts by their path in nvidia-smi's answer. ``unread``: names of which the answer has the element and no value of the
    documented form, such as ``N/A``: a check of it must not pass."""
    def first(places: Sequence[str]) -> Optional[str]:
        return next((token(values[place]) for place in places if values.get(place) not in _NOTHING + (None,)), None)

    def given(places: Sequence[str]) -> List[str]:
        return [values[place] for place in places if place in values]

    gpu: Dict[str, Any] = {"pci": pci, "uuid": first(("uuid",)), "serial": first(("serial",)), "name": first(("product_name",))}
    unread = []
    for name, places in _NUMBERS.items():
        numbers = [_number(text) for text in given(places)]
        known = [value for value in numbers if value is not None]
        gpu[name] = (sum(known) if name in _SUMS else known[0]) if known else None
        unread += [name] if (None in numbers if name in _SUMS else numbers and not known) or (name in _LIMITS and gpu[name] == 0) else []
    for name, places in _TEXTS.items():
        gpu[name] = first(places)
        words = _WORDS.get(name)
        unread += [name] if given(places) and (gpu[name] is None or (words and gpu[name] not in words)) else []
    for name, places in _YES.items():
        answers = given(places)
        gpu[name] = True if "Yes" in answers else False if "No" in answers else None
        unread += [name] if set(answers) - {"Yes", "No"} else []
    states = {name: (first(places), given(places)) for name, places in _REASON_PLACES.items()}
    idle, _texts = states.pop("gpu_idle")
    gpu["idle"] = idle == "Active" if idle in _STATES else None
    gpu["pids"] = [pid for pid in map(whole, values.get("pids", "").split()[:PIDS]) if pid is not None]
    held_back = [name for name, (state, _texts) in states.items() if state == "Active"]
    gpu["held_back"] = held_back if any(state for state, _texts in states.values()) else None
    return dict(gpu, unread=unread + [name for name, (state, texts) in states.items() if texts and state not in _STATES])


def _number(text: Optional[str]) -> Optional[Any]:
    match = _UNIT.match((text or "").strip())
    if match is None:
        return None
    exact = whole(match.group(1))
    return exact if exact is not None else number(match.group(1))


def nvlink_errors(text: str) -> Dict[str, Dict[str, Optional[int]]]:
    """By UUID the errors of all links of a GPU since the driver was loaded: replay, recovery, crc. None: a row without a number;
    ``unread``: a row of another form."""
    found: Dict[str, Dict[str, Optional[int]]] = {}
    current: Dict[str, Optional[int]] = {}
    for line in lines_in(text):
        gpu, errors = GPU_LINE.match(line), _SMI_ERRORS.match(line)
        if gpu is not None and len(found) < GPUS:
            current = found.setdefault(gpu.group(1), {})
        elif errors is not None:
            kind, count = errors.group(1).lower(), whole(errors.group(2))
            before = current.get(kind, 0)
            current[kind] = (before or 0) + count if count is not None and (before is not None or count) else before or None
        elif line.strip().startswith("Link "):
            current["unread"] = None
    return found


def dcgm_health(text: str) -> Optional[Dict[str, Any]]:
    """``overall`` and, of each part with an incident, its text; None where DCGM does not run, or nobody has set its watches."""
    body = mapping((json_object(text) or {}).get("body"))
    overall = mapping(body.get("Overall Health")).get("value")
    if overall not in DCGM_WORDS:
        return None
    found: List[str] = []
    for group, parts in sorted(body.items()):
        for name, part in sorted(mapping(mapping(parts).get("children")).items()):
            systems = mapping(mapping(mapping(mapping(part).get("children")).get("Errors")).get("children"))
            texts = [str(text) for said in systems.values() for text in list_or_empty(mapping(said).get("overflow"))]
            found.append(one_line("%s %s: %s" % (group, name, " ".join(texts)), 200))
    return {"overall": overall, "incidents": found[:GPUS]}
