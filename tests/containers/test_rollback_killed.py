# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollback that SIGKILL ends, with its apt, while dpkg unpacks: the next one finishes it, and the node is as before the run.

Real apt and dpkg with the signed stand-ins of DOCA 3.2.2 and 3.2.3; the core runs inside the container, without Ansible.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
import standins
from harness import Container, Link

ROOT = Path(__file__).resolve().parents[2]
DRIVER = "/opt/railwright/rollback_driver.py"
PACKAGES = ("openssh-server", "sudo", "iputils-ping", "python3-apt")  # an image that scenarios have made already
DPKG = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\n")
FILES = ("sh", "-c", "find /etc -type f ! -name ld.so.cache ! -name mtab -exec sha256sum {} + | sort -k2")
SECONDS = 600  # apt on a machine that does other work too


class Node:
    def __init__(self, container: Container) -> None:
        self.container = container

    def do(self, *words: str) -> Any:
        done = harness.podman("exec", self.container.name, "python3", DRIVER, *words, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    def state(self) -> dict[str, list[str]]:
        marks = self.container.out("apt-mark", "showauto")
        return {"packages": self.container.out(*DPKG).splitlines(), "files": self.container.out(*FILES).splitlines(), "auto": marks.split()}

    def journal(self, name: str) -> dict[str, Any]:
        return dict(self.container.json("cat", f"/var/lib/railwright/restore/{name}/journal.json"))


@pytest.fixture
def node() -> Iterator[Node]:
    container = None
    volume = f"{standins.directory() / 'deb'}:{standins.NODE_PATH}:ro"
    try:
        image, name = harness.build(PACKAGES), f"railwright-rollback-{os.getpid()}"
        container = harness.start(image, name, (Link("podman", "eth0"),), options=("--volume", volume))
        container.run("sh", "-c", "rm -f /etc/apt/sources.list.d/*; mkdir -p /opt/railwright")
        place = standins.NODE_PATH
        container.write("/etc/apt/sources.list", f"deb [signed-by={place}/right.asc] file:{place}/debian-bookworm ./\n")
        container.copy_in(ROOT / "plugins" / "module_utils", "/opt/railwright/module_utils")
        container.copy_in(ROOT / "tests" / "containers" / "rollback_driver.py", DRIVER)
        yield Node(container)
    finally:
        if container is not None:
            container.remove()


def test_a_rollback_killed_in_dpkg_is_finished_by_the_next(node: Node) -> None:
    assert "mft" in node.do("first")
    first = node.state()
    changed = node.do("second")
    assert {"perftest", "mft", "ucx"} <= set(changed)
    second = node.state()
    assert second["packages"] != first["packages"]

    assert node.do("killed", "second", "r1")["rc"] == -9
    assert node.journal("r1")["state"] == "applying"
    half = node.state()
    assert first["packages"] != half["packages"], "it was too late to kill it"

    found = node.do("back", "second", "r2")
    assert found["undone"][0] == "r1", "the dead rollback is undone first"
    assert "interrupted dpkg" in found["changes"]
    assert node.state() == first
    assert node.journal("r1")["state"] == "interrupted"
    assert node.journal("r2")["state"] == "applied"

    assert node.do("back", "second", "r3")["undone"] == []
    assert node.do("back", "r1", "r4")["undone"] == ["r2", "r1"], "the rollbacks themselves, the dead one and the one that finished it"
    assert node.state() == second
