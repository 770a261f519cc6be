# SPDX-License-Identifier: GPL-3.0-or-later
"""Which key a mesh has, when it needs a new one, and what a node may say about itself."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.ssh_mesh import Node, plan_mesh, twins

HOST_KEY = "ssh-ed25519 " + "A" * 68


def key(letter: str, generation: int = 1, serial: int = 1) -> str:
    return f"ssh-ed25519 {letter * 68} railwright-mesh generation={generation} serial={serial}"


def node(name: str, public: str | None = None, holders: tuple[str, ...] = (), *, generation: int = 1, **said: Any) -> Node:
    number = 10 + int(name[1:])
    seen = {
        "user": "mpi", "public_key": public, "authorized": [public, list(holders)] if public else None, "addresses": [f"192.0.2.{number}"],
        "port": 22, "host_keys": [HOST_KEY + " root@x"], "hostname": f"{name}.example.com", "problems": [], **said,
    }
    return Node(name, generation, (), (f"198.18.0.{number}",), f"{name}.example.com", seen, (f"192.0.2.{number}",))


def mesh(*nodes: Node, absent: tuple[str, ...] = ()) -> Any:
    return plan_mesh(list(nodes), {item.name for item in nodes} | set(absent))


def test_the_first_node_makes_the_first_key() -> None:
    found = mesh(node("n1"), node("n2"))
    assert (found.origin, found.generate, found.receivers, found.serial, found.problems) == ("n1", True, ["n2"], 1, [])
    assert found.holders == ["n1", "n2"]
    assert (found.members[0].names, found.members[0].addresses) == (("n1", "n1.example.com"), ("192.0.2.11", "198.18.0.11"))


def test_a_mesh_that_everybody_leaves_needs_nothing_either() -> None:
    found = mesh()
    assert (found.members, found.origin, found.problems, found.unfit) == ([], None, [], {})


def test_a_whole_mesh_needs_nothing() -> None:
    both = ("n1", "n2")
    found = mesh(node("n1", key("B"), both), node("n2", key("B"), both))
    assert (found.generate, found.receivers, found.public_key) == (False, [], key("B"))


def test_a_new_node_gets_the_key_that_is_there() -> None:
    found = mesh(node("n1"), node("n2", key("B"), ("n2",)))
    assert (found.origin, found.generate, found.receivers, found.holders) == ("n2", False, ["n1"], ["n1", "n2"])


def test_another_generation_is_another_key_with_a_later_number() -> None:
    both = ("n1", "n2")
    found = mesh(node("n1", key("B", 1, 4), both, generation=2), node("n2", key("B", 1, 4), both, generation=2))
    assert (found.generate, found.generation, found.serial) == (True, 2, 5)


def test_a_node_that_left_took_the_key_along() -> None:
    three = ("n1", "n2", "n3")
    found = mesh(node("n1", key("B"), three), node("n2", key("B"), three))
    assert found.generate
    assert "n3" in found.why
    assert found.holders == ["n1", "n2"]


def test_a_node_that_does_not_answer_is_not_one_that_left() -> None:
    three = ("n1", "n2", "n3")
    found = mesh(node("n1", key("B"), three), node("n2", key("B"), three), absent=("n3",))
    assert not found.generate
    assert found.holders == ["n1", "n2", "n3"], "it still has the key: when it leaves, that must be known"
    assert [item.names[0] for item in found.members] == ["n1", "n2"]


def test_the_latest_key_wins_over_one_of_a_node_that_was_away() -> None:
    found = mesh(node("n1", key("B", 1, 1), ("n1", "n2", "n9")), node("n2", key("C", 1, 2), ("n1", "n2")))
    assert (found.origin, found.generate, found.receivers) == ("n2", False, ["n1"]), "n9 had the old key alone"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"user": "root"}, "ssh_mesh_user must be the same"),
        ({"problems": ["sshd is not installed"]}, "n2: sshd is not installed"),
        ({"host_keys": []}, "said no host key"),
        ({"host_keys": ["ssh-ed25519 short"]}, "said no host key"),
        ({"host_keys": [HOST_KEY.replace("A", "*", 1)]}, "said no host key"),
        ({"port": "22\n  ProxyCommand x"}, "no port"),
    ],
)
def test_what_cannot_be_is_said(said: dict[str, Any], words: str) -> None:
    found = mesh(node("n1"), node("n2", **said))
    assert any(words in text for text in found.unfit["n2"])
    assert ([item.names[0] for item in found.members], found.problems) == (["n1"], []), "the others go on without it"


def test_generations_agree() -> None:
    assert any("ssh_mesh_generation" in text for text in mesh(node("n1"), node("n2", generation=2)).problems)


def test_a_node_cannot_take_anothers_name_or_address() -> None:
    found = mesh(node("n1"), node("n2", hostname="n1", addresses=["192.0.2.11", "192.0.2.12"]))
    assert (found.problems, found.unfit) == ([], {})
    assert [item.names for item in found.members] == [("n1", "n1.example.com"), ("n2", "n2.example.com")]
    assert [item.addresses for item in found.members] == [("192.0.2.11", "198.18.0.11"), ("192.0.2.12", "198.18.0.12")]


@pytest.mark.parametrize("name", ["github.com", "n1.example.org", "controller", "n3"])
def test_a_node_cannot_take_a_name_that_the_inventory_does_not_give_it(name: str) -> None:
    assert mesh(node("n1"), node("n2", hostname=name)).members[1].names == ("n2", "n2.example.com")


def test_a_node_cannot_authorize_an_address_that_the_inventory_lacks() -> None:
    found = mesh(node("n1"), node("n2", addresses=["203.0.113.66", "198.18.0.11"]))
    assert found.members[1].addresses == ("192.0.2.12", "198.18.0.12")
    assert found.problems == []


def test_an_address_that_two_hosts_have_is_a_problem_of_all() -> None:
    twin = node("n2")._replace(rails=("198.18.0.11",))
    assert mesh(node("n1"), twin).problems == ["n2: address 198.18.0.11 is another node's too (n1)"]


def test_an_address_that_the_resolver_gives_to_all_is_nobodys() -> None:
    found = mesh(*(node(name)._replace(resolved=("10.0.2.15",)) for name in ("n1", "n2")))
    assert [item.addresses for item in found.members] == [("198.18.0.11",), ("198.18.0.12",)]


@pytest.mark.parametrize("hostile", ["*", "a b", "x,y", "!n1", "localhost", "-oProxyCommand=x", "192.0.2.99", "x\nMatch all"])
def test_a_node_cannot_say_more_than_a_name(hostile: str) -> None:
    assert mesh(node("n1", hostname=hostile), node("n2")).members[0].names == ("n1", "n1.example.com")


@pytest.mark.parametrize("hostile", ["127.0.0.1", "::1", "fe80::1", "224.0.0.1", "::", '192.0.2.1" ssh-rsa', "192.0.2.0/24", "*"])
def test_nor_more_than_an_address(hostile: str) -> None:
    assert mesh(node("n1", addresses=[hostile]), node("n2")).members[0].addresses == ("192.0.2.11", "198.18.0.11")


@pytest.mark.parametrize("hostile", [key("B") + "\nssh-rsa AAAA", "ssh-rsa " + "A" * 68, key("B") + " x", "command=x " + key("B")])
def test_a_line_that_is_no_key_of_ours_is_not_passed_on(hostile: str) -> None:
    assert mesh(node("n1", hostile), node("n2")).generate


def test_nodes_of_one_image_are_told() -> None:
    assert twins(mesh(node("n1"), node("n2")).members)[0].startswith("n1, n2 have the same host key")
    own = mesh(node("n1"), node("n2", host_keys=[HOST_KEY.replace("A", "B")]))
    assert twins(own.members) == []
