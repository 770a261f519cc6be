# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs from the events of the kernel's log: what one kind of message means, whether its fault has ended, and whether it is by design.

A NIC or port may be down by design: unused, the machine's own network, in the middle of an operator's reset. What drains a node therefore
needs evidence that the part carries jobs (``_carries_jobs``), and what warns of a missing cable needs evidence that there was one.
"""

from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ..catalogue.health import BY_CHECK, FLAP_HOURS, FLAPS, QUIET_HOURS
from ..catalogue.kernel_log import BY_EVENT, ENDS, OF_RAILS
from ..catalogue.xids import XIDS, judged_xid
from ..observe.kernel_log import PEER, TRUSTED
from .health_node import HOUR, Node
from .signs import Sign, gpu_subject

Event = Mapping[str, Any]
APPLY_SECONDS = 600.0  # before a restore point's last change: our own apply may have moved links
TEXT_ONLY = "the kernel's log is readable only as text, in which any program can write lines"
# What the log alone can pass; of PCIe, memory and the like counters must have been read too.
FROM_LOG = ("gpu.xid", "gpu.sxid", "gpu.peermem", "pci.dma", "hca.health", "port.flaps", "node.machine_check", "node.oom", "node.hung",
            "node.oops", "node.disk")
OF_FUNCTIONS = ("pci.aer", "pci.dma", "hca.health", "port.optics")  # checks of GPUs, HCAs and the bridges above them
ANYWHERE = OF_RAILS + ("slot_lost", "dpc", "nic_waits")  # events of functions that may have vanished from the facts by that very fault


def log_signs(node: Node) -> Tuple[List[Sign], List[str]]:
    """Return the signs, and the checks that the log answers."""
    log = node.health["log"]
    if not log["source"]:
        text = "the kernel's log cannot be read (%s): root, or a member of group adm, sees Xids, AER and the like"
        return [Sign("node.kernel_log", "kernel log", None, "unknown", "unread", text % (log["why"] or "no reason given"))], []
    known = [event for event in log["events"] if event.get("listed") or event["device"] in node.expected]
    signs = [sign for event in known for sign in _signs_of(node, event, known)] + _flap_signs(node, known)
    signs += [_stranger(node, event) for event in log["events"] if event not in known and (
        BY_EVENT[event["event"]].status in ("fail", "warn") or event["event"] == "xid") and BY_EVENT[event["event"]].check != "pci.dma"]
    if log["source"] not in TRUSTED:
        signs = [sign._replace(status="unknown", text="%s: %s" % (TEXT_ONLY, sign.text)) for sign in signs]
        signs.append(Sign("node.kernel_log", "kernel log", None, "unknown", log["source"], "%s: make /dev/kmsg or the journal readable"
                          % TEXT_ONLY))
    if not log["complete"]:
        signs.append(Sign("node.kernel_log", "kernel log", None, "pass", log["source"], "read from %s on; what is older is gone" % (
            node.when(log["since"] or 0))))
    return signs, ["node.kernel_log"] + list(FROM_LOG)


def _stranger(node: Node, event: Event) -> Sign:
    """Name an event about a PCI function that the node neither has nor had since boot."""
    rule, device = BY_EVENT[event["event"]], event["device"]
    subject = gpu_subject(device) if rule.check == "gpu.xid" else "PCI function %s" % device
    return Sign(rule.check, subject, None, "unknown", event["event"], "a message about PCI function %s, which this node neither has nor had"
                " since boot, %s" % (device, _often(node, event)))


def _signs_of(node: Node, event: Event, events: Sequence[Event]) -> List[Sign]:
    """Return what one event means."""
    name, device = event["event"], event["device"]
    rule = BY_EVENT[name]
    if name == "xid":
        return _xid_signs(node, event)
    end = _end(event, events)
    if end == "nic_back" and device not in node.hcas:
        end = None  # it began anew and did not get far
    status = rule.ended if end is not None else rule.status
    if name == "module_out":
        status = "warn" if _was_plugged(node, event, events) and end is None else ""
    elif name == "nic_waits" and end is None:  # a DPU's NIC waits at each boot for the DPU
        status = "pass" if device in node.hcas and event["last"] < QUIET_HOURS * HOUR else "warn"
    elif (name in OF_RAILS and status == "fail" and not _carries_jobs(node, event)) or (name == "nic_probe" and device in node.hcas):
        status = "warn"
    elif name == "slot_lost" and end is not None and device not in node.watched:
        status = ""  # a disk was changed
    if not status or (rule.check in OF_FUNCTIONS and device not in node.watched and name not in ANYWHERE):
        return []
    hca, subject = _subject(node, event)
    number = "" if event["number"] is None else " %d" % event["number"]
    ended = "; " + BY_EVENT[end].meaning if end is not None and BY_EVENT[end].meaning else ""
    text = "%s%s%s, %s" % (rule.meaning, number, ended, _often(node, event))
    return [Sign(rule.check, subject, hca, status, name + number, text, rule.todo)]


def _subject(node: Node, event: Event) -> Tuple[Optional[str], str]:
    """Return (HCA, text) of the thing that an event is about."""
    check, device = BY_EVENT[event["event"]].check, event["device"]
    if check == "gpu.sxid":
        return None, "NVSwitch %s" % device
    if check in OF_FUNCTIONS:
        return node.subject(device)
    if check.startswith("gpu.") and device:
        return None, gpu_subject(device)
    return None, device or BY_CHECK[check].subject


def _end(event: Event, events: Sequence[Event]) -> Optional[str]:
    """Return the event that ended a fault after its last message."""
    return next((other["event"] for other in events if event["event"] in ENDS.get(other["event"], ())
                 and other["device"] == event["device"] and other["last"] >= event["last"]), None)


def _carries_jobs(node: Node, event: Event) -> bool:
    """Return whether a NIC has an RDMA device, is of the kind of those that have one, or is a rail of the inventory."""
    return event["device"] in node.hcas or event["device"] in node.expected or event["word"] == PEER


def _was_plugged(node: Node, event: Event, events: Sequence[Event]) -> bool:
    """Return whether a port without a cable had one since boot, or is a rail of the inventory. An active port has one now."""
    device, name = event["device"], node.hcas.get(event["device"])
    if name is None or any(hca == name and link.get("state") == "ACTIVE" for (hca, _port), link in node.links.items()):
        return False
    return device in node.expected or any(
        other["event"] in ("module_in", "link_down") and other["device"] == device and other["first"] <= event["last"] for other in events)


def _often(node: Node, event: Event) -> str:
    times = "once" if event["count"] == 1 else "%d times, last" % event["count"]
    return "%s at %s (kernel: %s)" % (times, node.when(event["last"]), event["text"])


def _xid_signs(node: Node, event: Event) -> List[Sign]:
    number, pci = event["number"], event["device"]
    status, todo = judged_xid(number, event["word"], node.recovery.get(pci))
    if status == "pass":
        return []
    name = XIDS[number].name if number in XIDS else "a number that is not in the catalogue"
    text = "%s: Xid %d, %s, %s" % (node.gpus.get(pci, "a GPU that is no longer on the bus"), number, name, _often(node, event))
    return [Sign("gpu.xid", gpu_subject(pci), None, status, "Xid %d" % number, text, todo)]


def _flap_signs(node: Node, events: Sequence[Event]) -> List[Sign]:
    """Judge the downs of each link, without those in the half hour after boot and in our own applies."""
    boot, now = node.health.get("boot"), node.hours * HOUR
    own = [when - boot for when in node.health.get("applies") or []] if boot else []
    found = []
    for event in events:
        if event["event"] != "link_down" or event["device"] not in node.hcas:
            continue
        times = [at for at in event["times"] if at >= QUIET_HOURS * HOUR and not any(end - APPLY_SECONDS <= at <= end + 60 for end in own)]
        recent = [at for at in times if at >= max(now, times[-1]) - FLAP_HOURS * HOUR]
        if recent:
            hca, subject = node.subject(event["device"])
            text = "its link went down %d times in %d hours, last at %s" % (len(recent), FLAP_HOURS, node.when(recent[-1]))
            found.append(Sign("port.flaps", subject, hca, "fail" if len(recent) >= FLAPS else "warn", "%d downs" % len(recent), text))
    return found
