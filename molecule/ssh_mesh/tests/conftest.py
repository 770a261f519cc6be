# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a mesh, told once: what every step showed is kept, the tests judge it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations
from typing import Any, NamedTuple

import pytest
import yaml

from cluster import Cluster
from harness import Container
from playbook import Host, Playbook

USER = "mpi"
KEY = f"/home/{USER}/.ssh/railwright_mesh"
AUTHORIZED = f"/home/{USER}/.ssh/authorized_keys"
KNOWN = "/etc/ssh/railwright_mesh_known_hosts"
CLIENT = "/etc/ssh/ssh_config.d/50-railwright-mesh.conf"
LOGIN = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes")


class Login(NamedTuple):
    """What became of one login."""

    ok: bool
    said: str


class Moment(NamedTuple):
    """The mesh after a step: every login by name, and what lies on each node."""

    logins: dict[tuple[str, str], Login]
    private: dict[str, str]
    files: dict[str, dict[str, str]]
    run: Mapping[str, Host]
    again: Mapping[str, Host]


class World:
    """The scenario's nodes and its playbook."""

    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.names = [node.name for node in self.cluster.nodes]
        hosts = self.cluster.inventory / "hosts.yml"
        self.hosts = yaml.safe_load(hosts.read_text(encoding="utf-8"))
        self.addresses = {name: str(entry["ansible_host"]) for name, entry in self.hosts["all"]["children"]["rdma"]["hosts"].items()}

    def node(self, name: str) -> Container:
        return self.cluster.container(name)

    def login(self, source: str, target: str, *options: str) -> Login:
        done = self.node(source).run("runuser", "-u", USER, "--", *LOGIN, *options, target, "cat", "/etc/hostname", check=False)
        return Login(done.returncode == 0 and done.stdout.strip().endswith(self.node(target).name) if target in self.names
                     else done.returncode == 0, done.stderr.strip())

    def login_with(self, private: str) -> Login:
        """From node1 to node2 with a key that somebody kept, without the mesh's configuration."""
        self.node("node1").write(f"/home/{USER}/kept", private, "0600")
        self.node("node1").run("chown", f"{USER}:", f"/home/{USER}/kept")
        return self.login(
            "node1", "node2", "-F", "/dev/null", "-i", f"/home/{USER}/kept", "-o", "HostKeyAlias=railwright-mesh-node2",
            "-o", f"UserKnownHostsFile={KNOWN}", "-o", f"HostName={self.addresses['node2']}")

    def text(self, name: str, path: str) -> str:
        return self.node(name).run("cat", path, check=False).stdout

    def moment(self, run: Mapping[str, Host] | None = None, again: Mapping[str, Host] | None = None) -> Moment:
        logins = {pair: self.login(*pair) for pair in permutations(self.names, 2)}
        private = {name: self.text(name, KEY) for name in self.names}
        files = {name: {path: self.text(name, path) for path in (KEY + ".pub", AUTHORIZED, KNOWN, CLIENT)} for name in self.names}
        return Moment(logins, private, files, run or {}, again or {})

    def without(self, name: str) -> None:
        """The inventory loses a node."""
        del self.hosts["all"]["children"]["rdma"]["hosts"][name]
        (self.cluster.inventory / "hosts.yml").write_text(yaml.safe_dump(self.hosts, sort_keys=False), encoding="utf-8")

    def step(self) -> Moment:
        return self.moment(self.playbook.run(), self.playbook.run())

    def proved(self) -> dict[str, dict[str, Any]]:
        """What ``validate`` says of the mesh, by node."""
        [first, *_rest] = self.names
        answer = self.playbook.run(play="railwright.rdma.validate")[first].of("rdma_cluster")[-1]
        return {verdict["node"]: verdict for verdict in answer["verdicts"] if verdict["check"] == "ssh.mesh"}

    def log(self) -> str:
        """Everything that Ansible has said, and what the callbacks were given."""
        files = [path for path in self.cluster.directory.rglob("*") if path.suffix in (".log", ".json") and path.is_file()]
        return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.fixture(scope="session")
def story(scenario: str) -> dict[str, Any]:
    """In this order; each step finds what the one before it left."""
    world = World(scenario)
    told: dict[str, Any] = {"world": world, "first": world.moment()}
    told["by address"] = world.login("node1", world.addresses["node2"])
    told["modes"] = {name: world.node(name).out("stat", "-c", "%U %a", KEY).strip() for name in world.names}

    told["validated"] = world.proved()
    authorized = world.text("node2", AUTHORIZED)
    world.node("node2").run("sed", "-i", "/railwright/d", AUTHORIZED)
    told["key removed"] = world.proved()
    world.node("node2").write(AUTHORIZED, authorized, "0600")
    world.node("node2").run("chown", f"{USER}:", AUTHORIZED)
    world.node("node3").run("mv", CLIENT, "/root/kept")
    told["file removed"] = world.proved()
    world.node("node3").run("mv", "/root/kept", CLIENT)

    elsewhere = world.addresses["node1"].rpartition(".")[0] + ".77"
    world.node("node1").run("ip", "address", "add", f"{elsewhere}/24", "dev", "eth0")
    told["from elsewhere"] = world.login("node1", "node2", "-b", elsewhere)
    told["from its own"] = world.login("node1", "node2", "-b", world.addresses["node1"])
    world.node("node1").run("ip", "address", "del", f"{elsewhere}/24", "dev", "eth0")

    # What an attacker in node2's place would show: on node1 the keys of node2 are recorded for node3 and the other way round.
    swapped = world.text("node1", KNOWN).replace("mesh-node2 ", "mesh-nodeX ").replace("mesh-node3 ", "mesh-node2 ")
    world.node("node1").write(KNOWN, swapped.replace("mesh-nodeX ", "mesh-node3 "))
    told["another host key"] = world.login("node1", "node2")

    world.playbook.say({"ssh_mesh_generation": 2}, {})
    os.environ["ANSIBLE_VERBOSITY"] = "3"
    told["rotated"] = world.step()
    del os.environ["ANSIBLE_VERBOSITY"]
    told["old key"] = world.login_with(told["first"].private["node1"])
    told["new key, same way"] = world.login_with(told["rotated"].private["node2"])
    told["limited"] = world.playbook.run(limit="node1")

    world.without("node3")
    told["left"] = world.step()
    told["its key elsewhere"] = world.login_with(told["left"].private["node3"])

    world.playbook.say({"ssh_mesh_generation": 2, "ssh_mesh_state": "absent"}, {})
    told["absent"] = world.step()
    told["log"] = world.log()
    return told
