# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor's conversation, with a server that speaks QMP back."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railwright.lab import LabError
from railwright.lab.machine import Monitor

ANSWERS: dict[str, list[dict[str, Any]]] = {
    "qmp_capabilities": [{"return": {}}],
    "query-status": [{"event": "RESET"}, {"return": {"status": "running"}}],
    "human-monitor-command": [{"return": "Error: no disk\r\n"}],
    "bad": [{"error": {"class": "GenericError", "desc": "not like this"}}],
    "quit": [],
}


def serve(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        stream.write(b'{"QMP": {}}\n')
        stream.flush()
        for line in stream:
            answers = ANSWERS[json.loads(line)["execute"]]
            if not answers:
                return
            for answer in answers:
                stream.write(json.dumps(answer).encode() + b"\r\n")
            stream.flush()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "qmp"))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield tmp_path / "qmp"
        thread.join(60)


def test_conversation(path: Path) -> None:
    with Monitor(path) as monitor:
        assert monitor.execute("query-status") == {"status": "running"}
        assert monitor.human("savevm x") == "Error: no disk"
        with pytest.raises(LabError, match="not like this"):
            monitor.execute("bad")
        with pytest.raises(LabError, match="stopped answering during quit"):
            monitor.execute("quit")


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="does not answer"), Monitor(tmp_path / "none"):
        pass
