# SPDX-License-Identifier: GPL-3.0-or-later
"""How nccl-tests comes to every node: the inventory's wishes, the decisions over all nodes, and each node's part of them."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, located, mirrored, pinned
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import collectives_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .answers import wire
from .nccl_tests import builds
from .results import judged_together, result_of
from .spec.job_user import root_login

MODES = ("inspect", "plan", "state", "choose", "build", "fetch", "give", "forget", "verify")
REGISTERED = "__nccl_tests_build_{}"  # what a mode gave, in the role
ARTIFACT = "nccl-tests"
CACHE = "/var/cache/railwright/nccl-tests"
CARRIED, NAME = "railwright-nccl-tests-", "build.tar.gz"  # on the controller
ORIGINS = {"wheel": "prefix", "source": "prefix", "repository": "ldconfig", "distribution": "ldconfig"}  # of nccl_install
Result = dict[str, Any]


class Node(NamedTuple):
    """The node of the task: how a step of ours and a module of Ansible's run there."""

    step: Callable[[str, Result], Result]
    builtin: Callable[[str, Result], Result]
    connection: Any
    check_mode: bool


class Delivery:
    """One mode on one node; every path is made here. ``variables``: the task's, with what the modes before gave on all hosts."""

    def __init__(self, node: Node, spec: Spec, variables: dict[str, Any]) -> None:
        self.node, self.spec, self.variables = node, spec, variables
        self.host = str(variables["inventory_hostname"])
        self.user = spec["nccl_tests_user"]

    def answer(self, mode: str) -> Result:
        try:
            return {"changed": False, **getattr(self, mode)()}
        except RailwrightError as error:
            return {"changed": False, "failed": True, "msg": f"nccl_tests: {error}"}

    def of(self, host: str, mode: str) -> Result:
        name = REGISTERED.format(mode)
        found = result_of(self.variables, host, name)
        if found is None:
            raise AnsibleActionFail(f"{name} holds no result of rdma_prefix for {host}")
        return found

    def everybody(self, mode: str) -> dict[str, Result]:
        """Of every host of the play that answered, in the inventory's order."""
        found = {host: result_of(self.variables, host, REGISTERED.format(mode)) for host in judged_together(self.variables)[1]}
        return {host: result for host, result in found.items() if result is not None}

    @property
    def planned(self) -> Result:
        return dict(self.of(self.host, "plan")["build"])

    @property
    def choice(self) -> Result:
        return dict(self.of(self.host, "choose")["choice"])

    def programs(self) -> dict[str, str] | None:
        """Checksums of the build: as its builder says now, or as they were found; None for what is prebuilt, or not built in check mode."""
        choice = self.choice
        if not choice["build"]:
            return dict(choice["programs"]) if choice["programs"] else None
        manifest = self.of(choice["origin"], "build")["manifest"]
        return dict(manifest["programs"]) if manifest else None

    def inspect(self) -> Result:
        keys = ("cuda_version", "nccl_prefix", "mpi_prefix", "mpi_install", "nccl_tests_nfs", "nccl_tests_path")
        wanted = {key.removeprefix("nccl_tests_"): self.spec[key] for key in keys}
        refused = root_login(self.spec, "nccl_tests_user", self.node.connection)
        if refused is not None:
            raise RailwrightError(refused)
        return self.node.step("inspect", {**wanted, "nccl_origin": ORIGINS.get(self.spec["nccl_install"]), "user": self.user,
                                          "root": self.spec["job_user_root"] == ACCEPT})

    def plan(self) -> Result:
        """What is to lie where; the shared keys are the same on all nodes, and those of the first one count."""
        spec = self.spec
        wishes = builds.Wishes(
            install=spec["nccl_tests_install"], path=spec["nccl_tests_path"],
            shared=bool(spec["nccl_tests_shared"] or spec["nccl_tests_nfs"]), launcher=spec["nccl_tests_launcher"],
            collectives=collectives_of(spec["nccl_tests_collectives"], spec["nccl_tests_purpose"]),
            source=None if spec["nccl_tests_install"] == "prebuilt" else source_of(spec))
        planned = builds.plan({host: result["node"] for host, result in self.everybody("inspect").items()}, wishes)
        return {"build": planned if wishes.source is None else {**planned, "download": archive_of(wishes.source)}}

    def state(self) -> Result:
        return self.node.step("state", {"directory": self.planned["directory"]})

    def choose(self) -> Result:
        chosen = builds.choose_origin(self.planned, self.everybody("state"))
        return {"choice": chosen, "warnings": [f"nccl_tests: {text}" for text in chosen["warnings"]]}

    def build(self) -> Result:
        brought = {} if self.node.check_mode else bring_source(self.node, source_of(self.spec))
        if brought.get("failed"):
            return brought
        planned = self.planned
        return self.node.step("build", {
            "build": planned, "node": self.host, "user": self.user, "archive": planned["download"]})

    def fetch(self) -> Result:
        """Into a directory of the controller's own. It is what the node said that it is, or goes away again."""
        directory = self.planned["directory"]
        packed = packed_file(directory)
        answer = self.node.step("pack", {"directory": directory, "archive": packed})
        if answer.get("failed"):
            return answer
        carried = Path(tempfile.mkdtemp(prefix=CARRIED))
        target = carried / NAME
        wire.fetched(self.node.connection, packed, target)
        with target.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != answer["sha256"]:
            shutil.rmtree(carried)
            raise RailwrightError(f"{packed} came with the sha256 {found} and not {answer['sha256']}, which the node had said")
        return {"carried": str(carried), "sha256": found}

    def give(self) -> Result:
        """To a node that lacks the build, and in place there."""
        if self.node.check_mode:
            return self.node.step("unpack", {})
        origin = self.of(self.choice["origin"], "fetch")
        directory = self.planned["directory"]
        packed = packed_file(directory)
        source = str(carried_directory(origin["carried"]) / NAME)
        made = self.node.builtin("ansible.builtin.file", {"path": CACHE, "state": "directory", "mode": "0755"})
        if not made.get("failed"):
            made = self.node.builtin("ansible.builtin.copy", {"src": source, "dest": packed, "mode": "0644"})
        if made.get("failed"):
            return made
        return self.node.step("unpack", {
            "directory": directory, "archive": packed, "sha256": origin["sha256"], "programs": self.programs(),
            "node": self.host})

    def forget(self) -> Result:
        origin = self.choice["origin"]
        shutil.rmtree(carried_directory(self.of(origin, "fetch")["carried"]))
        return {}

    def verify(self) -> Result:
        planned, choice = self.planned, self.choice
        seen = self.of(self.host, "inspect")["node"]
        waits = self.node.check_mode and (choice["build"] or self.host in choice["receivers"])
        arguments = {
            "directory": planned["directory"], "programs": {} if waits else self.programs() or {}, "pending": waits,
            "gpus": len(seen["gpus"]), "first": planned["programs"][0], "library_path": seen["library_path"], "user": self.user}
        return {"directory": planned["directory"], **self.node.step("verify", arguments)}


def bring_source(node: Node, source: builds.Source) -> Result:
    """Both directories by name, since root's umask decides about a parent that is made on the way."""
    for path in (CACHE.rpartition("/")[0], CACHE):
        made = node.builtin("ansible.builtin.file", {"path": path, "state": "directory", "mode": "0755"})
        if made.get("failed"):
            return made
    target = {"dest": archive_of(source), "mode": "0644"}
    if source.archive is not None:
        return node.builtin("ansible.builtin.copy", {**target, "src": source.archive})
    return node.builtin("ansible.builtin.get_url", {**target, "url": source.url, "checksum": f"sha256:{source.sha256}"})


def archive_of(source: builds.Source) -> str:
    return f"{CACHE}/nccl-tests-{source.version}.tar.gz"


def packed_file(directory: str) -> str:
    """Where the build of this directory lies as one file, on the node that packs it and on those that get it."""
    return f"{CACHE}/{directory.rpartition('/')[2]}.tar.gz"


def carried_directory(path: str) -> Path:
    """A directory that ``fetch`` has made, and nothing else."""
    found = Path(path)
    if found.parent != Path(tempfile.gettempdir()) or not found.name.startswith(CARRIED) or found.is_symlink() or not found.is_dir():
        raise AnsibleActionFail(f"carried: {path}: no directory of mode fetch")
    return found


def source_of(spec: Spec) -> builds.Source:
    """The archive, held to what the inventory or, for the pinned release, the catalogue says. Raises where it is not pinned."""
    artifact = find_artifact(ARTIFACT)
    if artifact is None:
        raise RailwrightError(f"the catalogue has no {ARTIFACT}")
    version = spec["nccl_tests_version"] or artifact.version
    sha256 = pinned(artifact, spec, version)
    if sha256 is None:
        raise RailwrightError(f"nccl-tests {version} is not pinned here: inspect its archive, and set rdma_artifact_pins: "
                              f"{{{artifact.name}: its sha256}}")
    return builds.Source(version, mirrored(located(artifact, version), spec["artifact_mirror"]), sha256, spec["nccl_tests_archive"])
