# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that the keys of an upgrade name must exist: only the whole inventory knows, whatever --limit leaves of it."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
from railwright.inventory import GROUP, Inventory

CONTROLLER = "localhost"


def unknown_hosts(inventory: Inventory, specs: Mapping[str, Spec]) -> list[Finding]:
    """A canary that is none would let the whole cluster go without one."""
    found = []
    managed = tuple(inventory.groups.get(GROUP, ()))
    everybody = tuple(inventory.groups.get("all", ()))
    for host, spec in specs.items():
        for index, name in enumerate(spec["upgrade_canary"]):
            if name not in managed:
                said = f"is no host of group {GROUP}{did_you_mean(name, managed)}"
                found.append(Finding(host, f"upgrade_canary[{index}]", name, said, f"hosts of group {GROUP}", "error"))
        asked = spec["upgrade_scheduler_host"]
        if spec["upgrade_scheduler"] != "none" and asked != CONTROLLER and asked not in everybody:
            said = f"is no host of the inventory{did_you_mean(asked, everybody)}"
            found.append(Finding(host, "upgrade_scheduler_host", asked, said, "a host of the inventory, or localhost", "error"))
    return found
