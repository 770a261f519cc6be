# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs on a node wrote, made fit to be shown: no control characters, bounded, and the one line of a log that says why. Pure."""

import re
from typing import List, Optional

from .outside import lines_in

LINE = 300  # characters of one line in a message
TAIL = 20  # lines of the end of a log in a report
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_DROPPED = re.compile(r"(?:-{5,}|={5,}|\*{5,}|#|NOTE\b.*|BAD TERMINATION.*)?\Z")
# What says why a run failed, the most telling first: NCCL's warnings, nccl-tests' own words, the loader, the launchers.
_TELLING = tuple(re.compile(pattern) for pattern in (
    r"NCCL WARN ",
    r"Test (?:NCCL|CUDA) failure|Test timeout|Invalid number of GPUs|# error: |invalid (?:option|size)",
    r"error while loading shared libraries|cannot open shared object file|command not found|No such file or directory",
    r"Host key verification failed|Permission denied|Connection (?:refused|timed out|closed)|Could not resolve hostname|No route to host",
    r"(?:srun|slurmstepd): (?:error|fatal)|mpirun (?:was unable|noticed|detected)|(?:ORTE|PRTE) (?:was unable|has lost)",
    r"There are not enough slots|HYD[A-Z_]\w*|\bfatal\b|\berror:",
    r"(?i)\bfail(?:ed|ure)?\b|\berror\b|Segmentation fault|Killed",
))
_HARMLESS = re.compile(r"Missing \"\w+\"|DEPRECATED")  # what NCCL warns of in runs that are well


def clean(text: str) -> str:
    """The text without control characters; line ends and tabs stay. A row that a program overwrote with CR counts as lines."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, limit: int = LINE) -> str:
    words = " ".join(clean(text).split())
    return words if len(words) <= limit else words[:limit - 1] + "…"


def tail(text: str, lines: int = TAIL) -> List[str]:
    """The end of a log, a bounded number of bounded lines."""
    found = [line.rstrip() for line in lines_in(clean(text)) if line.strip()]
    return [line if len(line) <= LINE else line[:LINE - 1] + "…" for line in found[-lines:]]


def reason(text: str) -> Optional[str]:
    """The line that says why, else the last one; None for a log that says nothing."""
    lines = [line for line in (line.strip() for line in lines_in(clean(text))) if not _DROPPED.match(line)]
    for pattern in _TELLING:
        for line in lines:
            found = pattern.search(line)
            if found is not None and not (pattern is _TELLING[0] and _HARMLESS.search(line, found.end())):
                return one_line(line)
    return one_line(lines[-1]) if lines else None
