# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of ssh, each on its own node (ssh_faults.py): all end in unreachable or failed in one drift, and each text says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssh_faults import Faults, faults, quick

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]  # one drift answers all of them
LIMIT = 10 * 60  # of the whole run; a net, not a measure
# By node its status, and what its text has to name: the fault, and what to do.
EXPECTED = {
    "changed-key": ("unreachable", "host key", "ssh-keygen -R"),
    "unknown-key-yes": ("unreachable", "host key", "ssh-keyscan"),
    "agent-gone": ("unreachable", "refused", "agent"),
    "passphrase": ("unreachable", "refused", "passphrase"),
    "not-allowed": ("unreachable", "refused", "ansible_user"),
    "too-many-keys": ("unreachable", "Too many authentication failures", "IdentitiesOnly"),
    "user-certificate-expired": ("unreachable", "refused", "certificate"),
    "host-certificate-expired": ("unreachable", "host key", "expired"),
    "jump-down": ("unreachable", "jump host", "is sshd running"),
    "jump-refuses": ("unreachable", "jump host", "AllowTcpForwarding"),
    "cut-before-banner": ("unreachable", "closed the connection before the login", "MaxStartups"),
    "cut-in-banner": ("unreachable", "closed the connection before the login", "MaxStartups"),
    "cut-after-banner": ("unreachable", "closed the connection before the login", "MaxStartups"),
    "cut-in-exchange": ("unreachable", "closed the connection before the login", "MaxStartups"),
    "cut-after-login": ("unreachable", "closed the connection in the middle", "reboot"),
    "cut-half-way": ("unreachable", "closed the connection in the middle", "reboot"),
    "banner-10-mb": ("unreachable", "banner", "sshd"),
    "banner-endless": ("unreachable", "banner", "sshd"),
    "deafening": ("failed", "32 MiB", "closed"),
}
# The others are reached all the same: a node whose fault is none to ssh has no fault to us.
REACHED = ("good", "unknown-key-accept-new", "unknown-key-no", "user-certificate-valid", "host-certificate-valid", "noisy", "slow")
NAMED_BY_ITS_HOST = ("deafening",)  # the document's key says which node; the text has no address


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Faults, dict[str, Any]]]:
    directory = tmp_path_factory.mktemp("faults")
    with faults(directory) as found:
        quick(found)
        yield found, nodes_of(found, directory)


def nodes_of(found: Faults, directory: Path) -> dict[str, Any]:
    """What drift says of each node."""
    command = [sys.executable, "-m", "railwright", "drift", "-i", str(found.inventory(directory)), "--format", "json"]
    environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "SSH_AUTH_SOCK": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 3
    nodes: dict[str, Any] = json.loads(done.stdout)["nodes"]
    return nodes


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_is_named_with_what_to_do(drift: tuple[Faults, dict[str, Any]], name: str) -> None:
    found, nodes = drift
    status, *words = EXPECTED[name]
    assert (nodes[name]["status"], nodes[name]["findings"]) == (status, [])
    message = nodes[name]["message"]
    assert [word for word in words if word.lower() not in message.lower()] == [], message
    assert "\n" not in message
    assert name.startswith("jump") or name in NAMED_BY_ITS_HOST or found.hosts[name]["ansible_host"] in message


def test_who_has_no_fault_is_reached(drift: tuple[Faults, dict[str, Any]]) -> None:
    """Eight nodes through a jump host that takes two logins at a time, and eight of one sshd that does, among them."""
    _found, nodes = drift
    reached = {name for name in nodes if name.startswith(("narrow-", "crowd-"))} | set(REACHED)
    assert len(reached) == 16 + len(REACHED)
    assert {name: node["message"] for name, node in nodes.items() if name in reached and node["status"] != "ok"} == {}


def test_every_node_is_expected(drift: tuple[Faults, dict[str, Any]]) -> None:
    others = {name for name in drift[1] if not name.startswith(("narrow-", "crowd-"))}
    assert others == {*EXPECTED, *REACHED}
