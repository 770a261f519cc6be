# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's package as a stand-in, built on a node by its own tools: name, release and files of the real one, unsigned as that is."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, located, mirror_path
from harness import Container

NAME, VERSION = "aiacc-nccl-plugin", "1.0.2"
FILE = "libnccl-net.so.0.0.0"
WORK = "/root/aiacc"
CONTROL = f"""Package: {NAME}
Version: {VERSION}
Architecture: amd64
Maintainer: nobody <nobody@example.com>
Depends: libibverbs1
Description: stand-in of a test
"""
SPEC = f"""Name: {NAME}
Version: {VERSION}
Release: 1
Summary: Stand-in of a test
License: GPL-3.0-or-later
AutoReqProv: no
Requires: libibverbs
%description
Stand-in.
%files
/usr/local/lib/*
"""


def library(target: Path) -> Path:
    """A shared library that the loader lists under the plugin's name, and nothing in it."""
    argv = ("gcc", "-shared", "-nostdlib", "-Wl,-soname,libnccl-net.so.0", "-x", "c", "/dev/null", "-o", str(target))
    subprocess.run(argv, check=True, timeout=60)
    return target


def into_mirror(container: Container, ending: str, plugin: Path, mirror: str) -> dict[str, str]:
    """Built, and put where a mirror keeps what the catalogue names; returns the pin that an operator would write."""
    row = find_artifact(f"aiacc_nccl_plugin_{ending}")
    assert row is not None
    place = f"{WORK}/root/usr/local/lib"
    container.run("mkdir", "-p", place)
    container.copy_in(plugin, f"{place}/{FILE}")
    for link in ("libnccl-net.so", "libnccl-net.so.0"):
        container.run("ln", "-sf", FILE, f"{place}/{link}")
    target = f"{mirror}/{mirror_path(located(row))}"
    container.run("mkdir", "-p", target.rpartition("/")[0])
    if ending == "deb":
        container.write(f"{WORK}/root/DEBIAN/control", CONTROL)
        container.run("dpkg-deb", "--root-owner-group", "--build", f"{WORK}/root", target)
    else:
        container.write(f"{WORK}/aiacc.spec", SPEC)
        container.run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {WORK}/rpm", "--define", f"_rpmdir {WORK}/out",
                      "--define", "__spec_install_post %{nil}", "--buildroot", f"{WORK}/root", f"{WORK}/aiacc.spec")
        container.run("mv", container.out("find", f"{WORK}/out", "-name", f"{NAME}-*.rpm").strip(), target)
    digest = container.out("sha256sum", target).split()[0]
    assert len(digest) == len(hashlib.sha256().hexdigest())
    return {row.name: digest}
