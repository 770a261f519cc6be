# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for as long as somebody listens: the end of the input, a closed output, a silent controller, a slow reader."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import itertools, sys
sys.path[:0] = [{root!r} + "/.dev"]
from ansible_collections.railwright.rdma.plugins.module_utils.host.stream import tell
numbers = itertools.count()
tell(lambda: b"%d%s\\n" % (next(numbers), b"x" * {size}), {period}, {patience})
"""


def started(period: float = 0.05, patience: float = 30.0, size: int = 0) -> subprocess.Popen[bytes]:
    program = PROGRAM.format(root=str(ROOT), period=period, patience=patience, size=size)
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def lines(process: subprocess.Popen[bytes], many: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline().strip(b"x\n")) for _line in range(many)]


def test_it_ends_with_its_input() -> None:
    with started() as process:
        assert lines(process, 3) == [0, 1, 2]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60.0) == 0


def test_it_ends_when_nobody_reads() -> None:
    with started() as process:
        lines(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60.0) == 0


def test_it_ends_when_nothing_comes_in() -> None:
    with started(patience=0.5) as process:
        lines(process, 1)
        assert process.wait(60.0) == 0


def test_a_beat_keeps_it_alive() -> None:
    with started(patience=3.0) as process:
        assert process.stdin is not None
        for _beat in range(8):
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(0.45)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60.0) == 0


@pytest.mark.parametrize("size", [0, 200_000])
def test_a_slow_reader_gets_whole_lines_and_no_old_ones(size: int) -> None:
    with started(period=0.01, size=size) as process:
        first = lines(process, 1)
        time.sleep(1.0)
        later = lines(process, 8)
        assert later == sorted(later) and first == [0]
        assert process.stdout is not None and process.stdin is not None
        process.stdin.close()
        os.read(process.stdout.fileno(), 1 << 20)
        process.wait(60.0)
