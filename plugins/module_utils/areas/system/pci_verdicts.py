# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the machine below: PCIe links, BARs, SR-IOV, ACS, MaxReadReq, IOMMU, NUMA. Pure over facts; no vendor tool was asked.

Each message that is not a pass names the BIOS or kernel setting to inspect. In a virtual machine slots, ACS and IOMMU are the
hypervisor's: what the guest sees of them is not judged.
"""

from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence

from ...formats.sysfs_values import cpu_list
from ...formats.text import first_of
from ...observe.firmware import device_of
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, unreadable, verdict
from ...spec.match import RailTarget
from ...spec.model import Spec
from ...types import Identity, Verdict
from .nic_firmware import rail_nics

GIB_4 = 1 << 32
VIRTUAL = "in a virtual machine this is the hypervisor's"
SPEED_HINT = "reseat card, riser or cable; in the BIOS check the slot's PCIe link speed (Auto, or the generation of the card)"
WIDTH_HINT = "reseat card, riser or cable; in the BIOS check the slot's bifurcation (x16), and at slots that share lanes"
IDLE_HINT = "a GPU that is idle may lower its link by itself, so inspect again under load; else " + SPEED_HINT
IDLE = "the GPU is idle, and lowers its link by itself: inspect again under load"
ABOVE_4G_HINT = "turn on Above 4G Decoding in the BIOS (also called MMIO above 4GB, with MMIO High Base and Size large enough for all GPUs)"
SRIOV_HINT = "turn on SR-IOV in the BIOS, and SRIOV_EN with NUM_OF_VFS in the NIC's firmware"
ACS_HINT = "GPU and HCA then talk through the root complex; apply clears it (pci_tuning_acs: disable), or turn ACS off in the BIOS"
IOMMU_HINT = "set pci_tuning_iommu: passthrough (kernel argument iommu=pt, on arm64 iommu.passthrough=1)"
NUMA_HINT = "the firmware names no NUMA node for it: check NPS or SNC, and the SRAT and PXM settings of the BIOS"


class Device(NamedTuple):
    """A GPU or HCA of the facts. ``where`` names it in verdicts."""

    where: VerdictSubject
    pci: str
    gpu: bool
    numa_node: Optional[int]
    link: Mapping[str, Any]


def judge_platform(seen: Inspection) -> List[Verdict]:
    node, spec, identity, facts = seen.node, seen.spec, seen.identity, seen.facts
    devices = _devices(node, facts)
    rails = rail_nics(spec, identity)
    pci = facts.get("pci") or {}
    verdicts = _links(identity, devices, sleeping(facts))
    for device in devices:
        if device.gpu:
            verdicts.append(_above_4g(device))
        else:
            verdicts.append(_sriov(spec["nic_firmware_config"] if device_of(device.pci) in rails else {}, device))
        verdicts.append(_numa(identity, device, pci.get("numa_nodes")))
    verdicts += _read_requests(spec, identity, devices, seen.targets)
    if devices:
        verdicts += [_acs(node, spec, identity, pci, devices), _iommu(node, spec, identity, pci, devices)]
    return verdicts + _isolated(seen, pci.get("cpus") or {})


def _isolated(seen: Inspection, cpus: Mapping[str, Any]) -> List[Verdict]:
    """Both lists, as the kernel took them; and some CPU of each NUMA node is left for interrupts and what nobody pins."""
    wanted = cpu_list(seen.spec["pci_tuning_isolated_cpus"])
    if not wanted:
        return []
    where = VerdictSubject(seen.node, None, None, "isolated CPUs")
    lists = {name: cpu_list(cpus[name]) if cpus.get(name) is not None else None for name in ("present", "isolated", "nohz_full")}
    absent = sorted(wanted - (lists["present"] or wanted))
    lacking = [name for name in ("isolated", "nohz_full") if lists[name] is not None and not wanted <= (lists[name] or set())]
    expected, found = seen.spec["pci_tuning_isolated_cpus"], {name: cpus.get(name) for name in ("isolated", "nohz_full")}
    container = "in a container the kernel is the machine's below"
    return [decided(
        "cpu.isolated", where,
        (seen.identity.has("container"), "skipped", None, found, container),
        (absent, "fail", expected, cpus.get("present"), "this node has no CPU %s" % first_of([str(cpu) for cpu in absent], 4)),
        (lacking, "fail", expected, found, "not in /sys/devices/system/cpu/%s: the kernel needs a reboot, or was built without it" % (
            " and ".join(lacking))),
        (None in lists.values(), "unknown", expected, None, UNREADABLE % "the kernel's lists of CPUs"),
        (True, "pass", expected, found, "the kernel keeps its work off them"))]


def _devices(node: str, facts: Mapping[str, Any]) -> List[Device]:
    found: List[Device] = []
    for hca in facts.get("hcas") or []:
        if hca.get("link") is not None and hca.get("pci_address") is not None:
            where = VerdictSubject(node, hca.get("name"), None, "%s (%s)" % (hca.get("name"), hca["pci_address"]))
            found.append(Device(where, hca["pci_address"], False, hca.get("numa_node"), hca["link"]))
    for gpu in list(facts.get("gpus") or []) + list(facts.get("accelerators") or []):
        if gpu.get("link") is not None:
            where = VerdictSubject(node, None, None, "%s %s" % (gpu.get("model") or "GPU", gpu["pci"]))
            found.append(Device(where, gpu["pci"], True, gpu.get("numa_node"), gpu["link"]))
    return found


def sleeping(facts: Mapping[str, Any]) -> FrozenSet[str]:
    """GPUs that report themselves idle, of the models of which no idle GPU keeps its link at full speed: boards lower their links alike."""
    health = (facts.get("health") or {}).get("gpu") or {}
    idle = {row.get("pci") for row in health.get("gpus") or [] if row.get("idle") is True}
    rows = [(gpu.get("device_id"), gpu["pci"], ((gpu.get("link") or {}).get("links") or [{}])[0]) for gpu in facts.get("gpus") or []]
    awake = {model for model, pci, link in rows if pci in idle and link.get("speed_gts") is not None
             and link["speed_gts"] >= (link.get("best_speed_gts") or link["speed_gts"])}
    return frozenset(pci for model, pci, _link in rows if pci in idle and model not in awake)


def _links(identity: Identity, devices: List[Device], asleep: FrozenSet[str]) -> List[Verdict]:
    """Every link once: that of a switch is shared by all below it, and judged under its own name."""
    verdicts: List[Verdict] = []
    seen: List[str] = []
    for device in devices:
        for place, link in enumerate(device.link.get("links") or []):
            if link.get("device") in seen:
                continue
            seen.append(link.get("device"))
            own = place == 0
            where = device.where if own else VerdictSubject(device.where.node, None, None, "PCIe switch %s" % link.get("device"))
            verdicts += _link(identity, where, link, own and device.gpu, device.pci in asleep)
    return verdicts


def _link(identity: Identity, where: VerdictSubject, link: Mapping[str, Any], gpu: bool, asleep: bool) -> List[Verdict]:
    """Against the lower of what both ends can do; in a virtual machine the port above is made up, and the device's own limit counts."""
    best = "device" if identity.virtual is not None else "best"
    if identity.virtual is not None and (link.get("speed_gts") is None or link.get("width") is None):
        return [verdict(check, where, "skipped", None, None, VIRTUAL) for check in ("pci.link_speed", "pci.link_width")]
    ends = "%s below %s" % (link.get("device"), link.get("port") or "the root complex")
    return [
        _at_best("pci.link_speed", where, link.get("%s_speed_gts" % best), link.get("speed_gts"), "%g GT/s", ends, "speed of the link",
                 IDLE if gpu and asleep else IDLE_HINT if gpu else SPEED_HINT,
                 "unknown" if gpu and asleep else "warn" if gpu or identity.virtual is not None else "fail"),
        _at_best("pci.link_width", where, link.get("%s_width" % best), link.get("width"), "x%d", ends, "width of the link", WIDTH_HINT,
                 "warn" if identity.virtual is not None else "fail"),
    ]


def _at_best(
    check: str, where: VerdictSubject, best: Optional[float], found: Optional[float], form: str, ends: str, what: str, hint: str,
    status: str
) -> Verdict:
    if not best or found is None:
        return unreadable(check, where, best, "the %s %s" % (what, ends))
    return decided(
        check, where,
        (found >= best, "pass", best, found, "%s is %s" % (what, form % found)),
        (True, status, best, found, "%s is %s where both ends can %s (%s): %s" % (what, form % found, form % best, ends, hint)))


def _above_4g(device: Device) -> Verdict:
    """A GPU's memory is larger than what is below 4 GiB: its 64-bit BARs must lie above."""
    bars = device.link.get("bars")
    wide = [item for item in bars or [] if item.get("bits") == 64]
    if not wide:
        return unreadable("pci.above_4g", device.where, "above 4 GiB", "the place of the GPU's memory")
    low = [item for item in wide if int(item["address"], 16) < GIB_4]
    if not low:
        said = "its largest BAR has %s" % _size(max(item["size"] for item in wide))
        return verdict("pci.above_4g", device.where, "pass", "above 4 GiB", "above 4 GiB", said)
    unplaced = any(int(item["address"], 16) == 0 for item in low)
    return verdict("pci.above_4g", device.where, "fail", "above 4 GiB", "no room" if unplaced else "below 4 GiB", "BAR %s of %s %s: %s" % (
        low[0]["index"], _size(low[0]["size"]), "found no room" if unplaced else "lies below 4 GiB", ABOVE_4G_HINT))


def _size(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= factor:
            return "%d %s" % (size // factor, unit)
    return "%d bytes" % size


def _sriov(config: Mapping[str, Any], device: Device) -> Verdict:
    """Only said, unless the inventory wants virtual functions of this NIC."""
    wanted = str(config.get("NUM_OF_VFS", 0)) not in ("0", "False") or str(config.get("SRIOV_EN", 0)) in ("1", "True", "True(1)", "true")
    sriov = device.link.get("sriov")
    found = "%s of %s virtual functions enabled" % (sriov.get("enabled"), sriov.get("total")) if sriov and sriov.get("total") else None
    return decided(
        "pci.sriov", device.where,
        (device.link.get("virtual_function"), "skipped", None, None, "is a virtual function itself"),
        (found is not None, "pass", "SR-IOV" if wanted else None, found, found or ""),
        (wanted, "fail", "SR-IOV", None, "has no SR-IOV capability: %s" % SRIOV_HINT),
        (True, "skipped", None, None, "the inventory expects nothing (nic_firmware_config.SRIOV_EN)"))


def _numa(identity: Identity, device: Device, nodes: Optional[int]) -> Verdict:
    own = device.numa_node
    return decided(
        "pci.numa", device.where,
        (identity.virtual is not None, "skipped", None, own, VIRTUAL),
        (own is None or nodes is None, "unknown", "a NUMA node", None, UNREADABLE % "the NUMA node"),
        ((own or 0) >= 0 or (nodes or 0) <= 1, "pass", "a NUMA node", own, "is on NUMA node %d of %d" % (max(own or 0, 0), nodes or 0)),
        (True, "warn", "a NUMA node", own, NUMA_HINT))


def _read_requests(spec: Spec, identity: Identity, devices: List[Device], targets: Sequence[RailTarget]) -> List[Verdict]:
    """Of the rails' HCAs, each once."""
    by_pci = {device.pci: device for device in devices}
    verdicts: Dict[str, Verdict] = {}
    wanted = spec["pci_tuning_max_read_request"]
    for target in targets:
        device = by_pci.get(target.hca.pci or "") if target.hca is not None else None
        if device is None:
            continue
        found = device.link.get("max_read_request")
        verdicts.setdefault(device.pci, decided(
            "pci.max_read_request", device.where._replace(subject=target.label, port=target.port),
            (identity.virtual is not None, "skipped", None, found, VIRTUAL),
            (not wanted, "skipped", None, found, "the inventory expects nothing (pci_tuning_max_read_request)"),
            (found is None, "unknown", wanted, None, UNREADABLE % "MaxReadReq (it needs root)"),
            (found == wanted, "pass", wanted, found, "MaxReadReq is %s bytes" % found),
            (True, "fail", wanted, found, "MaxReadReq is %s bytes, not %d: apply sets it; a BIOS may have a setting of that name" % (
                found, wanted))))
    return list(verdicts.values())


def _acs(node: str, spec: Spec, identity: Identity, pci: Mapping[str, Any], devices: List[Device]) -> Verdict:
    """A fault only where GPUs and HCAs want to talk to each other on bare metal."""
    rows = pci.get("acs")
    unread = rows is None or any(row.get("enabled") is None for row in rows)
    on = [] if unread else ["%s (%s)" % (row["bridge"], ", ".join(row["enabled"])) for row in rows or () if row["enabled"]]
    return decided(
        "pci.acs", VerdictSubject(node, None, None, "ACS of PCIe bridges"),
        (identity.virtual is not None, "skipped", None, None, VIRTUAL + "; with GPUs passed through ACS must stay on there"),
        (len({device.gpu for device in devices}) < 2, "skipped", None, None, "no GPU and HCA to talk to each other"),
        (unread, "unknown", "off", None, UNREADABLE % "ACS of the bridges (it needs root)"),
        (not on, "pass", "off", "off", "off on every bridge above GPUs and HCAs"),
        (True, "fail" if spec["pci_tuning_acs"] == "disable" else "warn", "off", on, "on for %s: %s" % ("; ".join(on), ACS_HINT)))


def _iommu(node: str, spec: Spec, identity: Identity, pci: Mapping[str, Any], devices: List[Device]) -> Verdict:
    mode = (pci.get("iommu") or {}).get("mode")
    wanted = "passthrough" if spec["pci_tuning_iommu"] == "passthrough" else None
    costs = "DMA of GPUs and HCAs is translated, which costs bandwidth and can break GPUDirect: %s" % IOMMU_HINT
    translated = mode == "translated"
    return decided(
        "pci.iommu", VerdictSubject(node, None, None, "IOMMU"),
        (identity.virtual is not None, "skipped", None, mode, VIRTUAL),
        (mode is None, "unknown", wanted, None, UNREADABLE % "what the IOMMU does"),
        (translated and wanted is not None, "fail", wanted, mode, costs),
        (translated and any(device.gpu for device in devices), "warn", wanted, mode, costs),
        (translated, "pass", wanted, mode, "DMA is translated; without a GPU that costs little"),
        (mode == "off" and wanted is not None, "warn", wanted, mode,
         "there is none, so nothing is translated; turn on VT-d or AMD-Vi in the BIOS if you want one"),
        (True, "pass", wanted, mode, "DMA is not translated (%s)" % mode))
