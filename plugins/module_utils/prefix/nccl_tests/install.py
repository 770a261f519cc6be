# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's part of bringing nccl-tests: compile it without root's rights, lay it beside and rename, hand it on, compare checksums.

Every command is one that each distribution has; what the compiling user made is packed by that user and unpacked by root, so
that root follows no link of his.
"""

import pwd
import re
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import RailwrightError
from ...host.commands import check_brought, must, sums
from ...host.host import SEARCH_PATH, Host
from . import build

BUILD_SECONDS = 3600.0  # 2 minutes on 16 cores for one kind of GPU
SPACE = 1024 * 1024 * 1024
LINES, CAUSES = 20, 5
CAUSE = re.compile(r"\berror\b|undefined reference|cannot find|No such file", re.IGNORECASE)
CACHE = "/var/cache/railwright/nccl-tests"
NOBODY = "nobody"


class Account(NamedTuple):
    """Whose rights the compiler has; ``uid`` None: ours, as we are not root."""

    name: str
    uid: Optional[int]
    gid: int


def compile_account(host: Host, wanted: Optional[str]) -> Account:
    """The job user where the node has him, else nobody; root compiles nothing."""
    if host.user() != 0:
        return Account("", None, 0)
    for name in (wanted, NOBODY):
        try:
            entry = pwd.getpwnam(name or "")
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise RailwrightError("there is no user %s to compile as" % (wanted or NOBODY))


class Builder:
    """One build on one node; ``run`` removes its working directory however it ends."""

    def __init__(self, host: Host, account: Account, node: str, planned: Mapping[str, Any]) -> None:
        self.host = host
        self.account = account
        self.node = node
        self.planned = planned
        self.work = ""

    def run(self, archive: str) -> Dict[str, Any]:
        """Check, unpack, compile, lay in place; the manifest."""
        check_brought(self.host, archive, archive, self.planned["source"]["sha256"])
        _space(self.host, CACHE)
        self.work = must(self.host, ("mktemp", "-d", CACHE + "/build.XXXXXXXX"), "make a working directory").strip()
        try:
            if self.account.uid is not None:
                must(self.host, ("chown", "%d:%d" % (self.account.uid, self.account.gid), self.work), "hand over the working directory")
            self._unpack(archive)
            self._homes()
            self._make()
            return self._publish()
        finally:
            self.host.run(("rm", "-rf", "--", self.work), 120.0)

    def _as_user(self, argv: Sequence[str], what: str, seconds: float = 120.0) -> str:
        return must(self.host, self._dropped() + tuple(argv), what, seconds)

    def _dropped(self) -> Tuple[str, ...]:
        clean = ("env", "-i", "PATH=" + SEARCH_PATH, "HOME=" + self.work, "TMPDIR=" + self.work, "LC_ALL=C")
        account = self.account
        drop: Tuple[str, ...] = () if account.uid is None else (
            "setpriv", "--reuid=%d" % account.uid, "--regid=%d" % account.gid, "--clear-groups")
        return drop + clean

    def _unpack(self, archive: str) -> None:
        source = self.work + "/source"
        self._as_user(("mkdir", source, self.work + "/nccl", self.work + "/nccl/lib", self.work + "/nccl/include", self.work + "/mpi"),
                      "make a working directory")
        # The archive is in a directory that only root writes, and readable: it is no secret.
        self._as_user(("tar", "-xzf", archive, "-C", source, "--strip-components=1", "--no-same-owner"), "unpack " + archive, 300.0)
        if not self.host.exists(source + "/Makefile"):
            raise RailwrightError("%s is no archive of nccl-tests: it holds no Makefile in its first directory" % archive)

    def _homes(self) -> None:
        """The homes of NCCL and MPI as the Makefile wants them: include and lib, with a libnccl.so, which a wheel does not have."""
        nccl, mpi = self.planned["toolchain"]["nccl"], self.planned["toolchain"]["mpi"]
        headers = ["%s/%s" % (nccl["include"], name) for name in self.host.listdir(nccl["include"]) if name.startswith("nccl")]
        links = [(path, "%s/nccl/include/" % self.work) for path in headers]
        links += [(nccl["library"], "%s/nccl/lib/%s" % (self.work, name)) for name in ("libnccl.so", "libnccl.so.2")]
        if mpi is not None:
            links += [(mpi["include"], self.work + "/mpi/include")] + self._mpi_libraries(mpi["library"])
        for target, link in links:
            self._as_user(("ln", "-s", target, link), "link " + target)

    def _mpi_libraries(self, library: str) -> List[Tuple[str, str]]:
        """The whole directory where it can be: libraries name others relative to their own place ($ORIGIN), which the linker follows."""
        place, _slash, name = library.rpartition("/")
        home = self.work + "/mpi/lib"
        if name == "libmpi.so":
            return [(place, home)]
        # MPICH's is libmpich.so here and there, and the Makefile asks for libmpi.so
        names = [item for item in self.host.listdir(place) if item.startswith("libmpi") and ".so" in item and item != "libmpi.so"]
        self._as_user(("mkdir", home), "make a working directory")
        return [("%s/%s" % (place, item), "%s/%s" % (home, item)) for item in names] + [(library, home + "/libmpi.so")]

    def _make(self) -> None:
        toolchain = self.planned["toolchain"]
        places = [toolchain[name]["library"].rpartition("/")[0] for name in ("nccl", "mpi") if toolchain[name]]
        options = build.make_options(self.planned["recipe"], toolchain, self.work, _static_runtime(self.host, toolchain["nvcc"]["home"]))
        jobs = self.host.run(("nproc",), 10.0).out.strip() or "1"
        # libmpi.so names more libraries, which the linker wants to see too
        limits = ("timeout", "-k", "10", "%d" % BUILD_SECONDS, "nice", "-n", "10")
        make = ("make", "-j", jobs, "-C", self.work + "/source") + tuple(options)
        # What MPI's own libraries need is theirs to find at run time: the linker may look in other places (seen with Open MPI's wheel
        # beside an older libfabric of the distribution).
        leave = "NVCC_APPEND_FLAGS=-Xlinker --allow-shlib-undefined"
        answer = self.host.run(self._dropped() + ("LD_LIBRARY_PATH=" + ":".join(places), leave) + limits + make, BUILD_SECONDS + 30.0)
        if answer.rc == 124:
            raise RailwrightError("nccl-tests was not built in %d s" % BUILD_SECONDS)
        if not answer.ok:
            raise RailwrightError("nccl-tests could not be built (make ended with %d):\n%s" % (answer.rc, "\n".join(
                telling((answer.out + answer.err).strip().splitlines()))))

    def _publish(self) -> Dict[str, Any]:
        """Packed by who compiled it; unpacked, summed up and renamed by us."""
        made = self.work + "/build"
        names = [name for name in self.host.listdir(made) if name.endswith(build.ENDING)]
        missing = [name for name in self.planned["programs"] if name not in names]
        if missing:
            raise RailwrightError("nccl-tests %s was built and has no %s" % (self.planned["recipe"]["version"], ", ".join(missing)))
        # Symbols for debuggers are half of what every node would get. Where they cannot be taken out, they stay.
        self.host.run(self._dropped() + ("strip", "-g") + tuple("%s/%s" % (made, name) for name in names), 120.0)
        packed = self.work + "/programs.tar"
        self._as_user(["tar", "-cf", packed, "-C", made] + names, "pack the programs", 300.0)
        directory = self.planned["directory"]
        new = _beside(self.host, directory)
        try:
            programs = _extract(self.host, packed, new)
            text = build.manifest(self.planned["recipe"], self.node, programs)
            self.host.write("%s/%s" % (new, build.MANIFEST), text)
            _swap(self.host, new, directory)
        finally:
            self.host.run(("rm", "-rf", "--", new), 120.0)
        return {"manifest": build.read_manifest(text)}


def pack(host: Host, directory: str, archive: str) -> Dict[str, Any]:
    """The whole build as one file for the other nodes."""
    names = [name for name in host.listdir(directory) if name.endswith(build.ENDING)] + [build.MANIFEST]
    _directory(host, archive.rpartition("/")[0])
    must(host, ["tar", "-czf", archive, "-C", directory, "--owner=0", "--group=0"] + names, "pack " + directory, 600.0)
    must(host, ("chmod", "0644", archive), "let the login user fetch " + archive)
    parent, _slash, name = archive.rpartition("/")
    return {"sha256": sums(host, parent, [name])[name]}


def unpack(host: Host, archive: str, sha256: str, directory: str, programs: Mapping[str, str]) -> None:
    """What another node packed, in place once every program is the one that its manifest names."""
    check_brought(host, archive, archive, sha256)
    new = _beside(host, directory)
    try:
        found = _extract(host, archive, new)
        if found != dict(programs):
            raise RailwrightError("%s does not hold the programs of the build: %s" % (archive, ", ".join(sorted(
                name for name in set(found) | set(programs) if found.get(name) != programs.get(name)))))
        _swap(host, new, directory)
    finally:
        host.run(("rm", "-rf", "--", new), 120.0)
    host.remove(archive)


def verify(host: Host, directory: str, programs: Mapping[str, str]) -> None:
    """Every program is the one that was built."""
    found = sums(host, directory, sorted(programs))
    wrong = ["%s %s" % (name, "is another one" if name in found else "is missing")
             for name in sorted(programs) if found.get(name) != programs[name]]
    if wrong:
        raise RailwrightError("%s: %s" % (directory, build.listed(wrong)))


def _beside(host: Host, directory: str) -> str:
    """A new directory in the place where ``directory`` is or will be: a rename takes no time and is seen whole or not at all."""
    parent = directory.rpartition("/")[0]
    _directory(host, parent)
    return must(host, ("mktemp", "-d", "%s/.railwright-XXXXXXXX" % parent), "write to " + parent).strip()


def _directory(host: Host, path: str) -> None:
    """install, unlike mkdir, gives every directory that it makes on the way the mode 0755, whatever root's umask is."""
    if not host.exists(path):
        must(host, ("install", "-d", "-m", "0755", "--", path), "make " + path)


def _extract(host: Host, archive: str, new: str) -> Dict[str, str]:
    """Programs and sums of an archive that was unpacked into our directory, where nobody else writes.

    What is no plain file is refused before anybody else can reach it: who compiled packed the archive, and root's tar makes what is in it,
    links and devices too.
    """
    must(host, ("tar", "-xf", archive, "-C", new, "--no-same-owner", "--no-same-permissions"), "unpack " + archive, 600.0)
    names = host.listdir(new)
    programs = [name for name in names if name.endswith(build.ENDING)]
    modes = must(host, ["stat", "-c", "%f", "--"] + ["%s/%s" % (new, name) for name in names], "look at " + new).split() if names else []
    odd = [name for name, mode in zip(names, modes)
           if (name not in programs and name != build.MANIFEST) or not stat.S_ISREG(int(mode, 16))]
    if odd:
        raise RailwrightError("%s holds what is no program: %s" % (archive, build.listed(odd)))
    must(host, ["chmod", "0755", "--", new] + ["%s/%s" % (new, name) for name in programs], "set the modes")
    found = sums(host, new, programs)
    if not programs or set(found) != set(programs):
        raise RailwrightError("%s: its programs cannot be read" % archive)
    return found


def _swap(host: Host, new: str, directory: str) -> None:
    """``new`` takes the place of ``directory``; what runs from there goes on with its files."""
    if host.exists("/sys/fs/selinux/enforce"):
        host.run(("restorecon", "-R", new), 60.0)
    old = new + ".old"
    if host.exists(directory):
        must(host, ("mv", "-T", "--", directory, old), "replace " + directory)
    must(host, ("mv", "-T", "--", new, directory), "put %s in place" % directory)
    host.run(("rm", "-rf", "--", old), 120.0)


def telling(lines: Sequence[str]) -> List[str]:
    """The end of a compiler's words; with many jobs at once it says only that they failed, so the first causes go before it."""
    tail = list(lines[-LINES:])
    causes = [line for line in lines[:-LINES] if CAUSE.search(line)][:CAUSES]
    return causes + tail[len(causes):]


def _static_runtime(host: Host, home: str) -> bool:
    places = ["lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"]
    return any(host.exists("%s/%s/libcudart_static.a" % (home, place)) for place in places)


def _space(host: Host, path: str) -> None:
    free = host.free_bytes(path)
    if free is not None and free < SPACE:
        raise RailwrightError("%s has %d MiB free, and a build needs %d" % (path, free >> 20, SPACE >> 20))
