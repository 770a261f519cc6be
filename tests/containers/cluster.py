# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a molecule scenario: containers that Ansible reaches over ssh, and the inventory that names them.

``cluster.py up SCENARIO`` reads ``platforms`` of ``molecule/SCENARIO/molecule.yml`` and boots one container for each
entry; ``down`` removes them. What an entry may say:

=========  ==========================================================================================
name       the node's name in the inventory
suite      Debian release, bookworm when left out
packages   beside sshd, sudo and ping: what the role under test expects to find
user       the login, root when left out; another one gets sudo
rails      how many rail interfaces (eth1 …), 1 when left out
wire       flat or six: the rails are on one wire, in one subnet, IPv4 or IPv6; left out: each on a network of its own
groups     inventory groups beside ``rdma``
vars       host variables
idle       true: the scenario's role has nothing to do there
standin    deb or rpm: the stand-in repositories of tests/containers/standin, read-only as /srv/standin
rights     capabilities that root has on a machine and not in a container of ours
restarts   true: a reboot from inside is one: the container starts again by itself
site       an example below inventories/, whose group_vars are those of the scenario
own_repository  true: the inventory names the vendor's repository, as no vendor has one for this system
setup      commands to run on the node, argv by argv; ``{file: NAME, with: [...]}`` feeds a file of the scenario to python3
=========  ==========================================================================================

The inventory is what an operator writes: hosts, and ``group_vars/all/site.yml`` of the scenario, or that of
molecule/shared where it has none. Host keys are known and checked, and every run has a key pair of its own.
"""

import hashlib
import ipaddress
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import harness
import standins
import wires
from harness import Container, Link

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "molecule"
PACKAGES = ("openssh-server", "sudo", "iputils-ping")
SWITCH_MTU = 9216  # what a RoCE switch is set to; a rail starts with it, and the role lowers it
KEY_SECONDS = 30
OPTIONAL_LIMITS = ("sed", "-i", "s/required\\(.*pam_limits.so\\)/optional\\1/", "/etc/pam.d/sshd", "/etc/pam.d/sudo")


class Node(NamedTuple):
    """One entry of ``platforms``, and what follows from its place in the list."""

    place: int
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def user(self) -> str:
        return str(self.entry.get("user", "root"))

    @property
    def managed(self) -> bool:
        return bool(self.entry.get("managed", True))

    @property
    def wire(self) -> str | None:
        return self.entry.get("wire")

    @property
    def rails(self) -> list[dict[str, Any]]:
        """As the inventory says them. 198.18.0.0/15 is reserved for tests between devices (RFC 2544)."""
        return [
            {"name": f"{self.wire or 'rail'}{rail}", "match": {"mac": f"02:00:00:00:{self.place + 1:02x}:{rail:02x}"},
             "address": self.address(rail)}
            for rail in range(int(self.entry.get("rails", 1)))
        ]

    def image(self) -> str:
        """Built on first use."""
        return harness.build((*PACKAGES, *self.entry.get("packages", ())), str(self.entry.get("suite", harness.SUITE)))

    @property
    def mounts(self) -> tuple[str, ...]:
        """The stand-in repositories, built on first use."""
        kind = self.entry.get("standin")
        return ("--volume", f"{standins.directory() / kind}:{standins.NODE_PATH}:ro") if kind else ()

    def address(self, rail: int) -> str:
        if self.wire == "flat":
            return f"198.19.0.{self.place + 11 + 100 * rail}/24"
        return f"fd00:19::{rail + 1:x}:{self.place + 11:x}/64" if self.wire == "six" else f"198.18.{rail}.{self.place + 11}/24"

    @property
    def networks(self) -> list[str]:
        """What the rails are plugged into."""
        return [self.wire] if self.wire else [str(rail["name"]) for rail in self.rails]


class Cluster:
    """The containers, networks and files of one scenario of one checkout."""

    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
        self.source = SCENARIOS / scenario
        with (self.source / "molecule.yml").open(encoding="utf-8") as stream:
            self.nodes = [Node(place, entry) for place, entry in enumerate(yaml.safe_load(stream)["platforms"])]
        # Two checkouts on one machine may run the same scenario at the same time.
        self.prefix = f"railwright-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:6]}-{scenario.replace('_', '-')}"
        self.directory = ROOT / "build" / "molecule" / scenario
        self.inventory = self.directory / "inventory"
        self.key = self.directory / "id_ed25519"
        self.known_hosts = self.directory / "known_hosts"

    @property
    def networks(self) -> list[str]:
        return sorted({name for node in self.nodes for name in node.networks})

    def container(self, name: str) -> Container:
        return Container(f"{self.prefix}-{name}")

    def up(self) -> None:
        """Boot everything. What a run before left behind goes first."""
        self.down()
        self.inventory.mkdir(parents=True)
        argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.prefix, "-f", str(self.key))
        subprocess.run(argv, check=True, timeout=KEY_SECONDS)
        network = ipaddress.ip_network(harness.create_management_network(f"{self.prefix}-mgmt"))
        for name in self.networks:
            harness.create_network(f"{self.prefix}-{name}", SWITCH_MTU)
        addresses = {node.name: str(network[node.place + 11]) for node in self.nodes}
        keys = [f"{addresses[node.name]} {self.boot(node, addresses[node.name])}" for node in self.nodes]
        self.known_hosts.write_text("\n".join(keys) + "\n", encoding="utf-8")
        self.write_inventory(addresses)

    def boot(self, node: Node, address: str) -> str:
        """Start one node and let Ansible in; returns its host key."""
        macs = [rail["match"]["mac"] for rail in node.rails]
        rails = [Link(f"{self.prefix}-{rail['name']}", f"eth{place + 1}", macs[place]) for place, rail in enumerate(node.rails)]
        if node.wire:
            rails = [Link(f"{self.prefix}-{node.wire}", wires.WIRE)]
        # A MAC of its own choice, so that a node that starts again by itself is found at once by whoever knew it before.
        links = (Link(f"{self.prefix}-mgmt", "eth0", f"02:00:01:00:{node.place + 1:02x}:00", address), *rails)
        again = ("--restart=always",) if node.entry.get("restarts") else ()
        rights = [f"--cap-add={right}" for right in node.entry.get("rights", ())]
        container = harness.start(node.image(), self.container(node.name).name, links, options=(*node.mounts, *again, *rights))
        # A machine without CAP_SYS_RESOURCE cannot raise a container's limits: pam_limits would then refuse every login.
        container.run(*OPTIONAL_LIMITS)
        # Read-only at boot, so that the node's sysctl.d cannot reach the machine below; writable from here on, for the rails' own keys.
        container.run("mount", "-o", "remount,rw,bind", "/proc/sys")
        if node.wire:
            wires.lay(container, SWITCH_MTU, macs)
        home = "/root" if node.user == "root" else f"/home/{node.user}"
        if node.user != "root":
            container.run("useradd", "--create-home", "--shell", "/bin/bash", node.user)
            container.write(f"/etc/sudoers.d/{node.user}", f"{node.user} ALL=(ALL) NOPASSWD: ALL\n", "0440")
        container.write(f"{home}/.ssh/authorized_keys", self.key.with_suffix(".pub").read_text(encoding="utf-8"), "0600")
        container.run("chown", "-R", f"{node.user}:", f"{home}/.ssh")
        for step in node.entry.get("setup", ()):
            if isinstance(step, dict):
                container.run("python3", "-", *step.get("with", ()), stdin=(self.source / step["file"]).read_text(encoding="utf-8"))
            else:
                container.run(*step)
        return container.out("cat", "/etc/ssh/ssh_host_ed25519_key.pub").strip()

    def write_inventory(self, addresses: dict[str, str]) -> None:
        """hosts.yml and group_vars."""
        # A control path of our own: another scenario may get the same addresses while connections of this one linger.
        ssh = (f"-o UserKnownHostsFile={self.known_hosts} -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
               f" -o ControlPath={self.directory}/%r@%h")
        groups: dict[str, Any] = {"rdma": {"hosts": {}}}
        for node in self.nodes:
            home = groups.setdefault("rdma" if node.managed else "others", {"hosts": {}})
            home["hosts"][node.name] = {
                "ansible_host": addresses[node.name], "ansible_user": node.user, "ansible_ssh_private_key_file": str(self.key),
                "ansible_ssh_common_args": ssh, "rdma_rails": node.rails, **node.entry.get("vars", {}),
            }
            for group in node.entry.get("groups", ()):
                groups.setdefault(group, {"hosts": {}})["hosts"][node.name] = {}
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}, sort_keys=False), encoding="utf-8")
        examples = [ROOT / "inventories" / node.entry["site"] / "group_vars" for node in self.nodes if "site" in node.entry]
        own = examples[0] if examples else self.source / "group_vars"
        shutil.copytree(own if own.is_dir() else SCENARIOS / "shared" / "group_vars", self.inventory / "group_vars")

    def down(self) -> None:
        for node in self.nodes:
            self.container(node.name).remove()
        for name in self.networks:
            harness.remove_network(f"{self.prefix}-{name}")
        harness.remove_network(f"{self.prefix}-mgmt")
        shutil.rmtree(self.directory, ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    if len(argv) != 2 or argv[0] not in ("up", "down"):
        sys.stderr.write("usage: cluster.py up|down SCENARIO\n")
        return 64
    cluster = Cluster(argv[1])
    try:
        getattr(cluster, argv[0])()
    except harness.HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
