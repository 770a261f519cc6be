# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of an Arista switch: its CLI, to be run by a real sshd, or its eAPI over HTTP. A few commands that are read; anything else is
refused with EOS' own words, and all that was asked is written down beside the file of the configuration. It knows no configuration mode.

    python3 eos_double.py CONFIGURATION            # the CLI, on standard input and output
    python3 eos_double.py CONFIGURATION ADDRESS PORT
"""

from __future__ import annotations

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

PROMPT = "leaf1#"
SESSION = ("terminal length 0", "terminal width 512", "")  # of the terminal alone
OBJECTS: dict[str, dict[str, Any]] = {  # what eAPI tells as JSON
    "show version": {"modelName": "DCS-7060DX5-64S", "version": "4.31.2F"}, "show hostname": {"hostname": "leaf1", "fqdn": "leaf1"},
    "show configuration sessions": {"maxSavedSessions": 1, "sessions": {}},
}  # fmt: skip
INVALID = "% Invalid input"
USER = "root:by-password"


def told(command: str, configuration: Path) -> str | None:
    """What is printed; None for what is refused."""
    with configuration.with_suffix(".asked").open("a", encoding="utf-8") as stream:
        stream.write(command + "\n")
    if command == "show running-config":
        return configuration.read_text(encoding="utf-8")
    return "" if command in SESSION else None


def cli(configuration: Path) -> None:
    while True:
        sys.stdout.write(PROMPT)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line or line.strip() == "exit":
            return
        found = told(line.strip(), configuration)
        sys.stdout.write(INVALID + "\n" if found is None else found)


def eapi(configuration: Path, address: str, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = base64.b64decode(self.headers.get("Authorization", "").rpartition(" ")[2]).decode() == USER
            if self.path != "/command-api" or not known:
                self.send_error(401 if self.path == "/command-api" else 404)
                return
            commands = [item["cmd"] if isinstance(item, dict) else item for item in asked["params"]["cmds"]]
            texts = [(command, told(command, configuration)) for command in commands]
            result = [{"output": text} if text else OBJECTS.get(command, {"errors": [INVALID]}) for command, text in texts]
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

    HTTPServer((address, port), Handler).serve_forever()


if len(sys.argv) == 2:
    cli(Path(sys.argv[1]))
else:
    eapi(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
