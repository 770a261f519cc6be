# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules as operations with their undo: loaded now (that they are at boot is a file's business), and built by DKMS.

With it, the archives that sources for DKMS come from.
"""

from typing import Iterable, List, Optional, Tuple

from ...catalogue.artifacts import Source
from ...types import MODULE, Change, Op, Problem, Subject, run

BUILD_SECONDS = 1800.0  # DOCA's modules on a slow virtual machine; the GPU's open ones take 3 minutes on 16 cores


def load_module(name: str, seconds: float = 120.0) -> Op:
    return run(("modprobe", name), (("modprobe", "-r", name),), seconds)


def loaded_module(area: str, name: str, why: str, source: str, seconds: float = 120.0) -> Change:
    return Change(area, "module %s loaded" % name, False, True, "none", why, source, (load_module(name, seconds),), Subject(MODULE, name))


def dkms_add(name: str) -> Op:
    """``name``: MODULE/VERSION."""
    return run(("dkms", "add", name), (("dkms", "remove", name, "--all"),))


def dkms_install(name: str, kernel: str, *options: str) -> Op:
    """It builds first where that is needed."""
    which = (name, "-k", kernel)
    return run(("dkms", "install") + which + options, (("dkms", "uninstall") + which,), BUILD_SECONDS)


def dkms_rebuild(name: str, kernel: str, *options: str, files: Tuple[Op, ...] = ()) -> Tuple[Op, ...]:
    """Off, the files, on: undone in reverse, so that the old files are back before the module is built with them.

    ``dkms remove`` of the last kernel takes the module off DKMS' list; ``dkms install`` puts it there again from /usr/src.
    """
    remove, install = ("dkms", "remove", name, "-k", kernel), ("dkms", "install", name, "-k", kernel) + options
    return (run(remove, (install,), BUILD_SECONDS),) + files + (run(install, (remove,), BUILD_SECONDS),)


def dkms_remove(name: str, kernels: Iterable[Optional[str]], *options: str) -> Op:
    """Off for every kernel. ``kernels``: those that it is installed for. The source stays in /usr/src, where the undo needs it."""
    undo = [("dkms", "add", name)] + [("dkms", "install", name, "-k", str(kernel)) + options for kernel in kernels]
    return run(("dkms", "remove", name, "--all"), tuple(undo), BUILD_SECONDS)


def source_problems(area: str, subject: str, source: Optional[Source], release: Optional[str]) -> List[Problem]:
    """The role downloads it, held to a checksum; where nobody here has computed one, the operator must give it."""
    if source is None:
        return [Problem(area, subject, "the catalogue has no source of release %s" % release)]
    if source.sha256 is not None:
        return []
    return [Problem(area, subject, "%s is not pinned here: download it, inspect it, and set rdma_artifact_pins: {%s: its sha256}" % (
        source.url, source.artifact))]
