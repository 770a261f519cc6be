# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of the nodes' firewalls, told once: what every step showed is kept, the tests judge it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
import yaml

from cluster import Cluster
from harness import Container
from playbook import Host, Playbook

GUARDED = ("nft", "fwd", "ufw")
STRANGER = "stranger"
PORT, ROCE, OTHER = 41234, 4791, 4789
ETH0, RAIL = "eth0", "eth1"
# Answers on a port as a rank of a job would have it, on UDP 4791 as Soft-RoCE does, and on a port that nobody opened.
LISTENER = f"""
import socket, threading
def echo(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", port))
    while True:
        data, peer = server.recvfrom(64)
        server.sendto(data, peer)
for port in ({ROCE}, {OTHER}):
    threading.Thread(target=echo, args=(port,)).start()
server = socket.create_server(("0.0.0.0", {PORT}))
while True:
    server.accept()[0].close()
"""
# Every target at once: what is dropped costs its whole time.
KNOCK = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def knock(target):
    kind, source, address, port = target
    try:
        if kind == "tcp":
            socket.create_connection((address, port), 1.5, (source, 0)).close()
        else:
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            client.settimeout(1.5)
            client.bind((source, 0))
            client.sendto(b"x", (address, port))
            client.recvfrom(64)
        return True
    except OSError:
        return False
targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(knock, targets))))
"""


class Moment(NamedTuple):
    """Who reaches what after a step: (from, to, what) -> whether it was answered."""

    reached: dict[tuple[str, str, str], bool]
    run: Mapping[str, Host]
    again: Mapping[str, Host]


class World:
    """The scenario's nodes and its playbook."""

    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.names = [node.name for node in self.cluster.nodes]
        self.rails = {node.name: str(node.rails[0]["address"]).partition("/")[0] for node in self.cluster.nodes}
        self.hosts = yaml.safe_load((self.cluster.inventory / "hosts.yml").read_text(encoding="utf-8"))
        groups = self.hosts["all"]["children"]
        self.addresses = {name: str(entry["ansible_host"]) for name, entry in groups["rdma"]["hosts"].items()}
        # On the same machine as bare, with addresses that no inventory knows.
        for known in (self.addresses, self.rails):
            known[STRANGER] = known["bare"].rpartition(".")[0] + ".77"

    def node(self, name: str) -> Container:
        return self.cluster.container(name)

    def listen(self) -> None:
        """The rails have no address: the role under test is not the one that gives them theirs. After a reboot everything is gone."""
        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(self.prepare, self.names))

    def prepare(self, name: str) -> None:
        """One command for all of it: podman takes longer for each than what it runs."""
        steps = ["set -e", f"ip address replace {self.rails[name]}/24 dev {RAIL}", f"ip link set {RAIL} up"]
        if name == "bare":
            places = ((self.addresses, ETH0), (self.rails, RAIL))
            steps += [f"ip address replace {known[STRANGER]}/24 dev {device}" for known, device in places]
        if name in GUARDED:
            steps += ["systemctl is-active --quiet listener && exit", "cat >/srv/listener.py",
                      "systemd-run --quiet --collect --unit=listener python3 /srv/listener.py",
                      f"until python3 -c 'from socket import *; create_connection((\"127.0.0.1\", {PORT}))' 2>/dev/null; do sleep .1; done"]
        self.node(name).run("sh", "-c", "\n".join(steps), stdin=LISTENER)

    def reach(self) -> dict[tuple[str, str, str], bool]:
        self.listen()
        sources = (*self.names, STRANGER)
        with ThreadPoolExecutor(len(sources)) as pool:
            parts = pool.map(self.knock, sources)
        return {key: answer for part in parts for key, answer in part.items()}

    def knock(self, source: str) -> dict[tuple[str, str, str], bool]:
        targets = {}
        for name in GUARDED:
            if name != source:
                for network, suffix in ((self.addresses, ""), (self.rails, " on the rail")):
                    for what, kind, port in (("tcp", "tcp", PORT), ("roce", "udp", ROCE), ("vxlan", "udp", OTHER)):
                        targets[(source, name, what + suffix)] = (kind, network[source], network[name], port)
        answers = self.node("bare" if source == STRANGER else source).json("python3", "-c", KNOCK, json.dumps(list(targets.values())))
        return dict(zip(targets, answers, strict=True))

    def reboot(self) -> None:
        """A restarted container has another MAC on its management interface; its pings tell the neighbours."""
        with ThreadPoolExecutor(len(GUARDED)) as pool:
            list(pool.map(lambda name: self.node(name).restart(), GUARDED))
        gateway = self.addresses["nft"].rpartition(".")[0] + ".1"
        for name in GUARDED:
            for address in (gateway, *(self.addresses[other] for other in self.names if other != name)):
                self.node(name).run("ping", "-n", "-c", "1", "-W", "1", address, check=False)

    def moment(self, *, apply: bool = False) -> Moment:
        run, again = (self.playbook.run(), self.playbook.run(check=True)) if apply else ({}, {})
        return Moment(self.reach(), run, again)

    def every(self, commands: Mapping[str, list[tuple[str, ...]]], *, check: bool = True) -> None:
        for name, argvs in commands.items():
            for argv in argvs:
                self.node(name).run(*argv, check=check)

    def without(self, name: str) -> None:
        """The inventory loses a node."""
        del self.hosts["all"]["children"]["rdma"]["hosts"][name]
        (self.cluster.inventory / "hosts.yml").write_text(yaml.safe_dump(self.hosts, sort_keys=False), encoding="utf-8")

    def site_rules(self) -> dict[str, str]:
        """What the site wrote, as it is now: no rule of ours may have moved or changed any of it."""
        listed = {
            "nft": self.node("nft").out("nft", "-s", "list", "ruleset"),
            "fwd": self.node("fwd").out("firewall-cmd", "--permanent", "--list-all"),
            "ufw": self.node("ufw").out("ufw", "show", "added"),
        }
        return {name: "\n".join(line for line in text.splitlines() if "railwright" not in line) for name, text in listed.items()}


@pytest.fixture(scope="session")
def story(scenario: str) -> dict[str, Any]:
    """In this order; each step finds what the one before it left."""
    world = World(scenario)
    told: dict[str, Any] = {"world": world, "applied": world.moment()}
    told["site"] = world.site_rules()

    world.every({"nft": [("systemctl", "reload", "nftables")], "fwd": [("firewall-cmd", "--reload")], "ufw": [("ufw", "reload")]})
    told["reloaded"] = world.moment()
    world.every({name: [("systemctl", "restart", unit)] for name, unit in (("nft", "nftables"), ("fwd", "firewalld"), ("ufw", "ufw"))})
    told["restarted"] = world.moment()
    world.reboot()
    told["rebooted"] = world.moment()

    # Somebody takes ours away by hand. Where a role opened nothing there is nothing to take: the tests below say so, and not this step.
    rule = 'rule family="ipv4" source address="{}" protocol value="tcp" accept'
    world.every({
        "nft": [("nft", "-f", "/etc/nftables.conf")],
        "fwd": [("firewall-cmd", f"--remove-rich-rule={rule.format(world.addresses['bare'])}")],
        "ufw": [("iptables", "-D", "ufw-user-input", "-s", world.addresses["bare"], "-i", ETH0, "-p", "tcp", "-j", "ACCEPT")],
    }, check=False)
    told["taken away"] = world.moment()
    told["repaired"] = world.moment(apply=True)

    world.without("bare")
    told["left"] = world.moment(apply=True)
    told["site at the end"] = world.site_rules()
    return told
