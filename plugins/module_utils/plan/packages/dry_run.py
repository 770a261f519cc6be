# SPDX-License-Identifier: GPL-3.0-or-later
"""Proves, before anything changes, that the package steps of a plan can be carried out: what apt and dnf have in common.

In a private directory on the node, removed afterwards: the sources, pins and keyrings as they will be, indexes of their own, and the
package manager's own resolver on top of the node's real package database. What it cannot do is said in one line. What it resolves to
is what the role then asks for; the packages are downloaded and verified here, and left in the package manager's cache.
"""

import abc
import contextlib
import fnmatch
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...areas.stack import repositories
from ...catalogue import aiacc
from ...catalogue.inbox import FAMILIES, RENAMED
from ...catalogue.repositories import Repository
from ...catalogue.stacks import VENDOR_STACKS, marked
from ...errors import RailwrightError
from ...formats import outside
from ...formats.openpgp import fingerprints
from ...host.commands import sum_of
from ...host.host import Host
from ...observe.identity import observe_identity
from ...spec.model import Spec
from ...types import KEYRING, Change, Identity, Subject

CACHE = "/var/cache/railwright"
COPY_SECONDS = 300.0
# Packages that a step of the GPU driver or of CUDA may take away without being asked: those of another branch of the same driver.
DRIVER_FAMILY = ("nvidia-*", "libnvidia-*", "kmod-nvidia*", "cuda-*", "libcudnn*", "cudnn*", "xserver-xorg-video-nvidia*", "dkms-nvidia")
STATE = "unsigned"  # of a step with a package file that nobody signed: see ``check_unsigned``
SLACK = 64 * 1024 * 1024  # file systems do not fill to the last byte
UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024 ** 2, "g": 1024 ** 3, "t": 1024 ** 4}


class Transaction(NamedTuple):
    """What the package manager would do."""

    incoming: Dict[str, Tuple[str, str]]  # name: version, origin
    outgoing: Dict[str, str]  # name: version
    room: Tuple[int, int] = (0, 0)  # bytes that are downloaded and unpacked, where it says so

    @property
    def lost(self) -> Dict[str, str]:
        """What goes, and nothing of its name comes."""
        return {name: version for name, version in self.outgoing.items() if name not in self.incoming}


class DryRun(NamedTuple):
    """The steps as they can be carried out, and everything that they change: name, from and to (None: not there), origin."""

    steps: Tuple[Dict[str, Any], ...]
    resolved: Tuple[Dict[str, Any], ...]


class Case(NamedTuple):
    """What is to be proved."""

    identity: Identity
    steps: Tuple[Dict[str, Any], ...]
    repositories: Tuple[Repository, ...]
    changes: Tuple[Change, ...]  # of the area repositories
    staged: Mapping[str, Optional[bytes]]
    allowed: Tuple[str, ...]
    download: bool = True  # the packages too, not only what is known of them

    def names(self, *states: str) -> List[str]:
        return [name for step in self.steps if step["state"] in states for name in step["names"]]

    def supplier(self, name: str) -> Optional[Repository]:
        """The repository that a package must come from, whatever others have under its name. A name with a version is nobody's."""
        return next((row for row in self.repositories if name in row.supplies), None)


def make_case(host: Host, spec: Spec, steps: Sequence[Dict[str, Any]]) -> Case:
    identity = observe_identity(host, None)
    wanted = repositories.desired(spec, identity)
    observed = repositories.observe(host, wanted)
    changes = repositories.plan(wanted, observed)
    return Case(identity, tuple(steps), wanted.repositories, tuple(changes), observed.staged, tuple(spec["rdma_stack_allow_removal"]))


def check_keys(case: Case) -> None:
    """Every key that will be put into place is the pinned one."""
    planned = [change.subject for change in case.changes]
    for row in case.repositories:
        if Subject(KEYRING, row.name) not in planned:
            continue
        found = fingerprints(case.staged.get(row.name) or b"")
        if row.fingerprint in found:
            continue
        what = "holds no OpenPGP key" if not found else "has fingerprint %s" % " and ".join(found)
        raise RailwrightError("repository %s: the signing key from %s %s, not %s (%s); nothing was changed" % (
            row.name, row.key_url, what, row.fingerprint, repositories.fingerprint_key(row.name)))


@contextlib.contextmanager
def overlay(host: Host) -> Iterator[str]:
    """A directory that apt's own user may read; gone afterwards, whatever happened."""
    run_checked(host, ("install", "-d", "-m", "0755", CACHE))
    root = run_checked(host, ("mktemp", "-d", CACHE + "/dry-run-XXXXXX")).strip()
    try:
        run_checked(host, ("chmod", "0755", root))
        yield root
    finally:
        host.run(("rm", "-rf", "--", root), COPY_SECONDS)


def place_files(host: Host, case: Case, places: Mapping[str, str]) -> None:
    """The files that the repositories' changes would write and remove, below the overlay. ``places``: real directory to overlay's."""
    for op in (op for change in case.changes for op in change.ops if op.path.startswith(tuple(real + "/" for real in places))):
        target, content = op.path, op.content
        for real, private in places.items():
            target = private + target[len(real):] if target.startswith(real + "/") else target
            content = content.replace(real + "/", private + "/")
        if op.kind == "write":
            host.write(target, content, op.mode)
        elif op.kind == "remove":
            host.remove(target)


def copy(host: Host, source: str, target: str) -> None:
    """A directory's content, if there is one."""
    run_checked(host, ("install", "-d", "-m", "0755", target))
    if host.exists(source):
        run_checked(host, ("cp", "-a", "--reflink=auto", source + "/.", target), COPY_SECONDS)


def run_checked(host: Host, argv: Sequence[str], seconds: float = 60.0) -> str:
    result = host.run(argv, seconds)
    if not result.ok:
        raise RailwrightError("the package step cannot be proved; nothing was changed: %s: exit %d: %s" % (
            one_line(" ".join(argv), 200), result.rc, one_line(result.err or result.out)))
    return result.out


def check_removals(case: Case, lost: Sequence[Tuple[str, str]]) -> None:
    """Refuse what would be removed beside the plan's own removals, the stack's own packages and what the inventory allows."""
    planned = case.names("absent")
    others = sorted("%s %s" % (name, version) for name, version in set(lost)
                    if name not in planned and name not in case.allowed and not own_package(case, name, version))
    if others:
        raise RailwrightError("the package step would also remove %s; nothing was changed. Put the names into rdma_stack_allow_removal if "
                              "that is meant" % ", ".join(others))


def own_package(case: Case, name: str, version: str) -> bool:
    """A package of the stacks that change here, or of the driver where the driver changes."""
    globs = [glob for row in VENDOR_STACKS for glob in row.family]
    if any(step["area"] in ("gpu_driver", "cuda") for step in case.steps):
        globs += DRIVER_FAMILY
    inbox = {row.name for rows in FAMILIES.values() for row in rows} | {new for new, _releases in RENAMED.values()}
    return marked(version) or name in inbox or any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def check_room(host: Host, download: int, installed: int, cache: str) -> None:
    """Room for the downloads and for what is unpacked; one sum where both lie on the same file system."""
    free, room = host.free_bytes(cache), host.free_bytes("/usr")
    if free is None or room is None:
        return
    if free == room:
        download, installed = 0, installed + download
    for path, needed, left in ((cache, download, free), ("/usr", installed, room)):
        if needed > 0 and left < needed + SLACK:
            raise RailwrightError("%s has %d MiB free and the package step needs %d MiB there; nothing was changed" % (
                path, left // 1048576, (needed + SLACK) // 1048576))


def size_of(number: str, unit: str) -> int:
    """``12.3``, ``M`` (or ``MB``): apt's thousands and dnf's 1024s are near enough for a disk."""
    return int((outside.number(number.replace(",", "")) or 0.0) * UNITS[unit[:1].lower()])


def repository_of(case: Case, text: str) -> str:
    """Which repository a message of the package manager speaks of, for people."""
    for row in case.repositories:
        place = row.url.rstrip("/")
        if place in text or place.replace("file:///", "file:/") in text or "railwright-" + row.name in text:
            return "repository %s (%s)" % (row.name, row.url)
    return "a repository"


def one_line(text: str, limit: int = 400) -> str:
    return " ".join(text.split())[:limit]


class Prover(abc.ABC):
    """One overlay, from its files to the downloaded and verified packages."""

    joint = ""  # between a name and its version
    local = ""  # what the package manager calls the origin of the files that it is told of

    def __init__(self, host: Host, case: Case, root: str) -> None:
        self.host, self.case, self.root = host, case, root
        self.versions: Dict[str, str] = {}  # of packages that go back to the distribution, or must come from one repository
        self.needed: List[str] = []  # by a package without a signature
        self.exact: List[str] = []  # older versions that a meta package wants
        self.removed: Dict[str, str] = {}  # what goes before anything comes

    @abc.abstractmethod
    def prepare(self) -> None:
        """The overlay's files."""

    @abc.abstractmethod
    def refresh(self) -> None:
        """The indexes."""

    @abc.abstractmethod
    def remove(self) -> Dict[str, str]:
        """What goes with the removals of the plan."""

    @abc.abstractmethod
    def offered(self, name: str, supplier: Optional[Repository]) -> Iterable[str]:
        """Versions of a package, the newest first: of the repository that must have it, else of the distribution's."""

    @abc.abstractmethod
    def install(self, names: Sequence[str]) -> Transaction:
        """Resolve. Raises RailwrightError where that does not go."""

    @abc.abstractmethod
    def replace(self, coming: Sequence[str], going: Sequence[str]) -> Transaction:
        """The same for exactly these, in one transaction."""

    @abc.abstractmethod
    def fetch(self, names: Sequence[str], found: Transaction) -> None:
        """Room first, then every package, compared with the signed index; what was fetched is handed to the real cache."""

    @abc.abstractmethod
    def installed(self, names: Sequence[str]) -> Dict[str, str]:
        """Versions that are there now."""

    def dry_run(self) -> DryRun:
        self.prepare()
        self.removed = self.remove()
        self.refresh()
        names = self.wanted()
        found = self.install(names)
        if self.case.names(STATE):  # what such a file needs comes before it, in a step of its own, as any other package does
            whole = self.install(names + self.case.names(STATE))
            self.needed = [name + self.joint + version for name, (version, origin) in sorted(whole.incoming.items())
                           if name not in found.incoming and origin != self.local]
            found = whole
        found = found._replace(outgoing=dict(self.removed, **found.outgoing))
        check_removals(self.case, list(found.lost.items()))
        self.fetch(names + self.needed, found)
        before = dict(self.removed, **self.installed(list(found.incoming)))
        rows: List[Dict[str, Any]] = [{"name": name, "from": before.get(name), "to": version, "origin": origin}
                                      for name, (version, origin) in found.incoming.items()]
        rows += [{"name": name, "from": version, "to": None, "origin": ""} for name, version in sorted(found.lost.items())]
        return DryRun(tuple(self.steps()), tuple(rows))

    def wanted(self) -> List[str]:
        back = self.case.names("replaced")
        supplied = [name for name in self.case.names("present") if self.case.supplier(name) is not None]
        self.versions = {name: self.right_version(name) for name in back + supplied}
        return [self.exactly(name) for name in self.case.names("present", "file") + back]

    def exactly(self, name: str) -> str:
        return name + self.joint + self.versions[name] if name in self.versions else name

    def right_version(self, name: str) -> str:
        supplier = self.case.supplier(name)
        for version in self.offered(name, supplier):
            return version
        if supplier is not None:
            raise RailwrightError("repository %s (%s) has no package %s for this system; nothing was changed" % (
                supplier.name, supplier.url, name))
        raise RailwrightError("%s cannot go back to the distribution's: no repository of this node has one; nothing was changed" % name)

    def steps(self) -> List[Dict[str, Any]]:
        """The plan's steps with what was found out: versions of what comes back, and exact older versions beside their meta package."""
        found: List[Dict[str, Any]] = []
        last = max((index for index, step in enumerate(self.case.steps) if step["state"] == "present"), default=-1)
        for index, step in enumerate(self.case.steps):
            comes = step["state"] in ("present", "replaced")
            names = [self.exactly(name) for name in step["names"]] if comes else list(step["names"])
            if step["state"] == STATE and self.needed:
                found.append({"area": step["area"], "state": "present", "names": self.needed})
            found.append(dict(step, state="present" if comes else step["state"], names=names + (self.exact if index == last else [])))
        return found


# A package file that nobody signed, in the dry run: the one whose sha256 the operator pins, and the package that was asked for.
#
# Which file and which sha256 is the Spec's to say, never the plan's that came back from somewhere. No check of a signature is turned off
# for it, neither dpkg's nor rpm's nor that of a repository: dpkg and rpm themselves take a package without one, and what it depends on
# comes through apt and dnf, from repositories, checked as ever.

QUERY_SECONDS = 60.0
UNCHANGED = "; nothing was changed"
_FIELDS = {"apt": ("dpkg-deb", "--show", "--showformat=${Package} ${Version}\\n"), "rpm": ("rpm", "-qp", "--qf", "%{NAME} %{VERSION}\\n")}


def check_unsigned(host: Host, spec: Spec, manager: str, steps: Sequence[object]) -> None:
    """Raises RailwrightError with one line where the file is not the right one."""
    if not steps:
        return
    package = aiacc.package_of(spec, manager)
    if package is None or package.sha256 is None:
        raise RailwrightError("%s is not pinned%s" % (aiacc.PACKAGE, UNCHANGED))
    digest = sum_of(host, package.path)
    if digest != package.sha256:
        raise RailwrightError("%s has the sha256 %s and not %s, which rdma_artifact_pins names%s" % (
            package.artifact, digest or "nothing (it is not there)", package.sha256, UNCHANGED))
    answer = host.run(_FIELDS["apt" if manager == "apt" else "rpm"] + (package.path,), QUERY_SECONDS)
    words = answer.out.split() if answer.ok else []
    found = words if len(words) == 2 else []  # of a file that is no package: nothing
    if found[:1] != [aiacc.PACKAGE] or not aiacc.is_release(found[1], package.version):
        raise RailwrightError("%s holds %s and not %s %s (aiacc_version)%s" % (
            package.artifact, " ".join(found) or "no package of this system's kind", aiacc.PACKAGE, package.version, UNCHANGED))
