# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL below its prefix: unpacked beside its place, looked at, then renamed; on any error what was begun goes away again."""

import re
import sys

from ..errors import RailwrightError
from ..host.commands import check_brought, must, sums, told
from ..host.host import Host
from ..observe.nccl_library import NAME, library_version
from .nccl import CACHE, MANIFEST, Wanted, build_jobs, in_place, make_argv, manifest

SPACE = {"wheel": 1024 ** 3, "source": 6 * 1024 ** 3}  # 2.30.7: 0.3 GiB unpacked; of a build an upper bound, not measured
BUILD_SECONDS = 4 * 3600.0
_FIELD = re.compile(r"^(Name|Version): (\S+)\s*$", re.MULTILINE)


def unpack(host: Host, library: Wanted) -> None:
    """The file that was brought is the pinned one, and its content lies beside the place where it belongs."""
    check_brought(host, library.file, library.artifact, library.sha256)
    parent = library.directory.rpartition("/")[0]
    must(host, ("install", "-d", "-m", "0755", "--", parent), "make " + parent)
    free = host.free_bytes(parent)
    if free is not None and free < SPACE[library.install]:
        raise RailwrightError("%s has %d MiB free, and NCCL from its %s needs %d" % (
            parent, free >> 20, library.install, SPACE[library.install] >> 20))
    target = "%s/%s" % (library.staging, library.install)
    must(host, ("rm", "-rf", "--", library.staging), "remove what an earlier run left")
    must(host, ("install", "-d", "-m", "0755", "--", library.staging, target), "make " + target)
    if library.install == "wheel":
        must(host, (sys.executable, "-I", "-m", "zipfile", "-e", library.file, target), "unpack the wheel", 600.0)
    else:
        must(host, ("tar", "-xzf", library.file, "-C", target, "--strip-components=1", "--no-same-owner", "--no-same-permissions"),
             "unpack the source", 600.0)


def build(host: Host, library: Wanted) -> None:
    """Of a source the library; a wheel needs none. It takes long where cores are few."""
    if library.install == "source":
        told(host, make_argv(library, build_jobs(host)), "build NCCL", BUILD_SECONDS)


def place(host: Host, library: Wanted) -> None:
    """What was unpacked (and built) becomes the directory of its release, once the library itself says that it is that release."""
    staging = library.staging
    if library.install == "wheel":
        _check_metadata(host, library)
        made = staging + "/wheel/nvidia/nccl"
    else:
        made = staging + "/build"
    for part in ("lib", "include"):
        if not host.exists("%s/%s" % (made, part)):
            raise RailwrightError("%s holds no %s of NCCL" % (library.artifact, part))
        must(host, ("mv", "-T", "--", "%s/%s" % (made, part), "%s/%s" % (staging, part)), "put %s in place" % part)
    # What is left: sources, objects, and a pkg-config file that names the directory of the build.
    rest = ["%s/%s" % (staging, name) for name in ("wheel", "source", "build", "lib/pkgconfig")]
    must(host, ["rm", "-rf", "--"] + rest, "clear up", 300.0)
    version, cuda = library_version(host, "%s/lib/%s" % (staging, NAME))
    if version is None or version != library.version.partition(".post")[0] or (cuda or "").partition(".")[0] != library.cuda:
        raise RailwrightError("%s holds NCCL %s for CUDA %s and not %s for CUDA %s" % (
            library.artifact, version or "of no version", cuda or "of no version", library.version, library.cuda))
    if not host.exists(staging + "/lib/libnccl.so"):  # what -lnccl looks for; a wheel has none
        must(host, ("ln", "-s", NAME, staging + "/lib/libnccl.so"), "make libnccl.so")
    sha256 = sums(host, staging + "/lib", [NAME]).get(NAME)
    host.write("%s/%s" % (staging, MANIFEST), manifest(library, cuda or "", sha256 or ""))
    must(host, ("chmod", "-R", "u=rwX,go=rX", "--", staging), "set the modes")  # jobs of any user load it, whatever root's umask is
    if host.exists("/sys/fs/selinux/enforce"):
        host.run(("restorecon", "-R", staging), 60.0)
    answer = host.run(("mv", "-T", "--", staging, library.directory), 60.0)
    if not answer.ok and not in_place(host, library):  # another node was faster, where they share the prefix
        raise RailwrightError("cannot put %s in place: %s" % (library.directory, answer.err.strip()))
    must(host, ("rm", "-rf", "--", staging), "remove " + staging, 300.0)
    forget_file(host, library)


def link(host: Host, library: Wanted) -> None:
    """``current`` leads to it from one moment to the next."""
    if not in_place(host, library):
        raise RailwrightError("%s is not there" % library.directory)
    part = "%s.%s.part" % (library.link, library.node)
    must(host, ("ln", "-sfn", library.directory.rpartition("/")[2], part), "make " + part)
    must(host, ("mv", "-T", "--", part, library.link), "make " + library.link)


def clean(host: Host, library: Wanted) -> None:
    """After an error: nothing of it is left, and no directory that was made for it."""
    must(host, ("rm", "-rf", "--", library.staging), "remove " + library.staging, 300.0)
    forget_file(host, library)
    host.rmdir(library.directory.rpartition("/")[0])


def forget_file(host: Host, library: Wanted) -> None:
    """The wheel or archive is not needed any more."""
    host.remove(library.file)
    host.rmdir(CACHE)


def _check_metadata(host: Host, library: Wanted) -> None:
    """The wheel's own word on what it is: somebody may have vouched for the wrong one."""
    place_of = library.staging + "/wheel"
    names = [name for name in host.listdir(place_of) if name.endswith(".dist-info")]
    fields = dict(_FIELD.findall(host.read("%s/%s/METADATA" % (place_of, names[0]), 65536) or "")) if len(names) == 1 else {}
    found = (fields.get("Name", "").replace("_", "-"), fields.get("Version", ""))
    if found != ("nvidia-nccl-cu" + library.cuda, library.version):
        raise RailwrightError("the wheel says that it is %s %s and not nvidia-nccl-cu%s %s" % (
            found[0] or "of no name", found[1] or "of no version", library.cuda, library.version))
