# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of ``validate`` on the ssh mesh: a login that fails names both nodes, and what was not tried is no pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.action import rdma_ssh_mesh
from ansible_collections.railwright.rdma.plugins.action.rdma_cluster import logins
from ansible_collections.railwright.rdma.plugins.action.rdma_ssh_mesh import LOGINS, to_log_into
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import node
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.mesh import TEXT, judge_mesh

PEERS = {"n1": ["n2", "n3"], "n2": ["n3", "n1"], "n3": ["n1", "n2"]}
NONE = {"configured": False, "user": "mpi", "logins": {}}


def good(name: str, **said: str | None) -> dict[str, Any]:
    return {"configured": True, "user": "mpi", "logins": {**dict.fromkeys(PEERS[name]), **said}}


def judged(**answers: Any) -> dict[str, Any]:
    verdicts = judge_mesh(PEERS, {name: good(name) for name in PEERS} | answers)
    assert {item.check for item in verdicts} == {"ssh.mesh"}
    return {item.node: item for item in verdicts}


def test_a_whole_mesh_passes_and_says_who_logs_into_whom() -> None:
    found = judged()
    assert [found[name].status for name in PEERS] == ["pass"] * 3
    assert found["n2"].message == "mpi on n2 logs into n3, n1"


def test_a_login_that_fails_names_both_nodes_and_what_ssh_said() -> None:
    found = judged(n1=good("n1", n2="mpi@n2: Permission denied (publickey)." + "x" * 2 * TEXT))
    assert [found[name].status for name in PEERS] == ["fail", "pass", "pass"]
    assert found["n1"].message.startswith("mpi on n1 cannot log into n2: mpi@n2: Permission denied (publickey).x")
    assert len(found["n1"].message) < TEXT + 100
    assert found["n1"].found == "logins on n3"


@pytest.mark.parametrize("answer", [None, {"configured": True, "user": "mpi", "logins": {"n2": None, "n9": None}}])
def test_what_was_not_tried_is_unknown(answer: Any) -> None:
    assert judged(n1=answer)["n1"].status == "unknown"


def test_a_node_without_the_mesh_of_the_others_fails() -> None:
    found = judged(n2=NONE)
    assert (found["n2"].status, found["n1"].status) == ("fail", "pass")
    assert "n2 has no ssh mesh, and n1, n3 has one" in found["n2"].message


def test_the_word_of_one_node_alone_fails_no_other() -> None:
    found = judged(n2=NONE, n3=NONE)
    assert (found["n1"].status, found["n2"].status, found["n3"].status) == ("pass", "warn", "warn")


def test_nobody_has_a_mesh_is_one_skipped_verdict() -> None:
    assert [(name, item.status) for name, item in judged(n1=NONE, n2=NONE, n3=NONE).items()] == [("", "skipped")]
    assert judged(n1=NONE, n2=None, n3=NONE)["n2"].status == "unknown", "who knows whether it has one"


def test_a_node_alone_has_nobody_to_log_into() -> None:
    assert [item.status for item in judge_mesh({"n1": []}, {"n1": {**good("n1"), "logins": {}}})] == ["skipped"]


def test_the_inventory_says_who_is_in_the_mesh_and_peers_are_bounded() -> None:
    peers = [f"n{number}" for number in range(20)]
    asked = to_log_into({"hostvars": {"n0": {"ssh_mesh_state": "absent"}, "n1": {"ssh_mesh_state": "present"}}}, peers)
    assert asked == peers[1 : LOGINS + 1]


def test_the_judge_takes_only_what_the_steps_registered() -> None:
    registered = {"n1": {"login": good("n1"), "peers": PEERS["n1"]}, "n2": {"login": None}, "n3": {"failed": True, "msg": "sick"}}
    variables = {"hostvars": {name: {"mesh": value} for name, value in registered.items()}}
    assert [(item.node, item.status) for item in logins(variables, [*registered], "mesh")] == [("n1", "pass"), ("n3", "unknown")]


class Host:
    """A node whose client file and logins are the test's."""

    def __init__(self, client: str) -> None:
        self.client = client

    def read(self, _path: str) -> str:
        return self.client

    def user(self) -> int:
        return 1000

    def run(self, argv: tuple[str, ...], _seconds: float) -> Any:
        assert ("BatchMode=yes", argv[-1]) == (argv[2], "true")
        return SimpleNamespace(ok=argv[-2] != "n2", err="Warning: x\nmpi@n2: Permission denied", rc=255)


def test_a_node_logs_into_each_peer_where_it_has_the_meshs_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "account", lambda name: node.Account(name, 1000, 1000, "/home/mpi"))
    header = "# Managed by railwright (railwright.rdma): the next apply overwrites changes made here.\n"
    found = node.try_logins(Host(header), "mpi", ["n2", "n3"], False)
    assert found == {"configured": True, "user": "mpi", "logins": {"n2": "mpi@n2: Permission denied", "n3": None}}
    assert node.try_logins(Host("Host *\n"), "nobody-here", ["n2"], False)["configured"] is False


def test_a_node_that_leaves_the_mesh_is_not_asked() -> None:
    action = object.__new__(rdma_ssh_mesh.ActionModule)
    assert action._login({}, {}, {"state": "absent"}, {}) == {"changed": False, "login": None}
