# SPDX-License-Identifier: GPL-3.0-or-later
"""How a job ended, in words: what its exit status means, which line of its output says why, and what was left of it. Pure."""

from typing import Any, List, Mapping, Optional

from ..checks.comparisons import Where, verdict
from ..formats.program_output import clean, reason
from ..measure.nccl_tests.processes import FORSAKEN
from ..types import Verdict

# Of nccl-tests from 2.18 on (src/common.h, testResult_t); older ones end every failure with 1. 255: options.
_NCCL_TESTS = {1: "a failure", 2: "a CUDA failure", 3: "a NCCL failure", 4: "nccl-tests' own timeout", 5: "not implemented",
               6: "invalid usage", 7: "wrong values, or less than NCCL_TESTS_MIN_BW", 255: "an option was refused"}
_SHELL = {124: "its time was over", 125: "timeout itself failed", 126: "the program cannot be executed", 127: "the program was not found",
          FORSAKEN: "nobody asked for it any more: the controller was gone"}
_SIGNALS = {1: "HUP", 2: "INT", 4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 15: "TERM"}
_SAID = ("error", "Test NCCL failure", "Test CUDA failure")  # what stands behind a # too, and is no part of the table


def how_it_ended(rc: Any) -> str:
    """``exit 3: a NCCL failure``; None: somebody killed it together with what watched it."""
    if rc is None:
        return "killed from outside"
    code = int(rc)
    if code in _SHELL:
        return "exit %d: %s" % (code, _SHELL[code])
    if code > 128 and code - 128 in _SIGNALS:
        return "exit %d: killed by SIG%s" % (code, _SIGNALS[code - 128])
    return "exit %d%s" % (code, ": " + _NCCL_TESTS[code] if code in _NCCL_TESTS else "")


def why(text: str, log: str) -> Optional[str]:
    """NCCL's own warning first, wherever it was written; then the most telling line of the output that is not the table's."""
    warnings = "\n".join(line for line in clean(log).splitlines() if "NCCL WARN" in line)
    rest = "\n".join(line for line in clean(text).splitlines() if not _of_table(line))
    return reason(warnings) or reason(rest)


def _of_table(line: str) -> bool:
    """Whether a line is one of nccl-tests' table: a comment, or a row that begins with two numbers and a type."""
    words = line.split(None, 3)
    if line.lstrip().startswith("#"):
        return not any(word in line for word in _SAID)
    return len(words) > 2 and words[0].isdecimal() and words[1].isdecimal() and "a" <= words[2][0] <= "z"


def leftovers(ended: Mapping[str, int]) -> List[Verdict]:
    """A job that ended by itself leaves nothing. What had to be ended is worth a look: it held GPUs."""
    return [verdict("nccl.leftovers", Where(node, None, None, "processes of the run"), "warn", 0, count,
                    "%d processes of the run were still there after it and were ended" % count)
            for node, count in sorted(ended.items()) if count]
