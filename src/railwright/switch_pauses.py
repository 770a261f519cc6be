# SPDX-License-Identifier: GPL-3.0-or-later
"""Who pauses whom, and where the congestion begins: what ports and rails counted, over the cables between them. Pure.

A pause goes against the traffic (IEEE 802.1Qbb): the congestion begins at whoever pauses and is not paused. A host forwards nothing: one
that pauses its switch is slow itself. Formats: sonic-db-dump of sonic-py-swsssdk with SAI's saiport.h, and SONiC's ECN and WRED
statistics HLD; ANTA's VerifyInterfacesPFCCounters (EOS); Nexus 9000 QoS guide, Configuring Priority Flow Control.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, mapping, read_json, whole
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import End, Plan, same_port, same_switch
from railwright.switch_check.model import LIMIT, Unusable, bounded
from railwright.switch_check.sonic import dumped


class Counters(NamedTuple):
    """Frames of a port. ``pauses_in``: its peer pauses it. ``marks``: ECN, as they leave. None: not read."""

    pauses_in: int | None = None
    pauses_out: int | None = None
    drops_in: int | None = None
    drops_out: int | None = None
    marks: int | None = None


Ports = Mapping[str, Counters]
SAI = ("PFC_{}_RX_PKTS", "PFC_{}_TX_PKTS", "IF_IN_DISCARDS", "IF_OUT_DISCARDS", "ECN_MARKED_PACKETS")
QUEUE = "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"  # its number is the priority's, as the hints map it; of a port SONiC polls no marks yet


def _sonic(text: str, priority: int) -> dict[str, list[Any]]:
    tables = dumped(text)
    rows = {name: tables.get(f"COUNTERS:{oid}", {}) for name, oid in bounded(tables.get("COUNTERS_PORT_NAME_MAP", {})).items()}
    found = {name: [row.get(f"SAI_PORT_STAT_{field.format(priority)}") for field in SAI] for name, row in rows.items()}
    for name, row in found.items():
        queue = tables.get(f"COUNTERS:{tables.get('COUNTERS_QUEUE_NAME_MAP', {}).get(f'{name}:{priority}')}", {})
        row[-1] = row[-1] if whole(queue.get(QUEUE), 0) is None else queue[QUEUE]
    return found


def _eos(text: str, _priority: int) -> dict[str, list[Any]]:
    rows = mapping(mapping(read_json(text, LIMIT)).get("interfaceCounters"))
    return {name: [mapping(row).get(way) for way in ("rxFrames", "txFrames")] for name, row in rows.items()}


def _nxos(text: str, _priority: int) -> dict[str, list[Any]]:
    """``Ethernet1/2 Auto On  (9) 4088353 1890``: port, mode, state, classes, in, out. Half a number is one too: a line has its end."""
    lines = [line.split() for line in lines_in(text)] if "RxPPP" in text and text.endswith("\n") else []
    return {words[0]: list(words[-2:]) for words in lines if len(words) > 4 and words[1].lower() in ("auto", "on", "off")}


READERS: dict[str, tuple[str, Callable[[str, int], dict[str, list[Any]]]]] = {
    "sonic": ("what `sonic-db-dump -n COUNTERS_DB -y` prints", _sonic),
    "eos": ("what `show priority-flow-control counters | json` prints", _eos),
    "nxos": ("what `show interface priority-flow-control` prints", _nxos),
}


def read(os: str, text: str, priority: int, file: str) -> Ports:
    """By port. Raises Unusable, which names the file."""
    kind, reader = READERS[os]
    try:
        found = bounded(reader(text, priority))
    except (Unusable, UnreadableText) as error:
        raise Unusable(f"{file}: is not {kind}: {error}") from error
    if not found:
        raise Unusable(f"{file}: is not {kind}: it has no port")
    return {name: Counters(*(whole(value, 0) for value in row)) for name, row in found.items()}


def grown(before: Ports, after: Ports) -> tuple[dict[str, Counters], dict[str, str]]:
    """What each port counted in between; and why of some nobody knows. After a reset none of a port's counters says anything."""
    found = {port: Counters() for port in {**before, **after}}
    unknown = {port: f"only in the {('later', 'earlier')[port in before]} export" for port in found if (port in before) != (port in after)}
    for port in (port for port in found if port not in unknown):
        row = [None if a is None or b is None else b - a for a, b in zip(before[port], after[port], strict=True)]
        if any(value is not None and value < 0 for value in row):
            unknown[port] = "a counter went backwards: it was reset in between"
        else:
            found[port] = Counters(*row)
    return found, unknown


class Side(NamedTuple):
    """One end of a cable: a switch's port, a node's rail, or what nobody named. ``kind``: switch, unread switch, host, unknown."""

    who: str
    kind: str
    place: str
    own: Counters = Counters()


class Pause(NamedTuple):
    """``who`` pauses ``whom``; ``sent``, ``got``: frames as either end counted them; ``odd``: they differ by more than a half."""

    who: str
    kind: str
    who_at: str
    whom: str
    whom_at: str
    sent: int | None
    got: int | None
    odd: bool


Cables = Sequence[tuple[Side, Side]]
Rails = Mapping[tuple[str, str], Counters]  # by node and rail


def joined(counted: Mapping[str, Ports], plan: Plan, links: Iterable[tuple[End, End]], rails: Rails) -> Cables:
    """Every cable that is planned or linked, and every other port. Raises ValueError for a port with two."""
    taken, names = set(), list(counted)

    def side(end: End) -> Side:
        switch = next((name for name in names if same_switch(end.switch, name)), end.switch)
        names.extend([] if switch in names else [switch])
        ports = counted.get(switch, {})
        port = end.port if end.port in ports else next((name for name in ports if same_port(end.port, name)), end.port)
        if (switch, port) in taken:
            raise ValueError(f"{switch} {port} has two cables, by rdma_cabling or --link; allowed: one")
        taken.add((switch, port))
        return Side(switch, "switch" if switch in counted else "unread switch", f"{switch} {port}", ports.get(port, Counters()))

    found = [(side(end), Side(node, "host", f"{node} {rail}", rails.get((node, rail), Counters())))
             for node, ends in plan.items() for rail, end in ends.items()] + [(side(one), side(other)) for one, other in links]  # fmt: skip
    rest = [(name, f"{name} {port}", row) for name, ports in counted.items() for port, row in ports.items() if (name, port) not in taken]
    return found + [(Side(switch, "switch", at, row), Side(f"behind {at}", "unknown", f"behind {at}")) for switch, at, row in rest]


def pauses(cables: Cables) -> list[Pause]:
    """Most frames first."""
    ways = [(who, whom, who.own.pauses_out, whom.own.pauses_in) for pair in cables for who, whom in (pair, pair[::-1])]
    return sorted((Pause(who.who, who.kind, who.place, whom.who, whom.place, sent, got, sent is not None and got is not None and
                         2 * abs(sent - got) > max(sent, got)) for who, whom, sent, got in ways if sent or got),
                  key=lambda pause: -max(pause.sent or 0, pause.got or 0))  # fmt: skip


def egress(cables: Cables) -> list[tuple[Side, Side]]:
    """Ports of switches that drop or mark what leaves them, and to whom."""
    return [(one, to) for pair in cables for one, to in (pair, pair[::-1]) if one.own.marks or one.own.drops_out]


def begins(found: Sequence[Pause], leaving: Cables) -> list[tuple[str, str, list[str]]]:
    """Who, its kind, and where: of a switch its ports that drop or mark, even if it pauses nobody yet; of others whom they pause."""
    victims = {pause.whom for pause in found}
    ways = grouped(((pause.who, pause.kind), pause.whom_at) for pause in found)
    ports = grouped(((one.who, one.kind), one.place) for one, _to in leaving)
    ends = [(*key, ways[key]) for key in ways if key[1] in ("host", "unknown")]
    return ends + [(*key, ports.get(key, [])) for key in {**ways, **ports} if key[1] not in ("host", "unknown") and key[0] not in victims]


def circles(found: Iterable[Pause]) -> list[list[str]]:
    """Switches each of which pauses the next, the first once more at the end; of each switch one."""
    after = grouped((pause.who, pause.whom) for pause in found if pause.kind in ("switch", "unread switch"))
    rounds: list[list[str]] = []
    for name in sorted(after):
        ways: list[list[str]] = [] if any(name in known for known in rounds) else [[name]]
        seen: set[str] = set()
        for way in ways:  # which grows, the shortest first
            if way[-1] == name and len(way) > 1:
                rounds.append(way)
                break
            ways += [[*way, to] for to in sorted(set(after.get(way[-1], ())) - seen)]
            seen.update(after.get(way[-1], ()))
    return rounds


def rails_of(documents: Iterable[Mapping[str, Any]]) -> tuple[Rails, tuple[str, ...]]:
    """Of each rail in a recording of ``railwright top``: rates of a second, a sample a second, so their sum. And from when to when."""
    sums: dict[tuple[str, str], list[float | None]] = {}
    span: tuple[str, ...] = ()
    for document in documents:
        span = ((*span, document["at"])[0], document["at"])
        for key, rail in (((node, rail["rail"]), rail) for node, seen in document["nodes"].items() for rail in seen["rails"]):
            own, rates = sums.get(key, (None, None)), (rail["pauses_in"], rail["pauses_out"])
            sums[key] = [past if new is None else (past or 0.0) + new for past, new in zip(own, rates, strict=True)]
    return {key: Counters(*(None if value is None else round(value) for value in own)) for key, own in sums.items()}, span
