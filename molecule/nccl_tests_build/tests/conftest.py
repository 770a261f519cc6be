# SPDX-License-Identifier: GPL-3.0-or-later
"""How nccl-tests comes to the nodes, told once: each step's runs and what then lay on each node are kept, the tests judge them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from harness import Container
from playbook import Host, Playbook

NAMES = ("node1", "node2", "node3")
BASE = "/opt/railwright/nccl-tests"
SHARED = "/shared/nccl-tests"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
SOURCE = Path(__file__).resolve().parents[1] / "source"


class Moment(NamedTuple):
    """One run, what it remembered for the runs of nccl-tests, and every file below the prefix with its sha256."""

    run: dict[str, Host]
    facts: dict[str, dict[str, Any]]
    files: dict[str, dict[str, str]]


class World:
    """The scenario's nodes, its playbook and the archives that an operator would have."""

    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.pins: dict[str, str] = {}

    def node(self, name: str) -> Container:
        return self.cluster.container(name)

    def archive(self, name: str, change: tuple[str, str] = ("", "")) -> Path:
        """The source as one file, with a text of program.cc replaced."""
        path = self.cluster.directory / f"{name}.tar.gz"
        with tarfile.open(path, "w:gz") as stream:
            for part in sorted(SOURCE.iterdir()):
                content = part.read_text(encoding="utf-8").replace(*change).encode() if change[0] else part.read_bytes()
                entry = tarfile.TarInfo(f"nccl-tests-2.19.6/{part.name}")
                entry.size = len(content)
                stream.addfile(entry, io.BytesIO(content))
        self.pins[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return path

    def say(self, archive: str, pin: str | None = None, **more: Any) -> None:
        path = self.cluster.directory / f"{archive}.tar.gz"
        self.playbook.say({"nccl_tests_archive": str(path), "rdma_artifact_pins": {"nccl-tests": pin or self.pins[archive]}, **more}, {})

    def moment(self, *, check: bool = False, limit: str | None = None) -> Moment:
        for path in self.cluster.directory.glob("story-*.json-*"):
            path.unlink()
        run = self.playbook.run(check=check, limit=limit)
        facts = {path.name.rpartition("-")[2]: json.loads(path.read_text(encoding="utf-8"))
                 for path in self.cluster.directory.glob("story-*.json-*")}
        return Moment(run, facts, {name: self.files(name) for name in NAMES})

    def files(self, name: str) -> dict[str, str]:
        text = self.node(name).run("find", BASE, SHARED, "-type", "f", "-exec", "sha256sum", "{}", "+", check=False).stdout
        return {line.split("  ", 1)[1]: line.split("  ", 1)[0] for line in text.splitlines()}


@pytest.fixture(scope="session")
def story(scenario: str) -> dict[str, Any]:
    """In this order; each step finds what the one before it left."""
    world = World(scenario)
    told: dict[str, Any] = {"world": world}
    world.archive("good")
    world.say("good")
    told["check"] = world.moment(check=True)
    told["first"] = world.moment()
    directory = told["first"].facts["node1"]["directory"]
    told["said"] = {name: world.node(name).out("runuser", "-u", "nobody", "--", f"{directory}/all_reduce_perf") for name in NAMES}
    told["again"] = world.moment()

    program = f"{directory}/all_reduce_perf"
    world.node("node2").run("tee", "-a", program, stdin="more")
    world.node("node3").run("mv", LIBRARY, LIBRARY + ".away")
    told["changed"] = world.moment()
    world.node("node3").run("mv", LIBRARY + ".away", LIBRARY)

    world.say("good", "0" * 64)
    told["wrong checksum"] = world.moment()
    world.archive("broken", ("ncclGetVersion(&version);", "ncclGetVersion(&no_such_variable);"))
    world.say("broken")
    told["does not compile"] = world.moment()

    world.say("good", nccl_tests_path=SHARED, nccl_tests_shared=True)
    told["not really shared"] = world.moment()
    for name in NAMES[1:]:
        share(world, name)
    told["shared"] = world.moment()

    values = {"nccl_tests_install": "prebuilt", "nccl_tests_path": directory}
    world.node("node2").run("tee", "-a", program, stdin="more")
    world.playbook.say(values, {})
    told["prebuilt"] = world.moment()
    return told


def share(world: World, name: str) -> None:
    """What a shared file system would show on another node."""
    local = world.cluster.directory / "shared"
    if not local.is_dir():
        world.node("node1").copy_out(SHARED, local)
    world.node(name).run("mkdir", "-p", str(Path(SHARED).parent))
    world.node(name).copy_in(local, SHARED)
