# SPDX-License-Identifier: GPL-3.0-or-later
"""The one installer for what lies below a versioned prefix: unpack into a temporary directory, verify, rename, link, clean up.

Every release has a directory of its own with a manifest, written once and never changed. It is made in a temporary directory beside
its place, so that a rename puts it there whole. The link ``current`` names the release that the inventory asks for.
"""

import abc
import contextlib
import json
import posixpath
import re
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from ..errors import RailwrightError
from ..formats.outside import json_object
from ..host.commands import check_brought, must, sum_of
from ..host.host import Host

MANIFEST = "railwright.json"
MANIFEST_LIMIT = 1024 * 1024
CURRENT = "current"
ABSENT, INSTALLED, BROKEN = "absent", "installed", "broken"
SECONDS = 600.0
UNPACK_SECONDS = 1800.0


class Release(NamedTuple):
    """One release of a product: its own directory, and the one file that it is made of."""

    version: str
    directory: str
    artifact: str
    url: Optional[str]  # None: the file comes from the controller
    sha256: str
    file: str  # where it is brought to
    node: str  # as plain_name gives it


class Installer(abc.ABC):
    """One release on one node. The class of a product says what is unpacked and verified."""

    title = ""  # what room is wanted for
    space = 0  # bytes below the prefix
    strip = 1  # directories of the archive above everything
    key_files: Tuple[str, ...] = ()  # held to the checksums of the manifest
    linked = True
    remedy: Optional[str] = None  # what helps where something else lies in the place; None: an incomplete one gives way

    def __init__(self, host: Host, release: Release) -> None:
        self.host = host
        self.release = release

    def unpack(self, target: str) -> None:
        """The archive's content into an empty directory."""
        must(self.host, ("tar", "-xf", self.release.file, "-C", target, "--strip-components=%d" % self.strip, "--no-same-owner",
                         "--no-same-permissions"), "unpack " + self.release.artifact, UNPACK_SECONDS)

    @abc.abstractmethod
    def finish(self, work: str) -> Tuple[str, Dict[str, Any]]:
        """(the directory that is to be renamed, what its manifest says beside the artifact). The product verifies it here.

        ``work/unpacked`` holds the archive's content. Raises RailwrightError where that is not the release.
        """

    def facts(self) -> Dict[str, Any]:
        """What of this product alone the role is told."""
        return {}

    def state(self) -> Tuple[str, str]:
        """ABSENT, INSTALLED or BROKEN, and what is wrong."""
        release = self.release
        if not self.host.exists(release.directory):
            return ABSENT, ""
        found = read_manifest(self.host, release.directory) or {}
        files = found.get("files")
        if not isinstance(files, dict):
            return BROKEN, "it has no manifest of railwright's (%s)" % MANIFEST
        if found.get("artifact_sha256") != release.sha256:
            return BROKEN, "it was made from another file than the one that is pinned now"
        for name in self.key_files:
            if files.get(name) is None or sum_of(self.host, "%s/%s" % (release.directory, name)) != files[name]:
                return BROKEN, "%s is not the file that was put there" % name
        return INSTALLED, ""

    def missing(self) -> bool:
        """Whether it has to be made. Raises RailwrightError where something else lies in its place."""
        state, wrong = self.state()
        if state == BROKEN and self.remedy is not None:
            raise RailwrightError("%s is there, but %s; remove it, or %s" % (self.release.directory, wrong, self.remedy))
        return state != INSTALLED

    def inspect(self) -> Dict[str, Any]:
        """The answer of a node. ``missing``: it has to be made; ``needed``: that, or the link leads elsewhere."""
        missing = self.missing()
        needed = missing or (self.linked and not is_linked(self.host, self.release.directory))
        told = dict(self.release._asdict(), missing=missing, needed=needed, **self.facts())
        del told["node"]
        return {"release": told}

    def prepare(self) -> None:
        """Room, and a directory for the file that is brought."""
        check_space(self.host, posixpath.dirname(self.release.directory), self.space, self.title)
        make_directory(self.host, posixpath.dirname(self.release.file))

    def install(self) -> None:
        """From the file that was brought to the directory and the link; an error leaves nothing of it on the node."""
        try:
            if self.missing():
                self._make()
            if self.linked:
                link_current(self.host, self.release.directory, self.release.node)
        except Exception:
            self.clean()
            raise
        forget_file(self.host, self.release.file)

    def _make(self) -> None:
        host, release = self.host, self.release
        check_brought(host, release.file, release.artifact, release.sha256)
        check_space(host, posixpath.dirname(release.directory), self.space, self.title)
        with temporary_directory(host, release.directory, release.node) as work:
            must(host, ("mkdir", "--", work + "/unpacked"), "make a directory in " + work)
            self.unpack(work + "/unpacked")
            made, manifest = self.finish(work)
            write_manifest(host, made, dict(
                manifest, version=release.version, artifact=release.artifact, artifact_sha256=release.sha256,
                files={name: sum_of(host, "%s/%s" % (made, name)) for name in self.key_files}))
            try:
                put_in_place(host, made, release.directory, work if self.remedy is None else None)
            except RailwrightError:
                if self.state()[0] != INSTALLED:  # another node was faster, where they share the prefix
                    raise

    def clean(self) -> None:
        """Nothing of a run that failed stays, and no directory that was made for it."""
        parent = posixpath.dirname(self.release.directory)
        sweep(self.host, parent, self.release.node)
        forget_file(self.host, self.release.file)
        if self.linked:
            self.host.rmdir(parent)


def plain_name(node: str) -> str:
    """Of a node's name what a path may hold."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", node)


def check_space(host: Host, path: str, needed: int, title: str) -> None:
    """Raises RailwrightError where the file system that holds ``path``, or will, has less free than ``needed`` bytes."""
    there = path
    while there != "/" and not host.exists(there):
        there = posixpath.dirname(there)
    free = host.free_bytes(there)
    if free is not None and free < needed:
        raise RailwrightError("%s has %d MiB free, and %s needs %d" % (path, free >> 20, title, needed >> 20))


def make_directory(host: Host, path: str) -> None:
    """install, unlike mkdir, gives every directory that it makes on the way the mode 0755, whatever root's umask is."""
    if not host.exists(path):
        must(host, ("install", "-d", "-m", "0755", "--", path), "make " + path)


def remove(host: Host, *paths: str) -> None:
    must(host, ("rm", "-rf", "--") + paths, "remove " + " and ".join(paths), SECONDS)


def sweep(host: Host, parent: str, node: str) -> None:
    """Remove what runs of this node that were cut off have left."""
    left = ["%s/%s" % (parent, name) for name in host.listdir(parent) if name.startswith(".") and name.endswith(".%s.part" % node)]
    if left:
        remove(host, *left)


@contextlib.contextmanager
def temporary_directory(host: Host, directory: str, node: str) -> Iterator[str]:
    """A directory of root's alone beside ``directory``, gone afterwards."""
    parent, _slash, name = directory.rpartition("/")
    make_directory(host, parent)
    sweep(host, parent, node)
    path = "%s/.%s.%s.part" % (parent, name, node)
    must(host, ("mkdir", "-m", "0700", "--", path), "write to " + parent)
    try:
        yield path
    finally:
        remove(host, path)


def open_to_all(host: Host, directory: str) -> None:
    """Everybody's to read and start, whatever root's umask is; with SELinux's labels of the place."""
    must(host, ("chmod", "-R", "u=rwX,go=rX", "--", directory), "set the modes", SECONDS)
    if host.exists("/sys/fs/selinux/enforce"):
        host.run(("restorecon", "-R", directory), SECONDS)


def put_in_place(host: Host, made: str, directory: str, work: Optional[str]) -> None:
    """``made`` becomes ``directory``. What is there moves to ``work``: programs that run from it go on with their files.

    ``work`` None: nothing is replaced, and what is there is an error.
    """
    open_to_all(host, made)
    if work is not None and host.exists(directory):
        must(host, ("mv", "-T", "--", directory, work + "/replaced"), "replace " + directory)
    must(host, ("mv", "-T", "--", made, directory), "put %s in place" % directory)


def is_linked(host: Host, directory: str) -> bool:
    parent, _slash, name = directory.rpartition("/")
    return host.readlink("%s/%s" % (parent, CURRENT)) == name


def link_current(host: Host, directory: str, node: str) -> None:
    """``current`` leads to it from one moment to the next."""
    parent, _slash, name = directory.rpartition("/")
    part = "%s/.%s.%s.part" % (parent, CURRENT, node)
    must(host, ("ln", "-sfn", "--", name, part), "make " + part)
    must(host, ("mv", "-T", "--", part, "%s/%s" % (parent, CURRENT)), "make the link " + CURRENT)


def forget_file(host: Host, file: str) -> None:
    """What was brought is not needed any more."""
    host.remove(file)
    host.rmdir(posixpath.dirname(file))


def write_manifest(host: Host, directory: str, manifest: Dict[str, Any]) -> None:
    host.write("%s/%s" % (directory, MANIFEST), json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def read_manifest(host: Host, directory: str) -> Optional[Dict[str, Any]]:
    """What the directory says of itself; None where it says nothing."""
    return json_object(host.read("%s/%s" % (directory, MANIFEST), MANIFEST_LIMIT))
