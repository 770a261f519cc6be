# SPDX-License-Identifier: GPL-3.0-or-later
"""A live node that is asked in a hurry: a check is over soon, whatever hangs, and what hangs is its finding.

Each command has five seconds, all together have what the caller gives them, and a program that hung once is not asked a second time.
"""

import time
from typing import Callable, Dict, List, Optional, Sequence

from .host import READ_LIMIT, Host, Result, search_environment
from .run import run_bounded
from .write import OUTPUT_LIMIT

EACH = 5.0  # seconds of one command
PATIENCE = 0.5  # seconds for it to end when asked, and when killed
LEAST = 0.2  # seconds: with less left nothing is started


class HastyHost(Host):
    """``tell`` gets what is read or run before that begins. ``hung``: by program what became of it; ``late``: what was not asked at all."""

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        self._until, self._tell = time.monotonic() + seconds, tell
        self.hung: Dict[str, Result] = {}
        self.late: List[str] = []

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> Optional[bytes]:
        self._tell("reading %s" % path)
        return super().read_bytes(path, limit)

    def listdir(self, path: str) -> List[str]:
        self._tell("listing %s" % path)
        return super().listdir(path)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        seconds = min(timeout, EACH, self._until - time.monotonic())
        if argv[0] in self.hung:
            return self.hung[argv[0]]
        if seconds < LEAST:
            self.late.append(argv[0])
            return Result(124, "", "%s: not asked, the time was over" % argv[0])
        self._tell("running %s" % argv[0])
        result = run_bounded(argv, search_environment(), seconds, stdin, limit, PATIENCE)
        if result.rc == 124:
            self.hung[argv[0]] = result
        return result
