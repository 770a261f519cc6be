# SPDX-License-Identifier: GPL-3.0-or-later
"""A scan over our own ssh says of every node what the same run by Ansible says: real sshds, and nodes in every state (ssh_states.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssh_states import cure, site
from ssh_world import address

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an sshd a mount namespace of its own")
pytestmark = [NEEDS_ROOT, pytest.mark.slow]
CLEAN = address(1)
MINUTES = 10 * 60
TIMES = ("since", "first_seen")
# Each way has its own words for a node where ours did not begin, and Ansible's connection prints a line more.
TEXTS_DIFFER = {"broken-python", "old-python", "sudo-never", "noisy"}


class Site(NamedTuple):
    directory: Path
    inventory: Path

    def run(self, transport: str, *argv: str) -> tuple[int, Any, str]:
        """Exit code, document and messages. Each way has a history of its own."""
        command = [sys.executable, "-m", "railwright", *argv, "-i", str(self.inventory), "--transport", transport, "--format", "json"]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / transport), "ANSIBLE_FORKS": "10"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MINUTES, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def nodes() -> Iterator[Site]:
    """pytest's own directories are closed to the nodes' users."""
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir="/opt"))
    directory.chmod(0o755)
    try:
        with site(directory) as (world, inventory):
            found = Site(directory, inventory)
            cure(world, CLEAN, found.run("auto", "drift", "--limit", "clean")[1]["nodes"]["clean"]["findings"])
            yield found
    finally:
        shutil.rmtree(directory)


def without(value: Any, *keys: str) -> Any:
    if isinstance(value, dict):
        return {name: without(own, *keys) for name, own in value.items() if name not in keys}
    return [without(own, *keys) for own in value] if isinstance(value, list) else value


def comparable(nodes: dict[str, Any]) -> dict[str, Any]:
    texts = {name for name, node in nodes.items() if node["status"] == "unreachable"} | TEXTS_DIFFER
    return {name: without(node, *TIMES, *(["message"] if name in texts else [])) for name, node in nodes.items()}


def both(nodes: Site, verb: str) -> dict[str, Any]:
    """The document's nodes, which are the same by both ways."""
    code, document, said = nodes.run("auto", verb)
    expected_code, expected, _said = nodes.run("ansible", verb)
    own, other = comparable(document.pop("nodes")), comparable(expected.pop("nodes"))
    for name, node in other.items():
        assert json.dumps(own[name]) == json.dumps(node), name
    assert (code, list(own)) == (expected_code, list(other))
    assert json.dumps(without(document, *TIMES)) == json.dumps(without(expected, *TIMES))
    assert f"railwright: nodes asked: {len(own)} by ssh\n" in said
    return own


@pytest.mark.slow
def test_drift_is_the_same(nodes: Site) -> None:
    found = both(nodes, "drift")
    assert found["clean"]["findings"] == []
    assert {name for name, node in found.items() if node["status"] == "unreachable"} == {"closed", "silent", "foreign-key", "refused"}
    for name, what in (("drift-sysctl", "vm.swappiness"), ("drift-files", "/etc/nccl.conf"), ("drift-rails", "rail0")):
        assert any(what in json.dumps(finding) for finding in found[name]["findings"]), name
    assert {found[name]["status"] for name in ("sudo", "sudo-free", "slow", "noisy")} == {"ok"}
    assert {found[name]["status"] for name in found if name.startswith("liar-")} == {"failed"}
    for name, text in (("sudo-missing", "Missing sudo password"), ("sudo-wrong", "Incorrect sudo password")):
        assert (found[name]["status"], found[name]["message"]) == ("failed", text)
