# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of many nodes on this machine, each behind a real sshd (tests/lib/ssh_world.py) that lets in one key."""

import json
import os
import pwd
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tests.lib.ssh_world import LISTEN, World, address

RAILS = 8  # of a node, as on machines with eight GPUs
PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
SYSTEM_PYTHON = "/usr/bin/python3"  # looking for one costs every leg another round trip, and finds the wrong one below pyenv
# What sites of this kind often tune. A node with eight rails has 24 sysctls of its rails alone; here is one interface and so three of
# them, for which these stand. No kernel or distribution has these very values by itself.
SYSCTLS = {
    "net.core.rmem_max": 268435456, "net.core.wmem_max": 268435456, "net.core.rmem_default": 1048576, "net.core.wmem_default": 1048576,
    "net.core.optmem_max": 1048576, "net.core.netdev_max_backlog": 250000, "net.core.netdev_budget": 600, "net.core.somaxconn": 8192,
    "net.ipv4.tcp_rmem": "4096 131072 268435456", "net.ipv4.tcp_wmem": "4096 131072 268435456", "net.ipv4.tcp_mtu_probing": 1,
    "net.ipv4.tcp_max_syn_backlog": 16384, "vm.swappiness": 10, "vm.max_map_count": 1048576, "fs.aio-max-nr": 1048576,
    "fs.inotify.max_user_instances": 8192,
}
FIRST_RAIL, RAIL_NETWORK = ip_address("198.18.0.0"), 1 << 14  # RFC 2544's range for benchmarks holds eight networks of this size
MOST = RAIL_NETWORK - 2


@contextmanager
def nodes(count: int, directory: Path) -> Iterator[Path]:
    """An inventory of ``count`` nodes that answer while the block runs."""
    if not 1 <= count <= MOST:
        raise ValueError(f"{count} nodes; allowed: 1 to {MOST}")
    hosts = [address(number) for number in range(1, count + 1)]
    with World(directory) as world:
        for first in range(0, count, LISTEN):
            world.serve(hosts[first : first + LISTEN])
        world.wait(hosts)
        yield inventory(directory, count, world.port)


def inventory(directory: Path, count: int, port: int, name: str = "site") -> Path:
    """A RoCE site with eight rails a node; the first one is this machine's own interface, where it has one.

    No become: the login user is the one that the benchmark runs as. Everything else that Ansible has a default for is left at it.
    """
    options = f"-F none -o UserKnownHostsFile={directory}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    common = {
        "rdma_fabric": "roce", "rdma_mtu": 9000,
        "host_tuning_sysctls": {key: str(value) for key, value in SYSCTLS.items()}, "ansible_port": port,
        "ansible_user": pwd.getpwuid(os.geteuid()).pw_name, "ansible_become": False,
        "ansible_ssh_private_key_file": str(directory / "client"), "ansible_ssh_common_args": options,
        "ansible_remote_tmp": str(directory / "remote"),
        "ansible_python_interpreter": SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable,
    }
    hosts = {f"node{number:05d}": {"ansible_host": address(number), "rdma_rails": rails(number)} for number in range(1, count + 1)}
    site = directory / name
    (site / "group_vars" / "all").mkdir(parents=True)
    write(site / "hosts.yml", {"all": {"children": {"rdma": {"hosts": hosts}}}})
    write(site / "group_vars" / "all" / "site.yml", common)
    return site


def rails(number: int) -> list[dict[str, Any]]:
    """Only one can be there on a machine without RDMA."""
    own, tail = own_pci(), f"{number >> 8:02x}:{number & 255:02x}"
    first = {"pci": own} if own else {"mac": f"02:00:00:00:{tail}"}
    matches = [first, *({"mac": f"02:00:00:{rail:02x}:{tail}"} for rail in range(1, RAILS))]
    return [{"name": f"rail{rail}", "match": match, "address": f"{FIRST_RAIL + rail * RAIL_NETWORK + number}/18"}
            for rail, match in enumerate(matches)]


def own_pci() -> str | None:
    """Of the first Ethernet interface on PCI; below a virtual machine's lies a virtio device."""
    for interface in sorted(Path("/sys/class/net").iterdir()):
        places = [part for part in (interface / "device").resolve().parts if PCI.fullmatch(part)]
        if places and (interface / "type").read_text(encoding="ascii").strip() == "1":
            return places[-1]
    return None


def write(path: Path, data: Any) -> None:
    """JSON is YAML."""
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
