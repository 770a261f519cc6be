# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as an inventory like any other: what `railwright init` would have asked a person to write."""

from __future__ import annotations

import shlex
from hashlib import sha256

from railwright.lab.paths import write_atomic
from railwright.lab.state import LabState, Node

SITE = """# The lab: Soft-RoCE (rdma_rxe) on virtual machines. Real verbs devices and real RoCE v2 packets, at emulation speed.

# RoCE v2 over ordinary Ethernet.
rdma_fabric: roce
# The kernel's own RDMA stack plus one software device a rail. Real NICs would say `inbox` or name a vendor stack.
rdma_stack: soft_roce

# Jumbo frames on every rail. RDMA then runs with an active MTU of 4096 bytes instead of 1024.
rdma_mtu: 9000

# What a run may interrupt. These machines carry no traffic of anybody's, so everything short of a reboot is fine.
rdma_consent: [link, restart]

# What a healthy port looks like. Written down, never learned from the node that is being judged.
rdma_expect:
  link_layer: Ethernet
  active_mtu: 4096

# Far below any hardware: two emulated machines share a few cores. These prove the path, not its speed.
validate_min_bandwidth_gbps: 0.01
validate_max_latency_us: 20000
# A message of 1 MiB, the default, takes an emulated machine longer than a queue pair waits for its acknowledgement.
validate_perftest_message_bytes: 65536
validate_perftest_seconds: 5
validate_timeout_s: 120
"""

HOSTS_HEAD = """# Written by `railwright lab up`, again on every start: the ports may change.
all:
  children:
    rdma:
      hosts:
"""

HOST = """        {name}:
          ansible_host: 127.0.0.1
          ansible_port: {port}
          rdma_rails:
"""

RAIL = """            - name: {name}
              match: {{mac: "{mac}"}}
              address: {address}
"""

HOSTS_TAIL = """      vars:
        ansible_user: root
        ansible_python_interpreter: /usr/bin/python3
        # The lab made both keys itself, so host-key checking stays on.
        ansible_ssh_private_key_file: {key}
        ansible_ssh_common_args: {args}
"""


def ssh_options(state: LabState) -> list[str]:
    """What every connection to a node needs, as `-o` values."""
    return [
        f"UserKnownHostsFile={_ssh_path(str(state.paths.known_hosts))}",
        "StrictHostKeyChecking=yes",
        # An agent with many keys would use up the server's patience before ours is offered.
        "IdentitiesOnly=yes",
    ]


def _ssh_path(path: str) -> str:
    # ssh splits this option at spaces; quotes keep it whole, and are left out where nothing asks for them.
    return f'"{path}"' if any(c.isspace() for c in path) else path


def _yaml(text: str) -> str:
    """A double-quoted YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def hosts_yml(state: LabState) -> str:
    """Render hosts.yml."""
    args = " ".join(f"-o {shlex.quote(option)}" for option in ssh_options(state))
    tail = HOSTS_TAIL.format(key=_yaml(str(state.paths.ssh_key)), args=_yaml(args))
    return HOSTS_HEAD + "".join(_host(node) for node in state.nodes) + tail


def _host(node: Node) -> str:
    rails = "".join(RAIL.format(name=rail.name, mac=rail.mac, address=rail.address) for rail in node.rails)
    return HOST.format(name=node.name, port=node.ssh_port) + rails


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def write(state: LabState, *, fresh: bool = False) -> str:
    """Write the inventory and return the hash of the site file as we wrote it.

    hosts.yml follows the machines. site.yml is the operator's: an edited one is kept, unless a fresh lab was asked for.
    """
    write_atomic(state.inventory / "hosts.yml", hosts_yml(state))
    site = state.inventory / "group_vars" / "all" / "site.yml"
    ours = digest(SITE)
    edited = site.exists() and digest(site.read_text(encoding="utf-8", errors="replace")) not in (ours, state.site_hash)
    if fresh or not edited:
        write_atomic(site, SITE)
    return ours
