# SPDX-License-Identifier: GPL-3.0-or-later
"""The job user as far as the controller knows it: which keys name it, and whether Ansible's login would be root."""

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT, ALLOWED, ROOT, UNSET
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .findings import Findings

KEY, CREATE, UID = "rdma_job_user", "rdma_job_user_create", "rdma_job_user_uid"
# Each key with the one that stands in for it, in this order.
DEFAULTS = {"ssh_mesh_user": "job_user", "nccl_tests_user": "ssh_mesh_user", "ddp_benchmark_user": "nccl_tests_user"}


def fill_users(values: dict[str, Any]) -> None:
    """Give each unset user its default."""
    for key, other in DEFAULTS.items():
        values[key] = values[key] or values[other]


def check_job_user(values: Mapping[str, Any], _rails: Any, findings: Findings) -> None:
    """Find root by name, and an account that cannot be created; a node finds uid 0 by any other name."""
    users = [KEY, *DEFAULTS] if values["job_user_root"] != ACCEPT else []
    if values["ssh_mesh_state"] == "absent" and "ssh_mesh_user" in users:
        users.remove("ssh_mesh_user")  # a mesh of root's can always be removed
    for key in users:
        if values[key.removeprefix("rdma_")] == ROOT:
            findings.error(key, ROOT, "is root, and what a node builds would run as root on all nodes", ALLOWED)
    for key, allowed in ((KEY, "the name of an account"), (UID, "a free number, like 2000")) if values["job_user_create"] else ():
        if values[key.removeprefix("rdma_")] is None:
            findings.error(CREATE, True, f"needs {key}", f"{key} too: {allowed}")


def root_login(spec: Spec, key: str, connection: Any) -> str | None:
    """Return why jobs cannot run as this connection's login; None where a key names a user, root is accepted, or the login is not root."""
    try:
        login = connection.get_option("remote_user")
    except KeyError:  # a connection without a login
        return None
    return UNSET if login == ROOT and spec[key] is None and spec["job_user_root"] != ACCEPT else None
