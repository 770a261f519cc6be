# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a node's health, from the section ``health`` of its facts alone: no wish is asked. Pure.

What was found is gathered as signs; of all about one thing one verdict is made, the worst first. A check that was looked at and found
nothing passes once for the node.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..catalogue.counters import BY_NAME, COUNTERS, LINK_DOWNED, RESET, full_text, is_full
from ..catalogue.health import BY_CHECK, CHECKS, CORRECTED_AN_HOUR, MEMORY_A_DAY
from ..formats.text import first_of
from ..rules.comparisons import Inspection, VerdictSubject, verdict
from ..types import Verdict
from .health_accelerators import accelerator_signs, accelerators_judged
from .health_gpu import gpu_looked, gpu_signs
from .health_log import log_signs
from .health_node import HOUR, Node, node_of
from .health_optics import lacks_fec, symbol_signs, unused_lanes
from .health_partitions import efa_judged, efa_signs, partition_signs, partitions_judged
from .health_settings import setting_signs, settings_judged
from .signs import Sign, gpu_rows, gpu_subject

ORDER = ("fail", "warn", "unknown", "skipped", "pass")
BIT_ERRORS = 1e-12  # the share of wrong bits after FEC that a link may have: InfiniBand vol. 2; IEEE 802.3
SYMBOLS = "symbol_error"
DOWNS_A_DAY = BY_NAME[LINK_DOWNED].a_day or 0
RECOVERIES = {row.name: row.a_day for row in COUNTERS if row.a_day is not None and row.name != LINK_DOWNED}


def judge_health(seen: Inspection) -> List[Verdict]:
    """Nothing is said of facts that have no such section: a document that somebody kept."""
    health = seen.facts.get("health")
    expected = [rail.value for rail in seen.spec.rails if rail.match == "pci"]
    return health_verdicts(seen.node, seen.facts, health, bool(seen.identity.nvswitches), expected) if isinstance(health, dict) else []


def health_verdicts(
    name: str, facts: Mapping[str, Any], health: Mapping[str, Any], switched: bool, expected: Sequence[str] = ()
) -> List[Verdict]:
    """``switched``: whether the node has NVSwitches; ``expected``: PCI functions that the inventory names."""
    node = node_of(facts, health, expected)
    signs, looked = log_signs(node)
    signs += aer_signs(node) + taint_signs(node) + memory_signs(node) + port_signs(node) + bit_signs(node) + downs_signs(node)
    signs += node_signs(node)
    signs += gpu_signs(facts, health)
    ports, processes = health.get("ports") or [], health.get("processes") or {}
    wrong = [_bit_errors(node, place) for place, link in node.links.items() if link.get("state") == "ACTIVE"]
    looked += [check for check, there in (
        ("pci.aer", _all_read(health.get("aer"), "read") and not _unread(gpu_rows(health), "pcie_replays")),
        ("node.memory", _memory_read(health.get("memory"))),
        ("node.nfs", _all_read(health.get("mounts"), "asked")), ("node.clock", health.get("clock") is not None),
        ("port.optics", any(_module(port, "limits") for port in ports) and not _unread(ports, "module")),
        ("port.fec", len([port for port in ports if port.get("fec")]) > 1 and not _unread(ports, "fec")),
        ("port.cable", len(ports) > 1 and all(_module(port, "kind") for port in ports)),
        ("port.pkey", partitions_judged(facts)), ("port.efa", efa_judged(facts)),
        ("port.ber", wrong and None not in wrong and not _unread(ports, "uncorrectable_blocks") and _errors_read(node)),
        ("qos.storm", any(port.get("pause_storms") is not None for port in ports) and not _unread(ports, "pause_storms")),
        ("node.stuck", processes), ("gpu.jobless", processes.get("schedulers") and node.recovery),
    ) if there and check not in (processes.get("unseen") or [])]
    signs += accelerator_signs(facts) + partition_signs(facts) + efa_signs(facts, node.hours)
    signs += symbol_signs(health.get("ports") or [], BIT_ERRORS)
    signs += setting_signs(health)
    looked += gpu_looked(facts, health) + accelerators_judged(facts) + settings_judged(health)
    return verdicts_of(name, [sign for sign in signs if _own(sign, node)],
                       [check for check in dict.fromkeys(looked) if _concerned(check, node, switched)])


def _all_read(section: Any, what: str) -> bool:
    """Whether there is something, and all of it could be read."""
    return bool((section or {}).get(what)) and not (section or {}).get("unread")


def _memory_read(controllers: Any) -> bool:
    return bool(controllers) and all(row.get(name) is not None for row in controllers for name in ("corrected", "uncorrected"))


def _unread(parts: Sequence[Mapping[str, Any]], what: str) -> bool:
    return any(what in (part.get("unread") or ()) for part in parts)


def _errors_read(node: Node) -> bool:
    """Whether no port has a counter of errors that cannot be read; drivers differ in which they have."""
    return all((link.get("counters") or {}).get(name, 0) is not None
               for link in node.links.values() if link.get("state") == "ACTIVE" for name in (SYMBOLS,) + tuple(RECOVERIES))


def _own(sign: Sign, node: Node) -> bool:
    """In a container the node is the machine below, and so are the GPUs that it does not see."""
    return not node.container or (not sign.check.startswith("node.") and (
        sign.check != "gpu.xid" or not node.recovery or sign.subject in map(gpu_subject, node.recovery)))


def _concerned(check: str, node: Node, switched: bool) -> bool:
    """Of a part that a node has not, nothing is said, and in a container nothing of the machine below."""
    if node.container and check.startswith("node."):
        return False
    parts: Dict[str, Any] = {"gpu.xid": node.gpus, "gpu.peermem": node.gpus, "gpu.sxid": switched, "hca.health": node.hcas,
                             "port.flaps": node.hcas}
    return bool(parts.get(check, True))


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
        # A note about one part leaves the rest to pass.
        if row.check in looked and all(sign.status == "pass" and sign.subject != row.subject for sign in own):
            found.append(verdict(row.check, VerdictSubject(node, None, None, row.subject), "pass", row.what, "nothing", row.what))
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
    for gpu in gpu_rows(node.health):
        replays = gpu.get("pcie_replays") or 0
        if replays > CORRECTED_AN_HOUR * max(node.hours, 1):
            found.append(Sign("pci.aer", gpu_subject(gpu["pci"]), None, "warn", str(replays),
                              "%d packets of PCIe were sent again since the driver was loaded" % replays))
    return found


# Bits of /proc/sys/kernel/tainted that only a fault sets (admin-guide/tainted-kernels.rst). They stay until the next boot, also where the
# log has lost the message or is hidden.
TAINTS = ((4, "node.machine_check", "the processor reported a machine check"), (5, "node.oops", "the kernel met a bad page of memory"),
          (7, "node.oops", "the kernel met a fault of its own (oops)"), (14, "node.hung", "a CPU was stuck in the kernel (soft lockup)"))


def taint_signs(node: Node) -> List[Sign]:
    taint = node.health.get("taint") or 0
    return [Sign(check, BY_CHECK[check].subject, None, "warn", "taint bit %d" % bit, "%s since boot (/proc/sys/kernel/tainted)" % text)
            for bit, check, text in TAINTS if taint >> bit & 1]


def memory_signs(node: Node) -> List[Sign]:
    found = []
    for row in node.health.get("memory") or []:
        corrected = row.get("corrected") or 0
        rows = (("fail", row.get("uncorrected") or 0, "%d errors of memory that ECC could not correct"),
                ("warn", corrected if corrected > MEMORY_A_DAY * max(node.hours, 24) / 24 else 0, "%d corrected errors of memory"))
        where = " (%s)" % first_of(row["dimms"], 4) if row.get("dimms") else ""
        found += [Sign("node.memory", row["controller"], None, status, str(count), form % count + where) for status, count, form in rows
                  if count]
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
        if _too_many_downs(node, downs):
            found.append(Sign("port.flaps", subject, hca, "warn", "%d downs" % downs, "its carrier was lost %d times in %d hours" % (
                downs, node.hours)))
    return found


def _too_many_downs(node: Node, downs: int) -> bool:
    """Return whether a link was down more often since boot than a boot, our own applies and a bad cable's limit a day explain."""
    expected = 2 * (1 + len(node.health.get("applies") or []))  # a boot and each apply may take a link down, and once more for its peer
    return bool(node.hours) and downs - expected >= DOWNS_A_DAY * max(node.hours, 24) / 24


def downs_signs(node: Node) -> List[Sign]:
    """Judge ``link_downed`` of ports whose interface does not count its downs itself: it is older than the boot, and stops at 255."""
    counted = {(port.get("hca"), port.get("port")) for port in node.health.get("ports") or [] if port.get("carrier_downs") is not None}
    found = []
    for place, link in node.links.items():
        downs = (link.get("counters") or {}).get(LINK_DOWNED)
        if downs is None or place in counted or link.get("state") != "ACTIVE":
            continue
        if _too_many_downs(node, downs):
            text = "%s is %d%s, more than %d hours since boot explain: watch whether it grows; %s" % (
                LINK_DOWNED, downs, " (its ceiling)" if is_full(LINK_DOWNED, downs) else "", node.hours, RESET)
            found.append(Sign("port.flaps", "%s port %s" % place, str(place[0]), "warn", "%d downs" % downs, text))
        elif is_full(LINK_DOWNED, downs):
            found.append(Sign("port.flaps", "%s port %s" % place, str(place[0]), "unknown", str(downs), full_text(LINK_DOWNED)))
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
    known = [count for count in blocks + [(node.links[place].get("counters") or {}).get(SYMBOLS)] if count is not None]
    return max(known) if known else None


def bit_signs(node: Node) -> List[Sign]:
    """Judge what a total can prove: over a day at least, as a NIC may keep its counters over a reboot. A full one proves no health."""
    found, days = [], max(node.hours, 24) / 24.0
    for place, link in node.links.items():
        counters, bits = link.get("counters") or {}, (link.get("rate_gbps") or 0) * 1e9 * days * 24 * HOUR
        beyond_limit = {name: counters[name] for name, most in RECOVERIES.items() if (counters.get(name) or 0) > most * days}
        wrong = _bit_errors(node, place) or 0
        if bits and wrong > BIT_ERRORS * bits:
            beyond_limit["errors that FEC could not correct"] = wrong
        full = [name for name in (SYMBOLS,) + tuple(RECOVERIES) if is_full(name, counters.get(name))] if not beyond_limit else []
        rows = [("warn", str(count), "%s: %d since boot" % (name, count)) for name, count in beyond_limit.items()]
        rows += [("unknown", str(counters[name]), full_text(name)) for name in full]
        found += [Sign("port.ber", "%s port %s" % place, str(place[0]), *row) for row in rows if link.get("state") == "ACTIVE"]
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
