# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on parts that should be there and are not: RDMA devices of PCI functions, GPUs and HCAs in a PCIe switch's slots. Pure."""

from collections import Counter
from typing import Any, Dict, List, Mapping

from ..formats.outside import mapping, rows
from ..formats.text import grouped
from ..observe.rdma_functions import RECOVERY
from ..rules.comparisons import Inspection, VerdictSubject, verdict
from ..types import Verdict
from .peers import PEERS, SHARE
from .rails import near_classes

FULL = (4, 8, 16)  # GPUs of a board or server that lost none; an empty slot beside them is there by design
KINDS = {"gpu": "GPU", "hca": "HCA"}


def judge_functions(seen: Inspection) -> List[Verdict]:
    """``hca.device``: each function that can do RDMA has an RDMA device; nothing is said of a node without any such function."""
    found, where = mapping(seen.facts.get("pci")).get("rdma_functions"), VerdictSubject(seen.node, None, None, "RDMA devices")
    if found is None:  # no list of the PCI bus (a capture of a part of /sys), or facts that an older version kept
        return []
    bad = [item for item in (_function(seen, row) for row in rows(found) if not row.get("exempt")) if item is not None]
    if bad or not any(hca.get("pci_address") for hca in rows(seen.facts.get("hcas"))):
        return bad
    return [verdict("hca.device", where, "pass", "an RDMA device", None, "each PCI function that can do RDMA has an RDMA device")]


def _function(seen: Inspection, row: Mapping[str, Any]) -> Any:
    """A function that only its driver's name makes capable counts beside a GPU; elsewhere it may be a plain network interface.

    A container may have a namespace of its own for RDMA devices, which hides those of other functions (rdma-system(8), netns exclusive).
    """
    near = row.get("path") in near_classes(seen.facts)
    if row.get("capable") == "known" and not near and not seen.identity.gpus:
        return None
    driver, module = row.get("driver"), row.get("module")
    hidden = seen.identity.virtual == "container" and driver is not None and row.get("module_loaded") is not False
    status = "unknown" if hidden else "warn" if row.get("capable") == "known" and not near else "fail"
    if row.get("capable") == RECOVERY:
        why = "its firmware does not start, it waits in flash recovery: burn the firmware (mstflint), else return the NIC"
    elif driver is None:
        why = "no driver is bound to it; did its probe fail? dmesg | grep %s" % row.get("pci")
    elif module is not None and row.get("module_loaded") is False:
        why = "%s drives it, and %s is not loaded: modprobe %s" % (driver, module, module)
    else:
        why = "%s drives it%s; dmesg | grep %s" % (
            driver, ", and %s made no RDMA device of it" % module if module is not None else "", row.get("pci"))
    where = VerdictSubject(seen.node, None, None, str(row.get("pci")))
    return verdict("hca.device", where, status, "an RDMA device", None,
                   "PCI function %s (%s) can do RDMA and has no RDMA device: %s" % (row.get("pci"), row.get("model"), why))


def judge_switches(seen: Inspection) -> List[Verdict]:
    """``pci.switch``: no slot is empty that holds a GPU or an HCA in at least three quarters of four or more PCIe switches like it."""
    found = mapping(seen.facts.get("pci")).get("switches")
    if found is None:
        return []
    groups = grouped(((row.get("model"), tuple(sorted(mapping(row.get("slots"))))), row) for row in rows(found))
    judged = [group for group in groups.values() if len(group) >= PEERS]
    bad = [item for group in judged for item in _missing(seen, group)]
    if bad or not judged:
        return bad
    where = VerdictSubject(seen.node, None, None, "PCIe switches")
    return [verdict("pci.switch", where, "pass", "as its peers", None, "%d PCIe switches hold GPUs and HCAs alike" % sum(map(len, judged)))]


def _missing(seen: Inspection, group: List[Dict[str, Any]]) -> List[Verdict]:
    """A switch of another purpose has something else in a slot, so it is not held against the others."""
    usual = {slot: Counter(mapping(row["slots"])[slot] for row in group).most_common(1)[0] for slot in mapping(group[0]["slots"])}
    agreed = {slot: text for slot, (text, many) in usual.items() if many >= SHARE * len(group)}
    found = []
    for row in group:
        slots = mapping(row["slots"])
        others_alike = all(text in ("", agreed.get(slot, text)) for slot, text in slots.items())
        empty = [(slot, text) for slot, text in agreed.items() if not slots[slot] and text.partition(" ")[0] in KINDS]
        for slot, text in empty if others_alike else ():
            kind, _blank, model = text.partition(" ")
            if kind == "gpu" and len(seen.identity.gpus) in FULL:
                continue
            where = VerdictSubject(seen.node, None, None, "PCIe switch %s" % row.get("upstream"))
            found.append(verdict("pci.switch", where, "fail", text, "nothing",
                                 "no %s (%s) in slot %s, where %d of %d PCIe switches like it have one: it is gone from the bus" % (
                                     KINDS[kind], model, slot, usual[slot][1], len(group))))
    return found
