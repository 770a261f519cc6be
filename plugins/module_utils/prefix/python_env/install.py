# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python environment made on a node: its files brought and compared, pip and conda as command lines, proven, then published by a link.

It differs from the installer's other products: it cannot be moved, so it is made where it stays, and no file of it is the whole of it.
"""

import posixpath
from typing import Any, Dict, List

from ...errors import RailwrightError
from ...host.commands import must, sums, told
from ...host.host import Host
from ...types import Change, change_as_dict
from ..installer import check_space, is_linked, link_current, make_directory, open_to_all, remove
from .lock import lock_text
from .manifest import current, manifest_of, write_list_and_manifest
from .verify import account_of, drivers_of, prove
from .wanted import MARKER, Place, Wanted, others, place_of

WITHOUT_GPU = "ai_environment: no NVIDIA GPU on the PCI bus of this node; ai_environment_torch VERSION+cpu asks for a build without CUDA"
GIB = 1024 ** 3
# Choices: 2.9.1 for CUDA 12.8 has 3 GB of wheels and 7 GB unpacked, a build without CUDA 0.2 and 1; conda's installer has 0.1 and 0.6.
SPACE, SPACE_CPU, SPACE_CONDA = 12 * GIB, 2 * GIB, 6 * GIB
REQUIREMENTS, WHEELS, INSTALLER, EXPLICIT = "requirements.txt", "wheels", "installer.sh", "explicit.txt"
SECONDS = 600.0
BUILD_SECONDS = 4 * 3600.0  # torch from a slow mirror


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


def index_lines(wish: Wanted) -> str:
    """In the file of requirements, which is root's: a URL may hold a password, and everybody reads a command line."""
    options = ["--index-url"] + ["--extra-index-url"] * len(wish.indexes)
    return "".join("%s %s\n" % pair for pair in zip(options, wish.indexes))


def needed_space(wish: Wanted) -> int:
    """Wheels in a copy, unpacked by pip, and in place; from an index by what torch has."""
    conda = SPACE_CONDA if wish.kind == "conda" else 0
    return conda + (4 * wish.size if wish.wheels else SPACE_CPU if wish.cuda == "" else SPACE)


class Environment:
    """What an installer has: ``inspect``, ``prepare``, ``install`` and ``clean``. ``sums``: of the wheels on the controller."""

    def __init__(self, host: Host, wish: Wanted, sums: Dict[str, str]) -> None:
        self.host = host
        self.wish = wish
        self.sums = sums

    def place(self) -> Place:
        return place_of(self.host, self.wish)

    def inspect(self) -> Dict[str, Any]:
        """The answer of a node. ``missing``: it has to be made; ``needed``: that, or the link leads elsewhere."""
        host, wish, place = self.host, self.wish, self.place()
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
        check_space(self.host, self.wish.path, needed_space(self.wish), "torch " + self.wish.torch)
        account_of(self.wish)

    def prepare(self) -> None:
        """What an interrupted run left goes away; the lock and empty directories for what is brought."""
        host, place = self.host, self.place()
        self._check()
        make_directory(host, self.wish.path)
        if place.state == "begun":
            remove(host, place.directory, place.files)
        # 0700: what is unpacked there is nobody's business before it is compared; the marker first, so that it can be told from others'.
        must(host, ("install", "-d", "-m", "0700", "--", place.files), "make " + place.files)
        host.write("%s/%s" % (place.files, MARKER), self.wish.node + "\n", 0o600)
        below = ["%s/%s" % (place.files, name) for name in ("unpacked", "pkgs", WHEELS)]
        must(host, ["install", "-d", "-m", "0700", "--"] + below, "make directories")
        host.write("%s/%s" % (place.files, REQUIREMENTS), index_lines(self.wish) + lock_text(self.wish.entries), 0o600)

    def install(self) -> None:
        """From what was brought to the environment and the link; an error leaves nothing of it on the node."""
        place = self.place()
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
        """What was brought is what the controller read. pip compares wheels once more; nobody else would look at conda's installer."""
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
            "name": wish.name, "kind": wish.kind, "python": wish.release, "torch": prove(host, wish, directory),
            "packages": list(wish.packages), "lock": [entry.line for entry in wish.entries]})
        remove(host, place.files)

    def clean(self) -> None:
        """What is whole, or broken and in use, is not touched; nor is a directory that was not made for it."""
        place = self.place()
        if place.state == "begun":
            remove(self.host, place.directory, place.files)
        self.host.rmdir(self.wish.path)
