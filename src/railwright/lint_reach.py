# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the variables by which Ansible reaches a host, about host names, and about Ansible's own configuration."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible import constants
from ansible.plugins.loader import connection_loader

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.hurtful import REACH, Hurtful, hurtful
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import TEMPLATE
from railwright.inventory import Inventory

Row = tuple[str, Any, Hurtful]  # variable, value as it is written, what it breaks
ADDRESS = "ansible_host"


def reach_findings(inventory: Inventory, reach: Mapping[str, str], others: Iterable[str]) -> list[Finding]:
    """Judge how each managed host is reached, and ``others``: hosts that are asked or used for them. What hosts share is judged once.
    ``reach``: the address of each host, with its own values in a shared template."""
    shared: dict[int, list[Row]] = {}
    found: list[tuple[str, Row]] = []
    for host, values in inventory.hosts.items():
        if id(values.base) not in shared:
            shared[id(values.base)] = list(_judged(inventory, host, values.base))
        rows = [row for row in shared[id(values.base)] if row[0] not in values.own]
        rows += _judged(inventory, host, values.own)
        address = reach.get(host, host)
        if address not in (host, values.own.get(ADDRESS)) and not rows and (wrong := hurtful(ADDRESS, address)):
            rows.append((ADDRESS, None, wrong))
        found += [(host, row) for row in rows]
    for host in sorted(set(others) - inventory.hosts.keys()):
        found += [(host, row) for row in _judged(inventory, host, inventory.raw[host])]
    return [Finding(host, name, value if row.shown else None, row.why, row.allowed, row.severity) for host, (name, value, row) in found]


def _judged(inventory: Inventory, host: str, values: Mapping[str, Any]) -> Iterator[Row]:
    """A template is filled in as this host has it, and shown as it is written; what a vault holds is not judged."""
    for name in REACH & values.keys():
        value = values[name]
        if isinstance(value, str) and TEMPLATE.search(value):
            value = inventory.connection[host].get(name)
        if isinstance(value, str | int | float) and value != "" and (row := hurtful(name, value)) is not None:
            yield name, values[name], row


def configuration() -> Iterator[tuple[str, str, Hurtful]]:
    """Place and option of ansible.cfg and the environment, and what is wrong."""
    plugin = vars(connection_loader.get("ansible.builtin.ssh", class_only=True))["_load_name"]  # under which its options are known
    for name in ("host_key_checking", "ssh_args", "ssh_common_args", "ssh_extra_args"):
        value, origin = constants.config.get_config_value_and_origin(name, plugin_type="connection", plugin_name=plugin)
        if (row := hurtful(f"ansible_{name}", value)) is not None:
            yield str(origin), name, row


ANOTHER = "another name; the address is ansible_host"


def wrong_names(inventory: Inventory) -> Iterator[tuple[str, str, str, str]]:
    """Hosts whose name means something else too: host, what is wrong, what is allowed, severity."""
    for host in inventory.groups.get("all", ()):
        if host in inventory.groups:
            yield host, "is the name of a group too: --limit and plays would mean both", ANOTHER, "error"
    alike = Counter(map(str.lower, inventory.hosts))
    for host in inventory.hosts:
        if alike[host.lower()] > 1:
            yield host, "is another host's name but for upper and lower case, which DNS does not tell apart", ANOTHER, "warning"
