# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python environment on nodes: refused, shown, made, found again, broken and made anew, and not replaced by one that does not work.

Wheels are stand-ins (molecule.yml says why); Python, venv, pip, its checksums, the index and the copies are real.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import torch_files
from cluster import Cluster
from playbook import BIN, ROOT, Host, Playbook

PATH = "/opt/railwright/ai"
WHEELED = ("deb12", "deb13", "rpm1")
MADE = (*WHEELED, "gpu1")
LISTED = ("find", "/opt", "/var/cache", "/etc", "-not", "-path", "*/__pycache__*", "-not", "-type", "d", "-printf", "%p %s %m %u %T@ %l\n")


class Told(NamedTuple):
    """The runs by name, what lay on every node before the first and after each, and what railwright itself said with --check."""

    files: dict[str, dict[str, str]]
    runs: dict[str, dict[str, Host]]
    shown: dict[str, tuple[int, dict[str, Any]]]


def files(cluster: Cluster) -> dict[str, str]:
    return {node.name: "\n".join(sorted(cluster.container(node.name).out(*LISTED).splitlines())) for node in cluster.nodes}


def shown(playbook: Playbook, limit: str) -> tuple[int, dict[str, Any]]:
    """``railwright env make --check`` on a node."""
    argv = (str(BIN / "railwright"), "env", "make", "-i", str(playbook.inventory), "--limit", limit, "--check", "--format", "json")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
    env = {**kept, "XDG_STATE_HOME": str(playbook.build / "state")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, env=env, timeout=300)
    return done.returncode, json.loads(done.stdout)


def wheels(directory: Path, *, broken: bool = False, tag: str = "py3-none-any") -> Path:
    if broken:
        torch_files.wheel(directory, "torch", "2.9.1+cpu", {"torch/__init__.py": "import no_such_library\n"})
    else:
        torch_files.torch_wheel(directory, "2.9.1+cpu", None, tag=tag, requires=("tiny==1.0",))
    torch_files.wheel(directory, "tiny", "1.0", {"tiny.py": "ANSWER = 42\n"})
    return directory


def index(cluster: Cluster, node: str, directory: Path) -> str:
    """A package index on the node, and the lock of what is in it."""
    found = [torch_files.torch_wheel(directory, "2.9.1+cu130", "13.0", nccl=(2, 27, 7), requires=("tiny==1.0",)),
             torch_files.wheel(directory, "tiny", "1.0", {"tiny.py": "ANSWER = 42\n"})]
    for path in found:
        name = path.name.partition("-")[0]
        page = directory / f"{name}.html"
        page.write_text(f'<!DOCTYPE html><html><body><a href="{path.name.replace("+", "%2B")}">{path.name}</a></body></html>')
        cluster.container(node).run("mkdir", "-p", f"/srv/index/simple/{name}")
        cluster.container(node).copy_in(page, f"/srv/index/simple/{name}/index.html")
        cluster.container(node).copy_in(path, f"/srv/index/simple/{name}/{path.name}")
    return torch_files.lock(*found)


@pytest.fixture(scope="session")
def told(scenario: str) -> Told:
    cluster, playbook = Cluster(scenario), Playbook(scenario)
    lock = playbook.build / "torch.lock"
    good, bad, foreign = (playbook.build / name for name in ("wheels", "broken", "foreign"))
    wheels(good), wheels(bad, broken=True), wheels(foreign, tag="cp39-cp39-linux_x86_64")
    text = index(cluster, "gpu1", playbook.build / "index")
    gpu = {"ai_environment_torch": "2.9.1+cu130", "ai_environment_requirements": str(lock),
           "ai_environment_index_url": "http://127.0.0.1:8000/simple"}
    common = {"rdma_stack": "inbox", "ai_environment_kind": "venv", "ai_environment_torch": "2.9.1+cpu"}
    seen, runs, showed = {"before": files(cluster)}, {}, {}

    def say(directory: Path) -> None:
        own = {"ai_environment_wheels": str(directory), "ai_environment_packages": ["tiny"]}
        hosts = dict.fromkeys((*WHEELED, "bare1"), own)
        playbook.say(common, {"gpu1": gpu, "cpu1": {**own, "ai_environment_torch": "2.9.1+cu128"}, **hosts})

    def run(name: str, *, check: bool = False) -> None:
        runs[name] = playbook.run(check=check)
        seen[name] = files(cluster)

    lock.write_text(text.replace(f"--hash=sha256:{torch_files.sha256(next((playbook.build / 'index').glob('tiny*.whl')))}", ""))
    say(foreign)
    run("refused")
    lock.write_text(text)
    say(good)
    run("check", check=True)
    showed["before"] = shown(playbook, "deb12")
    run("apply")
    run("again")
    showed["after"] = shown(playbook, "deb12")
    cluster.container("deb12").run("sh", "-c", f"rm {PATH}/current/lib/python3*/site-packages/tiny.py")
    seen["broken"] = files(cluster)
    run("fixed")
    say(bad)
    run("does not import")
    return Told(seen, runs, showed)


def the(told: Told, run: str, node: str) -> list[str]:
    return [said for _task, said in told.runs[run][node].failed]


def test_a_wheel_without_checksum_or_fit_is_refused_and_no_node_changes(told: Told, scenario: str) -> None:
    build = Playbook(scenario).build
    assert any(f"ai_environment: {build}/torch.lock:4: tiny==1.0 has no checksum" in said for said in the(told, "refused", "gpu1"))
    for node in WHEELED:
        assert any(f"{build}/foreign has no torch that fits CPython 3." in said for said in the(told, "refused", node)), node
    assert told.files["before"] == told.files["refused"]


def test_a_python_without_ensurepip_is_refused_with_the_packages_name(told: Told) -> None:
    assert any("has no venv and ensurepip; on Debian and Ubuntu they are in python3-venv" in said for said in the(told, "apply", "bare1"))
    assert told.files["before"]["bare1"] == told.files["does not import"]["bare1"]


def test_a_node_without_a_gpu_gets_no_build_for_cuda(told: Told) -> None:
    for name, run in told.runs.items():
        assert (run["cpu1"].failed, run["cpu1"].changed) == ([], []), name
    notes = [note for answer in told.runs["apply"]["cpu1"].of("rdma_prefix") for note in answer.get("notes", [])]
    why = "ai_environment_torch VERSION+cpu asks for a build without CUDA"
    assert notes == [f"ai_environment: no NVIDIA GPU on the PCI bus of this node; {why}"]
    assert told.files["before"]["cpu1"] == told.files["does not import"]["cpu1"]


def test_check_mode_says_that_it_would_and_does_nothing(told: Told) -> None:
    for node in MADE:
        host = told.runs["check"][node]
        assert (host.failed, bool(host.changed)) == ([], True), node
    assert told.files["refused"] == told.files["check"]


def test_the_command_line_shows_what_would_be_made_and_then_nothing(told: Told) -> None:
    (before, first), (after, second) = told.shown["before"], told.shown["after"]
    assert (before, after) == (2, 0)
    changes = first["nodes"]["deb12"]["changes"]
    assert [(item["what"], item["before"], item["applied"]) for item in changes] == [(f"environment below {PATH}", None, False)]
    assert second["nodes"]["deb12"]["changes"] == []
    assert second["nodes"]["deb12"]["drivers"]["torch"] == "2.9.1+cpu, no CUDA, no CUDA device when it was made"


@pytest.mark.parametrize("node", MADE)
def test_torch_is_there_for_everybody_and_nothing_else_is_left(told: Told, scenario: str, node: str) -> None:
    assert told.runs["apply"][node].failed == []
    container = Cluster(scenario).container(node)
    names = [name for name in container.out("ls", "-A", PATH).split() if not name.endswith("-2")]
    assert len(names) == 2, names
    torch = "2.9.1+cu130" if node == "gpu1" else "2.9.1+cpu"
    words = "import tiny, torch; print(torch.__version__, tiny.ANSWER)"
    assert container.out("runuser", "-u", "nobody", "--", f"{PATH}/current/bin/python", "-c", words).strip() == f"{torch} 42"
    new = set(told.files["apply"][node].splitlines()) - set(told.files["check"][node].splitlines())
    assert {line.split("/")[1:4] == ["opt", "railwright", "ai"] for line in new} == {True}, "no cache, no configuration"


def test_what_torch_says_is_in_the_manifest(told: Told, scenario: str) -> None:
    said = Cluster(scenario).container("gpu1").json("cat", f"{PATH}/current/railwright.json")
    assert (said["kind"], said["torch"]["cuda"], said["torch"]["nccl"], said["torch"]["distributed"]) == ("venv", "13.0", "2.27.7", True)
    assert [line.partition(" ")[0] for line in said["lock"]] == ["torch==2.9.1+cu130", "tiny==1.0"]


def test_the_second_apply_changes_nothing(told: Told) -> None:
    for node in MADE:
        assert (told.runs["again"][node].failed, told.runs["again"][node].changed) == ([], []), node
    assert told.files["apply"] == told.files["again"]


def test_one_that_lost_a_file_is_made_anew_beside_it_and_is_not_touched(told: Told, scenario: str) -> None:
    host = told.runs["fixed"]["deb12"]
    assert host.failed == []
    assert "tiny.py is gone" in host.of("rdma_prefix")[0]["plan"][0]["why"]
    before = [line for line in told.files["broken"]["deb12"].splitlines() if not line.startswith(f"{PATH}/current ")]
    assert set(before) <= set(told.files["fixed"]["deb12"].splitlines()), "jobs may run in the broken one"
    assert Cluster(scenario).container("deb12").out("readlink", f"{PATH}/current").strip().endswith("-2")
    for node in ("deb13", "rpm1", "gpu1"):
        assert (told.runs["fixed"][node].failed, told.runs["fixed"][node].changed) == ([], []), node


def test_an_environment_that_fails_to_import_is_removed_and_not_linked(told: Told) -> None:
    for node in WHEELED:
        said = the(told, "does not import", node)
        assert any("torch 2.9.1+cpu cannot be imported: ModuleNotFoundError: No module named 'no_such_library'" in item
                   for item in said), (node, said)
        assert told.files["fixed"][node] == told.files["does not import"][node], node
    assert told.runs["does not import"]["gpu1"].changed == []
