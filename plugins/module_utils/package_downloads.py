# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role must download before packages are proved: signing keys, and the vendor's repository as one package.

Everything goes below /var/cache/railwright and is looked at there: a key by its fingerprint, a
package by its checksum. Nothing of it is trusted because of where it came from.
"""

from typing import Any, Dict, List, Optional, Sequence

from .areas.stack import repositories
from .areas.stack.repository_files import STAGED
from .catalogue import aiacc
from .catalogue.repositories import repositories_of
from .plan.package_steps import OFFLINE, OFFLINE_PATH
from .spec.model import Spec
from .types import Change, Identity


def downloads(spec: Spec, identity: Identity, changes: Sequence[Change]) -> List[Dict[str, Any]]:
    """``{"url", "dest", "checksum"}`` for ansible.builtin.get_url; the checksum of what the proof compares is empty."""
    wanted = [change.key for change in changes]
    rows = [
        {"url": row.key_url, "dest": STAGED % row.name, "checksum": ""}
        for row in repositories_of(spec, identity) if repositories.key_change(row.name) in wanted]
    offline = spec["rdma_stack_offline_package"]
    if offline and any(change.package == OFFLINE for change in changes):
        ending = "deb" if identity.platform.package_manager == "apt" else "rpm"
        rows.append({"url": offline["url"], "dest": OFFLINE_PATH % ending, "checksum": "sha256:" + offline["sha256"]})
    unsigned = unsigned_package(spec, identity, changes)
    if unsigned is not None and unsigned.url is not None:
        rows.append({"url": unsigned.url, "dest": unsigned.path, "checksum": ""})  # compared in the proof, which says it in one line
    return rows


def unsigned_package(spec: Spec, identity: Identity, changes: Sequence[Change]) -> Optional[aiacc.AiaccPackage]:
    """The package without a signature that the changes install, if they do."""
    if not any(change.package == aiacc.PACKAGE and change.after is not None for change in changes):
        return None
    return aiacc.package_of(spec, identity.platform.package_manager)


def needs_proof(changes: Sequence[Change]) -> bool:
    """Whether the package step has anything to do: packages, or what packages come from."""
    return any(change.package is not None or change.area == repositories.NAME for change in changes)
