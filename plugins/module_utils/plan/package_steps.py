# SPDX-License-Identifier: GPL-3.0-or-later
"""From the package changes of a plan to what the package modules of ansible.builtin are told, in the order that works.

An old stack is taken off before another one comes; headers and dkms are there before packages whose scripts build modules; then one step an
area in the plan's order: the RDMA stack before the GPU driver, the driver before CUDA, CUDA before NCCL and MPI.

=========  ==========================================================================================
state      what the step does
=========  ==========================================================================================
uninstall  runs the stack's own uninstaller (``argv``) where it is there
absent     removes packages
replaced   gives packages of a vendor back to the distribution; the dry run finds out in which version
file       installs a package file that was downloaded and whose checksum was compared
unsigned   the same for one that nobody signed: it is taken for its checksum, which is the operator's own, and it brings no repository
present    installs packages, by exact version or glob where one is wanted
=========  ==========================================================================================
"""

import re
from typing import Any, Dict, List, Sequence, Tuple

from ..areas.stack import repositories
from ..areas.stack.repository_files import STAGED
from ..catalogue import aiacc
from ..catalogue.repositories import repositories_of
from ..spec.model import Spec
from ..types import KEYRING, PRESENT, Change, Identity, Subject

UNINSTALLER = "ofed-scripts"  # the package that has the uninstaller
UNINSTALL = ("/usr/sbin/ofed_uninstall.sh", "--force")
OFFLINE = "doca-host"  # only ever comes as a file
OFFLINE_PATH = "/var/cache/railwright/packages/doca-host.%s"
FILES = {"file": OFFLINE_PATH, "unsigned": aiacc.BROUGHT}
_BUILD = re.compile(r"(?:linux-headers-|kernel-devel-|kernel-headers).*|dkms")
_FORMS = {"apt": ("=", "deb"), "zypper": ("=", "rpm"), "dnf": ("-", "rpm"), "yum": ("-", "rpm")}


def package_steps(changes: Sequence[Change], manager: str) -> Dict[str, Any]:
    """``{"manager", "steps": [{"area", "state", "names"}]}``; names carry exact versions or globs."""
    joint, ending = _FORMS.get(manager, ("-", "rpm"))
    named = [(change, str(change.package)) for change in changes if change.package is not None]
    steps: List[Dict[str, Any]] = []
    removed = [name for change, name in named if change.after is None]
    if UNINSTALLER in removed:
        steps.append({"area": "packages", "state": "uninstall", "names": [], "argv": list(UNINSTALL)})
    if removed:
        steps.append({"area": "packages", "state": "absent", "names": removed})
    done: List[str] = []
    for area in dict.fromkeys(change.area for change, _name in named):
        rows = [(change, name) for change, name in named if change.area == area and change.after is not None and name not in done]
        done += [name for _change, name in rows]
        for state, group in _grouped(rows):
            names = [name if change.after == PRESENT else name + joint + str(change.after) for change, name in group]
            if state in FILES and names:
                names = [FILES[state] % ending]
            if names:
                steps.append({"area": area, "state": state, "names": names})
    return {"manager": manager, "steps": steps}


def _grouped(rows: Sequence[Tuple[Change, str]]) -> List[Tuple[str, List[Tuple[Change, str]]]]:
    """What builds need, what comes back, what comes as a file, and the rest."""
    replaced = [row for row in rows if row[0].before is not None and row[0].after == PRESENT]
    offline = [row for row in rows if row[1] == OFFLINE]
    unsigned = [row for row in rows if row[1] == aiacc.PACKAGE]
    build = [row for row in rows if _BUILD.match(row[1]) and row not in replaced]
    rest = [row for row in rows if row not in replaced + offline + unsigned + build]
    return [("present", build), ("replaced", replaced), ("file", offline), ("present", rest), ("unsigned", unsigned)]


# What the role must download before packages are proved: signing keys, and the vendor's repository as one package.
#
# Everything goes below /var/cache/railwright and is inspected there: a key by its fingerprint, a
# package by its checksum. Nothing of it is trusted because of where it came from.

def downloads(spec: Spec, identity: Identity, changes: Sequence[Change]) -> List[Dict[str, Any]]:
    """``{"url", "dest", "checksum"}`` for ansible.builtin.get_url; the checksum of what the dry run compares is empty."""
    wanted = [change.subject for change in changes]
    rows = [
        {"url": row.key_url, "dest": STAGED % row.name, "checksum": ""}
        for row in repositories_of(spec, identity) if Subject(KEYRING, row.name) in wanted]
    offline = spec["rdma_stack_offline_package"]
    if offline and any(change.package == OFFLINE for change in changes):
        ending = "deb" if identity.platform.package_manager == "apt" else "rpm"
        rows.append({"url": offline["url"], "dest": OFFLINE_PATH % ending, "checksum": "sha256:" + offline["sha256"]})
    installed = any(change.package == aiacc.PACKAGE and change.after is not None for change in changes)
    unsigned = aiacc.package_of(spec, identity.platform.package_manager) if installed else None
    if unsigned is not None and unsigned.url is not None:
        rows.append({"url": unsigned.url, "dest": unsigned.path, "checksum": ""})  # compared in the dry run, which says it in one line
    return rows


def needs_dry_run(changes: Sequence[Change]) -> bool:
    """Whether the package step has anything to do: packages, or what packages come from."""
    return any(change.package is not None or change.area == repositories.NAME for change in changes)
