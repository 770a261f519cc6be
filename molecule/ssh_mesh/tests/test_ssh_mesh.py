# SPDX-License-Identifier: GPL-3.0-or-later
"""Every node logs into every other one as the job user; nobody else does, and nobody who left."""

from __future__ import annotations

from typing import Any

NODES = ("node1", "node2", "node3")
STAY = ("node1", "node2")
AUTHORIZED = "/home/mpi/.ssh/authorized_keys"
KNOWN = "/etc/ssh/railwright_mesh_known_hosts"
CLIENT = "/etc/ssh/ssh_config.d/50-railwright-mesh.conf"
PUBLIC = "/home/mpi/.ssh/railwright_mesh.pub"


def refused(moment: Any) -> dict[Any, str]:
    return {pair: login.said for pair, login in moment.logins.items() if not login.ok}


def answers(run: Any, mode: str) -> dict[str, list[str]]:
    """What a step of the role changed, node by node."""
    return {item["host"]: item["answer"].get("changes", []) for item in run.of("rdma_ssh_mesh") if item["task"] == mode}


def test_every_node_logs_into_every_other(story: Any) -> None:
    assert len(story["first"].logins) == 6
    assert refused(story["first"]) == {}
    assert story["by address"].ok, story["by address"].said


def test_validate_passes_a_whole_mesh(story: Any) -> None:
    assert {node: verdict["status"] for node, verdict in story["validated"].items()} == dict.fromkeys(NODES, "pass")


def test_validate_fails_a_login_that_fails_and_names_both_nodes(story: Any) -> None:
    found = story["key removed"]
    assert {node: verdict["status"] for node, verdict in found.items()} == {"node1": "fail", "node2": "pass", "node3": "fail"}
    for node in ("node1", "node3"):
        assert f"mpi on {node} cannot log into node2: " in found[node]["message"]
        assert "Permission denied" in found[node]["message"]


def test_validate_fails_a_node_without_the_mesh_that_the_others_have(story: Any) -> None:
    found = story["file removed"]
    assert {node: verdict["status"] for node, verdict in found.items()} == {"node1": "pass", "node2": "pass", "node3": "fail"}
    assert "node3 has no ssh mesh" in found["node3"]["message"]


def test_one_key_that_only_the_user_reads(story: Any) -> None:
    keys = story["first"].private
    assert set(keys) == set(NODES)
    assert len(set(keys.values())) == 1
    assert "OPENSSH PRIVATE KEY" in keys["node1"]
    assert story["modes"] == dict.fromkeys(NODES, "mpi 600")


def test_check_mode_shows_what_apply_does(runs: Any) -> None:
    assert [run.kind for run in runs[:3]] == ["check", "apply", "apply"]
    task = "Write who may log in, and which hosts to trust"
    shown, done = answers(runs[0], task), answers(runs[1], task)
    assert shown == done
    assert {name: len(changes) for name, changes in done.items()} == dict.fromkeys(NODES, 3)


def test_a_second_apply_changes_nothing(runs: Any, story: Any) -> None:
    second = runs[2].of("rdma_ssh_mesh")
    assert {item["host"] for item in second} == set(NODES)
    assert [item for item in second if item["answer"].get("changed")] == []
    for name in ("rotated", "left", "absent"):
        again = story[name].again
        assert again, name
        assert {host: (found.changed, found.failed) for host, found in again.items()} == dict.fromkeys(again, ([], [])), name


def test_the_key_is_good_from_the_nodes_alone(story: Any) -> None:
    assert not story["from elsewhere"].ok
    assert "Permission denied" in story["from elsewhere"].said
    assert story["from its own"].ok, story["from its own"].said


def test_a_host_key_that_does_not_fit_ends_the_login(story: Any) -> None:
    assert not story["another host key"].ok
    assert "Host key verification failed" in story["another host key"].said


def test_rotation_replaces_the_key_everywhere(story: Any) -> None:
    old, new = story["first"], story["rotated"]
    assert refused(new) == {}, "the host key that was wrong is fixed too"
    assert len(set(new.private.values())) == 1
    assert new.private["node1"] != old.private["node1"]
    assert "generation=2" in new.files["node2"][PUBLIC]
    for name in NODES:
        assert old.files[name][PUBLIC].strip() not in new.files[name][AUTHORIZED]
    assert story["new key, same way"].ok, story["new key, same way"].said
    assert not story["old key"].ok
    assert "Permission denied" in story["old key"].said


def test_a_mesh_is_not_set_up_in_parts(story: Any) -> None:
    [(_task, message)] = story["limited"]["node1"].failed
    assert "node2, node3" in message
    assert "--limit" in message


def test_a_node_that_left_is_out(story: Any) -> None:
    left = story["left"]
    assert {pair for pair, login in left.logins.items() if login.ok} == {("node1", "node2"), ("node2", "node1")}
    assert "Permission denied" in left.logins["node3", "node1"].said
    world = story["world"]
    for name in STAY:
        assert world.addresses["node3"] not in left.files[name][AUTHORIZED]
        assert "node3" not in left.files[name][KNOWN] + left.files[name][CLIENT]


def test_its_key_is_of_no_use_from_another_nodes_address_either(story: Any) -> None:
    assert story["left"].private["node3"] == story["rotated"].private["node3"], "node3 still has it"
    assert not story["its key elsewhere"].ok
    assert "Permission denied" in story["its key elsewhere"].said


def test_absent_leaves_what_is_not_ours(story: Any) -> None:
    first, end = story["first"], story["absent"]
    for name in STAY:
        assert end.private[name] == ""
        assert {path: text for path, text in end.files[name].items() if path != AUTHORIZED} == dict.fromkeys((PUBLIC, KNOWN, CLIENT), "")
        kept = first.files[name][AUTHORIZED].partition("# BEGIN railwright")[0]
        assert "ssh-ed25519" in kept, "Ansible's own key"
        assert end.files[name][AUTHORIZED] == kept
        assert len(end.run[name].changed) == 1


def test_no_private_key_is_ever_shown(story: Any) -> None:
    """Two keys were made, and the third when a node left; at -vvv for the second. Each line of a key is looked for by itself."""
    log = story["log"]
    assert "generation=2 serial=2" in log, "the log is that of the runs"
    for moment in ("first", "rotated", "left"):
        lines = [line for line in story[moment].private["node1"].splitlines() if "PRIVATE KEY" not in line]
        assert len(lines) >= 4
        assert [line for line in lines if line in log] == []
    assert "BEGIN OPENSSH PRIVATE KEY" not in log
