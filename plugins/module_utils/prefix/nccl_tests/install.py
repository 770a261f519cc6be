# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's steps of bringing nccl-tests, as the controller asks for them: compile it without root's rights, put it in place, hand it on,
compare checksums. What the job user may own never runs with root's rights.

Every command is one that each distribution has; what the compiling user made is packed by that user and unpacked by root, so
that root follows no link of his.
"""

import json
import re
import stat
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import RailwrightError
from ...formats.outside import lines_in
from ...formats.text import first_of
from ...host.commands import check_answers, check_brought, must, sum_of, sums
from ...host.host import SEARCH_PATH, Account, Host
from ...measure.nccl_tests.processes import account, as_user
from ...observe.accounts import job_account
from ...observe.identity import observe_arch
from ..installer import check_space, make_directory, plain_name, put_in_place, temporary_directory
from . import mount, toolchain
from .toolchain import ENDING, MANIFEST, gencode, read_manifest

CXX17 = 13  # CUDA 13 needs C++17; the Makefile asks ``which`` for nvcc's version, and EL has none of it in a small installation
BUILD_SECONDS = 3600.0  # 2 minutes on 16 cores for one kind of GPU
SPACE = 1024 * 1024 * 1024
LINES, CAUSES = 20, 5
RUNTIMES = ("lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")  # of CUDA, below its home
CAUSE = re.compile(r"\berror\b|undefined reference|cannot find|No such file", re.IGNORECASE)
CACHE = "/var/cache/railwright/nccl-tests"
NOBODY = "nobody"


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
        compiler = compile_account(host, given["user"] or host.login())
        return dict(Builder(host, compiler, given["node"], given["build"]).run(given["archive"]), changed=True)
    if step == "pack":
        return dict(pack(host, given["directory"], given["archive"]), changed=False)
    unpack(host, given["node"], given["archive"], given["sha256"], given["directory"], given["programs"])
    return {"changed": True}


def inspect(host: Host, given: Mapping[str, Any]) -> Dict[str, Any]:
    """GPUs, compilers and libraries, and what is to be mounted. Every use of the programs begins here, so root is refused here first."""
    job_account(host, given["user"], "nccl_tests_user", bool(given.get("root")))
    found = toolchain.inspect_toolchain(
        host, observe_arch(host) or "", given["cuda_version"], given["nccl_prefix"], given["nccl_origin"], given["mpi_prefix"],
        given["mpi_install"], without_rights(host, given))
    found["mount"] = mount.inspect_mount(host, given["nfs"], given["path"]) if given["nfs"] else None
    return {"changed": False, "node": found}


def verify(host: Host, given: Mapping[str, Any]) -> Dict[str, Any]:
    """Every program is the builder's, and starts. A node without GPU runs nothing, so what its libraries lack is no matter."""
    check_answers(host, given["directory"])
    if given["programs"]:
        directory, programs = given["directory"], given["programs"]
        found = sums(host, directory, sorted(programs))
        wrong = ["%s %s" % (name, "is another one" if name in found else "is missing")
                 for name in sorted(programs) if found.get(name) != programs[name]]
        if wrong:
            raise RailwrightError("%s: %s" % (directory, first_of(wrong)))
    if given["gpus"] and not given["pending"]:
        program = "%s/%s" % (given["directory"], given["first"])
        missing = toolchain.unresolved(host, program, given["library_path"], without_rights(host, given))
        if missing:
            raise RailwrightError("%s does not start here: %s" % (program, ", ".join(missing)))
    return {"changed": False, "library_path": given["library_path"]}


def without_rights(host: Host, given: Mapping[str, Any]) -> Sequence[str]:
    """The words before the command line of a program that may be another user's: it runs with the rights that the compiler gets."""
    who = compile_account(host, given.get("user") or host.login())
    return () if who is None else as_user(host, who, ())


def compile_account(host: Host, wanted: Optional[str]) -> Optional[Account]:
    """The job user where the node has him, else nobody; root compiles nothing. None: we are not root."""
    if host.user() != 0:
        return None
    for name in (wanted, NOBODY):
        try:
            found = account(name or "")
        except RailwrightError:
            continue
        if found.uid != 0:
            return found
    raise RailwrightError("there is no user %s to compile as" % (wanted or NOBODY))


def make_options(recipe: Mapping[str, Any], toolchain: Mapping[str, Any], work: str, static_runtime: bool) -> List[str]:
    """make's variables. ``work`` holds homes of NCCL and MPI as the Makefile wants them, made of links.

    The CUDA runtime goes into the programs where it can (2.13 and newer): the other nodes need the driver and no toolkit.
    """
    nvcc = toolchain["nvcc"]
    options = ["BUILDDIR=%s/build" % work, "CUDA_HOME=" + nvcc["home"], "NVCC=" + nvcc["path"], "NCCL_HOME=%s/nccl" % work,
               "NVCC_GENCODE=" + gencode(recipe["sm"])]
    if static_runtime:
        options.append("CUDARTLIB=cudart_static")
    if toolchain["mpi"]:
        options += ["MPI=1", "MPI_HOME=%s/mpi" % work]
    if int(nvcc["version"].partition(".")[0]) >= CXX17:
        options.append("CXXSTD=-std=c++17")
    return options


def manifest(recipe: Mapping[str, Any], builder: str, programs: Mapping[str, str]) -> str:
    """The file beside the programs: what they were built with, and their checksums."""
    return json.dumps(dict(recipe, builder=builder, programs=dict(programs)), indent=1, sort_keys=True) + "\n"


class Builder:
    """One build on one node."""

    def __init__(self, host: Host, account: Optional[Account], node: str, planned: Mapping[str, Any]) -> None:
        self.host = host
        self.account = account
        self.node = node
        self.planned = planned
        self.work = ""

    def run(self, archive: str) -> Dict[str, Any]:
        """Check, unpack, compile, lay in place; the manifest."""
        check_brought(self.host, archive, archive, self.planned["source"]["sha256"])
        check_space(self.host, CACHE, SPACE, "a build")
        with temporary_directory(self.host, CACHE + "/build", plain_name(self.node)) as self.work:
            if self.account is not None:
                must(self.host, ("chown", "%d:%d" % (self.account.uid, self.account.gid), self.work), "hand over the working directory")
            self._unpack(archive)
            self._homes()
            self._make()
            return self._publish()

    def _as_user(self, argv: Sequence[str], what: str, seconds: float = 120.0) -> str:
        return must(self.host, self._dropped() + tuple(argv), what, seconds)

    def _dropped(self) -> Tuple[str, ...]:
        clean = ("env", "-i", "PATH=" + SEARCH_PATH, "HOME=" + self.work, "TMPDIR=" + self.work, "LC_ALL=C")
        who = self.account
        return clean if who is None else ("setpriv", "--reuid=%d" % who.uid, "--regid=%d" % who.gid, "--clear-groups") + clean

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
        static = any(self.host.exists("%s/%s/libcudart_static.a" % (toolchain["nvcc"]["home"], place)) for place in RUNTIMES)
        options = make_options(self.planned["recipe"], toolchain, self.work, static)
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
                telling(lines_in((answer.out + answer.err).strip())))))

    def _publish(self) -> Dict[str, Any]:
        """Packed by who compiled it; unpacked, summed up and renamed by us."""
        made = self.work + "/build"
        names = [name for name in self.host.listdir(made) if name.endswith(ENDING)]
        missing = [name for name in self.planned["programs"] if name not in names]
        if missing:
            raise RailwrightError("nccl-tests %s was built and has no %s" % (self.planned["recipe"]["version"], ", ".join(missing)))
        # Symbols for debuggers are half of what every node would get. Where they cannot be taken out, they stay.
        self.host.run(self._dropped() + ("strip", "-g") + tuple("%s/%s" % (made, name) for name in names), 120.0)
        packed = self.work + "/programs.tar"
        self._as_user(["tar", "-cf", packed, "-C", made] + names, "pack the programs", 300.0)
        directory = self.planned["directory"]
        with temporary_directory(self.host, directory, plain_name(self.node)) as work:
            programs = _extract(self.host, packed, work)
            text = manifest(self.planned["recipe"], self.node, programs)
            self.host.write("%s/made/%s" % (work, MANIFEST), text)
            put_in_place(self.host, work + "/made", directory, work)
        return {"manifest": read_manifest(text)}


def pack(host: Host, directory: str, archive: str) -> Dict[str, Any]:
    """The whole build as one file for the other nodes."""
    names = [name for name in host.listdir(directory) if name.endswith(ENDING)] + [MANIFEST]
    make_directory(host, archive.rpartition("/")[0])
    must(host, ["tar", "-czf", archive, "-C", directory, "--owner=0", "--group=0"] + names, "pack " + directory, 600.0)
    must(host, ("chmod", "0644", archive), "let the login user fetch " + archive)
    return {"sha256": sum_of(host, archive)}


def unpack(host: Host, node: str, archive: str, sha256: str, directory: str, programs: Mapping[str, str]) -> None:
    """What another node packed, in place once every program is the one that its manifest names."""
    check_brought(host, archive, archive, sha256)
    with temporary_directory(host, directory, plain_name(node)) as work:
        found = _extract(host, archive, work)
        if found != dict(programs):
            raise RailwrightError("%s does not hold the programs of the build: %s" % (archive, ", ".join(sorted(
                name for name in set(found) | set(programs) if found.get(name) != programs.get(name)))))
        put_in_place(host, work + "/made", directory, work)
    host.remove(archive)


def _extract(host: Host, archive: str, work: str) -> Dict[str, str]:
    """Programs and sums of an archive, unpacked into ``work/made``, where nobody else than root comes.

    What is no plain file is refused: who compiled packed the archive, and root's tar makes what is in it, links and devices too.
    """
    new = work + "/made"
    must(host, ("mkdir", "--", new), "make " + new)
    must(host, ("tar", "-xf", archive, "-C", new, "--no-same-owner", "--no-same-permissions"), "unpack " + archive, 600.0)
    names = host.listdir(new)
    programs = [name for name in names if name.endswith(ENDING)]
    modes = must(host, ["stat", "-c", "%f", "--"] + ["%s/%s" % (new, name) for name in names], "inspect " + new).split() if names else []
    odd = [name for name, mode in zip(names, modes)
           if (name not in programs and name != MANIFEST) or not stat.S_ISREG(int(mode, 16))]
    if odd:
        raise RailwrightError("%s holds what is no program: %s" % (archive, first_of(odd)))
    found = sums(host, new, programs)
    if not programs or set(found) != set(programs):
        raise RailwrightError("%s: its programs cannot be read" % archive)
    must(host, ["chmod", "0755", "--"] + ["%s/%s" % (new, name) for name in programs], "set the modes")
    return found


def telling(lines: Sequence[str]) -> List[str]:
    """The end of a compiler's words; with many jobs at once it says only that they failed, so the first causes go before it."""
    tail = list(lines[-LINES:])
    causes = [line for line in lines[:-LINES] if CAUSE.search(line)][:CAUSES]
    return causes + tail[len(causes):]
