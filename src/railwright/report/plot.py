# SPDX-License-Identifier: GPL-3.0-or-later
"""busbw over message size as SVG and PNG; the only file that imports matplotlib, and it does so when a plot is drawn.

The same data gives the same bytes: no date, no random ids. Text stays text in the SVG, so that it can be searched and copied;
none of it is read as mathematics or markup. Colours are of Okabe and Ito's palette, and each line has a mark of its own,
so that neither colour blindness nor a grey print hides which is which.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.busbw import JUDGED_FROM
from railwright.bench_progress import size_text
from railwright.report.series import Plot, Points
from railwright.report.text import printable, xml_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def svg(plot: Plot) -> bytes:
    """The picture as SVG."""
    return _render(plot, "svg", {"Date": None, "Creator": "railwright"})


def png(plot: Plot) -> bytes:
    """The picture as PNG, for what cannot show SVG."""
    return _render(plot, "png", {"Software": "railwright"})


def _render(plot: Plot, form: str, metadata: dict[str, Any]) -> bytes:
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that HOME is not writable is nothing to tell whoever asked for a report
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS), io.BytesIO() as stream:
        figure = Figure(figsize=INCHES, layout="constrained")
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
    if plot.floor is not None:
        _floor(axes, plot.floor, plot.floor_source)
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
    top = max([value for _size, value in every] + ([plot.floor] if plot.floor is not None else []))
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


def _floor(axes: Axes, floor: float, source: str) -> None:
    axes.axhline(floor, color=INK, linewidth=1.3, linestyle=(0, (6, 3)), gid="floor", zorder=2)
    note = f"floor {floor:g} GB/s" + (f" ({source})" if source else "")
    # At the left, where small messages are slow and no curve comes near it; where one does all the same, the label stays readable.
    axes.annotate(_safe(note), (0, floor), xycoords=("axes fraction", "data"), xytext=(5, 3), textcoords="offset points", va="bottom",
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
