# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role must download before packages are proved: signing keys, and the vendor's repository as one package.

Everything goes below /var/cache/railwright and is looked at there: a key by its fingerprint, a
package by its checksum. Nothing of it is trusted because of where it came from.
"""

from typing import Any, Dict, List, Sequence

from .areas import repositories
from .areas.repository_files import STAGED
from .catalogue.repositories import repositories_of
from .package_steps import OFFLINE, OFFLINE_PATH
from .spec.model import Spec
from .types import Change, Identity


def downloads(spec, identity, changes):
    # type: (Spec, Identity, Sequence[Change]) -> List[Dict[str, Any]]
    """``{"url", "dest", "checksum"}`` for ansible.builtin.get_url; the checksum of a key is empty (its fingerprint is compared)."""
    wanted = [change.key for change in changes]
    rows = [
        {"url": row.key_url, "dest": STAGED % row.name, "checksum": ""}
        for row in repositories_of(spec, identity) if repositories.key_change(row.name) in wanted]
    offline = spec["rdma_stack_offline_package"]
    if offline and any(change.package == OFFLINE for change in changes):
        ending = "deb" if identity.platform.package_manager == "apt" else "rpm"
        rows.append({"url": offline["url"], "dest": OFFLINE_PATH % ending, "checksum": "sha256:" + offline["sha256"]})
    return rows


def needs_proof(changes):
    # type: (Sequence[Change]) -> bool
    """Whether the package step has anything to do: packages, or what packages come from."""
    return any(change.package is not None or change.area == repositories.NAME for change in changes)
