# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python environment made on a node: its files brought and compared, pip and conda as command lines, proven, then published by a link.

It differs from the installer's other products: it cannot be moved, so it is made where it stays, and no file of it is the whole of it.
What it says of itself (torch, its CUDA, its NCCL, the packages) is asked in a child without rights: the wheels are code of others. They
are imported as the environment's owner, or as nobody where that is root, who also shows that others can read all that torch needs.
"""

import posixpath
from typing import Any, Dict, List, Mapping, Optional

from ...catalogue import aiacc
from ...errors import RailwrightError
from ...formats.outside import json_object, lines_in
from ...formats.program_output import clean, one_line
from ...host.commands import must, sums, told
from ...host.host import Host, account
from ...types import Change, change_as_dict
from ..installer import check_space, is_linked, link_current, make_directory, open_to_all, remove
from .lock import lock_text
from .manifest import as_reader, current, manifest_of, write_list_and_manifest
from .wanted import MARKER, Place, Wanted, environment_place, others

WITHOUT_GPU = "ai_environment: no NVIDIA GPU on the PCI bus of this node; ai_environment_torch VERSION+cpu asks for a build without CUDA"
GIB = 1024 ** 3
# Choices: 2.9.1 for CUDA 12.8 has 3 GB of wheels and 7 GB unpacked, a build without CUDA 0.2 and 1; conda's installer has 0.1 and 0.6.
SPACE, SPACE_CPU, SPACE_CONDA = 12 * GIB, 2 * GIB, 6 * GIB
REQUIREMENTS, WHEELS, INSTALLER, EXPLICIT = "requirements.txt", "wheels", "installer.sh", "explicit.txt"
SECONDS = 600.0
BUILD_SECONDS = 4 * 3600.0  # torch from a slow mirror

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


def bin_of(directory: str) -> str:
    return directory + "/bin/python"


def pip_argv(wish: Wanted, place: Place) -> List[str]:
    """Wheels only, each with a checksum of the lock. The node's own pip.conf stays in force (proxy, CA); root's and PIP_* do not.

    ``-I``: Python would import from the directory that it is started in, which is the login user's home.
    """
    argv = [bin_of(place.directory), "-I", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "install",
            "--no-cache-dir", "--progress-bar", "off", "--require-hashes", "--only-binary", ":all:",
            "--requirement", "%s/%s" % (place.files, REQUIREMENTS)]
    return argv if wish.indexes else argv + ["--no-index", "--find-links", "%s/%s" % (place.files, WHEELS)]


class Environment:
    """What an installer has: ``inspect``, ``prepare``, ``install`` and ``clean``. ``sums``: of the wheels on the controller."""

    def __init__(self, host: Host, wish: Wanted, sums: Dict[str, str]) -> None:
        self.host = host
        self.wish = wish
        self.sums = sums

    def inspect(self) -> Dict[str, Any]:
        """The answer of a node. ``missing``: it has to be made; ``needed``: that, or the link leads elsewhere."""
        host, wish, place = self.host, self.wish, environment_place(self.host, self.wish)
        missing = place.state != "whole"
        if missing:
            self._check()
        before = current(host, wish.path)
        found = None if missing else manifest_of(host, place.directory)
        said = (found or {}).get("torch")
        kept = others(host, wish, place.directory)
        notes = ["ai_environment: broken and left to what runs in it: " + text for text in place.broken]
        notes += ["ai_environment: kept beside it: %s; remove what no job uses any more" % ", ".join(kept)] if kept and not missing else []
        if found is not None and wish.cuda != "" and not (said or {}).get("devices"):
            notes.append("ai_environment: torch found no CUDA device when the environment was made, and this node has GPUs: was the "
                         "driver loaded?")
        row = {
            "kind": wish.kind, "name": posixpath.basename(place.directory), "directory": place.directory, "python": bin_of(place.directory),
            "missing": missing, "needed": missing or not is_linked(host, place.directory), "broken": list(place.broken),
            "wheels": list(wish.wheels), "torch": said}
        why = "; ".join(place.broken) or ("the inventory asks for it" if missing else "the link leads elsewhere")
        change = Change("ai_environment", "environment below %s" % wish.path, posixpath.basename(before) if before else None, row["name"],
                        "none", why, "inventory", ())
        return {"release": row, "notes": notes, "plan": [change_as_dict(change)] if row["needed"] else [],
                "drivers": drivers_of(found, place.directory)}

    def _check(self) -> None:
        """Room, and the owner. Raises RailwrightError."""
        wish = self.wish
        # Wheels in a copy, unpacked by pip, and in place; from an index by what torch has.
        needed = 4 * wish.size if wish.wheels else SPACE_CPU if wish.cuda == "" else SPACE
        check_space(self.host, wish.path, needed + (SPACE_CONDA if wish.kind == "conda" else 0), "torch " + wish.torch)
        account(wish.owner, "ai_environment_owner")

    def prepare(self) -> None:
        """What an interrupted run left goes away; the lock and empty directories for what is brought."""
        host, place = self.host, environment_place(self.host, self.wish)
        self._check()
        make_directory(host, self.wish.path)
        if place.state == "begun":
            remove(host, place.directory, place.files)
        # 0700: what is unpacked there is nobody's business before it is compared; the marker first, so that it can be told from others'.
        must(host, ("install", "-d", "-m", "0700", "--", place.files), "make " + place.files)
        host.write("%s/%s" % (place.files, MARKER), self.wish.node + "\n", 0o600)
        below = ["%s/%s" % (place.files, name) for name in ("unpacked", "pkgs", WHEELS)]
        must(host, ["install", "-d", "-m", "0700", "--"] + below, "make directories")
        # The indexes stand in this file, which is root's: a URL may hold a password, and everybody reads a command line.
        indexes = zip(["--index-url"] + ["--extra-index-url"] * len(self.wish.indexes), self.wish.indexes)
        text = "".join("%s %s\n" % pair for pair in indexes) + lock_text(self.wish.entries)
        host.write("%s/%s" % (place.files, REQUIREMENTS), text, 0o600)

    def install(self) -> None:
        """From what was brought to the environment and the link; an error leaves nothing of it on the node."""
        place = environment_place(self.host, self.wish)
        try:
            if place.state != "whole":
                self.verify(place)
                self._build(place)
                self._settle(place)
            link_current(self.host, place.directory, self.wish.node)
        except Exception:
            self.clean()
            raise

    def verify(self, place: Place) -> None:
        """What was brought is what the controller read. pip compares wheels once more; nobody else would inspect conda's installer."""
        wish = self.wish
        found = sums(self.host, "%s/%s" % (place.files, WHEELS), wish.wheels)
        for file in wish.wheels:
            if found.get(file) != self.sums[file]:
                raise RailwrightError("%s did not arrive as it is on the controller; nothing is made of it" % file)
        if wish.kind != "conda":
            return
        found = sums(self.host, place.files, [INSTALLER, EXPLICIT])
        if found.get(INSTALLER) != wish.installer_sha256:
            raise RailwrightError("ai_environment_conda_installer has the sha256 %s and not %s; it is not run" % (
                found.get(INSTALLER) or "nothing (it cannot be read)", wish.installer_sha256))
        if found.get(EXPLICIT) != wish.explicit_sha256:
            raise RailwrightError("ai_environment_conda_explicit did not arrive as it is on the controller")

    def _build(self, place: Place) -> None:
        """Run pip and conda. Raises RailwrightError with the end of what they said."""
        wish, base = self.wish, place.files + "/conda"
        steps = [("Make the virtual environment", [wish.python, "-I", "-m", "venv", place.directory])]
        if wish.kind == "conda":
            steps = [
                ("Install conda as a tool", ["bash", "%s/%s" % (place.files, INSTALLER), "-b", "-p", base]),
                ("Make the conda environment", [base + "/bin/conda", "create", "--yes", "--quiet", "--no-default-packages", "--prefix",
                                                place.directory, "--file", "%s/%s" % (place.files, EXPLICIT)])]
        if wish.entries:
            steps.append(("Install the lock", pip_argv(wish, place)))
        own = ["env", "CONDA_PKGS_DIRS=%s/pkgs" % place.files, "TMPDIR=%s/unpacked" % place.files]  # /tmp is often too small for torch
        for name, argv in steps:
            told(self.host, own + argv, name, BUILD_SECONDS)

    def _settle(self, place: Place) -> None:
        """Everybody's to read, its owner's; proven in a child; then the manifest, with which it counts."""
        host, wish, directory = self.host, self.wish, place.directory
        if not host.exists(bin_of(directory)):
            raise RailwrightError("%s holds no Python after it was made" % directory)
        open_to_all(host, directory)
        # Not the directory itself: who owns that could put a link in the manifest's place, which root writes. What is in it goes from
        # directory to directory (chown -R) and not by paths: the owner of the first ones could put links into the paths of the others.
        must(host, ["chown", "-R", "-h", "-P", wish.owner + ":", "--"] + ["%s/%s" % (directory, name) for name in host.listdir(directory)],
             "give it to " + wish.owner, SECONDS)
        write_list_and_manifest(host, directory, {
            "name": wish.name, "kind": wish.kind, "python": wish.release, "torch": prove_environment(host, wish, directory),
            "packages": list(wish.packages), "lock": [entry.line for entry in wish.entries]})
        remove(host, place.files)

    def clean(self) -> None:
        """What is whole, or broken and in use, is not touched; nor is a directory that was not made for it."""
        place = environment_place(self.host, self.wish)
        if place.state == "begun":
            remove(self.host, place.directory, place.files)
        self.host.rmdir(self.wish.path)


def prove_environment(host: Host, wish: Wanted, directory: str) -> Dict[str, Any]:
    """What it said, judged. Raises RailwrightError where it is not what was asked for."""
    names = [item.partition("==")[0] for item in wish.packages]
    answer = host.run(as_reader(host, directory, [directory + "/bin/python", "-c", PROOF] + names), PROVE_SECONDS)
    lines = [line for line in lines_in(clean(answer.err)) if line.strip()]
    if answer.rc == 124:
        raise RailwrightError("torch %s was not imported within %d s" % (wish.torch, PROVE_SECONDS))
    said = json_object(answer.out.strip().rpartition("\n")[2]) if answer.ok else None
    if said is None:
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
    if wish.profile == aiacc.PROFILE and isinstance(nccl, str) and not aiacc.fits_nccl(nccl):
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
