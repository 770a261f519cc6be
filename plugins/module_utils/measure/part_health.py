# SPDX-License-Identifier: GPL-3.0-or-later
"""What a burn-in asks a node between its rounds: its GPUs' temperatures, slowdowns and memory errors, serial numbers, DCGM's diagnosis.

Slowdowns are counters of microseconds where the driver has them (seen with 580): no sample misses a short one. dcgmi has printed two forms:
up to DCGM 3 results by ``gpu_ids``, since 4 by entity; both are read. What one look at a GPU tells is judged by checks/health_gpu.py.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..formats.outside import json_object, lines_in, mapping, rows, whole
from ..formats.program_output import one_line
from ..formats.sysfs_values import is_name, token
from ..host.host import Host
from ..observe.gpu_health import QUERY, gpus_of
from ..observe.nvidia_smi import SMI_SECONDS

DIAG_SECONDS = 3600.0  # of a level that takes about a quarter of an hour (dcgmi-diag(8)); with many GPUs more
HCAS = "/sys/class/infiniband"
RESULTS, WARNINGS, GPUS = 1024, 8, 128
CONFIG = 5  # DCGM's severity of what is a setting and no fault of the hardware (dcgm_errors.h)
STATUSES = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skipped"}
LARGE, SERIAL = 0x80, b"SN"  # of a VPD (PCI, Vital Product Data): a large item, as all but the last are; a keyword
READ_ONLY, VPD_LIMIT = 0x90, 4096


def inspect_health(host: Host, diag: bool) -> Dict[str, Any]:
    return {
        "diag": diagnose(host) if diag else None,  # first: what it heats up is read after it
        "gpus": gpu_health(host),
        "nics": [{"hca": name, "serial": vpd_serial(host.read_bytes("%s/%s/device/vpd" % (HCAS, name), VPD_LIMIT) or b"")}
                 for name in host.listdir(HCAS) if is_name(name)],
    }


def gpu_health(host: Host) -> Optional[List[Dict[str, Any]]]:
    """One row a GPU; what its driver does not tell is None. None as a whole where nvidia-smi does not answer."""
    answer = host.run(QUERY, SMI_SECONDS)
    return [{
        **{name: gpu[name] for name in ("celsius", "margin_celsius", "hw_thermal_us", "sw_thermal_us")},
        "hw_thermal": _held(gpu, "hw_thermal_slowdown"), "sw_thermal": _held(gpu, "sw_thermal_slowdown"),
        "index": index, "uuid": str(gpu["uuid"]), "name": str(gpu["name"]),
        "serial": gpu["serial"] if whole(gpu["serial"]) else None,  # 0: none
        "uncorrected": gpu["volatile_uncorrected"], "corrected": gpu["volatile_corrected"],
    } for index, gpu in enumerate(gpus_of(answer.out) if answer.ok else [])] or None


def _held(gpu: Mapping[str, Any], reason: str) -> Optional[int]:
    return None if gpu["held_back"] is None else int(reason in gpu["held_back"])


def vpd_serial(vpd: bytes) -> Optional[str]:
    """The keyword SN of the read-only part of a device's Vital Product Data."""
    at = 0
    while at + 3 <= len(vpd) and vpd[at] & LARGE:
        end = at + 3 + vpd[at + 1] + 256 * vpd[at + 2]
        place = at + 3
        while vpd[at] == READ_ONLY and place + 3 <= min(end, len(vpd)):
            text = vpd[place + 3:min(place + 3 + vpd[place + 2], end)]
            if vpd[place:place + 2] == SERIAL:
                return token(text.decode("ascii", "replace").strip(" \0"))
            place += 3 + vpd[place + 2]
        at = end
    return None


def diagnose(host: Host) -> Dict[str, Any]:
    """What ``dcgmi diag -r 3`` says of each GPU; ``why``: why it says nothing."""
    if host.which("dcgmi") is None:
        return {"why": "dcgmi is not installed", "results": []}
    answer = host.run(("dcgmi", "diag", "-r", "3", "-j"), DIAG_SECONDS)
    found = diag_results(answer.out)
    if found:
        return {"why": None, "results": found}
    said = [line for line in lines_in(answer.err + "\n" + answer.out) if line.strip()]
    ended = "did not end within %d s" % DIAG_SECONDS if answer.rc == 124 else one_line(said[-1], 300) if said else "said nothing"
    return {"why": "dcgmi diag: exit %d: %s" % (answer.rc, ended), "results": []}


def diag_results(text: str) -> List[Dict[str, Any]]:
    """Every result of its JSON, before which it may print warnings; ``gpu`` is None for one of the whole node."""
    whole_document = json_object(text[max(text.find("{"), 0):]) or {}
    root = mapping(whole_document.get("DCGM Diagnostic") or whole_document.get("DCGM GPU Diagnostic"))
    serials = _serials(whole_document, root)
    tests = [test for category in rows(root.get("test_categories")) for test in rows(category.get("tests"))]
    return [{"test": one_line(str(test.get("name")), 100), "gpu": gpu, "serial": serials.get(gpu), **_said(result)} for test in tests
            for result in rows(test.get("results")) or rows([test.get("test_summary")]) for gpu in _gpus(result)][:RESULTS]


def _serials(document: Mapping[str, Any], root: Mapping[str, Any]) -> Dict[Optional[int], str]:
    found: Dict[Optional[int], str] = {}
    for part in (document, root):
        entities = [(item.get("entity_id"), item.get("serial_num")) for group in rows(part.get("entity_groups"))
                    if group.get("entity_group") == "GPU" for item in rows(group.get("entities"))]
        for gpu, serial in entities + list(mapping(part.get("GPU Device Serials")).items()):
            if whole(gpu, 0, GPUS) is not None and isinstance(serial, str) and whole(serial):
                found[whole(gpu)] = serial.strip()
    return found


def _gpus(result: Mapping[str, Any]) -> Sequence[Optional[int]]:
    if result.get("entity_group") == "GPU":
        return (whole(result.get("entity_id"), 0, GPUS),)
    named = result.get("gpu_ids")
    return [whole(text, 0, GPUS) for text in named.split(",")[:GPUS]] if isinstance(named, str) and named.strip() else (None,)


def _said(result: Mapping[str, Any]) -> Dict[str, Any]:
    status = STATUSES.get(str(result.get("status")).strip().lower()[:4], "unknown")
    given = result.get("warnings")
    warnings = given[:WARNINGS] if isinstance(given, list) else [given] if given else []
    severities = [mapping(item).get("error_severity") for item in warnings]
    if status == "fail" and severities and all(severity == CONFIG for severity in severities):
        status = "warn"
    texts = [str(mapping(item).get("warning", "") if isinstance(item, dict) else item) for item in warnings]
    return {"status": status, "text": one_line("; ".join(texts), 500)}
