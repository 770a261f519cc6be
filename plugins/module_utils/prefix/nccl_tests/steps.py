# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's steps of bringing nccl-tests, as the controller asks for them. What the job user may own never runs with root's rights."""

from typing import Any, Dict, Mapping, Sequence

from ...errors import RailwrightError
from ...host.host import Host
from ...measure.nccl_tests.processes import as_user
from ...observe.identity import observe_arch
from . import install, mount, toolchain


def run_step(host: Host, step: str, given: Mapping[str, Any], *, dry: bool) -> Dict[str, Any]:
    """The step's answer. ``dry``: check mode. Raises RailwrightError."""
    if step == "inspect":
        return inspect(host, given)
    if step == "verify":
        return verify(host, given)
    if step == "state":
        return dict(toolchain.state(host, given["directory"]), changed=False)
    if dry:
        return {"changed": True, "manifest": None}
    if step == "build":
        compiler = install.compile_account(host, given["user"] or host.login())
        return dict(install.Builder(host, compiler, given["node"], given["build"]).run(given["archive"]), changed=True)
    if step == "pack":
        return dict(install.pack(host, given["directory"], given["archive"]), changed=False)
    install.unpack(host, given["node"], given["archive"], given["sha256"], given["directory"], given["programs"])
    return {"changed": True}


def inspect(host: Host, given: Mapping[str, Any]) -> Dict[str, Any]:
    """GPUs, compilers and libraries, and what is to be mounted."""
    found = toolchain.look(
        host, observe_arch(host) or "", given["cuda_version"], given["nccl_prefix"], given["nccl_origin"], given["mpi_prefix"],
        given["mpi_install"], without_rights(host, given))
    found["mount"] = mount.look(host, given["nfs"], given["path"]) if given["nfs"] else None
    return {"changed": False, "node": found}


def verify(host: Host, given: Mapping[str, Any]) -> Dict[str, Any]:
    """Every program is the builder's, and starts. A node without GPU runs nothing, so what its libraries lack is no matter."""
    if given["programs"]:
        install.verify(host, given["directory"], given["programs"])
    if given["gpus"] and not given["pending"]:
        program = "%s/%s" % (given["directory"], given["first"])
        missing = toolchain.unresolved(host, program, given["library_path"], without_rights(host, given))
        if missing:
            raise RailwrightError("%s does not start here: %s" % (program, ", ".join(missing)))
    return {"changed": False, "library_path": given["library_path"]}


def without_rights(host: Host, given: Mapping[str, Any]) -> Sequence[str]:
    """The words before the command line of a program that may be another user's: it runs with the rights that the compiler gets."""
    who = install.compile_account(host, given.get("user") or host.login())
    return () if who is None else as_user(host, who, ())
