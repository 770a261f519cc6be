# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as the action plugin makes it from Ansible's variables: who is in the run, who is out, who did not answer."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.action.rdma_ssh_mesh import following, plan

NODES = ("n1", "n2", "n3")


def seen(name: str, state: str = "present") -> dict[str, Any]:
    said = {
        "user": "mpi", "public_key": None, "authorized": None, "addresses": [f"198.18.0.{name[1:]}"], "port": 22, "problems": [],
        "hostname": name, "host_keys": ["ssh-ed25519 " + name[1:] * 68],
    }
    wishes = {"state": state, "generation": 1, "addresses": [], "rails": [f"198.18.0.{name[1:]}"], "user": None}
    return {"changed": False, "node": said, "wishes": wishes}


def variables(results: dict[str, Any], *, here: str = "n1", play: tuple[str, ...] = NODES, **hostvars: dict[str, Any]) -> dict[str, Any]:
    """``results``: what each host registered; None for one that was not reached (it has left the play)."""
    own = {name: {**({} if name not in results else {"seen": results[name]}), **hostvars.get(name, {})} for name in NODES}
    alive = [name for name in play if name not in results or not results[name].get("unreachable")]
    return {"inventory_hostname": here, "groups": {"rdma": list(NODES)}, "hostvars": own, "ansible_play_hosts_all": list(play),
            "ansible_play_hosts": alive}


def test_all_of_the_group_are_the_mesh() -> None:
    found = plan(variables({name: seen(name) for name in NODES}), "seen")["mesh"]
    assert [member["names"] for member in found["members"]] == [("n1",), ("n2",), ("n3",)]
    assert (found["origin"], found["receivers"]) == ("n1", ["n2", "n3"])


def test_a_limited_run_is_refused() -> None:
    found = plan(variables({"n1": seen("n1")}, play=("n1",)), "seen")
    assert found["failed"]
    assert "n2, n3" in found["msg"]
    assert "--limit" in found["msg"]


def test_a_run_in_batches_is_refused() -> None:
    found = plan(variables({"n1": seen("n1")}), "seen")
    assert found["failed"]
    assert "serial" in found["msg"]


def test_a_node_that_is_not_reached_is_left_out_with_a_warning() -> None:
    found = plan(variables({"n1": seen("n1"), "n2": seen("n2"), "n3": {"unreachable": True}}), "seen")
    assert [member["names"][0] for member in found["mesh"]["members"]] == ["n1", "n2"]
    assert "n3 did not answer" in found["warnings"][0]


def test_a_node_that_the_inventory_takes_out_is_out_reached_or_not() -> None:
    reached = plan(variables({"n1": seen("n1"), "n2": seen("n2"), "n3": seen("n3", "absent")}), "seen")
    lost = plan(variables({"n1": seen("n1"), "n2": seen("n2"), "n3": {"unreachable": True}}, n3={"ssh_mesh_state": "absent"}), "seen")
    for found in (reached, lost):
        assert [member["names"][0] for member in found["mesh"]["members"]] == ["n1", "n2"]
        assert found["warnings"] == []


def test_a_problem_stops_the_node_that_has_it_and_nobody_else() -> None:
    sick = seen("n2")
    sick["node"]["problems"] = ["sshd is not installed"]
    results = {"n1": seen("n1"), "n2": sick, "n3": seen("n3", "absent")}
    assert plan(variables(results, here="n2"), "seen")["msg"] == "ssh_mesh: n2: sshd is not installed"
    other = plan(variables(results), "seen")
    assert [member["names"][0] for member in other["mesh"]["members"]] == ["n1"]
    assert other["warnings"] == ["ssh_mesh: n2: sshd is not installed; it is left out"]
    assert "failed" not in plan(variables(results, here="n3"), "seen")


def test_everybody_logs_in_once_and_is_logged_into_once() -> None:
    members = [{"names": [name]} for name in NODES]
    assert [following(members, name) for name in NODES] == ["n2", "n3", "n1"]
