# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults and repairs on three nodes, told once and in order; what a run leaves is where the next one begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from harness import Container
from playbook import Host, Playbook
from verbs import Verb, verb

CONF, LIMITS, SYSTEM = "/etc/nccl.conf", "/etc/security/limits.d/90-railwright.conf", "/etc/systemd/system.conf.d/90-railwright.conf"
SITE = "/etc/profile.d/site.sh"
SYSCTL = "net.ipv4.conf.eth1.arp_ignore"
AREAS = [word for area in ("packages", "network", "limits", "sysctl", "nccl") for word in ("--area", area)]
# Stops sshd as soon as the file is put right: the node is lost after its apply, before anybody could inspect again.
CUT = {
    "cut.path": f"[Path]\nPathChanged={CONF}\n",
    "cut.service": "[Service]\nType=oneshot\nExecStart=/bin/systemctl stop ssh.service\n",
}


class Told(NamedTuple):
    """``conf``: the file of every node after the whole site was applied; ``found``: files and values after each chapter."""

    applied: Verb
    conf: dict[str, str]
    fixed: Verb
    consented: Verb
    again: Verb
    stopped: Verb
    lost: Verb
    playbook: dict[str, Host]
    found: dict[str, dict[str, str]]
    points: dict[str, list[str]]  # restore points of node2, chapter by chapter


class Nodes:
    """The scenario's containers, and what an operator calls."""

    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.one, self.two, self.three = (self.cluster.container(name) for name in ("node1", "node2", "node3"))

    def remediate(self, *more: str) -> Verb:
        return verb(self.cluster.inventory, "remediate", "--batch", "1", *more)

    def points(self) -> list[str]:
        return sorted(self.two.out("ls", "/var/lib/railwright/restore").split())


def shell(node: Container, script: str) -> None:
    node.run("sh", "-ec", script)


def faults(nodes: Nodes) -> None:
    """What people do to nodes. The MTU needs consent, and the line in profile.d is not ours."""
    shell(nodes.one, f"sysctl -qw {SYSCTL}=0; echo '* soft memlock 64' >> {LIMITS}")
    shell(nodes.three, f"rm {SYSTEM}; systemctl daemon-reexec; systemctl disable systemd-networkd.service; dpkg --purge perftest;"
                       f"echo NCCL_DEBUG=TRACE > {CONF}; echo 'export NCCL_IB_TIMEOUT=14' > {SITE}; ip link set dev eth1 mtu 1500")


def values(node: Container) -> dict[str, str]:
    return {
        **{path: node.out("cat", path) for path in (CONF, LIMITS, SYSTEM)},
        SYSCTL: node.out("sysctl", "-n", SYSCTL).strip(),
        "mtu": node.out("cat", "/sys/class/net/eth1/mtu").strip(),
        "package": node.out("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "perftest").strip(),
        "unit": node.run("systemctl", "is-enabled", "systemd-networkd.service", check=False).stdout.strip(),
        "memlock": node.out("systemctl", "show", "-p", "DefaultLimitMEMLOCK", "--value").strip(),
    }


@pytest.fixture(scope="session")
def told(scenario: str) -> Any:
    nodes = Nodes(scenario)
    nodes.two.run("mkdir", "-p", "/var/lib/railwright/restore")
    applied = verb(nodes.cluster.inventory, "apply", "--consent", "link,restart")
    conf = {name: nodes.cluster.container(name).out("cat", CONF) for name in ("node1", "node2", "node3")}
    found, points = {"node1 good": values(nodes.one), "node3 good": values(nodes.three)}, {"before": nodes.points()}
    faults(nodes)
    fixed = nodes.remediate()
    found |= {"node1 fixed": values(nodes.one), "node3 fixed": values(nodes.three)}
    shell(nodes.three, f"rm {SITE}")
    consented = nodes.remediate("--consent", "link", *AREAS)
    found["node3 consented"] = values(nodes.three)
    again = nodes.remediate(*AREAS)
    # A file that cannot be replaced, a value that could be, and a node whose turn would be later.
    shell(nodes.one, f"sysctl -qw {SYSCTL}=0; echo NCCL_DEBUG=TRACE > /root/other; mount --bind /root/other {CONF};"
                     f"mount -o remount,ro,bind {CONF}")
    shell(nodes.three, f"echo NCCL_DEBUG=TRACE > {CONF}")
    stopped = nodes.remediate()
    found |= {"node1 stopped": values(nodes.one), "node3 stopped": values(nodes.three)}
    shell(nodes.one, f"umount {CONF}; echo NCCL_DEBUG=TRACE > {CONF}")
    for name, text in CUT.items():
        nodes.one.write(f"/etc/systemd/system/{name}", text)
    shell(nodes.one, "systemctl daemon-reload; systemctl start cut.path")
    lost = nodes.remediate()
    found |= {"node1 lost": values(nodes.one), "node3 lost": values(nodes.three)}
    shell(nodes.one, "systemctl stop cut.path; rm /etc/systemd/system/cut.*; systemctl daemon-reload; systemctl start ssh.service")
    playbook = nodes.playbook.run()
    found["node3 playbook"] = values(nodes.three)
    points["after"] = nodes.points()
    return Told(applied, conf, fixed, consented, again, stopped, lost, playbook, found, points)
