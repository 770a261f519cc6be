# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` of the last commit, in two places: the same bytes; the offline archive on a machine without any network; the collection
that ansible-galaxy installs is the one that the wheel carries."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness import Container
from node_trees import ROOT

BIN = Path(sys.executable).parent
CARRIED = "ansible_collections/railwright/rdma/"


def release(directory: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(directory)], check=True)
    subprocess.run([sys.executable, str(directory / "tools/release")], check=True, capture_output=True, timeout=300)
    return directory / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(tmp_path_factory.mktemp("one") / "checkout")


@pytest.fixture(scope="module")
def alone(dist: Path) -> Iterator[Container]:
    """No network but loopback; Python with venv is all that it has."""
    container = harness.start(harness.build(("python3-venv",)), "railwright-offline", options=("--network", "none"))
    try:
        [archive] = dist.glob("railwright-offline-*.tar.gz")
        container.copy_in(archive, "/root/offline.tar.gz")
        container.run("tar", "-C", "/root", "-xf", "/root/offline.tar.gz")
        yield container
    finally:
        container.remove()


def test_two_releases_of_a_commit_are_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    sums = (dist / "SHA256SUMS").read_text()
    assert (release(tmp_path / "another place") / "SHA256SUMS").read_text() == sums
    for line in sums.splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    assert len(sums.splitlines()) == 5


def test_it_installs_where_there_is_no_network(alone: Container) -> None:
    assert alone.run("python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 2)", check=False).returncode != 0
    program = alone.run("sh", "-c", "/root/railwright-offline-*/install.sh /opt/railwright", timeout=300).stdout.strip()
    assert program == "/opt/railwright/bin/railwright"
    alone.run(program, "init", "/root/site", "--fabric", "roce")
    found = json.loads(alone.run(program, "lint", "-i", "/root/site", "--format", "json").stdout)
    assert found["summary"]["errors"] == 0
    assert "ansible-playbook [core" in alone.out("/opt/railwright/bin/ansible-playbook", "--version")


def test_the_sbom_names_every_wheel(dist: Path) -> None:
    [file] = dist.glob("*.cdx.json")
    document = json.loads(file.read_text())
    [archive] = dist.glob("railwright-offline-*.tar.gz")
    with tarfile.open(archive) as opened:
        wheels = [opened.extractfile(name) for name in opened.getnames() if name.endswith(".whl")]
        sums = {hashlib.sha256(wheel.read()).hexdigest() for wheel in wheels if wheel is not None}
    parts = [document["metadata"]["component"], *document["components"]]
    assert {part["hashes"][0]["content"] for part in parts} == sums
    assert {"ansible-core", "ansible-runner", "asyncssh"} <= {part["name"] for part in parts}


def test_galaxys_collection_is_the_wheels(dist: Path, tmp_path: Path) -> None:
    [archive], [wheel] = dist.glob("railwright-rdma-*.tar.gz"), dist.glob("*.whl")
    subprocess.run([str(BIN / "ansible-galaxy"), "collection", "install", "--force", "--offline", "-p", str(tmp_path), str(archive)],
                   check=True, capture_output=True)  # fmt: skip
    root = tmp_path / "ansible_collections/railwright/rdma"
    installed = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as opened:
        carried = {name.removeprefix(CARRIED): opened.read(name) for name in opened.namelist() if name.startswith(CARRIED)}
    code = {name for name in carried if name.split("/")[0] in ("plugins", "roles", "playbooks", "meta")}
    assert len(code) > 300
    assert [name for name in code if installed.get(name) != carried[name]] == []
    assert [name for name in installed if name.split("/")[0] in ("plugins", "roles", "playbooks") and name not in carried] == []
