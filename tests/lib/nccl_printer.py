# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs of nccl-tests as each version prints them, from the formats in its source (src/common.cu, src/util.cu and the collectives').

When this was written the same rows went through programs built from the printing functions of all tags from v2.0.0 to v2.19.6; their tables
were the same byte by byte. Only the formats are here, in Python's words.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]


class Shape(NamedTuple):
    """One way to print. ``kind``: width of the type's column."""

    first: str  # the first tag that prints so
    kind: int = 8
    root: bool = True  # False: the columns on the left depend on the collective
    difference: bool = False  # the largest difference found, not a count of wrong values
    group: str = "Group  0 "
    bus: str = "[0000:{bus:02x}:00]"
    version: bool = True
    capped: bool = True  # numbers are fitted to their columns; before, a long time or bandwidth pushed the rest to the right
    stamp: int | None = 0  # width of the column for -S: None: there is none, 0: only with -S


SHAPES = {
    shape.first: shape for shape in (
        Shape("2.0.0", 6, root=False, difference=True, group="", bus="[0x{bus:02x}]", version=False, capped=False, stamp=None),
        Shape("2.10.0", 8, root=False, difference=True, group="", bus="[0x{bus:02x}]", version=False, capped=False, stamp=None),
        Shape("2.13.0", group="", bus="[0x{bus:02x}]", version=False, capped=False, stamp=None),
        Shape("2.13.4", bus="[0x{bus:02x}]", version=False, capped=False, stamp=None),
        Shape("2.14.1", version=False, capped=False, stamp=None),
        Shape("2.17.3", stamp=None), Shape("2.17.6", stamp=20), Shape("2.17.7"), Shape("2.19.2"))
}
# before 2.13 each collective had its own columns
LEFT = {"all_reduce": ("redop",), "all_gather": (), "broadcast": ("root",), "reduce": ("redop", "root")}
_DATE = "2026-11-20 10:11:12"


class Run(NamedTuple):
    """What a run was started with."""

    shape: Shape
    collective: str = "all_reduce"
    cpu_time: bool = False  # -C 1
    stamps: bool = False  # -S 1
    iterations: bool = False  # -I 1


def columns(run: Run) -> tuple[str, ...]:
    """Columns between the type and the two halves."""
    return ("redop", "root") if run.shape.root else LEFT[run.collective]


def text(run: Run, rows: Sequence[Row], *, bounds: int = 0, average: str = "123.456") -> str:
    """Header to footer."""
    return header(run) + "".join(line(run, row) for row in rows) + footer(run, bounds, average)


def header(run: Run) -> str:
    shape, name = run.shape, f"{run.collective}_perf"
    named = f"# nccl-tests version {shape.first} nccl-headers=23007 nccl-library=23007\n# Collective test starting: {name}\n"
    top = named if shape.version else ""
    top += "# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n"
    top += "# Using devices\n" + "".join(
        f"#  Rank {rank:2d} {shape.group}Pid {12345:6d} on {'node1':>10} device {rank:2d} {shape.bus.format(bus=0x1b + rank)} NVIDIA H200\n"
        for rank in range(2))
    wide = [f"{'size':>10}", f"{'count':>12}", f"{'type':>{shape.kind}}", *(f"{column:>6}" for column in columns(run))]
    unit = [f"{'(B)':>10}", f"{'(elements)':>12}", " " * shape.kind, *(" " * 6 for _column in columns(run))]
    wrong = f"{'error':>5}" if shape.difference else f"{'#wrong':>6}"
    half = [f"{'cputime' if run.cpu_time else 'time':>7}", f"{'algbw':>6}", f"{'busbw':>6}", wrong]
    of_half = [f"{'(us)':>7}", "(GB/s)", "(GB/s)", " " * len(wrong)]
    if run.iterations:
        half += [f"{word:>7}" for word in ("i_min", "i_max", "i_p99", "i_cv%")]
        of_half += [f"{word:>7}" for word in ("(us)", "(us)", "(us)", "(%)")]
    end = [f"{'timestamp' if run.stamps else '':>{shape.stamp or (19 if run.stamps else 0)}}"] if shape.stamp is not None else []
    return (f"{top}#\n# {'  '.join([' ' * len(cell) for cell in wide])}           out-of-place                       in-place          \n"
            f"# {'  '.join([*wide, *half, *half, *end])}\n# {'  '.join([*unit, *of_half, *of_half, *end])}\n")


def number(value: float, width: int, *, capped: bool, time: bool) -> str:
    if not capped:
        digits = (0 if value >= 10000 else 1 if value >= 100 else 2) if time else 2
        return f"{value:{width}.{digits}f}"
    power = next(power for power in range(1, 400) if value < 10 ** power)
    if power < width + 1:
        return f"{value:{width}.{2 if power < width - 2 else 1 if power < width - 1 else 0}f}"
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def half_of(run: Run, values: dict[str, Any]) -> str:
    shape = run.shape
    cells = [number(values["time_us"], 7, capped=shape.capped, time=True), number(values["algbw"], 6, capped=shape.capped, time=False),
             number(values["busbw"], 6, capped=shape.capped, time=False)]
    if values["wrong"] is None:
        wrong = "  N/A"
    else:
        wrong = f"{values['wrong']:5.0e}" if shape.difference else f"{values['wrong']:{6 if shape.capped else 5}g}"
    times = [number(values["time_us"] * factor, 7, capped=True, time=True) for factor in (0.9, 1.1, 1.09)] + ["   7.77"]
    return "".join(f"  {cell}" for cell in [*cells, wrong, *(times if run.iterations else [])])


def left_of(run: Run, row: Row) -> str:
    named = [f"  {row[column] if row[column] is not None else 'none':>6}" for column in columns(run)]
    return f"{row['size']:>12}  {row['count']:>12}  {row['type']:>{run.shape.kind}}" + "".join(named)


def line(run: Run, row: Row) -> str:
    halves = half_of(run, row["out_of_place"]) + (half_of(run, row["in_place"]) if row["in_place"] else "")
    return left_of(run, row) + halves + (f"{_DATE:>21}" if run.stamps else "") + "\n"


def footer(run: Run, bounds: int, average: str) -> str:
    end = f"# Collective test concluded: {run.collective}_perf\n#\n\n" if run.shape.version else ""
    return f"# Out of bounds values : {bounds} {'FAILED' if bounds else 'OK'}\n# Avg bus bandwidth    : {average} \n#\n{end}"
