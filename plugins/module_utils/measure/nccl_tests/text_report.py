# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests prints, of any version from 2.0 on, as one object. Pure, and never raises.

The text is read as a stream of words, not as lines: NCCL's own log comes between the two
halves of a row, launchers put a rank before every line, and pages that quote a table fold
it into one. The header says which columns there are; a row says itself whether it has one half
or two. Formats: src/util.cu and src/common.cu of nccl-tests 2.0 to 2.20.
"""

import math
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

TYPES = frozenset((
    "int8", "uint8", "char", "int32", "int", "uint32", "int64", "uint64", "half", "float16", "float", "float32", "double", "float64",
    "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "float8e4m3", "float8e5m2",
))
TIMES = ("time", "cputime")  # with -C 1 the CPU's time is reported
WRONGS = ("#wrong", "wrong", "error")  # a count since 2.13; before that the largest difference found
_DEFAULT_LEFT = ("size", "count", "type", "redop", "root")  # since 2.13
_HALF = 4  # time, algbw, busbw, wrong

# mpirun --tag-output (Open MPI 5 names the job too), srun -l; Hydra's -l
_PREFIX = re.compile(r"^(?:\[[^\],\s]{1,80},\d+\]<(?:std(?:out|err|diag))>:? ?|\[\d+\] (?=[ #\d])|\d+: (?=[ #\d]))", re.MULTILINE)
# A row's left part is printed without a line end, so what comes next may stick to its last word: "-1node1:12:12 [0] NCCL INFO".
# Looked for only where a word begins: a file with a word of megabytes would be tried from each of its letters.
_REDOPS = ("mulsum", "none", "prod", "sum", "max", "min", "avg")
_STUCK = r"(-1(?=[\w\[])|(?<=\s)\d{1,4}(?=[A-Za-z\[])|(?:%s)(?=[\w\[]))?" % "|".join(
    sorted(TYPES, key=len, reverse=True) + list(_REDOPS))
_LOG = re.compile(
    r"(?<![^\s:])" + _STUCK + r"(?:\[[^\]\n]{4,40}\] )?[^\s:]+:\d+:\d+ (?:\[[-\d]+\] )?(?:[^\s:]+:\d+ (?:\(\S+\) )?)?NCCL "
    r"(?:INFO|WARN|ERROR|TRACE|ABORT|VERSION)[^\n]*|NCCL version [^\n]*")
_ROW = re.compile(r"(?<!\d)\d{1,19}\s+\d{1,19}\s+(?:%s)\s" % "|".join(sorted(TYPES)))
_HEADER = re.compile(r"#\s*(size\s+count\s+type(?:[ \t]+#?[A-Za-z_][\w%]*)+)")
_INTEGER = re.compile(r"\d{1,19}\Z")
_ROOT = re.compile(r"-?\d{1,9}\Z")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)\Z")
# %g of a count, or %e of a difference: one with a fraction and no exponent is another column, as 2.17.3 to 2.19.5 may leave one blank
_COUNT = re.compile(r"\d+\Z|\d(?:\.\d+)?e[-+]\d{2,3}\Z|-?nan\Z|-?inf\Z")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\b")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)(?=\s)")  # every version prints a blank behind it: without, the number was cut
_FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure|Test timeout|: Test failure |Invalid number of GPUs")
# "# error: …" below the footer is no failure: it is NCCL's last message, which may be a warning that meant nothing


class Layout(NamedTuple):
    """Columns of a table: those on the left by name, and how many each half has."""

    left: Tuple[str, ...]
    half: int
    wrong: str  # "#wrong" or "error": what the fourth column of a half means


def parse(text: str) -> Dict[str, Any]:
    """``{"rows", "avg_busbw", "out_of_bounds", "complete"}``; sizes in bytes, times in us, bandwidths in GB/s (decimal).

    ``complete``: at least one row, none cut off, both footer lines, and no failure in between. What
    is not to be had is None: ``wrong`` where nothing was checked, ``in_place`` where a row has one half.
    """
    body = _without_log(_PREFIX.sub("", text))
    tables = list(_HEADER.finditer(body))
    rows: List[Dict[str, Any]] = []
    cut = False
    starts = [(found.end(1), layout_of(found.group(1).split())) for found in tables] or [(0, Layout(_DEFAULT_LEFT, _HALF, "#wrong"))]
    ends = [found.start() for found in tables[1:]] + [len(body)]
    for (start, layout), end in zip(starts, ends):
        found_rows, pending = _rows(body[start:end].split(), layout)
        rows.extend(found_rows)
        cut = cut or pending
    bounds = _BOUNDS.findall(body)
    averages = _AVERAGE.findall(body)
    footers = min(len(bounds), len(averages))
    complete = bool(rows) and not cut and footers >= max(1, len(tables)) and not _FAILURE.search(text)
    return {
        "rows": rows,
        "avg_busbw": _number(averages[-1]) if averages else None,
        "out_of_bounds": sum(int(number) for number in bounds) if bounds else None,
        "complete": complete,
    }


def layout_of(words: Sequence[str]) -> Layout:
    """The columns that a header line names, up to where the second half begins."""
    first = next((index for index, word in enumerate(words) if word in TIMES), len(words))
    left = tuple(word for word in words[:first] if word in _DEFAULT_LEFT)
    rest = list(words[first:])
    again = next((index for index, word in enumerate(rest) if index > 0 and word in TIMES), len(rest))
    columns: List[str] = []
    for word in rest[:again]:
        if not re.match(r"[#A-Za-z_][\w%]*\Z", word) or word in columns:
            break
        columns.append(word)
    wrong = next((word for word in columns if word in WRONGS), "#wrong")
    return Layout(left if len(left) >= 3 else _DEFAULT_LEFT, max(_HALF, len(columns)), wrong)


def _without_log(text: str) -> str:
    """NCCL's log goes, up to the end of its line; a row that follows in the same line stays."""
    def rest(found: Any) -> str:
        row = _ROW.search(found.group(0))
        stuck = found.group(1) or ""
        if stuck and not _ends_left_part(text[max(0, found.start() - 120):found.start()].rpartition("\n")[2].split(), stuck):
            stuck = ""  # the host's name begins so
        return "%s %s" % (stuck, found.group(0)[row.start():] if row is not None else "")
    return _LOG.sub(rest, text)


def _ends_left_part(before: Sequence[str], word: str) -> bool:
    """Whether a word can be the last one on the left of a row that ``before`` begins: size, count, type, redop, root."""
    places = (2,) if word in TYPES else (3,) if word in _REDOPS else (3, 4)
    return any(
        len(before) >= place and _INTEGER.match(before[-place]) is not None and _INTEGER.match(before[1 - place]) is not None
        and (place == 2 or before[2 - place] in TYPES) for place in places)


def _rows(words: Sequence[str], layout: Layout) -> Tuple[List[Dict[str, Any]], bool]:
    """The rows in a stream of words, and whether one was cut off."""
    rows: List[Dict[str, Any]] = []
    position = 0
    cut = False
    while position < len(words):
        if not _starts_row(words, position):
            position += 1
            continue
        row, position, whole = _row(words, position, layout)
        rows += [row] if row is not None else []
        cut = cut or not whole
    halves = {row["in_place"] is None for row in rows}
    return rows, cut or len(halves) > 1


def _starts_row(words: Sequence[str], position: int) -> bool:
    return (position + 2 < len(words) and words[position + 2] in TYPES
            and _INTEGER.match(words[position]) is not None and _INTEGER.match(words[position + 1]) is not None)


def _row(words: Sequence[str], position: int, layout: Layout) -> Tuple[Optional[Dict[str, Any]], int, bool]:
    """(the row or None, where to go on, whether both halves that it begins are whole)."""
    row: Dict[str, Any] = {
        "size": int(words[position]), "count": int(words[position + 1]), "type": words[position + 2], "redop": None, "root": None}
    after = position + 3
    if "redop" in layout.left and after < len(words):
        row["redop"] = words[after] if words[after] != "none" else None
        after += 1
    if "root" in layout.left:
        if after >= len(words) or not _ROOT.match(words[after]):
            return None, position + 3, False
        row["root"] = int(words[after])
        after += 1
    first, after = _half(words, after, layout)
    if first is None:
        return None, position + 3, False
    row["out_of_place"], row["in_place"] = first, None
    if after >= len(words) or _starts_row(words, after) or not _NUMBER.match(words[after]):
        return row, after, True
    second, after = _half(words, after, layout)
    row["in_place"] = second
    return row, after, second is not None


def _half(words: Sequence[str], position: int, layout: Layout) -> Tuple[Optional[Dict[str, Any]], int]:
    """Time, the two bandwidths and the number of wrong values; what more columns a half has is passed over."""
    end = position + layout.half
    part = words[position:end]
    if any(_starts_row(words, at) for at in range(position, end)):
        return None, position  # the next row has begun: a cell of this one is blank, or its end is missing
    if len(part) < layout.half or not all(map(_NUMBER.match, part[:3])) or not (part[3] == "N/A" or _COUNT.match(part[3])):
        return None, position
    half = {"time_us": _number(part[0]), "algbw": _number(part[1]), "busbw": _number(part[2]), "wrong": _wrong(part[3])}
    return half, end


def _wrong(word: str) -> Optional[int]:
    """A count of wrong values; None where nothing was checked, and for the difference that versions before 2.13 print when it is not 0."""
    value = _number(word)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def _number(word: str) -> Optional[float]:
    """A finite number, else None: JSON has no nan."""
    if not _NUMBER.match(word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None
