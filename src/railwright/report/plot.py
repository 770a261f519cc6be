# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures as SVG and PNG: a run's busbw over message size, beside the run before it that can be compared with it; a search's pairs.

The only file that imports matplotlib, and it does so when a plot is drawn. The same data gives the same bytes: no date, no random ids.
Text stays text in the SVG, so that it can be searched and copied; none of it is read as mathematics or markup. Colours are of Okabe
and Ito's palette, and each line has a mark of its own, so that neither colour blindness nor a grey print hides which is which.
"""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows as objects
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.ceilings import JUDGED_FROM
from railwright.isolate.readings import SURE
from railwright.report import bench as rows
from railwright.report import isolate as search
from railwright.report.text import printable, size_text, xml_text
from railwright.runs import Run, readable, stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Points = tuple[tuple[int, float], ...]
PICTURES = 256  # of one run; a thousand nodes that each run by themselves need none of their own
SEARCHED = 50  # stored runs that are read in search of the previous one


class Series(NamedTuple):
    """busbw in GB/s over message size in bytes."""

    out_of_place: Points
    in_place: Points


class Plot(NamedTuple):
    number: int  # of the run in the document
    file: str  # without what says in which form
    title: str
    now: Series
    floor: float | None
    floor_source: str
    ceiling: float | None
    limit: str  # what makes the ceiling
    wrong: Points  # points at which values were damaged
    before: Series | None
    before_id: str


def series(run: dict[str, Any]) -> Series:
    return Series(_points(run, "out_of_place"), _points(run, "in_place"))


def _points(run: dict[str, Any], half: str, *, wrong: bool = False) -> Points:
    found = []
    for row in objects(run.get("rows")):
        values = mapping(row.get(half))
        busbw, size = values.get("busbw"), row.get("size")
        # A row of size 0 has no place on a logarithmic axis; nor has it a bandwidth.
        if isinstance(busbw, int | float) and isinstance(size, int) and size > 0 and (not wrong or values.get("wrong")):
            found.append((size, float(busbw)))
    return tuple(sorted(found))


def plots(run: Run) -> list[Plot]:
    """A picture for each run that measured anything; [] for a record without a benchmark."""
    bench = run.bench or {}
    found: list[Plot] = []
    for number, own in enumerate(objects(bench.get("runs"))):
        now = series(own)
        if not any(now) or len(found) >= PICTURES:
            continue
        before_id, before = _previous(run, own)
        wrong = tuple(sorted(set(_points(own, "out_of_place", wrong=True) + _points(own, "in_place", wrong=True))))
        floor, ceiling = (float(own[key]) if isinstance(own.get(key), int | float) else None for key in ("floor", "ceiling"))
        names, group = [plot.file for plot in found], f"_{own['group']}" if rows.in_group(own) else ""
        found.append(
            Plot(number, _file(f"{own['collective']}{group}", names), rows.title(bench, own), now, floor,
                 str(own.get("floor_source") or ""), ceiling, str(own.get("limit") or ""), wrong, before, before_id))
    return found


def _file(collective: str, taken: list[str]) -> str:
    """``busbw-all_reduce``; a second run of the same collective gets a number. No other characters, whatever the record says."""
    name = "busbw-" + (re.sub(r"[^A-Za-z0-9_]", "", collective)[:40] or "run")
    number = 2
    chosen = name
    while chosen in taken:
        chosen, number = f"{name}-{number}", number + 1
    return chosen


def _previous(run: Run, own: dict[str, Any]) -> tuple[str, Series | None]:
    """The newest stored run before this one with the same inventory, collective, launcher, ranks and, of local runs, node."""
    ids = [identity for identity in stored() if identity.endswith("-bench") or "-bench-" in identity]
    before = ids[: ids.index(run.id)] if run.id in ids else [identity for identity in ids if identity[:16] <= run.id[:16]]
    for other in readable(reversed(before[-SEARCHED:])):
        alike = all((other.bench or {}).get(key) == (run.bench or {}).get(key) for key in ("launcher", "ranks"))
        if other.inventory != run.inventory or not alike:
            continue
        for candidate in objects((other.bench or {}).get("runs")):
            same = all((candidate.get(key) or "") == (own.get(key) or "") for key in ("collective", "node", "label"))
            if same and any(series(candidate)):
                return other.id, series(candidate)
    return "", None


class Heat(NamedTuple):
    """Nodes against nodes: the share of its like that each measured pair reached."""

    file: str
    title: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]  # leaf -> its measured nodes
    shares: Mapping[tuple[str, str], float]
    found: set[str]  # nodes that findings blame or suspect


def heats(run: Run) -> list[Heat]:
    document = search.document_of(run)
    shares = {} if document is None else {ends: worst.share for ends, worst in search.pairs(document).items()}
    if document is None or not shares:
        return []
    found = {name for row in document["findings"] if row["kind"] not in ("leaf", "plane") for name in row["nodes"]}
    size = f"{len(shares)} pairs of {len(set().union(*shares))} nodes"
    title = f"{document['tool'] or 'search'}: {size}; lowest share of its like, worst rail"
    return [Heat(search.PICTURE, title, search.grouped(document), shares, found)]


BLUE, ORANGE, RED, GREY, INK = "#0072B2", "#D55E00", "#B00020", "#8A8A8A", "#222222"
SETTINGS: Any = {
    "svg.hashsalt": "railwright",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a name is a $
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.axisbelow": True,
}
INCHES = (8.0, 4.6)
DPI = 144
TICKS = 9  # labels of the size axis at most
LONGEST = 90  # characters of a name in the picture


def svg(plot: Plot | Heat) -> bytes:
    return _render(plot, "svg", {"Date": None, "Creator": "railwright"})


def png(plot: Plot | Heat) -> bytes:
    """The picture as PNG, for what cannot show SVG."""
    return _render(plot, "png", {"Software": "railwright"})


def _render(plot: Plot | Heat, form: str, metadata: dict[str, Any]) -> bytes:
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that HOME is not writable is nothing to tell whoever asked for a report
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS), io.BytesIO() as stream:
        figure = Figure(figsize=INCHES, layout="constrained")
        if isinstance(plot, Heat):
            _draw_heat(figure, plot)
        else:
            _draw(figure, plot)
        figure.savefig(stream, format=form, dpi=DPI, metadata=metadata)
        return stream.getvalue()


def _draw(figure: Figure, plot: Plot) -> None:
    axes = figure.add_subplot()
    axes.set_xscale("log", base=2)
    _line(axes, "out_of_place", plot.now.out_of_place, color=BLUE, marker="o", linewidth=2.2, label="out-of-place", zorder=4)
    # Hollow, larger and thinner: where both lines are one, both are seen.
    hollow = {"marker": "s", "markerfacecolor": "none", "markersize": 7.5, "linewidth": 1.1}
    _line(axes, "in_place", plot.now.in_place, color=ORANGE, label="in-place", zorder=4, **hollow)
    if plot.before is not None:
        old = {"color": GREY, "linewidth": 1.5}
        _line(axes, "previous_out_of_place", plot.before.out_of_place, linestyle=(0, (5, 2)), label="previous out-of-place", **old)
        _line(axes, "previous_in_place", plot.before.in_place, linestyle=(0, (1, 1.6)), label="previous in-place", **old)
    if plot.wrong:
        _line(axes, "wrong", plot.wrong, color=RED, marker="x", linestyle="none", markersize=10, markeredgewidth=2.2, label="wrong values",
              zorder=5)
    _axes(axes, plot)
    _level(axes, "floor", plot.floor, plot.floor_source, (6, 3))
    _level(axes, "ceiling", plot.ceiling, plot.limit, (2, 2))
    # Above the axes: within them there is no corner that a curve, a floor or its label may not cross.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=5, frameon=False, fontsize=9, columnspacing=1.4)


def _line(axes: Axes, name: str, points: Points, **style: Any) -> None:
    if not points:
        return
    sizes, values = zip(*points, strict=True)
    look = {"linewidth": 1.8, "markersize": 5, "zorder": 3.0} | style
    axes.plot(sizes, values, gid=name, **look)


def _axes(axes: Axes, plot: Plot) -> None:
    every = [point for line in (*plot.now, *(plot.before or ())) for point in line]
    sizes = sorted({size for size, _value in every})
    top = max([value for _size, value in every] + [level for level in (plot.floor, plot.ceiling) if level is not None])
    axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
    axes.set_ylim(0, top * 1.15 if top > 0 else 1)
    chosen = ticks(sizes)
    axes.set_xticks(chosen, [size_text(size) for size in chosen])
    axes.minorticks_off()
    axes.set_xlabel("message size")
    axes.set_ylabel("bus bandwidth (GB/s)")
    axes.set_title(_safe(plot.title), loc="left", fontsize=12, fontweight="bold", pad=24)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if sizes[-1] > JUDGED_FROM:
        axes.axvspan(JUDGED_FROM, sizes[-1] * 1.3, color="#F0F4F8", zorder=0, gid="judged")
        axes.annotate("judged", (JUDGED_FROM, 0), xytext=(4, 4), textcoords="offset points", fontsize=9, color="#555555")


def _level(axes: Axes, name: str, level: float | None, source: str, dashes: tuple[int, int]) -> None:
    if level is None:
        return
    axes.axhline(level, color=INK, linewidth=1.3, linestyle=(0, dashes), gid=name, zorder=2)
    note = f"{name} {level:g} GB/s" + (f" ({source})" if source else "")
    # At the left, where small messages are slow and no curve comes near it; where one does all the same, the label stays readable.
    axes.annotate(_safe(note), (0, level), xycoords=("axes fraction", "data"), xytext=(5, 3), textcoords="offset points", va="bottom",
                  fontsize=9, zorder=6, bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1})


def ticks(sizes: Sequence[int]) -> list[int]:
    """Sizes that get a label: powers of two, evenly spread, the last one among them."""
    low, high = sizes[0].bit_length() - 1, sizes[-1].bit_length() - 1
    step = max(1, -(-(high - low) // (TICKS - 1)))
    return [1 << power for power in range(high, low - 1, -step)][::-1]


def _safe(text: str) -> str:
    """One line that XML can hold; the writer escapes the rest."""
    line = xml_text(printable(text))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


# Share of its like: from, name, colour. They are told apart by their lightness alone, too; without red, purple is still no black.
BANDS = ((SURE, f"{SURE:g} and more", "#BBD5EA"), (0.8, f"0.8 to {SURE:g}", "#E8AE2E"), (0.5, "0.5 to 0.8", "#CC6A1A"),
         (1e-9, "below 0.5", "#7A2A8F"), (-1.0, "hung", "#000000"))  # fmt: skip
NAMED = 40  # nodes that have their names on the axes; of more, the leaves and the nodes found have
# Of the picture's side: a cell among 1,024 nodes is less than a pixel, and the slow ones are what is looked for.
SMALLEST, SMALLEST_SLOW = 0.004, 0.011


def _draw_heat(figure: Figure, heat: Heat) -> None:
    from matplotlib.collections import PolyCollection

    figure.set_size_inches(9.0, 9.4)
    axes = figure.add_subplot()
    order = [node for _leaf, nodes in heat.groups for node in nodes]
    places = {node: place for place, node in enumerate(order)}
    above = math.inf
    for rank, (low, label, colour) in enumerate(BANDS):
        half = max(0.45, len(order) * (SMALLEST_SLOW if rank else SMALLEST) / 2)
        ends = [(places[a], places[b]) for (a, b), share in heat.shares.items() if low <= share < above]
        corners = [[(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)]
                   for one, other in ends for x, y in ((one, other), (other, one))]  # fmt: skip
        above = low
        axes.add_collection(PolyCollection(corners, facecolors=colour, linewidths=0, label=label, zorder=3 + rank, gid=f"band{rank}"))
    axes.set(xlim=(-0.5, len(order) - 0.5), ylim=(len(order) - 0.5, -0.5), aspect="equal")
    _heat_axes(axes, heat, order)
    # The title is the legend's: what is outside of the axes has its room made for it, and two such would lie on each other.
    figure.legend(loc="outside upper left", ncols=len(BANDS), frameon=False, fontsize=9, title=_safe(heat.title), alignment="left",
                  title_fontproperties={"weight": "bold", "size": 12})  # fmt: skip


def _heat_axes(axes: Axes, heat: Heat, order: Sequence[str]) -> None:
    """Names where they fit, and a line between leaves."""
    middles, start = [], 0
    for leaf, nodes in heat.groups:
        middles.append((start + (len(nodes) - 1) / 2, leaf))
        start += len(nodes)
        for line in (axes.axhline, axes.axvline) if start < len(order) else ():
            line(start - 0.5, color="#BBBBBB", linewidth=0.6, zorder=1)
    few, leaves = len(order) <= NAMED, len(heat.groups) > 1
    names = _readable(middles if leaves and not few else list(enumerate(order)), len(order))
    axes.set_xticks(*names, rotation=90, fontsize=8)
    axes.set_yticks(*names, fontsize=8)
    axes.set(**dict.fromkeys(("xlabel", "ylabel"), "node, by leaf" if leaves and not few else "node"))
    more = middles if few and leaves else [(place, node) for place, node in enumerate(order) if node in heat.found and not few]
    if more:
        right = axes.secondary_yaxis("right")
        right.set_yticks(*_readable(more, len(order)), fontsize=8)
        right.set_ylabel("leaf" if few else "nodes that findings name")


def _readable(names: Sequence[tuple[float, str]], length: int) -> tuple[list[float], list[str]]:
    """As many as can be read beside each other: where, and cut."""
    kept: dict[float, str] = {}
    for at, name in names:
        if not kept or at - max(kept) >= length / NAMED:
            kept[at] = _safe(name if len(name) <= 20 else name[:19] + "…")
    return list(kept), list(kept.values())
