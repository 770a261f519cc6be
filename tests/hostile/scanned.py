# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line, with a transport whose other end is the test: what each node sends is in a file, and goes through the real dialogue.

    python -m tests.hostile.scanned PLACE VERB [ARGUMENT…]
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from railwright.cli import main
from railwright.scan import scan
from railwright.scan.dialogue import Dialogue, Heard

CHUNK = 1000
PLACE = Path()


class Channel:
    """Takes what is sent to the node."""

    def write(self, data: bytes) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def abort(self) -> None:
        pass


class Liar:
    """A scan's Transport. ``WORD`` in what a node sends stands for the run's own word."""

    def __init__(self, _logins: Any, word: str) -> None:
        self.classical: set[str] = set()
        self._word = word
        self._sent = json.loads((PLACE / "sent.json").read_text(encoding="utf-8"))

    async def hear(self, login: Any, command: Any, payload: Any) -> Heard:
        dialogue = Dialogue(self._word, payload, command)
        channel: Any = Channel()
        dialogue.connection_made(channel)
        said = self._sent[login.node].replace("WORD", self._word).encode("utf-8", "surrogateescape")
        for first in range(0, len(said), CHUNK):
            dialogue.data_received(said[first : first + CHUNK], None)
            await asyncio.sleep(0)
        dialogue.exit_status_received(0)
        dialogue.connection_lost(None)
        heard: Heard = await dialogue.heard
        return heard

    async def close(self) -> None:
        pass


if __name__ == "__main__":
    PLACE = Path(sys.argv[1])
    scan.TRANSPORT = Liar
    main(sys.argv[2:])
