# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of a language server over standard input and output: as much of LSP 3.17 as an editor does with one file of YAML."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 60  # seconds for one answer: a start of node on a busy machine
SETTINGS = {"yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}}


class LanguageServer:
    def __init__(self, argv: Sequence[str], root: Path) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._diagnostics: queue.Queue[dict[str, Any]] = queue.Queue()
        self._last = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.request("initialize", {
            "processId": None, "rootUri": root.as_uri(), "workspaceFolders": [{"uri": root.as_uri(), "name": "site"}],
            "capabilities": {"textDocument": {"hover": {"contentFormat": ["markdown"]}, "completion": {}, "publishDiagnostics": {}},
                             "workspace": {"configuration": True}}})
        self.notify("initialized", {})
        self.notify("workspace/didChangeConfiguration", {"settings": SETTINGS})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.request("shutdown", None)
        with self._process:
            self.notify("exit", None)
            self._reader.join(PATIENCE)

    def request(self, method: str, params: Any) -> Any:
        self._last += 1
        number = self._last
        self._answers[number] = queue.Queue()
        self._send({"id": number, "method": method, "params": params})
        answer = self._answers[number].get(timeout=PATIENCE)
        del self._answers[number]
        assert "error" not in answer, answer
        return answer["result"]

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def open(self, path: Path, text: str) -> list[dict[str, Any]]:
        """What the server says of a file of this name with this text, which need not be on the disk. A name can be opened once."""
        self.notify("textDocument/didOpen", {"textDocument": {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}})
        while True:
            said = self._diagnostics.get(timeout=PATIENCE)
            if said["uri"] == path.as_uri():
                return list(said["diagnostics"])

    def at(self, method: str, path: Path, line: int, column: int) -> Any:
        return self.request(method, {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(length))
            if message.get("method") == "textDocument/publishDiagnostics":
                self._diagnostics.put(message["params"])
            elif message.get("method") == "workspace/configuration":
                self._send({"id": message["id"], "result": [SETTINGS.get(item.get("section")) for item in message["params"]["items"]]})
            elif "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
            elif message.get("id") in self._answers:
                self._answers[message["id"]].put(message)
