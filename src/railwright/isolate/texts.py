# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings in sentences, with the measurements behind them. Pure."""

from collections.abc import Mapping, Sequence

from railwright.isolate.model import Evidence, Finding, rate_text
from railwright.isolate.readings import SURE

Rows = tuple[Evidence, ...]
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_WAYS = {"out": ", only outwards", "in": ", only inwards", "": ""}


def way_of(ways: Mapping[str, float]) -> str:
    """The one bad direction; '' where both are slow, or it was not measured."""
    if not ways or max(ways.values()) < SURE or min(ways.values()) >= SURE:
        return ""
    return min(ways, key=lambda way: ways[way])


def node(name: str, rails: Sequence[str], share: float, way: str, rows: Rows, *, hung: bool, gpu: int | None) -> Finding:
    """All that was seen of a node."""
    if hung:
        return Finding("hang", f"{name}: every trial hung, {_with(rows)}", (name,), evidence=rows)
    if gpu is not None:
        text = f"GPU {gpu} of {name} computes late: {_measured(rows)}; it waits for nobody in the collective, and the others wait for it"
        return Finding("late gpu", text, (name,), gpu=gpu, share=share, evidence=rows)
    alike = f"; all {len(rails)} rails alike" if len(rails) > 1 else ""
    return Finding("node", f"{name}: {_measured(rows)}{_WAYS[way]}{alike}", (name,), way=way, share=share, evidence=rows)


def rail(name: str, label: str, share: float, ways: Mapping[str, float], rows: Rows, *, others: bool) -> Finding:
    way = way_of(ways)
    kind = "direction" if way else "rail" if any(row.figure for row in rows if not row.good) else "hang"
    told = _WAYS[way] or (", both directions" if ways else "")
    rest = f"; {name}'s other rails are good" if others else ""
    text = f"{label} of {name}: {_measured(rows)}{told}{rest}"
    return Finding(kind, text, (name,), label, way, share=ways.get(way, share), evidence=rows)


def node_or_leaf(found: Finding, name: str, mates: tuple[str, ...]) -> Finding:
    which = f"{found.rail} of " * bool(found.rail) + ("each of " if len(mates) > 1 else "") + " and ".join(mates)
    text = f"{which}, or leaf {name}: {_measured(found.evidence)}; not enough nodes at {name} to tell"
    return Finding("unclear", text, mates, found.rail, leaf=name, share=round(found.share, 2))


def leaf(name: str, nodes: tuple[str, ...], share: float, rows: Rows, *, inside: bool | None) -> Finding:
    within = {True: ", within it too", False: "; within it they are good, so its uplinks or the path to them", None: ""}[inside]
    text = f"leaf {name}: all {len(nodes)} nodes measured there are at {share:.0%} of {rate_text(rows[0].like)} Gb/s{within}"
    return Finding("leaf", text, nodes, leaf=name, share=share, evidence=rows)


def plane(rail: str, share: float, paths: float, rows: Rows, *, known: bool) -> Finding:
    where = "between leaves" if known else "between nodes"
    text = f"spine plane of {rail or 'the rails together'}: every path {where} is at {share:.0%} of one within a leaf"
    if paths < 1:
        text = f"spine plane: {paths:.0%} of the paths {where} are slow (at {share:.0%}), and their ends are good with others"
    if not known:
        text += "; the inventory names no leaves, so a plane cannot be told from many bad pairs"
    return Finding("plane", text, rail=rail, share=share, evidence=rows)


def pair(nodes: tuple[str, ...], rails: Sequence[str], rows: Rows) -> Finding:
    label = f"{', '.join(rails)} between " if any(rails) else ""
    slow = [row for row in rows if row.partner == nodes[1]]
    often = f"{sum(not row.good for row in rows)} of {len(rows)} measurements of {nodes[0]}"
    text = f"path {label}{' and '.join(nodes)}: {_measured(rows)} in {often}"
    share = sum(row.figure for row in slow) / sum(row.like for row in slow)
    return Finding("pair", f"{text}; both are good with others", nodes, rails[0] if len(rails) == 1 else "", share=share, evidence=rows)


def flapping(nodes: tuple[str, ...], rails: Sequence[str], rows: Rows) -> Finding:
    label = f"{', '.join(rails)} of " if any(rails) else ""
    order = ", ".join("good" if row.good else f"{rate_text(row.figure)}" for row in rows)
    text = f"{label}{nodes[0]} flaps: {order} (like: {rate_text(rows[0].like)} Gb/s)"
    return Finding("flapping", text, nodes, rails[0] if len(rails) == 1 else "", evidence=rows)


def unclear(names: tuple[str, ...], scopes: Sequence[str], count: int, rows: Rows, nodes: int) -> Finding:
    label = f"{', '.join(scopes)} " if any(scopes) and len(scopes) < 3 else ""
    few = nodes < 4
    why = f"not enough nodes to tell ({nodes})" if few else "not enough measurements with good partners to tell"
    low = min((row.figure for row in rows), default=0.0)
    like = rows[0].like if rows else 0.0
    text = f"{label}of {' or '.join(names)}: {rate_text(low)} of {rate_text(like)} Gb/s in {count} measurements; {why}"
    return Finding("unclear", text, names, scopes[0] if len(scopes) == 1 else "", evidence=rows)


def unmeasured(name: str, rails: Sequence[str], failed: Sequence[str], met: int = 0) -> Finding:
    """``met``: how many others it was measured with all the same."""
    enough = f" with more than {met} of the others" if met else ""
    why = f": {len(failed)} launches failed ({', '.join(dict.fromkeys(failed))})" if failed else ""
    return Finding("unmeasured", f"{', '.join(rails) + ' of ' if rails else ''}{name} was not measured{enough}{why}", (name,))


def _measured(rows: Rows) -> str:
    bad = sorted(row.figure for row in rows if not row.good)
    return f"{rate_text(bad[len(bad) // 2])} of {rate_text(rows[0].like)} Gb/s {_with(rows)}" if bad else _with(rows)


def _with(rows: Rows) -> str:
    partners = len({row.partner for row in rows if not row.good})
    number = NUMBERS[partners] if partners < len(NUMBERS) else str(partners)
    return f"with {number} partner{'s' if partners != 1 else ''}"
