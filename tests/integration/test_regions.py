# SPDX-License-Identifier: GPL-3.0-or-later
"""Two regions whose workers and nodes are real sshds of this machine: one run that says of every node what a run without regions says.

More workers, faults and a mesh: tests/containers/test_regions.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from region_site import Site, site

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root's sshd lets anybody in"), pytest.mark.slow]
TIMES = ("since", "first_seen")


@pytest.fixture(scope="module")
def regions() -> Iterator[Site]:
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        with site(directory, ["east", "west"], 2) as made:
            yield made
    finally:
        shutil.rmtree(directory)


def drift(regions: Site, inventory: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    argv = [sys.executable, "-m", "railwright", "drift", "-i", str(inventory), "--format", "json", *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(regions.world.directory / inventory.stem)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without(own) for name, own in value.items() if name not in TIMES}
    return [without(own) for own in value] if isinstance(value, list) else value


def test_one_run_says_what_a_run_without_regions_says(regions: Site) -> None:
    plain = json.loads(regions.inventory.read_text())
    for group in plain["all"]["children"]["rdma"]["children"].values():
        group["vars"] = {}
    other = regions.inventory.with_name("plain.json")
    other.write_text(json.dumps(plain))
    expected = drift(regions, other)
    code, document, said = drift(regions, regions.inventory)
    assert (code, without(document["nodes"])) == (expected[0], without(expected[1]["nodes"]))
    assert "nodes asked: 1 by ssh, 4 by Ansible (region east: 2; region west: 2)" in said
    assert list(Path("/dev/shm").glob("railwright*")) == []


def test_a_worker_that_cannot_be_reached_is_named_and_the_others_complete(regions: Site) -> None:
    broken = json.loads(regions.inventory.read_text())
    broken["all"]["hosts"]["worker-east"]["ansible_port"] = 9
    inventory = regions.inventory.with_name("broken.json")
    inventory.write_text(json.dumps(broken))
    code, document, _said = drift(regions, inventory)
    found = {name: (node["status"], node["message"]) for name, node in document["nodes"].items()}
    refused = f"worker worker-east of region east went away: ssh: connect to host {regions.workers['east']} port 9: Connection refused"
    assert (code, found) == (3, {name: ("unreachable", refused) if name.startswith("east") else ("ok", "") for name in regions.secrets})


def test_a_workers_ansible_checks_host_keys_too(regions: Site) -> None:
    strange = json.loads(regions.inventory.read_text())
    east = strange["all"]["children"]["rdma"]["children"]["in_east"]
    empty = regions.world.directory / "knows-nobody"
    empty.touch()
    options = strange["all"]["vars"]["ansible_ssh_common_args"]
    east["vars"]["ansible_ssh_common_args"] = options.replace(str(regions.world.known_hosts), str(empty))
    inventory = regions.inventory.with_name("strange.json")
    inventory.write_text(json.dumps(strange))
    code, document, _said = drift(regions, inventory, "--limit", "in_east")
    assert code == 3
    assert {"Host key verification failed" in node["message"] for node in document["nodes"].values()} == {True}
    assert empty.read_text() == ""


@pytest.fixture
def place() -> Iterator[Path]:
    """No interpreter lies where every user may write."""
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir="/opt"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        shutil.rmtree(directory)


def test_another_version_is_refused(regions: Site, place: Path) -> None:
    program = place / "older"
    program.write_text(f"""#!/bin/sh
exec {sys.executable} -c 'import railwright, runpy, sys
railwright.__version__ = "0.0.1"
runpy.run_module("railwright.region_worker", run_name="__main__")'
""")
    program.chmod(0o755)
    older = json.loads(regions.inventory.read_text())
    older["all"]["children"]["rdma"]["children"]["in_east"]["vars"]["rdma_region_python"] = str(program)
    inventory = regions.inventory.with_name("older.json")
    inventory.write_text(json.dumps(older))
    code, document, _said = drift(regions, inventory, "--limit", "in_east")
    assert code == 3
    assert {"refused: here is railwright 0.0.1, and the controller has" in node["message"] for node in document["nodes"].values()} == {True}


def test_nodes_of_two_regions_are_not_measured_against_each_other(regions: Site) -> None:
    argv = [sys.executable, "-m", "railwright", "bench", "-i", str(regions.inventory), "--ddp", "--no-nccl-tests"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 64, done.stderr
    assert "bench: measures nodes against each other, these are in several regions (east, the controller's, west); allowed" in done.stderr
