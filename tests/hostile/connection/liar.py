# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection whose other end is the test: it answers what the file of its host says, in place of a node's Python.

Everything on the controller's side of ``exec_command`` is the real thing. What was asked is written down.
"""

import json
import os
import re
from functools import cache
from pathlib import Path

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: liar
short_description: a node whose Python answers what it likes
description: for a test
options:
  lie:
    description: which of the lies about one answer is told; after the last one the node is honest
    type: int
    default: 0
    vars: [{name: hostile_lie}]
"""
# How a module's program names itself, in ansible-core 2.16 and in 2.19; its options are in it as JSON in a Python string.
NAME = re.compile(rb"(?:ansible_collections[./]railwright[./]rdma[./]plugins|ansible)[./]modules[./](rdma_\w+|\w+)")
MODE = re.compile(rb'\\?"mode\\?": \\?"([a-z_]+)\\?"')
STEP = re.compile(rb'\\?"step\\?": \\?"([a-z_]+)\\?"')
PRODUCT = re.compile(rb'\\?"(?:product|benchmark)\\?": \\?"([a-z_]+)\\?"')
TOUCHED = re.compile(rb'\\?"(?:dest|path)\\?": \\?"([^"\\]*)')
NODES = re.compile(rb'\\?"nodes\\?": \[([^\]]*)\]')
BUILTIN = ("apt", "async_status", "async_wrapper", "command", "copy", "dnf", "file", "find", "get_url", "ping", "setup", "slurp", "stat",
           "systemd", "systemd_service", "unarchive")


class Connection(ConnectionBase):
    transport = "liar"
    has_pipelining = True

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        host = name_of(self._play_context.remote_addr)
        name, mode = asked(cmd, in_data)
        place = Path(os.environ["HOSTILE"])
        lie = self.get_option("lie")
        with (place / "asked").open("a") as stream:
            stream.write(f"{host} {name} {mode} {lie}\n")
        if name in ("copy", "file", "get_url"):
            with (place / "touched").open("a") as stream:
                stream.writelines(f"{host} {path.decode()}\n" for path in TOUCHED.findall(in_data))
        found = answer(place, host, name, mode, lie)
        if name == "shell" and "test -e" in cmd:
            return 1, b"", b""
        if name == "shell" and "boot_id" in cmd:  # another boot each time it is asked
            return 0, os.urandom(8).hex().encode(), b""
        if found[1] == b"@pings":  # one for everything that was asked
            return 0, json.dumps(pings(in_data.count(b"others"))).encode(), b""
        if found[1] == b"@drains":
            return 0, json.dumps(drains(NODES.search(in_data)[1].decode())).encode(), b""
        assert found is not None, f"the table of honest answers lacks {name} {mode}"
        return found

    def put_file(self, in_path, out_path):
        with (Path(os.environ["HOSTILE"]) / "sent").open("a") as stream:
            stream.write(f"{name_of(self._play_context.remote_addr)} {in_path} {out_path}\n")

    def fetch_file(self, in_path, out_path):
        host = name_of(self._play_context.remote_addr)
        Path(out_path).write_bytes(answer(Path(os.environ["HOSTILE"]), host, "fetch", "", self.get_option("lie"))[1])

    def close(self):
        self._connected = False

    def reset(self):
        pass


def asked(cmd, data):
    """(module, mode) of what is to be run; ``shell`` for a command, ``probe`` for the inspection of a node before Python."""
    if data is None and "async_wrapper" in cmd:
        return "async_wrapper", ""
    if data is None:
        return ("probe", "") if "#railwright:uid" in cmd else ("shell", "")
    names = [found.decode() for found in NAME.findall(data)]
    name = next((found for found in names if found.startswith("rdma_") or found in BUILTIN), "unknown")
    product = PRODUCT.search(data) if name in ("rdma_prefix", "rdma_bench") else None
    found = (STEP if name == "rdma_prefix" else MODE).search(data) if name.startswith("rdma_") else None
    return name, (f"{product[1].decode()}." if product else "") + (found[1].decode() if found else "")


def answer(place, host, name, mode, lie):
    """What the host's own file says, else the file of all honest ones; of a list of lies the one of that number, if there is one."""
    for file in (place / "lies" / f"{host}.json", place / "honest" / f"{host}.json", place / "honest.json"):
        if file.exists():
            table = json.loads(file.read_text())
            for key in (f"{name}:{mode}", f"{name}:*"):
                lies = table.get(key, [])
                lies = [lies] * (lie + 1) if isinstance(lies, str) else lies
                if lie < len(lies):
                    text = lies[lie]
                    if '"198.18.0.1"' in text:  # of its rail: each has its own
                        text = text.replace('"198.18.0.1"', f'"{address_of(host)}"')
                    return 0, text.encode("utf-8", "surrogateescape"), b""
    return None


def drains(names):
    state = {"state": "drained", "raw": "DRAINED", "closed": True, "empty": True, "done": True}
    return {"changed": False, "drains": [{"node": name, **state} for name in re.findall(r"[a-z]+[0-9]+", names)]}


@cache
def hosts():
    return json.loads(Path(os.environ["HOSTILE"], "hosts.json").read_text())["all"]["children"]["rdma"]["hosts"]


def name_of(address):
    return next((name for name, own in hosts().items() if own["ansible_host"] == address), address)


def address_of(host):
    return hosts()[host]["ansible_host"] if host in hosts() else "198.18.0.1"


def pings(number):
    ping = {"full": True, "small": True, "device": "eth1", "no_route": None, "why": None, "heard": {}}
    return {"changed": False, "pings": [ping] * number, "rails": [{"name": "rail0", "macs": [], "dad_failed": False}]}
