# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU seconds of every parser of foreign text for a megabyte: the rows of tests/hostile/fuzz_table.py.

The megabyte is made of a row's samples in the ways that hurt: the whole sample again and again, one of its lines, its words in one line
without an end, and one word without an end. The slowest of them counts. The claim is that none takes longer than LIMIT_S; exit 1 when one
does.

    python -m benchmarks.parsers [NAME]
"""

import contextlib
import sys
import time
from collections.abc import Iterator

from tests.hostile.fuzz_table import TABLE_OF_PARSERS, Row

LIMIT_S = 10.0
SIZE = 1_000_000


def megabytes(row: Row) -> Iterator[str]:
    for sample in row.samples:
        lines = [line for line in dict.fromkeys(sample.split("\n")) if line]
        for line in lines[:12]:
            word, blank, rest = line.partition(" ")
            yield f"{word}{'x' * SIZE}{blank}{rest}\n"
        for piece in (sample, *(line + "\n" for line in lines[:12]), " ".join(sample.split()) + " "):
            if piece:
                yield piece * (SIZE // len(piece))


def seconds(row: Row, text: str) -> float:
    start = time.process_time()
    with contextlib.suppress(*row.errors):
        row.parse(text)
    return time.process_time() - start


def main() -> int:
    wanted = " ".join(sys.argv[1:])
    found = {row.name: max(seconds(row, text) for text in megabytes(row)) for row in TABLE_OF_PARSERS if row.samples and wanted in row.name}
    print(f"CPU seconds for a megabyte, the slowest of {len(found)} parsers of foreign text first:")
    for name, spent in sorted(found.items(), key=lambda item: -item[1]):
        print(f"  {spent:7.3f}  {name}", flush=True)
    return 0 if max(found.values()) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
