# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings in sentences, with the measurements behind them. Pure."""

from collections.abc import Mapping, Sequence

from railwright.isolate.grades import SURE, SlowLeaf, SlowPlane
from railwright.isolate.model import Evidence, Finding

Rows = tuple[Evidence, ...]
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def way_of(ways: Mapping[str, float]) -> str:
    """The one bad direction; '' where both are slow, or it was not measured."""
    if not ways or max(ways.values()) < SURE or min(ways.values()) >= SURE:
        return ""
    return min(ways, key=lambda way: ways[way])


def node(name: str, scopes: Sequence[str], share: float, way: str, rows: Rows) -> Finding:
    what = "" if len(scopes) < 2 else f"; all {len(scopes)} rails alike"
    return Finding("node", f"{name}: {_measured(rows)}{_way(way)}{what}", (name,), way=way, share=share, evidence=rows)


def rail(name: str, label: str, share: float, way: str, rows: Rows, *, told: bool, others: bool, hung: bool) -> Finding:
    kind = "hang" if hung else "direction" if way else "rail"
    ways = _way(way) if way else ", both directions" if told else ""
    rest = f"; {name}'s other rails are good" if others else ""
    return Finding(kind, f"{label} of {name}: {_measured(rows)}{ways}{rest}", (name,), label, way, share=share, evidence=rows)


def hang(name: str, rows: Rows) -> Finding:
    return Finding("hang", f"{name}: every trial hung, {_with(rows)}", (name,), evidence=rows)


def late_gpu(name: str, gpu: int, share: float, rows: Rows) -> Finding:
    text = f"GPU {gpu} of {name} computes late: {_measured(rows)}; it waits for nobody in the collective, and the others wait for it"
    return Finding("late gpu", text, (name,), gpu=gpu, share=share, evidence=rows)


def node_or_leaf(found: Finding, name: str, mates: tuple[str, ...]) -> Finding:
    which = mates[0] if len(mates) == 1 else "each of " + " and ".join(mates)
    what = f"{found.rail} of {which}" if found.rail else which
    text = f"{what}, or leaf {name}: {_measured(found.evidence)}; not enough nodes at {name} to tell"
    return Finding("unclear", text, mates, found.rail, leaf=name, share=round(found.share, 2))


def leaf(slow: SlowLeaf) -> Finding:
    inside = {True: ", within it too", False: "; within it they are good, so its uplinks or the path to them", None: ""}[slow.inside]
    text = f"leaf {slow.leaf}: all {len(slow.nodes)} nodes measured there are at {slow.share:.0%} of {slow.like:.0f} Gb/s{inside}"
    return Finding("leaf", text, slow.nodes, leaf=slow.leaf, share=slow.share, evidence=slow.evidence)


def plane(slow: SlowPlane) -> Finding:
    where = "between leaves" if slow.known else "between nodes"
    if slow.paths < 1:
        text = f"spine plane: {slow.paths:.0%} of the paths {where} are slow (at {slow.share:.0%}), and their ends are good with others"
        if not slow.known:
            text += "; the inventory names no leaves, so a plane cannot be told from many bad pairs"
    else:
        text = f"spine plane of {slow.scope or 'the rails together'}: every path {where} is at {slow.share:.0%} of one within a leaf"
    return Finding("plane", text, rail=slow.scope, share=slow.share, evidence=slow.evidence)


def pair(one: str, other: str, rails: Sequence[str], share: float, rows: Rows) -> Finding:
    label = f"{', '.join(rails)} between " if rails != [""] else ""
    text = f"path {label}{one} and {other}: {_measured(rows)} in {sum(not row.good for row in rows)} of {len(rows)} measurements of {one}"
    rail_ = rails[0] if len(rails) == 1 else ""
    return Finding("pair", f"{text}; both are good with others", (one, other), rail_, share=share, evidence=rows)


def flapping(name: str, label: str, rows: Rows) -> Finding:
    order = ", ".join("good" if row.good else f"{row.figure:.0f}" for row in rows)
    what = f"{label} of {name}" if label else name
    return Finding("flapping", f"{what} flaps: {order} (like: {rows[0].like:.0f} Gb/s)", (name,), label, evidence=rows)


def unclear(names: tuple[str, ...], scopes: Sequence[str], count: int, rows: Rows, nodes: int) -> Finding:
    label = f"{', '.join(scopes)} " if any(scopes) and len(scopes) < 3 else ""
    few = nodes < 4
    why = f"not enough nodes to tell ({nodes})" if few else "not enough measurements with good partners to tell"
    low = min((row.figure for row in rows), default=0.0)
    like = rows[0].like if rows else 0.0
    text = f"{label}of {' or '.join(names)}: {low:.0f} of {like:.0f} Gb/s in {count} measurements; {why}"
    return Finding("unclear", text, names, scopes[0] if len(scopes) == 1 else "", evidence=rows)


def unmeasured(name: str, rails: Sequence[str], failed: Sequence[str]) -> Finding:
    why = f": {len(failed)} launches failed ({', '.join(dict.fromkeys(failed))})" if failed else ""
    return Finding("unmeasured", f"{', '.join(rails) + ' of ' if rails else ''}{name} was not measured{why}", (name,))


def _measured(rows: Rows) -> str:
    bad = sorted(row.figure for row in rows if not row.good)
    return f"{bad[len(bad) // 2]:.0f} of {rows[0].like:.0f} Gb/s {_with(rows)}" if bad else _with(rows)


def _with(rows: Rows) -> str:
    partners = len({row.partner for row in rows if not row.good})
    number = NUMBERS[partners] if partners < len(NUMBERS) else str(partners)
    return f"with {number} partner{'s' if partners != 1 else ''}"


def _way(way: str) -> str:
    return {"out": ", only outwards", "in": ", only inwards"}.get(way, "")
