# SPDX-License-Identifier: GPL-3.0-or-later
"""A login as root needs no sudo, and a node without sudo says so: real sshds in mount namespaces from which sudo is removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssh_states import EVERYWHERE, USER, inventory, users
from ssh_world import World, address

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an sshd a mount namespace of its own"), pytest.mark.slow]
# "asked": the inventory asks for sudo by name; "login": ssh's own default is the user, here root.
ROOTS = {"login": {}, "named": {"ansible_user": "root"}, "asked": {"ansible_become": True}, "none": {"ansible_become": False}}
NODES = {**ROOTS, "user": {"ansible_user": USER}}
# Our own ssh, Ansible's, and the verbs that go by Ansible alone.
ROOT_RUNS = ("plan --transport auto", "plan --transport ansible", "drift --transport auto", "validate", "rollback --list")
USER_RUNS = ("plan --transport auto", "drift --transport auto", "rollback --list")
MINUTES = 5 * 60


@pytest.fixture(scope="module")
def hosts() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir="/opt"))
    directory.chmod(0o755)
    try:
        with World(directory) as world:
            (directory / "home").mkdir()
            setup = EVERYWHERE.format(directory / "home") + users(directory, "") + "\nrm /usr/bin/sudo\n"
            addresses = {name: address(number) for number, name in enumerate(NODES, 1)}
            world.serve(list(addresses.values()), places=["/etc", "/usr/bin"], setup=setup)
            world.wait(addresses.values())
            yield inventory(world, {name: {**own, "ansible_host": addresses[name]} for name, own in NODES.items()})
    finally:
        shutil.rmtree(directory)


def said(hosts: Path, verb: str, limit: str) -> str:
    command = [sys.executable, "-m", "railwright", *verb.split(), "-i", str(hosts), "--limit", limit]
    environment = {**os.environ, "XDG_STATE_HOME": str(hosts.parent / "state"), "COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MINUTES, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("verb", ROOT_RUNS)
def test_root_needs_no_sudo(hosts: Path, verb: str) -> None:
    text = said(hosts, verb, ",".join(ROOTS))
    assert all(name in text for name in ROOTS), text
    assert "sudo" not in text and "no Python" not in text and "(task:" not in text, text


@pytest.mark.parametrize("verb", USER_RUNS)
def test_another_user_is_told_that_sudo_is_missing(hosts: Path, verb: str) -> None:
    text = said(hosts, verb, "user")
    assert "sudo: not found" in text and "no Python" not in text, text
