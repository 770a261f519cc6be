# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a node's health, from the section ``health`` of its facts alone: no wish is asked. Pure.

What was found is gathered as signs; of all about one thing one verdict is made, the worst first. A check that was looked at and found
nothing passes once for the node.
"""

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.health import BY_CHECK, CHECKS, CORRECTED_AN_HOUR, FLAP_HOURS, FLAPS, FLAPS_A_DAY, MEMORY_A_DAY, QUIET_HOURS
from ..catalogue.kernel_log import RULES
from ..catalogue.xids import XIDS, judged_xid
from ..formats.text import first_of
from ..observe.kernel_log import TRUSTED
from ..rules.comparisons import Inspection, VerdictSubject, verdict
from ..types import Verdict
from .health_accelerators import accelerator_signs, accelerators_judged, accelerators_of
from .health_gpu import gpu_looked, gpu_signs
from .health_optics import lacks_fec, symbol_signs, unused_lanes
from .health_partitions import efa_judged, efa_signs, partition_signs, partitions_judged
from .signs import Sign, gpu_subject

ORDER = ("fail", "warn", "unknown", "skipped", "pass")
BY_EVENT = {rule.event: rule for rule in RULES}
HOUR, LATEST = 3600.0, 1e11  # seconds
BIT_ERRORS = 1e-12  # the share of wrong bits after FEC that a link may have: InfiniBand vol. 2; IEEE 802.3
# A day: the limits that infiniband-diags (ibcheckerrors) has for totals of any age.
RECOVERIES = {"link_error_recovery": 10, "local_link_integrity_errors": 10, "excessive_buffer_overrun_errors": 10}
APPLY_SECONDS = 600.0  # before a restore point's last change: our own apply may have moved links
TEXT_ONLY = "the kernel's log is readable only as text, in which any program can write lines"
# What the log alone can pass; of PCIe, memory and the like counters must have been read too.
FROM_LOG = ("gpu.xid", "gpu.sxid", "hca.health", "port.flaps", "node.machine_check", "node.oom", "node.hung", "node.disk")


class Node(NamedTuple):
    """What several signs need. ``hcas``: name by PCI address; ``watched``: functions whose PCIe errors count."""

    health: Mapping[str, Any]
    hcas: Dict[str, str]
    gpus: Dict[str, str]
    accelerators: Dict[str, str]  # model by PCI address
    watched: Sequence[str]
    recovery: Dict[str, Optional[str]]
    hours: int
    container: bool
    links: Mapping[Tuple[Any, Any], Mapping[str, Any]]  # ports by HCA and number
    expected: Sequence[str]  # PCI functions that the inventory names

    def subject(self, pci: str) -> Tuple[Optional[str], str]:
        """(HCA, text) of a PCI function."""
        if pci in self.hcas:
            return self.hcas[pci], "%s (%s)" % (self.hcas[pci], pci)
        if pci in self.accelerators:
            return None, "%s %s" % (self.accelerators[pci], pci)
        return None, gpu_subject(pci) if pci in self.gpus else "PCIe switch %s" % pci

    def when(self, seconds: float) -> str:
        """A moment since boot as a time of the day, where the boot's is known and one that a calendar has."""
        at = (self.health.get("boot") or 0) + seconds
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if seconds < at < LATEST else "%d s after boot" % seconds


def judge_health(seen: Inspection) -> List[Verdict]:
    """Nothing is said of facts that have no such section: a document that somebody kept."""
    health = seen.facts.get("health")
    expected = [rail.value for rail in seen.spec.rails if rail.match == "pci"]
    return health_verdicts(seen.node, seen.facts, health, bool(seen.identity.nvswitches), expected) if isinstance(health, dict) else []


def health_verdicts(
    name: str, facts: Mapping[str, Any], health: Mapping[str, Any], switched: bool, expected: Sequence[str] = ()
) -> List[Verdict]:
    """``switched``: whether the node has NVSwitches; ``expected``: PCI functions that the inventory names."""
    node = _node(facts, health, expected)
    signs, looked = log_signs(node)
    signs += aer_signs(node) + memory_signs(node) + port_signs(node) + bit_signs(node) + node_signs(node) + gpu_signs(facts, health)
    ports, processes = health.get("ports") or [], health.get("processes") or {}
    wrong = [_bit_errors(node, place) for place, link in node.links.items() if link.get("state") == "ACTIVE"]
    looked += [check for check, there in (
        ("pci.aer", (health.get("aer") or {}).get("read")), ("node.memory", health.get("memory")),
        ("node.nfs", (health.get("mounts") or {}).get("asked")), ("node.clock", health.get("clock") is not None),
        ("port.optics", any(_module(port, "limits") for port in ports)),
        ("port.fec", len([port for port in ports if port.get("fec")]) > 1),
        ("port.cable", len([port for port in ports if _module(port, "kind")]) > 1),
        ("port.pkey", partitions_judged(facts)), ("port.efa", efa_judged(facts)), ("port.ber", wrong and None not in wrong),
        ("qos.storm", any(port.get("pause_storms") is not None for port in ports)),
        ("node.stuck", processes), ("gpu.jobless", processes.get("schedulers") and node.recovery),
    ) if there and check not in (processes.get("unseen") or [])]
    signs += accelerator_signs(facts) + partition_signs(facts) + efa_signs(facts, node.hours)
    signs += symbol_signs(health.get("ports") or [], BIT_ERRORS)
    looked += gpu_looked(facts, health) + accelerators_judged(facts)
    return verdicts_of(name, [sign for sign in signs if _own(sign, node)],
                       [check for check in dict.fromkeys(looked) if _concerned(check, node, switched)])


def _own(sign: Sign, node: Node) -> bool:
    """In a container the node is the machine below, and so are the GPUs that it does not see."""
    return not node.container or (not sign.check.startswith("node.") and (
        sign.check != "gpu.xid" or not node.recovery or sign.subject in map(gpu_subject, node.recovery)))


def _concerned(check: str, node: Node, switched: bool) -> bool:
    """Of a part that a node has not, nothing is said, and in a container nothing of the machine below."""
    if node.container and check.startswith("node."):
        return False
    parts: Dict[str, Any] = {"gpu.xid": node.gpus, "gpu.sxid": switched, "hca.health": node.hcas, "port.flaps": node.hcas}
    return bool(parts.get(check, True))


def _node(facts: Mapping[str, Any], health: Mapping[str, Any], expected: Sequence[str]) -> Node:
    hcas = {hca["pci_address"]: hca["name"] for hca in facts.get("hcas") or [] if hca.get("pci_address") and hca.get("name")}
    gpus = {gpu["pci"]: gpu.get("name") or "GPU" for gpu in facts.get("gpus") or [] if gpu.get("pci")}
    others = accelerators_of(facts)
    above = [address for device in list(facts.get("hcas") or []) + list(facts.get("gpus") or []) + others
             for address in (device.get("link") or {}).get("path") or []]
    recovery = {gpu["pci"]: gpu.get("recovery") for gpu in (health.get("gpu") or {}).get("gpus") or []}
    models = {item["pci"]: str(item.get("model")) for item in others if item.get("pci")}
    return Node(health, hcas, gpus, models, list(hcas) + list(gpus) + list(models) + above, recovery, health.get("up_hours") or 0,
                facts.get("virtual") == "container",
                {(hca.get("name"), port.get("number")): port for hca in facts.get("hcas") or [] for port in hca.get("ports") or []},
                expected)


def verdicts_of(node: str, signs: Sequence[Sign], looked: Sequence[str]) -> List[Verdict]:
    found = []
    for row in CHECKS:
        own = sorted((sign for sign in signs if sign.check == row.check), key=lambda sign: ORDER.index(sign.status))
        for hca, subject in dict.fromkeys((sign.hca, sign.subject) for sign in own):
            about = [sign for sign in own if (sign.hca, sign.subject) == (hca, subject)]
            text = "; ".join(dict.fromkeys(sign.text for sign in about))
            todo = next((sign.todo for sign in about if sign.todo), "") or (row.todo if about[0].status in ("fail", "warn") else "")
            found.append(verdict(row.check, VerdictSubject(node, hca, None, subject), about[0].status, row.what,
                                 first_of([sign.found for sign in about], 6), text + (": %s" % todo if todo else "")))
        if not own and row.check in looked:
            found.append(verdict(row.check, VerdictSubject(node, None, None, row.subject), "pass", row.what, "nothing", row.what))
    return found


# The kernel's log.


def log_signs(node: Node) -> Tuple[List[Sign], List[str]]:
    """The signs, and which checks the log answers."""
    log = node.health["log"]
    if not log["source"]:
        text = "the kernel's log cannot be read (%s): root, or a member of group adm, sees Xids, AER and the like"
        return [Sign("node.kernel_log", "kernel log", None, "unknown", "unread", text % (log["why"] or "no reason given"))], []
    known = [event for event in log["events"] if event.get("listed") or event["device"] in node.expected]
    signs = [sign for event in known for sign in _sign_of(node, event)]
    signs += _disk_signs(node, known) + _nfs_signs(known) + _nic_signs(node, known) + _flap_signs(node, known)
    signs += [_stranger(node, event) for event in log["events"]
              if event not in known and (BY_EVENT[event["event"]].status or event["event"] in ("xid", "nic_failed"))]
    if log["source"] not in TRUSTED:
        signs = [sign._replace(status="unknown", text="%s: %s" % (TEXT_ONLY, sign.text)) for sign in signs]
        signs.append(Sign("node.kernel_log", "kernel log", None, "unknown", log["source"], "%s: make /dev/kmsg or the journal readable"
                          % TEXT_ONLY))
    if not log["complete"]:
        signs.append(Sign("node.kernel_log", "kernel log", None, "pass", log["source"], "read from %s on; what is older is gone" % (
            node.when(log["since"] or 0))))
    return signs, ["node.kernel_log"] + list(FROM_LOG)


def _stranger(node: Node, event: Mapping[str, Any]) -> Sign:
    """Name an event about a PCI function that the node neither has nor had since boot."""
    rule, device = BY_EVENT[event["event"]], event["device"]
    subject = gpu_subject(device) if rule.check == "gpu.xid" else "PCI function %s" % device
    return Sign(rule.check, subject, None, "unknown", event["event"], "a message about PCI function %s, which this node neither has nor had"
                " since boot, %s" % (device, _often(node, event)))


def _sign_of(node: Node, event: Mapping[str, Any]) -> List[Sign]:
    """What one kind of line says by itself."""
    name, device = event["event"], event["device"]
    if name == "xid":
        return _xid_signs(node, event)
    rule = BY_EVENT[name]
    if not rule.status or (rule.check in ("pci.aer", "hca.health", "port.optics") and device not in node.watched):
        return []
    hca: Optional[str] = None
    if rule.check.startswith("gpu.sxid"):
        subject = "NVSwitch %s" % device
    elif rule.check in ("pci.aer", "hca.health", "port.optics", "gpu.answers"):
        hca, subject = node.subject(device)
    else:
        subject = device or BY_CHECK[rule.check].subject
    number = "" if event["number"] is None else " %d" % event["number"]
    return [Sign(rule.check, subject, hca, rule.status, name + number, "%s%s, %s" % (rule.meaning, number, _often(node, event)), rule.todo)]


def _often(node: Node, event: Mapping[str, Any]) -> str:
    times = "once" if event["count"] == 1 else "%d times, last" % event["count"]
    return "%s at %s (kernel: %s)" % (times, node.when(event["last"]), event["text"])


def _xid_signs(node: Node, event: Mapping[str, Any]) -> List[Sign]:
    number, pci = event["number"], event["device"]
    status, todo = judged_xid(number, event["word"], node.recovery.get(pci))
    if status == "pass":
        return []
    name = XIDS[number].name if number in XIDS else "a number that is not in the catalogue"
    text = "%s: Xid %d, %s, %s" % (node.gpus.get(pci, "a GPU that is no longer on the bus"), number, name, _often(node, event))
    return [Sign("gpu.xid", gpu_subject(pci), None, status, "Xid %d" % number, text, todo)]


def _last(events: Sequence[Mapping[str, Any]], name: str) -> Dict[str, float]:
    return {event["device"]: event["last"] for event in events if event["event"] == name}


def _disk_signs(node: Node, events: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """A file system that gave up, and whether somebody mounted it again."""
    again = _last(events, "mounted")
    rule = BY_EVENT["read_only"]
    return [Sign(rule.check, event["device"], None, "warn" if again.get(event["device"], -1.0) > event["last"] else "fail", event["event"],
                 "%s, %s" % (rule.meaning, _often(node, event)), rule.todo) for event in events if event["event"] == "read_only"]


def _nfs_signs(events: Sequence[Mapping[str, Any]]) -> List[Sign]:
    back = _last(events, "nfs_back")
    return [Sign("node.nfs", event["device"], None, "fail", "not responding", "the NFS server %s does not respond" % event["device"])
            for event in events if event["event"] == "nfs_lost" and back.get(event["device"], -1.0) < event["last"]]


def _nic_signs(node: Node, events: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """A NIC's firmware that failed, and whether the driver brought it back."""
    back = _last(events, "nic_back")
    found = []
    for event in (event for event in events if event["event"] == "nic_failed" and event["device"] in node.hcas):
        hca, subject = node.subject(event["device"])
        well = back.get(event["device"], -1.0) >= event["last"]
        text = "the NIC's firmware failed%s, %s" % (" and was brought back" if well else "", _often(node, event))
        found.append(Sign("hca.health", subject, hca, "warn" if well else "fail", "firmware failed", text))
    return found


def _flap_signs(node: Node, events: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """Times that count: not the half hour after boot, nor those of our own applies."""
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


# Counters of the kernel and of the transceivers.


def aer_signs(node: Node) -> List[Sign]:
    found = []
    for row in (node.health.get("aer") or {}).get("counted") or []:
        hca, subject = node.subject(row["pci"])
        corrected = row.get("corrected") or 0
        rows = (("fail", row.get("fatal") or 0, "%d uncorrected fatal PCIe errors since boot"),
                ("warn", row.get("nonfatal") or 0, "%d uncorrected PCIe errors since boot that were not fatal"),
                ("warn", corrected if corrected > CORRECTED_AN_HOUR * max(node.hours, 1) else 0, "%d corrected PCIe errors since boot"))
        found += [Sign("pci.aer", subject, hca, status, str(count), form % count) for status, count, form in rows if count]
    return found


def memory_signs(node: Node) -> List[Sign]:
    found = []
    for row in node.health.get("memory") or []:
        corrected = row.get("corrected") or 0
        rows = (("fail", row.get("uncorrected") or 0, "%d errors of memory that ECC could not correct"),
                ("warn", corrected if corrected > MEMORY_A_DAY * max(node.hours, 24) / 24 else 0, "%d corrected errors of memory"))
        found += [Sign("node.memory", row["controller"], None, status, str(count), form % count) for status, count, form in rows if count]
    return found


def port_signs(node: Node) -> List[Sign]:
    found = []
    ports = node.health.get("ports") or []
    for port in ports:
        like = [other for other in ports if _speed(node, other) == _speed(node, port)]
        hca, subject = port.get("hca"), "%s (%s)" % (port.get("hca"), port.get("netdev"))
        unused, unclear = unused_lanes(port)
        for value in [value for value in _module(port, "values") or [] if value["lane"] not in unused]:
            status, limit = beyond(value, port["module"]["limits"].get(value["kind"]) or {})
            if status:
                status = "unknown" if value["lane"] in unclear else status
                lane = " of lane %d" % value["lane"] if value["lane"] else ""
                found.append(Sign("port.optics", subject, hca, status, "%s %g" % (value["kind"], value["value"]), "%s%s is %g, %s" % (
                    value["kind"].replace("_", " "), lane, value["value"], limit)))
        kind, length = _module(port, "kind"), " and %s long" % _module(port, "length") if _module(port, "length") else ""
        for check, what, own, usual in (
            ("port.fec", "FEC is %s" % port.get("fec"), port.get("fec"), _most([other.get("fec") for other in like])),
            ("port.cable", "cable is of kind %s%s" % (kind, length), kind, _most([_module(other, "kind") for other in like])),
        ):
            if own and usual and own != usual:
                found.append(Sign(check, subject, hca, "warn", own, "its %s, that of most ports of its speed %s" % (what, usual)))
        if lacks_fec(port, _speed(node, port)[0]):
            found.append(Sign("port.fec", subject, hca, "warn", port["fec"], "its lanes are too fast for a link without FEC"))
        if port.get("pause_storms"):
            text = "%d times since it started the NIC paused the switch so long that it gave up pausing" % port["pause_storms"]
            found.append(Sign("qos.storm", subject, hca, "warn", str(port["pause_storms"]), text))
        downs = port.get("carrier_downs") or 0
        expected = 2 * (1 + len(node.health.get("applies") or []))  # a boot and each apply may take a link down, and once more for its peer
        if downs - expected >= FLAPS_A_DAY * max(node.hours, 24) / 24 and node.hours:
            found.append(Sign("port.flaps", subject, hca, "warn", "%d downs" % downs, "its carrier was lost %d times in %d hours" % (
                downs, node.hours)))
    return found


def _module(port: Mapping[str, Any], name: str) -> Any:
    return (port.get("module") or {}).get(name)


def _speed(node: Node, port: Mapping[str, Any]) -> Tuple[Any, Any]:
    """Rate and kind of link: the tools name FEC otherwise for InfiniBand."""
    link = node.links.get((port.get("hca"), port.get("port")), {})
    return link.get("rate_gbps"), link.get("link_layer")


def _bit_errors(node: Node, place: Tuple[Any, Any]) -> Optional[int]:
    """What a port could not correct since its counters began: at the latest with the boot, so that a share of the time since is too low."""
    blocks = [port.get("uncorrectable_blocks") for port in node.health.get("ports") or [] if (port.get("hca"), port.get("port")) == place]
    known = [count for count in blocks + [(node.links[place].get("counters") or {}).get("symbol_error")] if count is not None]
    return max(known) if known else None


def bit_signs(node: Node) -> List[Sign]:
    """Only what a total can prove: over a day at least, as a NIC may keep its counters over a reboot."""
    found, days = [], max(node.hours, 24) / 24.0
    for place, link in node.links.items():
        counters, bits = link.get("counters") or {}, (link.get("rate_gbps") or 0) * 1e9 * days * 24 * HOUR
        beyond_limit = {name: counters[name] for name, most in RECOVERIES.items() if (counters.get(name) or 0) > most * days}
        wrong = _bit_errors(node, place) or 0
        if bits and wrong > BIT_ERRORS * bits:
            beyond_limit["errors that FEC could not correct"] = wrong
        found += [Sign("port.ber", "%s port %s" % place, str(place[0]), "warn", str(count), "%s: %d since boot" % (name, count))
                  for name, count in beyond_limit.items() if link.get("state") == "ACTIVE"]
    return found


def _most(values: Sequence[Optional[str]]) -> Optional[str]:
    """What more than half of those say that say anything."""
    known = [value for value in values if value]
    best = max(known, key=known.count) if known else None
    return best if best is not None and 2 * known.count(best) > len(known) else None


def beyond(value: Mapping[str, Any], limits: Mapping[str, float]) -> Tuple[str, str]:
    """(status, which limit) of a value of a transceiver; no light at all on a port that is up: the module does not measure it."""
    amount = value["value"]
    if value["kind"] in ("rx_power", "tx_power", "tx_bias") and amount == 0:
        return "", ""
    for kind, status in (("alarm", "fail"), ("warning", "warn")):
        high, low = limits.get("high " + kind), limits.get("low " + kind)
        if high is not None and high > (low or 0) and amount > high:
            return status, "above the module's %s limit of %g" % (kind, high)
        if low is not None and (high is None or high > low) and amount < low:
            return status, "below the module's %s limit of %g" % (kind, low)
    return "", ""


def node_signs(node: Node) -> List[Sign]:
    health = node.health
    found = [Sign("node.disk", disk["place"], None, "warn" if disk.get("anybodys") else "fail", disk["state"],
                  "%s is %s" % (disk["place"], disk["state"])) for disk in health.get("disks") or []]
    found += [Sign("node.nfs", point, None, "fail", "no answer", "%s does not answer in 5 s" % point)
              for point in (health.get("mounts") or {}).get("silent") or []]
    processes = health.get("processes") or {}
    found += [Sign("node.stuck", "process %d" % row["pid"], None, "warn", row["waits"], "%s does not come back from the kernel's %s" % (
        row["name"], row["waits"])) for row in processes.get("stuck") or []]
    found += [Sign("gpu.jobless", gpu_subject(row["gpu"]), None, "warn", row["name"], "process %d (%s) of a login holds it, in no job" % (
        row["pid"], row["name"])) for row in processes.get("jobless") or []]
    if health.get("clock") is False:
        found.append(Sign("node.clock", "clock", None, "warn", "not synchronised", "the clock is not synchronised"))
    return found
