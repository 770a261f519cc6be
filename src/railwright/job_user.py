# SPDX-License-Identifier: GPL-3.0-or-later
"""Logins as root in an inventory that names no job user: what would run as root is refused before a node is contacted."""

from collections.abc import Mapping

from ansible import constants

from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT, ALLOWED, ROOT
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.job_user import KEY
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import LOGINS
from railwright.exitcodes import InputError
from railwright.inventory import Inventory
from railwright.lint import BY_SSH, LintFinding, fold

SAID = f"{KEY} is not set, and Ansible logs in as root; benchmarks, trainings and the ssh mesh are refused"


def root_logins(
    inventory: Inventory, specs: Mapping[str, Spec], key: str = "nccl_tests_user", severity: str = "warning"
) -> list[LintFinding]:  # fmt: skip
    """Return a finding for each place that makes root the login of hosts where ``key`` has no user."""
    found = []
    for host in [host for host, spec in specs.items() if spec[key] is None and spec["job_user_root"] != ACCEPT]:
        where, login = login_of(inventory, host)
        if login == ROOT:
            found.append(Finding(host, where, ROOT, SAID, f"{KEY}: {ALLOWED}", severity))
    return fold(inventory, found)


def login_of(inventory: Inventory, host: str) -> tuple[str, str | None]:
    """Return (the key that names the login, the login). None: ssh's own configuration decides."""
    values = inventory.hosts[host]
    if values.get("ansible_connection") not in (None, *BY_SSH):
        return KEY, None
    name = next((name for name in LOGINS if values.get(name) is not None), None)
    if name is None:
        return KEY, constants.config.get_config_value("DEFAULT_REMOTE_USER")
    login = str(values[name])
    return name, str(inventory.connection.get(host, {}).get(name)) if "{" in login else login


def expect_job_user(inventory: Inventory, specs: Mapping[str, Spec], key: str = "nccl_tests_user") -> None:
    """Raises InputError where a launch would be refused."""
    for finding in root_logins(inventory, specs, key, "error"):
        raise InputError(f"{finding}; no node was contacted")
