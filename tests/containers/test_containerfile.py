# SPDX-License-Identifier: GPL-3.0-or-later
"""The Containerfile for eRDMA is built: apt takes the user space from a signed repository; a key that is not pinned stops it.

The base says it is Ubuntu 22.04; its repository and Alibaba's are stand-ins (tests/containers/standin); their packages hold no library.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
import standins
from playbook import BIN, ROOT

NAME = "railwright-containerfile"
BASE, RESULT = f"localhost/{NAME}:base", f"localhost/{NAME}:made"
TOOLS = ("ca-certificates", "curl", "gnupg")  # what the stand-in of Ubuntu's repository has not
PACKAGES = ("libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1")
URL = f"file://{standins.NODE_PATH}/erdma-apt"
WRONG = "0" * 40
SECONDS = 300


@pytest.fixture(scope="module")
def base() -> Iterator[tuple[str, ...]]:
    """The image that a user starts from; the options by which a build sees the repositories."""
    volume = ("--volume", f"{standins.directory() / 'deb'}:{standins.NODE_PATH}:ro")
    container = harness.start(harness.build(TOOLS), NAME, options=volume)
    try:
        setup = ROOT / "tests/containers/standin/apt_node.py"
        container.run("python3", "-", "jammy", stdin=setup.read_text(encoding="utf-8"))
        harness.podman("commit", "--quiet", NAME, BASE, timeout=SECONDS)
    finally:
        container.remove()
    try:
        yield volume
    finally:
        harness.podman("rmi", "--force", RESULT, BASE, check=False)


def printed(directory: Path, fingerprint: str) -> Path:
    """What the verb prints for a captured node with one device, as a user puts it into a file."""
    verbs = directory / "tree/sys/class/infiniband_verbs/uverbs0/ibdev"
    verbs.parent.mkdir(parents=True)
    verbs.write_text("erdma_0\n")
    inventory = directory / "hosts.yml"
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:00:00:01"}, "address": "192.0.2.11/28"}]
    values = {"rdma_fabric": "erdma", "rdma_mtu": 1400, "erdma_repository_url": URL, "erdma_repository_fingerprint": fingerprint,
              "erdma_repository_key_url": f"file://{standins.NODE_PATH}/right.asc"}
    inventory.write_text(json.dumps({"all": {"vars": values, "children": {"rdma": {"hosts": {"node1": {"rdma_rails": rails}}}}}}))
    argv = (str(BIN / "railwright"), "container", "flags", "-i", str(inventory), "--limit", "node1", "--sysroot", str(directory / "tree"),
            "--format", "containerfile", "--image", BASE, "--image-os", "ubuntu22.04")
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ), timeout=SECONDS)
    assert done.returncode == 0, (done.stdout, done.stderr)
    path = directory / "Containerfile"
    path.write_text(done.stdout)
    return path


def build(path: Path, volume: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return harness.podman("build", "--no-cache", *volume, "--tag", RESULT, "--file", str(path), str(path.parent), check=False,
                          timeout=SECONDS)


def test_the_image_has_alibabas_packages_and_the_provider(base: tuple[str, ...], tmp_path: Path) -> None:
    keys = json.loads((standins.directory() / "deb/keys.json").read_text(encoding="utf-8"))
    done = build(printed(tmp_path, keys["right"]), base)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    script = f"dpkg-query -W -f '${{Version}}\\n' {' '.join(PACKAGES)}; cat /etc/libibverbs.d/erdma.driver; ls -A /root/key || echo gone"
    said = harness.podman("run", "--rm", "--network=none", RESULT, "sh", "-c", script).stdout.splitlines()
    assert said == [*["52.0-1"] * len(PACKAGES), "driver erdma", "gone"]


def test_a_key_that_is_not_the_pinned_one_stops_the_build(base: tuple[str, ...], tmp_path: Path) -> None:
    done = build(printed(tmp_path, WRONG), base)
    assert done.returncode != 0
    assert "nothing exported" in done.stdout + done.stderr
    assert "ibverbs-providers (52.0-1)" not in done.stdout
