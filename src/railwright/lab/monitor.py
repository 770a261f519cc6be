# SPDX-License-Identifier: GPL-3.0-or-later
"""A QEMU monitor: one short QMP conversation at a time over the machine's socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from railwright.lab.errors import LabError


class Monitor:
    """`with Monitor(path) as m: m.execute("query-status")`."""

    def __init__(self, path: Path, timeout: float = 10) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._buffer = b""

    def __enter__(self) -> Self:
        try:
            self._socket.connect(str(self._path))
            self._read()  # The greeting.
            self.execute("qmp_capabilities")
        except OSError as exc:
            self._socket.close()
            raise LabError(f"the machine's monitor does not answer ({self._path}): {exc}") from exc
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def execute(self, command: str, arguments: dict[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Run one command and return its result; events that arrive meanwhile are dropped."""
        if timeout is not None:
            self._socket.settimeout(timeout)
        request: dict[str, Any] = {"execute": command}
        if arguments is not None:
            request["arguments"] = arguments
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while True:
                answer = self._read()
                if "error" in answer:
                    raise LabError(f"QEMU refused {command}: {answer['error'].get('desc', answer['error'])}")
                if "return" in answer:
                    return answer["return"]
        except OSError as exc:
            raise LabError(f"the machine's monitor stopped answering during {command}: {exc}") from exc

    def human(self, line: str, timeout: float = 10) -> str:
        """Run a human-monitor command. savevm and loadvm are synchronous only there; any text they print is an error."""
        return str(self.execute("human-monitor-command", {"command-line": line}, timeout=timeout)).strip()

    def _read(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("connection closed")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}
