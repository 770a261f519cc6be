# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on accelerators of other makers than NVIDIA: each model is named as not judged, and what the kernel documents is judged. Pure.

``accelerator.judged`` is unknown for every model, whatever else passes: PCIe, error counts and links are a part of an accelerator's health.
"""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..catalogue.accelerators import accelerator_of
from ..formats.outside import mapping, rows
from ..formats.text import first_of, grouped
from .signs import Sign, majority

PASSED_THROUGH = ("vfio-pci", "pci-stub", "xen-pciback")
PLATFORM = 8  # modules of the platforms whose number of links the catalogue has


def accelerators_of(facts: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Return the accelerators of the node, without those that are passed through to a virtual machine."""
    return [item for item in rows(facts.get("accelerators")) if item.get("driver") not in PASSED_THROUGH]


def accelerator_signs(facts: Mapping[str, Any]) -> List[Sign]:
    items = accelerators_of(facts)
    found: List[Sign] = []
    for model, peers in grouped((str(item.get("model")), item) for item in items).items():
        text = "%s: railwright has no checks for this model beyond PCIe, PCIe errors%s" % (
            described(model, peers), ", error counts and xGMI links" if any(item.get("ras") or item.get("xgmi") for item in peers) else "")
        found.append(Sign("accelerator.judged", "%d %s" % (len(peers), model), None, "unknown", "not judged", text,
                          "run the maker's own diagnostics (amd-smi, rvs, hl-smi, neuron-top)"))
        for item in peers:
            found += _answers(item, peers) + _ras(item) + _xgmi(item, peers)
    return found


def accelerators_judged(facts: Mapping[str, Any]) -> List[str]:
    """Checks that every accelerator gave an answer to."""
    items = accelerators_of(facts)
    complete = (("accelerator.answers", "responds"), ("accelerator.ras", "ras"), ("accelerator.xgmi", "xgmi"))
    unread = [item for item in items if {} in mapping(item.get("ras")).values() or None in mapping(item.get("bad_pages")).values()]
    return [check for check, name in complete if items and all(item.get(name) is not None for item in items)
            and not (check == "accelerator.ras" and unread)]


def described(model: str, peers: Sequence[Mapping[str, Any]]) -> str:
    """``8 AMD MI300X (amdgpu 6.10.5)``."""
    drivers = [" ".join(str(part) for part in (item.get("driver"), item.get("driver_version")) if part) for item in peers]
    usual = max(drivers, key=drivers.count)
    return "%d %s (%s)" % (len(peers), model, usual or "no driver")


def _sign(check: str, item: Mapping[str, Any], status: str, found: str, text: str) -> Sign:
    return Sign(check, subject_of(item), None, status, found, text)


def subject_of(item: Mapping[str, Any]) -> str:
    return "%s %s" % (item.get("model"), item.get("pci"))


def _answers(item: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]) -> List[Sign]:
    usual = majority([peer.get("driver") or "" for peer in peers])
    if item.get("responds") is False:
        text = "its PCI configuration space reads all ones: it fell off the bus"
        return [_sign("accelerator.answers", item, "fail", "off the bus", text)]
    if usual and not item.get("driver"):
        text = "no driver is bound to it, %s to its peers: the driver's probe failed" % usual
        return [_sign("accelerator.answers", item, "fail", "no driver", text)]
    return []


def _ras(item: Mapping[str, Any]) -> List[Sign]:
    counts = mapping(item.get("ras"))
    lost = ["%s %d" % (block, kinds["ue"]) for block, kinds in sorted(counts.items()) if kinds.get("ue")]
    deferred = ["%s %d" % (block, kinds["de"]) for block, kinds in sorted(counts.items()) if kinds.get("de")]
    pages = mapping(item.get("bad_pages"))
    signs: Tuple[Tuple[Any, str, str, str], ...] = (
        (lost, "fail", "uncorrected", "uncorrectable errors since the driver was loaded: %s" % first_of(lost, 4)),
        (pages.get("failed"), "fail", "bad pages", "%s bad pages of memory could not be taken out of use" % pages.get("failed")),
        (pages.get("pending"), "warn", "pages wait", "%s bad pages of memory wait to be taken out of use" % pages.get("pending")),
        (deferred, "warn", "deferred", "errors that the next reader of the memory will meet: %s" % first_of(deferred, 4)),
    )
    return [_sign("accelerator.ras", item, status, word, text) for there, status, word, text in signs if there]


def _xgmi(item: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """The catalogue's number on a platform of eight, else the number of most peers."""
    up = mapping(item.get("xgmi")).get("up")
    row = accelerator_of(str(item.get("vendor_id")), str(item.get("device_id")), "")
    usual = majority([mapping(peer.get("xgmi")).get("up") for peer in peers])
    expected = row.xgmi if row is not None and row.xgmi and len(peers) == PLATFORM else usual
    if up is None or expected is None or up >= expected:
        return []
    return [_sign("accelerator.xgmi", item, "warn", "%d links" % up, "%d of %d xGMI links are up" % (up, expected))]
