# SPDX-License-Identifier: GPL-3.0-or-later
"""What the counters say of a lossless fabric while traffic ran: lost packets, pauses, storms, congestion marks.

The settings of the chain (``qos_chain.py``) are what a host was told; these verdicts are what became of real traffic.
Only growth between two snapshots is judged. A counter that the driver lacks is never a pass: its verdict is unknown, or
its message says what was left out. One that ran backwards was reset or wrapped, and says nothing.

A port that flapped once last year still shows it in its error counters; one that grows while we push traffic is a fault of now.

Sources: the kernel's mlx5/counters.rst; NVIDIA "Understanding mlx5 Linux counters and status parameters";
rxe_resp.c and rxe_comp.c; SONiC's PFC watchdog.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue import counters
from ..errors import RailwrightError
from ..formats import sysfs_values
from ..host.host import Host
from ..observe.traffic_counters import ETHTOOL, Watched, snapshot
from ..rules.comparisons import UNREADABLE, VerdictSubject, decided, verdict
from ..types import Verdict

# Must not grow while traffic runs on a healthy fabric: link and packet integrity, and retransmission.
LINK, SEQUENCE = counters.of_kind(counters.LINK), counters.of_kind(counters.SEQUENCE)
REORDERED = "out_of_sequence"
FAULTS = LINK + SEQUENCE
# Growth means configuration (buffers, PFC, receivers too slow), not a broken link.
SUSPECT = counters.of_kind(counters.SUSPECT)
LOSSLESS, PAUSE, STORM, CNP, ECN = "qos.lossless", "qos.pause", "qos.storm", "qos.cnp", "qos.ecn"
# Soft-RoCE's own names: a gap seen by the receiver, a gap reported to the sender, retries used up. Linux 4.14 and older
# call the first one out_of_sequence.
SOFT_SEQUENCE = ("out_of_seq_request", "out_of_sequence", "rcvd_seq_err", "retry_exceeded_err")
RETRANSMITTED = counters.of_kind(counters.RESENT)
# What a loss makes grow as well. Adaptive routing (NCCL_IB_ADAPTIVE_ROUTING: on by default on InfiniBand) reorders by design, and a
# receiver that puts packets in order asks for none again: NCCL's guide names rnr_nak_retry_err and the first three, no out_of_sequence.
# The sender's packet_seq_err grows on the other node, where its own verdict fails.
RESENT = tuple(name for name in SEQUENCE if name != REORDERED) + RETRANSMITTED
CONGESTION = MARKED, CNP_SENT, CNP_HANDLED, CNP_IGNORED = counters.of_kind(counters.CONGESTION)
MOVED = counters.of_kind(counters.MOVED)  # whether anything ran at all
REPORTED = ("duplicate_request", "roce_slow_restart", "rnr_nak_retry_err", "out_of_buffer", "rx_icrc_encapsulated")  # what to inspect next
NAMES = tuple(sorted(set(SOFT_SEQUENCE + SEQUENCE + RETRANSMITTED + CONGESTION + MOVED + REPORTED)))
# What a counter of lost packets means, from this node; the rest is said by its name.
MEANING = {
    REORDERED: "packets from %s are missing or out of order",
    "out_of_seq_request": "packets from %s are missing or out of order",
    "packet_seq_err": "%s missed packets of this node",
    "rcvd_seq_err": "%s missed packets of this node",
    "local_ack_timeout_err": "%s did not acknowledge in time",
    "retry_exceeded_err": "%s did not answer at all",
}
DISCARDS = ("rx_prio%d_discards", "rx_prio%d_buf_discard", "rx_prio%d_cong_discard")
DISCARDED = "rx_discards_phy"  # the sum over all priorities
STORM_ERROR, STORM_WARNING = "tx_pause_storm_error_events", "tx_pause_storm_warning_events"
STORM_MS = 200
STORM_SOURCE = "SONiC's PFC watchdog calls a queue paused for 200 ms a storm and drops its packets (DEFAULT_DETECTION_TIME of pfcwd)"
PAUSED_SHARE = 0.1  # choice: more is lost to pauses than the 4 % that AZ and OCI allow a healthy rail (96 of 100 Gb/s)
GLOBAL = "global"  # a pause of all priorities together (802.3x), in place of PFC


class Growth(NamedTuple):
    """Counters of one place between two snapshots. ``by``: those that were read both times, without ``backwards`` and ``full``.

    ``full``: at their ceiling all the time, so that growth cannot be seen.
    """

    by: Dict[str, int]
    backwards: Tuple[str, ...]
    full: Tuple[str, ...] = ()


def growth(before: Any, after: Any) -> Growth:
    by: Dict[str, int] = {}
    backwards: List[str] = []
    full: List[str] = []
    old_values, new_values = (values if isinstance(values, dict) else {} for values in (before, after))
    for name, old in sorted(old_values.items()):
        new = new_values.get(name)
        if not _count(old) or not _count(new):
            continue
        if new < old:
            backwards.append(name)
        elif counters.is_full(name, old):
            full.append(name)
        else:
            by[name] = new - old
    return Growth(by, tuple(backwards), tuple(full))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def judge_deltas(
    where: VerdictSubject, before: Mapping[str, Any], after: Mapping[str, Any], faults: Tuple[str, ...] = FAULTS
) -> List[Verdict]:
    """One verdict for the faults and one for the suspects of a port.

    A counter that the driver does not have is not in ``before``; one that it has and will not tell is None there.
    ``faults``: without ``SEQUENCE`` where ``qos.lossless`` judges lost packets, since one fault is one verdict.
    """
    verdicts = []
    found = growth(before, after)
    for check, names, status in (("port.errors", faults, "fail"), ("port.discards", SUSPECT, "warn")):
        grown = [(name, found.by[name]) for name in names if found.by.get(name)]
        readable = [name for name in names if name in found.by]
        backwards = _backwards([name for name in names if name in found.backwards])
        text, why = _grown(grown), _only_reordered(grown, found)
        full = [name for name in names if name in found.full]
        left = [name for name in names if name in before and name not in readable and name not in full]
        message = "read %d, none grew%s" % (len(readable), "; could not be read: " + _list(left) if left else "")
        verdicts.append(decided(
            check, where,
            (not any(name in before for name in names), "skipped", None, None, "the driver has none of these counters"),
            (not readable and not backwards and not full, "unknown", "no growth", None, UNREADABLE % "no error counter of the port"),
            (grown, status if why is None else "warn", "no growth", text,
             "grew during the test: %s%s%s" % (text, "; " + why if why is not None else "", backwards)),
            (backwards, "unknown", "no growth", None, backwards.lstrip("; ")),
            (full, "unknown", "no growth", None, "%s; of the others %d were read, none grew" % (
                "; ".join(map(counters.full_text, full)), len(readable))),
            (_still(found), "unknown", "no growth", None, "no packet went over the port: " + message),
            (True, "pass", "no growth", "no growth", message)))
    return verdicts


def _only_reordered(grown: Sequence[Tuple[str, int]], found: Growth) -> Optional[str]:
    """Why this growth is no loss yet: packets came in another order, and none was sent again. None where it is one."""
    if [name for name, _many in grown] != [REORDERED] or any(found.by.get(name) for name in RESENT):
        return None
    unread = [name for name in RESENT[:2] if name not in found.by]
    known = "of what grows with a loss, %s could not be read" % _list(unread) if unread else "none was sent again from here"
    return "adaptive routing reorders by design; %s: inspect packet_seq_err of the peer" % known


class Traffic(NamedTuple):
    """One port between two snapshots: all that is judged and reported."""

    seconds: float
    hca: Growth
    interfaces: Dict[str, Growth]
    missing: Dict[str, Dict[str, str]]  # by interface: what could not be asked, and why


def traffic(before: Mapping[str, Any], after: Mapping[str, Any]) -> Traffic:
    """``before`` was kept in a file meanwhile and may have any form; ``after`` has just been read."""
    old = before.get("interfaces")
    old = old if isinstance(old, dict) else {}
    started = before.get("at")
    seconds = after["at"] - started if isinstance(started, (int, float)) and not isinstance(started, bool) else 0.0
    interfaces = {name: growth((old.get(name) or {}).get("counters"), now["counters"]) for name, now in after["interfaces"].items()}
    return Traffic(max(0.0, seconds), growth(before.get("hca"), after["hca"]), interfaces,
                   {name: now["missing"] for name, now in after["interfaces"].items()})


def judge_traffic(where: VerdictSubject, port: Watched, peer: str, lossless: Sequence[int], found: Traffic) -> List[Verdict]:
    """``lossless``: the priorities that the site's profile pauses instead of dropping."""
    verdicts = [_lossless(where, port, peer, lossless, found)]
    if port.soft:
        why = "%s has no priorities and no ECN: the kernel sends its packets like any others" % port.driver
        return verdicts + [verdict(check, where, "skipped", None, None, why) for check in (PAUSE, STORM, CNP, ECN)]
    for netdev, grown in sorted(found.interfaces.items()):
        subject = where if len(found.interfaces) == 1 else where._replace(subject="%s, member %s" % (where.subject, netdev))
        missing = "; ".join(found.missing.get(netdev, {}).values())
        verdicts += [_pause(subject, lossless, grown, missing), _storm(subject, lossless, grown, missing, found.seconds)]
    return verdicts + [_cnp(where, found.hca), _ecn(where, found.hca)]


def _lossless(where: VerdictSubject, port: Watched, peer: str, lossless: Sequence[int], found: Traffic) -> Verdict:
    """No packet of the lossless priority was lost, here or on the way."""
    names = SOFT_SEQUENCE if port.soft else SEQUENCE + RETRANSMITTED
    hca = found.hca
    lost = [(name, hca.by[name]) for name in names if hca.by.get(name)]
    why = [MEANING[name] % peer for name, _many in lost if name in MEANING]
    backwards = [name for name in hca.backwards if name in names]
    unclear: List[Tuple[str, int]] = []
    left: List[str] = []
    for netdev, grown in sorted(found.interfaces.items()):
        own = [form % priority for priority in lossless for form in DISCARDS]
        dropped = [("%s of %s" % (name, netdev), grown.by[name]) for name in own if grown.by.get(name)]
        lost += dropped
        why += ["%s had no buffer for what came" % netdev] if dropped else []
        backwards += [name for name in own if name in grown.backwards]
        if not any(name in grown.by for name in own):
            left.append(found.missing.get(netdev, {}).get(ETHTOOL, "%s counts no discards of a priority" % netdev))
            if grown.by.get(DISCARDED):
                unclear.append(("%s of %s" % (DISCARDED, netdev), grown.by[DISCARDED]))
    expected = "no packet lost" if port.soft else "no packet lost on priority %s" % _list(lossless)
    if lost:  # Soft-RoCE rides a network that may drop: slower, but nobody promised otherwise.
        message = "%s: grew while traffic ran" % "; ".join(dict.fromkeys(why)) if why else "retransmissions grew while traffic ran"
        order = None if port.soft or unclear else _only_reordered(lost, hca)
        message += ("; " + order if order is not None else "") + _backwards(backwards)
        return verdict(LOSSLESS, where, "warn" if port.soft or order is not None else "fail", expected, _grown(lost + unclear), message)
    judged = [name for name in names if name in hca.by]
    message = "read %d counters of lost packets, none grew in %.0f s" % (len(judged), found.seconds)
    return decided(
        LOSSLESS, where,
        (unclear, "warn", expected, _grown(unclear), "packets were dropped, and nothing tells on which priority"),
        (backwards, "unknown", expected, None, _backwards(backwards).lstrip("; ")),
        (not judged, "unknown", expected, None, "the driver has no counter of lost packets that can be read"),
        (_still(hca), "unknown", expected, None, "no packet went over the port: there was nothing to lose"),
        (True, "pass", expected, "none lost", message + ("; left out: " + "; ".join(left) if left else "")))


def _still(hca: Growth) -> bool:
    """Packets are counted, and none was."""
    return any(name in hca.by for name in MOVED) and not any(hca.by.get(name) for name in MOVED)


def _pause(where: VerdictSubject, lossless: Sequence[int], grown: Growth, missing: str) -> Verdict:
    """Pauses belong on the lossless priorities, where they are how nothing gets lost; anywhere else they stop what may be dropped."""
    own = [str(priority) for priority in lossless]
    places = [str(priority) for priority in range(8)] + [GLOBAL]
    pauses = {place: (grown.by.get(_pauses("rx", place)), grown.by.get(_pauses("tx", place))) for place in places}
    expected = "pauses on priority %s only" % _list(lossless)
    shown = [place for place in places if any(pauses[place]) or (place in own and pauses[place] != (None, None))]
    text = "; ".join("%s received %s, sent %s" % (_place(place), _figure(pauses[place][0]), _figure(pauses[place][1])) for place in shown)
    sent = [_place(place) for place in places if place not in own and pauses[place][1]]
    received = [_place(place) for place in places if place not in own and pauses[place][0]]
    backwards = _backwards([name for name in grown.backwards if name.endswith("_pause")])
    dark = [place for place in own if None in pauses[place]]
    return decided(
        PAUSE, where,
        (sent, "fail", expected, text, "this NIC pauses %s, which the profile lets drop%s" % (", ".join(sent), backwards)),
        (received, "warn", expected, text, "the switch (or the peer) pauses %s, which the profile lets drop%s" % (
            ", ".join(received), backwards)),
        (backwards, "unknown", expected, None, backwards.lstrip("; ")),
        (dark, "unknown", expected, text or None, "no counter of pauses on priority %s (%s)" % (
            ", ".join(dark), missing or "mlx5 counts pauses only where PFC is on")),
        (True, "pass", expected, text, "pauses on the lossless priority are how nothing gets lost"))


def _storm(where: VerdictSubject, lossless: Sequence[int], grown: Growth, missing: str, seconds: float) -> Verdict:
    """A pause that does not end takes the whole fabric with it, hop by hop."""
    expected = "no pause of %d ms" % STORM_MS
    if grown.by.get(STORM_ERROR):
        return verdict(STORM, where, "fail", expected, _grown([(STORM_ERROR, grown.by[STORM_ERROR])]),
                       "the NIC paused the switch so long that it gave up pausing: packets may have been dropped")
    worst: List[Tuple[float, str]] = []
    for place in [str(priority) for priority in range(8)] + [GLOBAL]:
        for way, word in (("rx", "received"), ("tx", "sent")):
            paused = grown.by.get("%s_duration" % _pauses(way, place))
            if paused is None:
                continue
            worst.append((paused / 1e6 / seconds if seconds > 0 else 0.0, "%s %s" % (_place(place), word)))
            ends = grown.by.get("%s_transition" % _pauses(way, place))
            # n ends split the paused time into at most n + 1 pauses, so that the longest of them is no shorter than this.
            if ends is not None and paused / 1000.0 / (ends + 1) >= STORM_MS:
                text = "%s: %.0f ms in at most %d pauses" % (worst[-1][1], paused / 1000.0, ends + 1)
                return verdict(STORM, where, "fail", expected, text, "one pause was %.0f ms or longer; %s" % (
                    paused / 1000.0 / (ends + 1), STORM_SOURCE))
    share, place = max(worst) if worst else (0.0, "")
    backwards = _backwards([name for name in grown.backwards if "pause_" in name]).lstrip("; ")
    dark = [str(priority) for priority in lossless if "rx_prio%d_pause_duration" % priority not in grown.by]
    left = "" if STORM_ERROR in grown.by else "; left out: the driver has no counter of storms"
    return decided(
        STORM, where,
        (grown.by.get(STORM_WARNING), "warn", expected, _grown([(STORM_WARNING, grown.by.get(STORM_WARNING, 0))]),
         "the NIC paused the switch for long: it does not take in what comes (PCIe, memory, page faults)"),
        (share >= PAUSED_SHARE, "warn", "paused below %.0f %% of the time" % (100 * PAUSED_SHARE), "%s %.1f %%" % (place, 100 * share),
         "paused for %.1f %% of %.0f s" % (100 * share, seconds)),
        (backwards, "unknown", expected, None, backwards),
        (dark, "unknown", expected, None, "no duration of pauses on priority %s (%s)" % (
            ", ".join(dark), missing or "mlx5 counts them only where PFC is on")),
        (seconds <= 0, "unknown", expected, None, "the time between the snapshots is not known"),
        (True, "pass", expected, "paused %.2f %% of the time at most" % (100 * share), "over %.0f s%s" % (seconds, left)))


def _cnp(where: VerdictSubject, hca: Growth) -> Verdict:
    """Marks are answered with CNPs, and CNPs are heeded: either end alone leaves congestion to PFC."""
    expected = "every mark answered, every CNP heeded"
    marked, sent, handled, ignored = (hca.by.get(name) for name in CONGESTION)
    text = "%s marked, %s CNPs sent, %s handled, %s ignored" % tuple(_figure(hca.by.get(name)) for name in CONGESTION)
    backwards = _backwards([name for name in hca.backwards if name in CONGESTION])
    dark = [name for name in CONGESTION if name not in hca.by]
    return decided(
        CNP, where,
        (ignored, "fail", expected, text, "CNPs came and were ignored: ECN is off on this NIC as reaction point (roce_rp)" + backwards),
        (marked and sent == 0, "fail", expected, text,
         "packets came marked and no CNP was sent: ECN is off on this NIC as notification point (roce_np)" + backwards),
        (backwards, "unknown", expected, None, backwards.lstrip("; ")),
        # Broadcom's driver does not count what it ignores.
        (marked == 0 and handled == 0, "skipped", None, text, "nothing was marked while traffic ran: no congestion to answer"),
        (dark, "unknown", expected, None, "the driver does not tell %s" % ", ".join(dark)),
        (True, "pass", expected, text, "marks and CNPs were answered"))


def _ecn(where: VerdictSubject, hca: Growth) -> Verdict:
    """A figure only: a mark is congestion, no fault."""
    if MARKED not in hca.by:
        why = _backwards([MARKED]).lstrip("; ") if MARKED in hca.backwards else "the driver has no counter of marked packets"
        return verdict(ECN, where, "unknown", "a count", None, why)
    return verdict(ECN, where, "skipped", None, "%d marked packets" % hca.by[MARKED], "reported only: a mark is congestion, no fault")


def figures(port: Watched, peer: str, found: Traffic) -> Dict[str, Any]:
    """The growth of one port for the report, by the counters' own names."""
    return {
        "rail": port.rail, "hca": port.hca, "port": port.port, "peer": peer, "seconds": round(found.seconds, 1),
        "counters": {name: many for name, many in found.hca.by.items() if name in NAMES},
        "interfaces": {netdev: dict(grown.by) for netdev, grown in found.interfaces.items()},
        "backwards": sorted(set(found.hca.backwards).union(*(grown.backwards for grown in found.interfaces.values()))),
    }


def _pauses(way: str, place: str) -> str:
    return "%s_%s_pause" % (way, place if place == GLOBAL else "prio" + place)


def _place(place: str) -> str:
    return "all priorities (global pause)" if place == GLOBAL else "priority %s" % place


def _figure(value: Optional[int]) -> str:
    return "?" if value is None else str(value)


def _grown(items: Sequence[Tuple[str, int]]) -> str:
    return ", ".join("%s +%d" % item for item in items)


def _backwards(names: Sequence[str]) -> str:
    return "; ran backwards (reset, or wrapped), so nothing can be said: %s" % ", ".join(names) if names else ""


def _list(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


# Kept in a file of root's before the traffic, and judged by how they grew.

COUNTERS = tuple(dict.fromkeys(FAULTS + SUSPECT + NAMES))


def watched(ports: Sequence[Mapping[str, Any]]) -> List[Watched]:
    """As the controller names them."""
    return [Watched(**dict(port, netdevs=tuple(port["netdevs"]))) for port in ports]


def check_port(port: Watched) -> None:
    """Names become paths and words of a command line here."""
    for name in (port.hca,) + port.netdevs:
        if not sysfs_values.is_name(name):
            raise RailwrightError("%r is no name of an RDMA device or of its interface" % name)


def counters_before(host: Host, ports: Sequence[Watched]) -> Dict[str, Any]:
    for port in ports:
        check_port(port)
    return {_key(port): snapshot(host, port, COUNTERS) for port in ports}


def judge_growth(
    host: Host, node: str, peer: str, ports: Sequence[Watched], baseline: Mapping[str, Any], lossless: Sequence[int], why_not: Optional[str]
) -> Tuple[List[Verdict], List[Dict[str, Any]]]:
    """``baseline``: what was taken before, kept in a file and of any form; ``lossless``: the priorities of the site's QoS profile;
    ``why_not``: why there is nothing to hold the traffic against."""
    verdicts: List[Verdict] = []
    grown: List[Dict[str, Any]] = []
    for port in ports:
        check_port(port)
        before = baseline.get(_key(port))
        where = VerdictSubject(node, port.hca, port.port, "%s with %s" % (port.rail, peer))
        if not isinstance(before, dict) or not isinstance(before.get("hca"), dict):
            verdicts.append(verdict("port.errors", where, "unknown", "no growth", None, "its counters were not read before the traffic"))
            continue
        after = snapshot(host, port, COUNTERS)
        verdicts.extend(judge_deltas(where, before["hca"], after["hca"], FAULTS if why_not is not None else LINK))
        found = traffic(before, after)
        grown.append(figures(port, peer, found))
        verdicts += judge_traffic(where, port, peer, lossless, found) if why_not is None else [
            verdict(LOSSLESS, where, "skipped", None, None, why_not)]
    return verdicts, grown


def _key(port: Watched) -> str:
    return "%s/%d" % (port.hca, port.port)
