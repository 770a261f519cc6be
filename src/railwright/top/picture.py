# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a screen, from a document. 80 columns hold all figures; a wider screen says the marks in words. Without colours. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from railwright.top.marks import HARMLESS, MARKS, by_name, moved_by, weight

SORTS = ("stands out", "busy", "name")
VIEWS = ("rails and GPUs", "rails", "GPUs")
SIGNS = dict(zip(MARKS, "XXh<!pcr", strict=True))
NODE, NAME, BAR = 12, 9, 10
RAILS = f"  {'node':{NODE}} {'rail':{NAME}}{'out':>6}{'in':>6}{'of':>6} {'Gb/s':{BAR}}{'pkt':>5}{'pause':>6}{'retr':>5}{'oos':>5}{'cnp':>5}"
GPUS = f"  {'node':{NODE}} {'GPU':3}{'use':>5} {'':{BAR}}{'memory':>11}{'power':>10}{'MHz':>6}{'C':>4}{'NVLink GB/s':>13}"
AWAY = ("silent", "unreachable", "failed", "connecting")
LEGEND = "X down, lost  h held back  < behind  ! lossy  p paused  c congested  r reordered"


class Wish(NamedTuple):
    """What the keys have chosen."""

    sort: str = SORTS[0]
    view: str = VIEWS[0]
    filter: str = ""
    typing: bool = False  # the filter
    frozen: bool = False


def screen(document: Mapping[str, Any], wish: Wish, width: int = 80, height: int = 24) -> list[str]:
    """At most ``height`` lines of at most ``width`` characters."""
    nodes = sorted(document["nodes"].items(), key=lambda item: by_name(item[0]))
    notes = [line for name, node in nodes for line in note(name, node)]
    room = height - 3  # the first line, and the two at the end
    if len(notes) > max(1, room // 3):
        kept = max(1, room // 3) - 1
        notes = [*notes[:kept], f"… and {len(notes) - kept} more lines about nodes"]
    tables = []
    for kind, views, title, line in (("rails", VIEWS[:2], RAILS, rail_line), ("gpus", VIEWS[::2], GPUS, gpu_line)):
        rows = [(name, row) for name, node in nodes for row in node[kind] if fits(wish.filter, name, row)] if wish.view in views else []
        if rows:
            tables.append((rows, title, line))
    lines = [head(document), *notes]
    wanted = [len(rows) + 1 for rows, _title, _line in tables]
    for (rows, title, line), share in zip(tables, shares(wanted, room - len(notes)), strict=True):
        shown = f"{share - 1} of {len(rows)}"
        head_line = title if share > len(rows) else f"  {shown:{NODE}}{title[2 + NODE :]}"
        lines += [head_line, *(line(name, row) for name, row in ordered(rows, wish.sort)[: share - 1])][:share]
    if not tables:
        lines.append("  no rail and no GPU to show")
    return [line[:width].rstrip() for line in [*lines, LEGEND, foot(wish)][:height]]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many lines each table gets: what it wants where the others leave that, else as much as they."""
    found = []
    for number, lines in enumerate(wanted):
        others = wanted[number + 1 :]
        found.append(max(0, min(lines, max(room - sum(others), room // (len(others) + 1)))))
        room -= found[-1]
    return found


def fits(wanted: str, node: str, row: Mapping[str, Any]) -> bool:
    called = row["rail"] if "rail" in row else f"gpu{row['index']}"
    return wanted in f"{node} {called} {' '.join(row['marks'])}"


def ordered(rows: list[tuple[str, Mapping[str, Any]]], sort: str) -> list[tuple[str, Mapping[str, Any]]]:
    def key(item: tuple[str, Mapping[str, Any]]) -> Any:
        node, row = item
        moved = (moved_by(row) if "rail" in row else row["use"]) or 0.0
        place = by_name(node), by_name(row["rail"]) if "rail" in row else row["index"]
        worst = weight(row) if sort == SORTS[0] else 0
        return (*place,) if sort == SORTS[2] else (worst, moved if "behind" in row["marks"] and worst else -moved, *place)

    return sorted(rows, key=key)


def head(document: Mapping[str, Any]) -> str:
    nodes = document["nodes"].values()
    states = Counter(node["status"] for node in nodes)
    told = [f"{len(nodes)} nodes" if len(nodes) != 1 else "1 node", *(f"{states[state]} {state}" for state in AWAY if states[state])]
    slow = sum(bool(node["marks"]) for node in nodes)
    told += [f"{slow} behind"] if slow else []
    sums = [sum(rail[way] or 0 for node in nodes for rail in node["rails"]) for way in ("out_gbps", "in_gbps")]
    return f"railwright top  {', '.join(told)}; {short(sums[0] * 1e9)}b/s out, {short(sums[1] * 1e9)}b/s in  {document['at'][11:19]}"


def note(name: str, node: Mapping[str, Any]) -> Iterable[str]:
    if node["status"] in AWAY:
        yield f"X {name:{NODE}} {node['status']}{': ' if node['message'] else ''}{node['message'] or ''}"
    if node["gpus_unknown"] is not None:
        yield f"? {name:{NODE}} GPUs unknown: {node['gpus_unknown']}"
    if node["behind"] is not None:
        total = sum(moved_by(rail) or 0 for rail in node["rails"])
        yield f"< {name:{NODE}} behind its like: {total:.0f} Gb/s, their median is {node['behind']:.0f}"


def foot(wish: Wish) -> str:
    if wish.typing:
        return f"/{wish.filter}_  Enter: keep, Esc: none"
    filtered = f" [{wish.filter}]" if wish.filter else ""
    return f"s sort: {wish.sort}  / filter{filtered}  v {wish.view}  f freeze  q quit{'  FROZEN' if wish.frozen else ''}"


def rail_line(node: str, rail: Mapping[str, Any]) -> str:
    moved, most = moved_by(rail), rail["rate_gbps"]
    figures = "".join(f"{fixed(rail[key]):>6}" for key in ("out_gbps", "in_gbps", "rate_gbps"))
    pauses = both(rail, "pauses_out", "pauses_in")
    rates = (rail["waits"] if pauses is None else pauses, rail["retransmissions"], rail["out_of_sequence"], both(rail, "cnp_out", "cnp_in"))
    packets = short(both(rail, "out_packets", "in_packets"))
    state = [] if rail["state"] == "ACTIVE" else [rail["state"] or "state unknown"]
    return (f"{sign(rail)} {node:{NODE}.{NODE}} {rail['rail']:{NAME}.{NAME}}{figures} {bar(moved, most)}{packets:>5} "
            f"{''.join(f'{short(each):>5}' for each in rates)}  {' '.join([*state, *rail['marks']])}")


def gpu_line(node: str, gpu: Mapping[str, Any]) -> str:
    memory = f"{whole(gpu['memory_used'], 1 << 30)}/{whole(gpu['memory_total'], 1 << 30)}G"
    power = f"{whole(gpu['watts'])}/{whole(gpu['limit_watts'])}W"
    link = f"{fixed(gpu['nvlink_out_gbytes'])}/{fixed(gpu['nvlink_in_gbytes'])}"
    reasons = [reason for reason in gpu["held_back"] or [] if reason != HARMLESS]
    return (f"{sign(gpu)} {node:{NODE}.{NODE}} {gpu['index']:<3}{whole(gpu['use']):>4}% {bar(gpu['use'], 100)}{memory:>11}{power:>10}"
            f"{whole(gpu['mhz']):>6}{whole(gpu['celsius']):>4}{link:>13}  {' '.join([*gpu['marks'], *reasons])}")


def sign(row: Mapping[str, Any]) -> str:
    worst = weight(row)
    return SIGNS[MARKS[worst]] if worst < len(MARKS) else " "


def bar(moved: float | None, most: float | None) -> str:
    if moved is None or not most:
        return "?" * BAR
    return ("#" * round(BAR * min(1.0, moved / max(most, 1e-3)))).ljust(BAR, ".")


def both(row: Mapping[str, Any], *keys: str) -> float | None:
    """What is known of two ways."""
    known = [row[key] for key in keys if row[key] is not None]
    return sum(known) if known else None


def fixed(value: float | None) -> str:
    """At most five characters."""
    return "?" if value is None else f"{value:.1f}" if value < 999.95 else short(value)


def whole(value: float | None, unit: int = 1) -> str:
    return "?" if value is None else short(value / unit, 1e4)


def short(value: float | None, from_: float = 1e3) -> str:
    """At most four characters: ``999``, ``1.2k``, ``12M``; ``?`` for what is unknown."""
    if value is None:
        return "?"
    for power, unit in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power * (from_ / 1e3 if unit == "k" else 1) * 0.9995:
            shown = value / 10**power
            return f"{shown:.1f}{unit}" if shown < 9.95 else f"{min(shown, 999):.0f}{unit}"
    return f"{value:.0f}"
