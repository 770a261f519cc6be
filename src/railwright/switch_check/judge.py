# SPDX-License-Identifier: GPL-3.0-or-later
"""The lossless chain through one switch port, hop by hop as a packet goes: where it breaks first, and the line that puts it right. Pure.

Hops, in this order: the link corrects its bit errors (fec), the frame fits (mtu), the DSCP counts (trust), it reaches its class (class),
the class its priority group (group), the group has headroom (headroom) and is paused before it overflows (pfc); on the way out
the class has its queue (queue), a received pause stops that queue and no other (pause), it marks (ecn), it has its share (schedule); CNP
goes before all (cnp); a pause that never ends is ended (watchdog). Source: the QoS profile
(docs/reference/profiles.md); IEEE 802.1Qbb, RFC 3168. FEC: IEEE 802.3bs-2017, clause 119 (RS(544,514) is a part of each PHY of 200 and
400 Gb/s), 802.3cd-2018 and 802.3ck-2022 (lanes of 50 and 100 Gb/s).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import MAX_LOSSLESS
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import usual
from railwright.switch_check.model import FIRE_CODE, NO_FEC, Marking, Port, Schedule, fec_name
from railwright.switch_hints.model import CLASSES, Chain

LANE = 50_000  # Mb/s of a lane from which on FEC is no choice
WHOLE = 200_000  # Mb/s of a port from which on it is none, whatever the lanes
NEAR = 2  # percent points by which a share may differ: weights are whole numbers


class Hop(NamedTuple):
    """``wanted``: what the platform's line for this hop is filled in with. ``inventory``: what to set there, where the switch is right."""

    hop: str
    status: str  # pass, fail, warn, unknown
    expected: str
    found: str
    wanted: str = ""
    inventory: str = ""


def judged(port: Port, chain: Chain, mtu: int, unset_fec: str | None) -> list[Hop]:
    """All hops. ``mtu``: the hosts' largest, in bytes of IP. ``unset_fec``: what the platform does with a port whose FEC is not set."""
    return [_fec(port, unset_fec), *_way_in(port, chain, mtu), *_way_out(port, chain), _cnp(port, chain), _watchdog(port, chain)]


def first_break(hops: list[Hop]) -> Hop | None:
    return next((hop for hop in hops if hop.status == "fail"), None)


def _hop(hop: str, expected: object, found: object, *, good: bool, wanted: object = "") -> Hop:
    """``found`` None is unknown."""
    status = "unknown" if found is None else "pass" if good else "fail"
    return Hop(hop, status, str(expected), "not in this export" if found is None else str(found), str(wanted))


def _fec(port: Port, unset: str | None) -> Hop:
    """Without its FEC a link of fast lanes drops packets, or does not come up."""
    needed = _needs_fec(port)
    if needed is False:
        return Hop("fec", "pass", "any", port.fec or unset or "not set")
    rate = "" if port.speed is None else f", {port.speed / 1000:g} Gb/s{f' on {port.lanes} lanes' if port.lanes else ''}"
    expected = "Reed-Solomon"
    if port.fec is None:
        return Hop("fec", "pass", expected, f"not set: {unset}{rate}") if unset else _hop("fec", expected, None, good=False)
    name = fec_name(port.fec)
    if name not in (NO_FEC, FIRE_CODE):
        return Hop("fec", "unknown" if name is None and port.fec.lower() != "auto" else "pass", expected, f"{port.fec}{rate}")
    if needed is None or port.autoneg:
        why = "; the link negotiates it" if port.autoneg else "; its speed or its lanes are not in this export"
        return Hop("fec", "unknown", expected, f"{port.fec}{rate}{why}")
    return Hop("fec", "fail", expected, f"{port.fec}{rate}")


def _needs_fec(port: Port) -> bool | None:
    if port.speed is None:
        return None
    if port.speed >= WHOLE or port.speed < LANE:
        return port.speed >= WHOLE
    return port.speed / port.lanes >= LANE if port.lanes else None


def _way_in(port: Port, chain: Chain, mtu: int) -> Iterator[Hop]:
    yield _hop("mtu", f"at least {mtu}", port.mtu, good=port.mtu is not None and port.mtu >= mtu, wanted=mtu)
    trust = port.trusts_dscp
    yield _hop("trust", "DSCP", None if trust is None else "DSCP" if trust else "not the DSCP", good=bool(trust))
    tc = None if port.classes is None else port.classes.get(chain.dscp)
    yield _hop("class", f"DSCP {chain.dscp} in class {chain.priority}", _of(port.classes, chain.dscp, "in class"),
               good=tc == chain.priority, wanted=f'"{chain.dscp}": "{chain.priority}"')
    group = None if port.groups is None else port.groups.get(chain.priority)
    yield _hop("group", f"class {chain.priority} in group {chain.priority}", _of(port.groups, chain.priority, "in group"),
               good=group == chain.priority, wanted=f'"{chain.priority}": "{chain.priority}"')
    lossy = [number for number in chain.lossless if number in port.lossy]
    missing = [number for number in chain.lossless if port.headroom is not None and number not in port.headroom]
    headroom = f"{_list(lossy)} in a lossy pool" if lossy else None if port.headroom is None else _list(port.headroom)
    yield _hop("headroom", _list(chain.lossless), headroom, good=not missing and not lossy, wanted=_list(missing or lossy))
    yield _pfc(port, chain)


def _pfc(port: Port, chain: Chain) -> Hop:
    """PFC on a priority of another service is that service's: storage on the same fabric, and SONiC's own samples, which have 3 and 4."""
    paused = None if port.paused is None else set(port.paused)
    more, less = (paused or set()) - set(chain.lossless), set(chain.lossless) - (paused or set())
    harmful = {number for number in more if number not in CLASSES or number == chain.cnp_priority}
    wanted = f"{min(less)} on" if less else f"{min(harmful or more)} off" if more else ""
    hop = _hop("pfc", f"on {_list(chain.lossless)} alone", None if paused is None else f"on {_list(paused)}", good=not more and not less,
               wanted=wanted)
    if less or harmful or not more or len(paused or ()) > MAX_LOSSLESS:
        return hop
    return hop._replace(status="warn", inventory=_profile_of(chain, sorted(paused or ())))


def _profile_of(chain: Chain, lossless: Collection[int]) -> str:
    """The inventory's lines that make the profile agree with a switch that pauses more priorities."""
    own = "" if chain.own_share else f"tc: {chain.tc}, priority: {chain.priority}, "
    end = "" if chain.own_share else f", cnp_dscp: {chain.cnp_dscp}, cnp_priority: {chain.cnp_priority}"
    return f"if another service has it: rdma_qos_profile: custom, rdma_qos_custom: {{{own}lossless: [{_list(lossless)}]{end}}}"


def _way_out(port: Port, chain: Chain) -> Iterator[Hop]:
    queue = None if port.queues is None else port.queues.get(chain.priority)
    beside = [tc for tc, own in (port.queues or {}).items() if own == queue and tc not in chain.lossless]
    target = chain.priority if queue is None else queue  # the queue that the lines of the hops before this one lead to
    seen = _of(port.queues, chain.priority, "in queue")
    told = f"{seen}, as class {_list(beside)}" if queue is not None and beside else seen
    yield _hop("queue", f"class {chain.priority} in a queue without lossy classes", told, good=queue is not None and not beside,
               wanted=f'"{chain.priority}": "{chain.priority}"')
    stopped = None if port.pauses is None else port.pauses.get(chain.priority)
    pauses = None if port.queues is None and stopped is not None else _of(port.pauses, chain.priority, "stops queue")
    yield _hop("pause", f"priority {chain.priority} stops queue {target}", pauses,
               good=stopped is not None and stopped == queue, wanted=f'"{chain.priority}": "{target}"')
    mark = None if port.marking is None or queue is None else port.marking.get(queue)
    marks = mark is not None and mark.ecn and (mark.low is None or mark.high is None or 0 < mark.low <= mark.high)
    marked = None if port.marking is None or port.queues is None else _marks(mark)
    yield _hop("ecn", f"queue {target} marks", marked, good=marks, wanted=target)
    own = None if port.schedule is None or queue is None else port.schedule.get(queue)
    found = None if port.schedule is None or port.queues is None else "no schedule" if own is None else _scheduled(own)
    share = None if queue is None else _share(port, queue)
    good = own is not None and not own.strict and (not chain.own_share or share is None or abs(share - chain.share) <= NEAR)
    expected = f"queue {target} has {chain.share} %" if chain.own_share else f"queue {target} is not strict"
    yield _hop("schedule", expected, found if share is None or found is None else f"{found}, {share} %", good=good, wanted=target)


def _cnp(port: Port, chain: Chain) -> Hop:
    """Which class it is, is the switch's own affair: NX-OS has one queue alone that can be strict. A queue that waits its turn is a
    warning: SONiC's own template has one (sonic-buildimage, qos_config.j2), and a late CNP costs throughput, not packets.
    """
    expected = f"DSCP {chain.cnp_dscp} in a lossy class with a strict queue"
    if port.classes is None or port.queues is None or port.schedule is None:
        return _hop("cnp", expected, None, good=False)
    tc = port.classes.get(chain.cnp_dscp)
    queue = None if tc is None else port.queues.get(tc)
    own = None if queue is None else port.schedule.get(queue)
    strict = own is not None and own.strict
    places = ["none" if number is None else str(number) for number in (tc, queue)]
    found = f"DSCP {chain.cnp_dscp} in class {places[0]}, queue {places[1]}, {'strict' if strict else 'not strict'}"
    wanted = f"DSCP {chain.cnp_dscp} to class {chain.cnp_priority}, and the queue of that class strict"
    hop = _hop("cnp", expected, found, good=strict and tc not in chain.lossless, wanted=wanted)
    apart = queue is not None and tc not in (*chain.lossless, 0, port.classes.get(0)) and queue not in _queues_of(port, chain)
    return hop._replace(status="warn") if hop.status == "fail" and apart else hop


def _queues_of(port: Port, chain: Chain) -> set[int | None]:
    """The queues of the lossless classes and of best effort."""
    return {(port.queues or {}).get(tc) for tc in (*chain.lossless, 0, (port.classes or {}).get(0, 0))}


def _scheduled(own: Schedule) -> str:
    return "strict" if own.strict else "no weight" if own.weight is None else f"weight {own.weight}"


def _watchdog(port: Port, chain: Chain) -> Hop:
    found = None if port.watched is None else f"on {_list(port.watched)}"
    hop = _hop("watchdog", f"on {_list(chain.lossless)}", found, good=port.watched is not None and set(chain.lossless) <= port.watched,
               wanted=_list(chain.lossless))
    return hop._replace(status="warn") if hop.status == "fail" else hop  # RoCE works without: a storm then stops more than one port


def _of(found: Mapping[int, int] | None, key: int, word: str) -> str | None:
    if found is None:
        return None
    return f"{key} {word} {found[key]}" if key in found else f"{key} {word} none"


def _list(numbers: Collection[int]) -> str:
    return ",".join(map(str, sorted(numbers))) or "none"


def _marks(mark: Marking | None) -> str:
    if mark is None or not mark.ecn:
        return "does not mark"
    return "marks" if mark.low is None or mark.high is None else f"marks from {mark.low} to {mark.high} bytes"


def _share(port: Port, queue: int) -> int | None:
    """Percent of the weights of the queues that are not strict."""
    rows = {number: row.weight for number, row in (port.schedule or {}).items() if not row.strict}
    total, own = sum(weight for weight in rows.values() if weight), rows.get(queue)
    return None if not own or any(weight is None or weight <= 0 for weight in rows.values()) else round(100 * own / total)


class Odd(NamedTuple):
    """Ports of a switch on which a hop is otherwise than on most."""

    switch: str
    ports: list[str]
    hop: str
    found: str
    usual: str
    like: int  # ports that have the usual
    total: int


def unlike(switches: Mapping[str, Mapping[str, Sequence[Hop]]]) -> list[Odd]:
    """What holds and is not as on most ports of all switches. ``switches``: the hops of each port of each."""
    every = grouped((hop.hop, (switch, port, hop)) for switch, ports in switches.items() for port, hops in ports.items() for hop in hops
                    if hop.status != "unknown")  # fmt: skip
    odd: dict[tuple[str, str, str], Odd] = {}
    for name, rows in every.items():
        most = usual([hop.found for _switch, _port, hop in rows])
        if most is None:
            continue
        for switch, port, hop in rows:
            if hop.found != most[0] and hop.status == "pass":  # what fails is said already
                odd.setdefault((switch, name, hop.found), Odd(switch, [], name, hop.found, *most, len(rows))).ports.append(port)
    return list(odd.values())
