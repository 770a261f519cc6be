# SPDX-License-Identifier: GPL-3.0-or-later
"""What a new environment says of itself, asked in a child that has no rights: torch, its CUDA, its NCCL, the packages.

The wheels are code of others. They are imported as the environment's owner, or as nobody where that is root; this also shows that
another user than root can read everything that torch needs.
"""

from typing import Any, Dict, Mapping, Optional

from ...catalogue import aiacc
from ...errors import RailwrightError
from ...formats.outside import read_json
from ...formats.program_output import clean, one_line
from ...host.host import Host
from ...measure.nccl_tests import processes
from .manifest import as_reader
from .wanted import Wanted

PROVE_SECONDS = 600.0  # torch on a cold disk; the first import also compiles nothing: the bytecode is pip's
# argv: names of packages. What torch lacks (NCCL in a build without CUDA) is null. Python 3.8.
PROOF = r"""
import importlib.metadata, json, os, sys
import torch
import torch.distributed as dist

def nccl_version():
    try:
        found = torch.cuda.nccl.version()
    except (AttributeError, RuntimeError):
        return None
    return ".".join(str(part) for part in found) if isinstance(found, tuple) else str(found)

def nccl_path():
    for entry in sys.path:
        path = os.path.join(entry, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            return path
    return None

def installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

cuda = torch.version.cuda
print(json.dumps({
    "torch": str(torch.__version__), "cuda": cuda, "cuda_available": bool(torch.cuda.is_available()),
    "devices": torch.cuda.device_count() if torch.cuda.is_available() else 0, "distributed": bool(dist.is_available()),
    "nccl": nccl_version() if cuda else None, "nccl_path": nccl_path(), "prefix": sys.prefix,
    "packages": {name: installed(name) for name in sys.argv[1:]},
}))
"""


def account_of(wish: Wanted) -> str:
    """Who is to own it. Raises RailwrightError for a user that this node does not have."""
    try:
        return processes.account(wish.owner).name
    except RailwrightError as error:
        raise RailwrightError("ai_environment_owner: %s: this node has no such user; allowed: one who exists on every node" % (
            wish.owner)) from error


def prove(host: Host, wish: Wanted, directory: str) -> Dict[str, Any]:
    """What it said, judged. Raises RailwrightError where it is not what was asked for."""
    names = [item.partition("==")[0] for item in wish.packages]
    answer = host.run(as_reader(host, directory, [directory + "/bin/python", "-c", PROOF] + names), PROVE_SECONDS)
    lines = [line for line in clean(answer.err).splitlines() if line.strip()]
    if answer.rc == 124:
        raise RailwrightError("torch %s was not imported within %d s" % (wish.torch, PROVE_SECONDS))
    try:
        said = read_json(answer.out.strip().rpartition("\n")[2]) if answer.ok else None
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise RailwrightError("torch %s cannot be imported: %s" % (
            wish.torch, one_line(lines[-1]) if lines else "Python ended with %d" % answer.rc))
    judge(wish, said)
    return said


def judge(wish: Wanted, said: Mapping[str, Any]) -> None:
    """Version, CUDA, torch.distributed, packages, and NCCL against the profile."""
    version, cuda = one_line(str(said.get("torch")), 64), said.get("cuda")
    exact = "+" in wish.torch
    if (version if exact else version.partition("+")[0]) != wish.torch:
        raise RailwrightError("what was installed says that it is torch %s and not %s" % (version, wish.torch))
    if wish.cuda is not None and (cuda or "") != wish.cuda:
        raise RailwrightError("torch %s says that it is built for %s and not for %s" % (
            version, "CUDA %s" % one_line(str(cuda), 16) if cuda else "no CUDA", "CUDA " + wish.cuda if wish.cuda else "none"))
    if not said.get("distributed"):
        raise RailwrightError("torch %s was built without torch.distributed: no job over several nodes runs with it" % version)
    packages = said.get("packages") or {}
    for item in wish.packages:
        name, _equals, wanted = item.partition("==")
        found = packages.get(name)
        if found is None or (wanted and found != wanted):
            raise RailwrightError("ai_environment_packages: %s: the environment has %s" % (
                item, "none" if found is None else one_line(str(found), 64)))
    nccl = said.get("nccl")
    if wish.profile == aiacc.PROFILE and isinstance(nccl, str) and not aiacc.fits(nccl):
        raise RailwrightError("torch %s brings NCCL %s, and AIACC's plugin (rdma_nccl_profile %s) is for NCCL %s" % (
            version, one_line(nccl, 32), aiacc.PROFILE, aiacc.RANGE))


def drivers_of(manifest: Optional[Mapping[str, Any]], directory: str) -> Dict[str, str]:
    """One line each, for people."""
    said = (manifest or {}).get("torch")
    if not isinstance(said, dict):
        return {}
    cuda = "CUDA %s" % said.get("cuda") if said.get("cuda") else "no CUDA"
    devices = said.get("devices")
    lines = {"environment": directory, "torch": one_line("%s, %s, %s when it was made" % (
        said.get("torch"), cuda, "%s CUDA devices" % devices if devices else "no CUDA device"), 200)}
    if said.get("nccl"):
        lines["NCCL of torch"] = one_line("%s%s" % (said["nccl"], " (%s)" % said["nccl_path"] if said.get("nccl_path") else ""), 200)
    return lines
