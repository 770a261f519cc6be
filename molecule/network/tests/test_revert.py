# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the interface that Ansible comes in by, which cuts it off: the node reverts it by itself, byte for byte.

eth0 becomes a rail with the address that it has; then the inventory gives it another one, with consent. Nobody reaches the node
there. Runs after test_network.py, and leaves eth0 a rail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cluster import ROOT, Cluster
from harness import Container
from playbook import BIN, SETTINGS, Playbook

NODE = "node1"
SECONDS = 20
TAKING = 25  # beyond the timer: networkd is waited for while the change is reverted
FILES = ("find", "/etc", "-type", "f", "-printf", "%m %U %G ", "-exec", "sha256sum", "{}", ";")
LINKS = ("find", "/etc", "-type", "l", "-printf", "%p %l\n")
PENDING = "/var/lib/railwright/confirm"
ELSEWHERE = "198.18.77.11/24"


def state(container: Container) -> dict[str, Any]:
    """All of /etc, and what the interfaces have now."""
    links = {
        item["ifname"]: (item["mtu"], sorted(
            (entry["local"], entry["prefixlen"], entry.get("broadcast")) for entry in item["addr_info"] if entry["scope"] == "global"))
        for item in container.json("ip", "-j", "addr")
    }
    return {
        "files": sorted(container.out(*FILES).splitlines()), "links": sorted(container.out(*LINKS).splitlines()), "interfaces": links,
        "routes": sorted(container.out("ip", "-4", "route", "show", "table", "all").splitlines()),
    }


def last_journal(container: Container) -> dict[str, Any]:
    names = container.out("ls", "-t", "/var/lib/railwright/restore").split()
    return dict(container.json("cat", f"/var/lib/railwright/restore/{names[0]}/journal.json"))


def waits(container: Container) -> bool:
    return container.run("test", "-e", f"{PENDING}/pending.json", check=False).returncode == 0


def armed(container: Container) -> list[str]:
    """Everything of the switch that lies on the node or is known to systemd."""
    units = container.out("systemctl", "list-units", "--all", "--plain", "--no-legend", "railwright-watchdog.*").split()
    files = container.out("find", "/etc/systemd/system", "/var/lib/railwright", "-name", "*watchdog*", "-o", "-path", f"{PENDING}*")
    return [*units, *files.split()]


class Site:
    """The scenario's inventory with eth0 of one node as a rail."""

    def __init__(self, scenario: str) -> None:
        cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.container = cluster.container(NODE)
        self.rails = next(node.rails for node in cluster.nodes if node.name == NODE)
        eth0 = self.container.json("ip", "-j", "addr", "show", "dev", "eth0")[0]
        self.mac = eth0["address"]
        self.address = next(f"{item['local']}/{item['prefixlen']}" for item in eth0["addr_info"] if item["family"] == "inet")

    def say(self, address: str) -> None:
        rail = {"name": "mgmt", "match": {"mac": self.mac}, "address": address, "mtu": 1400}
        values = {"rdma_rails": [*self.rails, rail], "rdma_consent": ["management", "link"], "rdma_confirm_timeout_s": SECONDS}
        self.playbook.say({}, {NODE: values})

    def killed_right_after(self) -> None:
        """An apply whose controller dies when the node begins to wait for it."""
        play = (str(self.playbook.inventory), str(self.playbook.source / "converge.yml"), "--limit", NODE)
        controller = subprocess.Popen(
            (str(BIN / "ansible-playbook"), "-i", *play), env=dict(os.environ, **SETTINGS), cwd=ROOT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while not (waits(self.container) and last_journal(self.container)["state"] == "unconfirmed"):
                assert controller.poll() is None, "it ended before the node waited"
                assert time.monotonic() < deadline
                time.sleep(0.3)
        finally:
            os.killpg(controller.pid, signal.SIGKILL)
            controller.wait()

    def reverted(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while waits(self.container):
            assert time.monotonic() < deadline, f"not reverted within {seconds} s"
            time.sleep(0.5)


@pytest.fixture(scope="module")
def site(scenario: str) -> Iterator[Site]:
    found = Site(scenario)
    found.say(found.address)
    yield found
    found.say(found.address)


@pytest.fixture(scope="module")
def before(site: Site) -> dict[str, Any]:
    """eth0 is a rail with its own address: such a change is confirmed, and nothing waits afterwards."""
    done = site.playbook.run(limit=NODE)[NODE]
    assert done.failed == []
    assert done.of("rdma_state")[0]["confirm"]["state"] == "applied"
    assert last_journal(site.container)["state"] == "applied"
    assert armed(site.container) == []
    found = state(site.container)
    assert found["interfaces"]["eth0"][0] == 1400
    return found


@pytest.mark.parametrize("time_of", ["first", "second"])
def test_a_change_that_cuts_the_controller_off_is_reverted(site: Site, before: dict[str, Any], time_of: str) -> None:
    site.say(ELSEWHERE)
    done = site.playbook.run(limit=NODE)[NODE]
    assert len(done.failed) == 1, time_of
    _task, message = done.failed[0]
    assert "the node rolled itself back and is as it was" in message
    assert "network: address of mgmt (eth0)" in message
    assert "\n" not in message
    assert state(site.container) == before
    assert (last_journal(site.container)["state"], armed(site.container)) == ("reverted", [])


@pytest.mark.parametrize("time_of", ["first", "second"])
def test_a_dead_controller_is_not_needed_for_it(site: Site, before: dict[str, Any], time_of: str) -> None:
    site.say(ELSEWHERE)
    site.killed_right_after()
    assert state(site.container)["interfaces"] != before["interfaces"], f"{time_of}: what was not changed need not come back"
    site.reverted(SECONDS + TAKING)
    assert state(site.container) == before
    assert (last_journal(site.container)["state"], armed(site.container)) == ("reverted", [])


def test_the_next_plan_says_so(site: Site, before: dict[str, Any]) -> None:
    site.say(site.address)
    done = site.playbook.run(check=True, limit=NODE)[NODE]
    assert done.plan == [], before
    assert [note for note in done.of("rdma_state")[0]["notes"] if "reverted the last apply" in note and "address of mgmt" in note]


def test_a_reboot_meanwhile_does_not_save_the_change(site: Site, before: dict[str, Any]) -> None:
    """The container's runtime sets eth0 anew at the restart, as no machine does: only what is on disk is compared."""
    site.say(ELSEWHERE)
    site.killed_right_after()
    assert state(site.container)["files"] != before["files"]
    site.container.restart()
    assert waits(site.container), "it waits its whole time after the reboot too"
    site.reverted(SECONDS + TAKING)
    found = state(site.container)
    assert (found["files"], found["links"]) == (before["files"], before["links"])
    journal = last_journal(site.container)
    assert (journal["state"], journal.get("troubles")) == ("reverted", None), json.dumps(journal)[:2000]
