# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_nccl_build: the inventory's wishes, the decisions over all nodes, and each node's part of them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find, located, mirrored
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import build
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import judged_together, result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

MODES = ["look", "plan", "state", "choose", "bring", "build", "pack", "fetch", "give", "forget", "unpack", "verify"]
REGISTERED = ("seen", "plan", "state", "choice", "made", "packed", "carried")
OPTIONS = {"mode": {"type": "str", "required": True, "choices": MODES}, **{name: {"type": "str"} for name in REGISTERED}}
MODULE = "railwright.rdma.rdma_nccl_build"
CACHE = "/var/cache/railwright/nccl-tests"
CARRIED, NAME = "railwright-nccl-tests-", "build.tar.gz"  # on the controller
ORIGINS = {"wheel": "prefix", "source": "prefix", "repository": "ldconfig", "distribution": "ldconfig"}  # of nccl_install


class ActionModule(StepAction):
    """One step of the role's beginning."""

    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        mode = str(options["mode"])
        spec = host_spec(self._templar, variables)
        registered = Registered(variables, options)
        try:
            if mode == "plan":
                return {**result, "changed": False, "build": plan(registered, spec)}
            if mode == "choose":
                return {**result, "changed": False, **choose(registered)}
            if mode in ("bring", "fetch", "give", "forget"):
                return {**result, "changed": False, **self._carry(mode, spec, registered, variables)}
            arguments = self._arguments(mode, spec, registered)
        except RailwrightError as error:
            return {**result, "failed": True, "msg": f"nccl_tests: {error}"}
        module = {"mode": mode, "arguments": arguments}
        result.update(self._execute_module(module_name=MODULE, module_args=module, task_vars=variables))
        if mode == "verify" and not result.get("failed"):
            result["directory"] = arguments["directory"]
        return result

    def _arguments(self, mode: str, spec: Spec, registered: Registered) -> dict[str, Any]:
        """What the module works on in this step."""
        user = spec["nccl_tests_user"] or spec["ssh_mesh_user"]
        if mode == "look":
            keys = ("cuda_version", "nccl_prefix", "mpi_prefix", "mpi_install", "nccl_tests_nfs", "nccl_tests_path")
            wanted = {key.removeprefix("nccl_tests_"): spec[key] for key in keys}
            return {**wanted, "nccl_origin": ORIGINS.get(spec["nccl_install"]), "user": user}
        planned = registered.here("plan")["build"]
        directory = planned["directory"]
        if mode == "state":
            return {"directory": directory}
        if mode == "build":
            return {"build": planned, "node": registered.host, "user": user, "archive": planned["download"]}
        packed = packed_file(directory)
        if mode == "pack":
            return {"directory": directory, "archive": packed}
        programs = programs_of(registered)
        if mode == "unpack":
            if programs is None and self._task.check_mode:
                return {}
            origin = registered.of(registered.here("choice")["choice"]["origin"], "packed")
            return {"directory": directory, "archive": packed, "sha256": origin.get("sha256"), "programs": programs}
        seen = registered.here("seen")["node"]
        pending = registered.here("choice")["choice"]
        waits = bool(self._task.check_mode) and (pending["build"] or registered.host in pending["receivers"])
        return {"directory": directory, "programs": {} if waits else programs or {}, "pending": waits, "gpus": len(seen["gpus"]),
                "first": planned["programs"][0], "library_path": seen["library_path"], "user": user}

    def _carry(self, mode: str, spec: Spec, registered: Registered, variables: dict[str, Any]) -> dict[str, Any]:
        """Files between the controller and a node; every path is made here."""
        if mode == "bring":
            return self._bring(source_of(spec), variables)
        origin = registered.here("choice")["choice"]["origin"]
        packed = packed_file(registered.here("plan")["build"]["directory"])
        if mode == "fetch":
            return self._fetch(packed, registered.here("packed")["sha256"])
        carried = carried_directory(registered.of(origin, "carried")["carried"])
        if mode == "forget":
            shutil.rmtree(carried)
            return {}
        made = self.run_builtin("ansible.builtin.file", {"path": CACHE, "state": "directory", "mode": "0755"}, variables)
        if made.get("failed"):
            return made
        return self.run_builtin("ansible.builtin.copy", {"src": str(carried / NAME), "dest": packed, "mode": "0644"}, variables)

    def _bring(self, source: build.Source, variables: dict[str, Any]) -> dict[str, Any]:
        """The source; both directories by name, since root's umask decides about a parent that is made on the way."""
        for path in (CACHE.rpartition("/")[0], CACHE):
            made = self.run_builtin("ansible.builtin.file", {"path": path, "state": "directory", "mode": "0755"}, variables)
            if made.get("failed"):
                return made
        target = {"dest": archive_of(source), "mode": "0644"}
        if source.archive is not None:
            return self.run_builtin("ansible.builtin.copy", {**target, "src": source.archive}, variables)
        wanted = {**target, "url": source.url, "checksum": f"sha256:{source.sha256}"}
        return self.run_builtin("ansible.builtin.get_url", wanted, variables)

    def _fetch(self, packed: str, sha256: str) -> dict[str, Any]:
        """Into a directory of its own. It is what the node said that it is, or goes away again."""
        directory = Path(tempfile.mkdtemp(prefix=CARRIED))
        target = directory / NAME
        wire.fetched(self._connection, packed, target)
        with target.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256:
            shutil.rmtree(directory)
            return {"failed": True, "msg": f"nccl_tests: {packed} came with the sha256 {found} and not {sha256}, which the node had said"}
        return {"carried": str(directory)}


class Registered:
    """The results of the steps before, of this host and of others."""

    def __init__(self, variables: dict[str, Any], options: dict[str, Any]) -> None:
        self.variables = variables
        self.options = options
        self.host = str(variables["inventory_hostname"])

    def of(self, host: str, step: str) -> dict[str, Any]:
        name = str(self.options[step])
        found = result_of(self.variables, host, name)
        if found is None:
            raise AnsibleActionFail(f"{step}: {name} holds no result of {MODULE} for {host}")
        return found

    def here(self, step: str) -> dict[str, Any]:
        return self.of(self.host, step)

    def everybody(self, step: str) -> dict[str, dict[str, Any]]:
        """Of every host of the play that answered, in the inventory's order."""
        name = str(self.options[step])
        found = {host: result_of(self.variables, host, name) for host in judged_together(self.variables)[1]}
        return {host: result for host, result in found.items() if result is not None}


def plan(registered: Registered, spec: Spec) -> dict[str, Any]:
    """What is to lie where; the shared keys are the same on all nodes, and those of the first one count."""
    prebuilt = spec["nccl_tests_install"] == "prebuilt"
    wishes = build.Wishes(
        install=spec["nccl_tests_install"], path=spec["nccl_tests_path"],
        shared=bool(spec["nccl_tests_shared"] or spec["nccl_tests_nfs"]), launcher=spec["nccl_tests_launcher"],
        collectives=tuple(spec["nccl_tests_collectives"]), source=None if prebuilt else source_of(spec))
    planned = build.plan({host: result["node"] for host, result in registered.everybody("seen").items()}, wishes)
    if wishes.source is not None:
        planned["download"] = archive_of(wishes.source)
    return planned


def archive_of(source: build.Source) -> str:
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


def source_of(spec: Spec) -> build.Source:
    """The archive, held to what the inventory or, for the pinned release, the catalogue says. Raises where nobody vouches for it."""
    artifact = find(build.ARTIFACT)
    if artifact is None:
        raise RailwrightError(f"the catalogue has no {build.ARTIFACT}")
    version = spec["nccl_tests_version"] or artifact.version
    sha256 = spec["artifact_pins"].get(artifact.name) or (artifact.value if version == artifact.version else None)
    if sha256 is None:
        raise RailwrightError(f"nobody here vouches for nccl-tests {version}: look at its archive, and set rdma_artifact_pins: "
                              f"{{{artifact.name}: its sha256}}")
    return build.Source(version, mirrored(located(artifact, version), spec["artifact_mirror"]), sha256, spec["nccl_tests_archive"])


def choose(registered: Registered) -> dict[str, Any]:
    chosen = build.choose(registered.here("plan")["build"], registered.everybody("state"))
    return {"choice": chosen, "warnings": [f"nccl_tests: {text}" for text in chosen["warnings"]]}


def programs_of(registered: Registered) -> dict[str, str] | None:
    """Checksums of the build: as its builder says now, or as they were found; None for what is prebuilt, or not built in check mode."""
    choice = registered.here("choice")["choice"]
    if not choice["build"]:
        return dict(choice["programs"]) if choice["programs"] else None
    manifest = registered.of(choice["origin"], "made")["manifest"]
    return dict(manifest["programs"]) if manifest else None
