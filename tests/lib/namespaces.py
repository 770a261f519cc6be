# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as network namespaces, and rails as bridges between them: real interfaces, ARP, routes and pings, and cables that can be moved.

The interfaces are veths: ``eth1`` of node ``n1`` ends in the namespace of the switches as ``n1p1``, a port of one of its bridges.
Python runs inside a node through ``ip netns exec``, which shows it that namespace's /sys too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

MTU = 9000
DEV = str(Path(__file__).resolve().parents[2] / ".dev")


def ip(*argv: str) -> str:
    return subprocess.run(("ip", *argv), check=True, capture_output=True, text=True).stdout


class Fabric:
    """``subnets``: of each rail, with room for the node's number at its end: ``10.10.0.{}/24``."""

    def __init__(self, nodes: int, subnets: list[str]) -> None:
        self.prefix = f"rw{os.getpid()}"
        self.subnets = subnets
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.made: list[str] = []

    def name(self, node: str) -> str:
        return f"{self.prefix}-{node}"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        while self.made:
            subprocess.run(("ip", "netns", "del", self.made.pop()), check=False, capture_output=True)

    def _make(self) -> None:
        for node in ("switches", *self.nodes):
            ip("netns", "add", self.name(node))
            self.made.append(self.name(node))
            self.ip(node, "link", "set", "lo", "up")
        for at in range(len(self.subnets)):
            self.ip("switches", "link", "add", f"br{at}", "mtu", str(MTU), "type", "bridge")
            self.ip("switches", "link", "set", f"br{at}", "up")
        for node in self.nodes:
            for at in range(len(self.subnets)):
                self._cable(node, at)

    def _cable(self, node: str, at: int) -> None:
        netdev, port, mac = f"eth{at + 1}", f"{node}p{at + 1}", self.mac(node, at)
        self.ip(node, "link", "add", netdev, "address", mac, "mtu", str(MTU), "type", "veth", "peer", "name", port,
                "mtu", str(MTU), "netns", self.name("switches"))
        self.plug(node, at, at)
        self.ip("switches", "link", "set", port, "up")
        self.ip(node, "link", "set", netdev, "up")
        self.ip(node, "addr", "add", self.cidr(node, at), "dev", netdev, *(("nodad",) if ":" in self.cidr(node, at) else ()))

    def ip(self, node: str, *argv: str) -> str:
        return ip("-n", self.name(node), *argv)

    def plug(self, node: str, rail: int, bridge: int) -> None:
        """Put the cable of a node's rail into the switch of any rail."""
        self.ip("switches", "link", "set", f"{node}p{rail + 1}", "master", f"br{bridge}")

    def swap(self, node: str) -> None:
        self.plug(node, 0, 1)
        self.plug(node, 1, 0)

    @staticmethod
    def mac(node: str, rail: int) -> str:
        return f"02:00:00:00:0{node[1:]}:0{rail + 1}"

    def cidr(self, node: str, rail: int) -> str:
        return self.subnets[rail].format(node[1:])

    def sysctl(self, node: str, **values: int) -> None:
        for name, value in values.items():
            self.run(node, "sysctl", "-qw", f"net.ipv4.conf.all.{name}={value}")

    def run(self, node: str, *argv: str, stdin: str = "") -> str:
        done = subprocess.run(("ip", "netns", "exec", self.name(node), *argv), check=False, capture_output=True, text=True, input=stdin,
                              env=dict(os.environ, PYTHONPATH=DEV))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, node: str, code: str, given: Any = None) -> Any:
        """What a piece of code prints as JSON inside a node; it finds ``given`` under that name."""
        return json.loads(self.run(node, sys.executable, "-c", "import json, sys\ngiven = json.load(sys.stdin)\n" + code,
                                   stdin=json.dumps(given)))
