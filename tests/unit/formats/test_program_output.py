# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program wrote is shown without its control characters, bounded, and reduced to the line that says why."""

from __future__ import annotations

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import LINE, TAIL, clean, one_line, reason, tail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mred\x1b[0m\x07b", "aredb"),
        ("1\r\n2\r3\n", "1\n2\n3\n"),
        ("tab\tstays", "tab\tstays"),
        ("\u202eevil\u2066", "evil"),
        ("\x9b31mx", "31mx"),
    ],
)
def test_control_characters_go(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_lines_are_bounded() -> None:
    assert len(one_line("x" * 10000)) == LINE
    found = tail("\n".join(f"{number} " + "y" * 1000 for number in range(100)) + "\n\n")
    assert len(found) == TAIL
    assert found[-1].startswith("99 ")
    assert max(map(len, found)) == LINE


NO_SLOTS = """--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 16
slots that were requested by the application:

  /opt/all_reduce_perf
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1: Test NCCL failure x.cu:1 'unhandled system error'\nn1:1:1 [0] x.cc:5 NCCL WARN Failed to initialize any NET plugin\n",
         "n1:1:1 [0] x.cc:5 NCCL WARN Failed to initialize any NET plugin"),
        ("some words\nn1: Test CUDA failure common.cu:1234 'no CUDA-capable device is detected'\n .. n1 pid 3: Test failure common.cu:1\n",
         "n1: Test CUDA failure common.cu:1234 'no CUDA-capable device is detected'"),
        ("a: error while loading shared libraries: libmpi.so.40: cannot open shared object file: No such file or directory\nlast\n",
         "a: error while loading shared libraries: libmpi.so.40: cannot open shared object file: No such file or directory"),
        ("Host key verification failed.\n----------------\nORTE was unable to reliably start one or more daemons.\n",
         "Host key verification failed."),
        (NO_SLOTS, "There are not enough slots available in the system to satisfy the 16"),
        ("srun: error: Unable to allocate resources: Requested node configuration is not available\n",
         "srun: error: Unable to allocate resources: Requested node configuration is not available"),
        ("one\ntwo\n\n#\n-------------\n", "two"),
        ("", None),
        ("\n \n", None),
    ],
)
def test_the_line_that_says_why(text: str, expected: str | None) -> None:
    assert reason(text) == expected
