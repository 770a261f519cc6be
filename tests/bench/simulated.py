# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line over nodes that are not there: a transport that answers from generated trees stands in for ssh.

    python -m tests.bench.simulated DIRECTORY VERB [ARGUMENT…]

DIRECTORY holds the trees (tests/fixtures/make_nodes.py). The node's own code answers once for each tree; to the other nodes of that tree
goes the same answer with their names. No tree has ever been set up by the inventory here, so each differs in a hundred places; of ten
nodes one answers so, and nine with three of the differences, by turns, as a cluster that somebody looks after. All else is the product's.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.loopback import FIRST_RAIL, RAIL_NETWORK

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import observe_drift
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright.cli import main
from railwright.scan import scan
from railwright.scan.dialogue import Heard, Payload

NAME = "the-name-of-the-node"
WHOLE, FEW = 10, 3
TREES = ("mlnx-ofed", "port-down", "roce8-bond", "rxe")  # of a node in a hundred each; all others are doca8
RAILS = tuple(f"0000:{0x13 + 0x18 * rail:02x}:00.0" for rail in range(8))  # of doca8


class Simulated:
    """A scan's Transport."""

    directory = Path()

    def __init__(self, _logins: Any, _word: str) -> None:
        self.classical: set[str] = set()
        self._drifts: dict[str, dict[str, Any]] = {}
        self._answers: dict[tuple[str, int], bytes] = {}

    async def hear(self, login: Any, _command: str, payload: Payload) -> Heard:
        number = int(login.node[4:])
        rest = number % 100
        tree = TREES[rest] if rest < len(TREES) else "doca8"
        if tree not in self._drifts:
            spec, given = Spec(json.loads(payload.spec)), json.loads(payload.call)["given"]
            self._drifts[tree] = observe_drift(TreeHost(str(self.directory / tree)), NAME, spec, None, given["now"])
        return Heard(self._answer(tree, number).replace(NAME.encode("ascii"), login.node.encode("ascii")), False, b"", b"", b"", 0)

    def _answer(self, tree: str, number: int) -> bytes:
        findings = self._drifts[tree]["findings"]
        first = number % len(findings) if number % WHOLE else -1
        if (tree, first) not in self._answers:
            some = findings[first : first + FEW] if number % WHOLE else findings
            self._answers[tree, first] = json.dumps({"changed": False, **self._drifts[tree], "findings": some}).encode("ascii")
        return self._answers[tree, first]

    async def close(self) -> None:
        pass


def inventory(directory: Path, count: int) -> Path:
    """Plain values, as a program that knows the machines writes them."""
    hosts = {f"node{number:05d}": {"rdma_rails": [
        {"name": f"rail{rail}", "match": {"pci": pci}, "address": f"{FIRST_RAIL + rail * RAIL_NETWORK + number}/18"}
        for rail, pci in enumerate(RAILS)]} for number in range(1, count + 1)}  # fmt: skip
    common = {"rdma_fabric": "roce", "rdma_mtu": 9000, "ansible_user": "root"}
    path = directory / "simulated.json"
    path.write_text(json.dumps({"all": {"vars": common, "children": {"rdma": {"hosts": hosts}}}}, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    Simulated.directory = Path(sys.argv[1])
    scan.TRANSPORT = Simulated
    main(sys.argv[2:])
