# SPDX-License-Identifier: GPL-3.0-or-later
"""The network's part of report.md: who reached whom on which rail, and the counters while traffic ran.

Documents may come from an older or newer release, or be cut. What the driver does not tell is ``-``, never 0.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.module_utils.measure import counter_verdicts as qos
from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import SEQUENCE
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import CHECK, TOGETHER
from railwright.report.bench import figure
from railwright.report.text import markdown_section, markdown_table

Object = dict[str, Any]

COUNTS = ("Rail", "Pings", "Full MTU", "Only small", "No answer", "Unknown")
KEYS = ("rail", "asked", "full", "small", "none", "unknown")
WORDS = {"full": "full MTU", "small": "only small", "none": "no answer", "unknown": "unknown", "heard": "heard (ARP, ND)"}


def reachability(document: Object | None) -> list[str]:
    """The section of report.md; [] where nothing was pinged."""
    counts = objects(mapping(document).get("rails"))
    if not counts:
        return []
    lines = markdown_section("## Rails between nodes", COUNTS, [[figure(row.get(key)) for key in KEYS] for row in counts])
    names = [str(row.get("rail")) for row in counts]
    rows = [row for pair in objects(mapping(document).get("pairs")) for row in _pair(pair, names)]
    if rows:
        lines += ["", *markdown_table(("From", "To", "Rail", *(f"its {name}" for name in names)), rows)]
    left = mapping(document).get("pairs_left_out")
    return lines + (["", f"{left} more pairs of nodes are not shown; those with a failure come first."] if left else [])


def _pair(pair: Object, names: list[str]) -> list[tuple[str, ...]]:
    """What was not asked is empty: the other rails are, where the ping of this one failed."""
    seen = {(cell.get("rail"), cell.get("peer_rail")): cell.get("seen") for cell in objects(pair.get("cells"))}
    rails = [name for name in names if any(rail == name for rail, _peer in seen)]
    ends = (str(pair.get("node")), str(pair.get("peer")))
    return [(*ends, rail, *(WORDS.get(str(seen.get((rail, name))), "") for name in names)) for rail in rails]


HEADER = ("Node", "Rail", "HCA", "With", "Seconds", "Lost", "Discarded", "Pauses sent", "Pauses received", "ECN marks",
          "CNPs sent / handled / ignored", "Ran backwards")  # fmt: skip
LOSS = tuple(dict.fromkeys(SEQUENCE + qos.RETRANSMITTED + qos.SOFT_SEQUENCE))
DROPS = (qos.DISCARDED, *(form % priority for form in qos.DISCARDS for priority in range(8)))
PLACES = {**{f"prio{priority}": f"priority {priority}" for priority in range(8)}, "global": "all priorities"}


def rows(traffic: Iterable[Object]) -> list[tuple[str, ...]]:
    return [_row(item) for item in sorted(traffic, key=lambda item: (str(item.get("node")), str(item.get("rail")), str(item.get("peer"))))]


def _row(item: Object) -> tuple[str, ...]:
    own = _counts(item.get("counters"))
    interfaces = {str(name): _counts(counts) for name, counts in mapping(item.get("interfaces")).items()}
    seconds = item.get("seconds")
    return (
        str(item.get("node") or "-"),
        str(item.get("rail") or "-"),
        f"{item.get('hca')}/{item.get('port')}",
        str(item.get("peer") or "-"),
        str(seconds) if isinstance(seconds, int | float) else "-",
        _grown(own, LOSS),
        _each(interfaces, lambda counts: _grown(counts, DROPS)),
        _each(interfaces, lambda counts: _pauses(counts, "tx", seconds)),
        _each(interfaces, lambda counts: _pauses(counts, "rx", seconds)),
        _figure(own, qos.MARKED),
        " / ".join(_figure(own, name) for name in (qos.CNP_SENT, qos.CNP_HANDLED, qos.CNP_IGNORED)),
        ", ".join(str(name) for name in item.get("backwards") or []) or "none",
    )


def _counts(value: Any) -> dict[str, int]:
    return {str(name): many for name, many in mapping(value).items() if isinstance(many, int)}


def _each(interfaces: dict[str, dict[str, int]], text: Callable[[dict[str, int]], str]) -> str:
    """The interfaces of a bond are named; a single one is the rail's."""
    if len(interfaces) == 1:
        return text(next(iter(interfaces.values())))
    return "; ".join(f"{name}: {text(counts)}" for name, counts in sorted(interfaces.items())) or "-"


def _grown(counts: dict[str, int], names: Iterable[str]) -> str:
    """What grew by name; 0 only where something could be read."""
    known = [name for name in names if name in counts]
    return ", ".join(f"{name} +{counts[name]}" for name in known if counts[name]) or ("0" if known else "-")


def _pauses(counts: dict[str, int], way: str, seconds: Any) -> str:
    known = [place for place in PLACES if f"{way}_{place}_pause" in counts]
    return ", ".join(_pause(counts, way, place, seconds) for place in known if counts[f"{way}_{place}_pause"]) or ("0" if known else "-")


def _pause(counts: dict[str, int], way: str, place: str, seconds: Any) -> str:
    """``priority 3: 12 (0.40 % of the time)``: how many frames, and how long nothing was sent."""
    name = f"{way}_{place}_pause"
    duration = counts.get(f"{name}_duration")
    measurable = duration is not None and isinstance(seconds, int | float) and seconds > 0
    share = f" ({duration / seconds / 1e4:.2f} % of the time)" if measurable and duration is not None else ""
    return f"{PLACES[place]}: {counts[name]}{share}"


def _figure(counts: dict[str, int], name: str) -> str:
    return str(counts[name]) if name in counts else "-"


def counters(traffic: Iterable[Object]) -> list[str]:
    """The section of report.md; [] without figures."""
    return markdown_section("## Counters while traffic ran", HEADER, rows(traffic))


BANDWIDTH = ("Node", "Rail", "HCA", "Gb/s alone", "at least", "Gb/s with all rails", "at least")


def bandwidth_rows(verdicts: Iterable[Object]) -> list[tuple[str, ...]]:
    """Each rail by itself and with all others; [] where nothing was measured with all others."""
    ways, measured = (CHECK["write_bw"], CHECK[TOGETHER]), dict[tuple[str, ...], dict[str, Object]]()
    for item in verdicts:
        if item.get("check") in ways:
            place = (str(item.get("node")), str(item.get("subject")), f"{item.get('hca')}/{item.get('port')}")
            measured.setdefault(place, {})[str(item["check"])] = item
    if not any(ways[1] in both for both in measured.values()):
        return []
    return [(*place, *(figure(both.get(way, {}).get(key)) for way in ways for key in ("found", "expected")))
            for place, both in sorted(measured.items())]


def bandwidth(verdicts: Iterable[Object]) -> list[str]:
    """The section of report.md."""
    return markdown_section("## Bandwidth of rails", BANDWIDTH, bandwidth_rows(verdicts))
