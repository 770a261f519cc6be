# SPDX-License-Identifier: GPL-3.0-or-later
"""Regions on this machine: workers and nodes are addresses behind real sshds (ssh_world.py), each node with a secret of its own."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ssh_world import LISTEN, World, address

PATIENCE = 6  # seconds


class Site(NamedTuple):
    world: World
    inventory: Path
    regions: Mapping[str, Sequence[str]]  # nodes of each; '' those of the controller
    workers: Mapping[str, str]  # by region: its address
    secrets: Mapping[str, str]  # by node: what is planted in its variables


@contextmanager
def site(directory: Path, regions: Sequence[str], nodes: int, here: int = 1, **workers: Mapping[str, Any]) -> Iterator[Site]:
    """``nodes``: of each region; ``here``: of the controller. ``workers``: more variables of a worker, by its region."""
    names = {"": [f"here-{number}" for number in range(here)]}
    names |= {region: [f"{region}-{number}" for number in range(nodes)] for region in regions}
    hosts = [name for members in names.values() for name in members] + [f"worker-{region}" for region in regions]
    addresses = {name: address(number + 1) for number, name in enumerate(hosts)}
    planted = {name: secrets.token_hex(12) for members in names.values() for name in members}
    with World(directory) as world:
        wanted = list(addresses.values())
        for start in range(0, len(wanted), LISTEN):
            world.serve(wanted[start : start + LISTEN])
        world.wait(wanted)
        options = f"-F none -o UserKnownHostsFile={world.known_hosts} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
        everybody = {
            "ansible_user": "root", "ansible_port": world.port, "ansible_ssh_private_key_file": str(directory / "client"),
            "ansible_ssh_common_args": options, "ansible_python_interpreter": "/usr/bin/python3"}  # fmt: skip
        children: dict[str, Any] = {}
        for region, members in names.items():
            own = {"rdma_region": region, "rdma_region_worker": f"worker-{region}", "rdma_region_python": sys.executable,
                   "rdma_region_patience": PATIENCE} if region else {}  # fmt: skip
            values = {name: {"ansible_host": addresses[name], "site_token": planted[name]} for name in members}
            children[f"in_{region or 'none'}"] = {"hosts": values, "vars": own}
        outside = {f"worker-{region}": {"ansible_host": addresses[f"worker-{region}"], **workers.get(region, {})} for region in regions}
        values = {"rdma_fabric": "roce", "rdma_mtu": 1500, "rdma_stack": "inbox", "rdma_job_user": "nobody"}
        managed = {"children": children, "vars": values}
        inventory = directory / "hosts.json"
        inventory.write_text(json.dumps({"all": {"vars": everybody, "hosts": outside, "children": {"rdma": managed}}}), encoding="utf-8")
        yield Site(world, inventory, names, {region: addresses[f"worker-{region}"] for region in regions}, planted)
