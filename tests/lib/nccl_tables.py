# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables as nccl-tests prints them, by version: the format strings are those of its source (src/util.cu, src/common.cu)."""

from collections.abc import Sequence
from typing import Any

# version: (has root, has the version lines, name of the fourth column, how it is printed)
STYLES = {
    "2.0": (False, False, "error", "{:>5}"),
    "2.13": (True, False, "#wrong", "{:>6}"),
    "2.17": (True, True, "#wrong", "{:>6}"),
    "2.19": (True, True, "#wrong", "{:>6}"),
}
FOOTER = "# Out of bounds values : {bounds} {word}\n# Avg bus bandwidth    : {average} \n#\n"


def header(version: str) -> str:
    root, lines, wrong, _form = STYLES[version]
    left = "size         count      type   redop" + ("    root" if root else "")
    half = f"time   algbw   busbw  {wrong}"
    top = "# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007\n" if lines else ""
    return (f"{top}# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1\n#\n"
            "# Using devices\n#  Rank  0 Group  0 Pid  12345 on      node1 device  0 [0000:1b:00] NVIDIA H200\n#\n"
            "#                                   out-of-place                       in-place          \n"
            f"#       {left}     {half}     {half}\n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n")


def half(version: str, values: dict[str, Any]) -> str:
    wrong = "N/A" if values["wrong"] is None else str(values["wrong"])
    return f"  {values['time_us']:>7}  {values['algbw']:>6}  {values['busbw']:>6}  " + STYLES[version][3].format(wrong)


def left(version: str, row: dict[str, Any]) -> str:
    text = f"{row['size']:>12}  {row['count']:>12}  {row['type']:>8}  {row['redop']:>6}"
    return text + (f"  {row['root']:>6}" if STYLES[version][0] else "")


def table(version: str, rows: Sequence[dict[str, Any]], average: str = "123.456", bounds: int = 0) -> str:
    """A whole run, header to footer."""
    body = "".join(
        left(version, row) + half(version, row["out_of_place"]) + (half(version, row["in_place"]) if row["in_place"] else "") + "\n"
        for row in rows)
    return header(version) + body + FOOTER.format(bounds=bounds, word="FAILED" if bounds else "OK", average=average)
