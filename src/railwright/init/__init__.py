# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes an inventory to start from: hosts.yml from a template, site.yml from the schema. Nothing is overwritten.

In ``group_vars/all/site.yml`` ``rdma_fabric`` and ``rdma_mtu`` are set; every other key is a comment that holds its default (or an
example), ready to be uncommented. ``rdma_rails`` belongs to the hosts and is in hosts.yml.
"""

import textwrap
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import CUSTOM, DEFAULT_QOS, NONE, QOS_PROFILES
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import DEFAULT_NCCL, NCCL_PROFILES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_fabric import MTU_ALLOWED
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS, KEYS, ROLES, Key
from railwright.exitcodes import InputError
from railwright.init.editor import FILE, inventory_schema, modeline
from railwright.writing import json_text, make_directories, usual_mode, write_atomic

WIDTH = 110
FILES = ("hosts.yml", "group_vars/all/site.yml")
MTU = {"roce": 9000, "infiniband": 4092, "erdma": 1400}
INSTANCE = "ecs.ebmgn7ex.32xlarge"
MTU_NOTE = {
    "roce": "9000 lets RDMA use its largest packets (active_mtu 4096); the switches need 9216.",
    "infiniband": "IPoIB in datagram mode takes up to 4092; in connected mode (network_ipoib_mode) up to 65520.",
    "erdma": "1400 carries data on every instance type; 8500 needs jumbo frames. Another value can corrupt NCCL's data.",
}
RATE_NOTE = "the NICs' own maximum, as their drivers report it; lower it where the switches are slower"
HEAD = """# What all nodes have in common. Written by `railwright init`; edit it, then run: railwright lint -i DIR
#
# A key that is commented out has the default shown; where no default is said, the value is an example.
# Other variables are yours and are let be. A variable one or two letters off a key is an error, so that a misspelt key is found.
"""
MINIMAL = """# All that railwright needs: nodes, and PCI addresses of their RDMA ports (readlink -f /sys/class/infiniband/DEVICE/device).
# Every other key has a default: docs/reference/inventory.md.
all:
  children:
    rdma:
      hosts: {node1: , node2: }
      vars:
        rdma_fabric: %s
        rdma_mtu: %d
        network_manage_addresses: false  # true, and an address with each rail of each host: railwright sets them
        rdma_rails:
          - {name: rail0, match: {pci: "0000:1a:00.0"}}
          - {name: rail1, match: {pci: "0000:3c:00.0"}}
"""
SECTIONS = {
    "preflight": "Before anything is changed",
    "rdma_stack": "Drivers and libraries",
    "erdma": "eRDMA",
    "gpu_driver": "NVIDIA driver",
    "cuda": "CUDA and cuDNN",
    "gpudirect": "GPUDirect RDMA",
    "nic_firmware": "Firmware of NVIDIA NICs",
    "pci_tuning": "PCIe",
    "network": "Rails' addresses, MTU, IPoIB, subnet manager",
    "firewall": "Firewall",
    "roce_qos": "The host's side of lossless RoCE",
    "host_tuning": "Limits, sysctls, CPU",
    "containers": "Containers",
    "ssh_mesh": "Passwordless ssh between the nodes",
    "validate": "Validation",
    "agent": "The agent: what a node remembers of its health",
    "nccl": "NCCL: its variables and its library",
    "mpi": "MPI",
    "nccl_tests": "bench: nccl-tests",
    "ai_environment": "The Python environment of jobs: torch",
    "ddp_benchmark": "Training benchmark",
    "aiacc": "AIACC's plugin for NCCL on eRDMA",
    "upgrade": "Rolling upgrades",
}


def site_text(fabric: str, seen: Mapping[str, Any] | None = None, rate: float | None = None) -> str:
    """The file for one fabric. ``seen``: what nodes have, a guess each; of rdma_expect it stays a comment. ``rate``: the maximum that the
    rails' NICs report of themselves, in Gb/s; it is set, as no link can lower it."""
    seen = seen or {}
    parts = [HEAD]
    parts += [_entry(key, fabric, seen) + (_rate(rate) if key.name == "rdma_expect" and rate else "")
              for key in KEYS if key.owner == "site" and key.name != "rdma_rails"]
    for role in ROLES:
        parts.append(f"# ---- {SECTIONS[role]} ----\n")
        parts += [_entry(key, fabric, seen) for key in KEYS if key.owner == role]
    return "\n".join(parts)


def _rate(rate: float) -> str:
    return f"rdma_expect: {as_yaml({'rate_gbps': int(rate) if rate == int(rate) else rate})}  # {RATE_NOTE}\n"


def _entry(key: Key, fabric: str, seen: Mapping[str, Any]) -> str:
    set_here = {"rdma_fabric": fabric, "rdma_mtu": MTU[fabric], **seen}
    guess = "  # guess: as the nodes have it" if key.name in seen else ""
    if key.name == "erdma_instance_type" and fabric == "erdma" and not seen:  # an example: real nodes do not show their type
        set_here[key.name], guess = INSTANCE, "  # replace it with the type of your instances"
    about = f"Netdev MTU of every rail. {MTU_NOTE[fabric]}" if key.name == "rdma_mtu" else key.doc
    lines = textwrap.wrap(about, WIDTH - 2, break_on_hyphens=False)
    lines += textwrap.wrap(_rule(key, fabric), WIDTH - 2, break_on_hyphens=False)
    comment = "".join(f"# {line}\n" for line in lines)
    if key.name in set_here and key.name != "rdma_expect":
        return f"{comment}{key.name}: {as_yaml(set_here[key.name])}{guess}\n"
    return f"{comment}# {key.name}: {as_yaml(seen.get(key.name) or _shown(key, fabric))}{guess}\n"


def _rule(key: Key, fabric: str) -> str:
    """``Allowed: …. Default: ….`` in one sentence each."""
    allowed = {
        "rdma_nccl_profile": ", ".join(profile.name for profile in NCCL_PROFILES if fabric in profile.fabrics),
        "rdma_qos_profile": ", ".join([row.name for row in QOS_PROFILES if fabric in row.fabrics] + [CUSTOM] * (fabric == "roce") + [NONE]),
        "rdma_mtu": MTU_ALLOWED[fabric],
    }.get(key.name, key.allowed())
    if key.required:
        return f"Allowed: {allowed}. Required."
    default = _default(key, fabric)
    example = f" Example: {as_yaml(key.example)}." if key.example is not None and not default and default is not None else ""
    return f"Allowed: {allowed}." + (f" Default: {as_yaml(default)}." if default is not None else " Not set by default.") + example


def _default(key: Key, fabric: str) -> Any:
    by_fabric = {"rdma_nccl_profile": DEFAULT_NCCL, "rdma_qos_profile": DEFAULT_QOS}
    return by_fabric[key.name][fabric] if key.name in by_fabric else key.default


def _shown(key: Key, fabric: str) -> Any:
    default = _default(key, fabric)
    if default is None and key.type == "bool":
        return False
    return key.example if default is None else default


def as_yaml(value: Any) -> str:
    """A value on one line of YAML."""
    return yaml.safe_dump(value, default_flow_style=True, width=10000).removesuffix("\n...\n").strip()


class InitError(InputError):
    """The inventory cannot be written there."""


def files(fabric: str, *, minimal: bool = False) -> dict[str, str]:
    """Relative path: text. The examples under inventories/ are exactly this, but the minimal form."""
    if fabric not in FABRICS:
        raise InitError(f"--fabric {fabric}: is no fabric that railwright knows; allowed: {', '.join(FABRICS)}")
    if minimal:
        return {"hosts.yml": MINIMAL % (fabric, MTU[fabric])}
    template = resources.files("railwright.init") / "templates" / fabric / "hosts.yml"
    return {"hosts.yml": template.read_text(encoding="utf-8"), "group_vars/all/site.yml": site_text(fabric)}


def expect_room(directory: Path) -> None:
    """Raises InitError where there is an inventory, or a file."""
    if directory.exists() and not directory.is_dir():
        raise InitError(f"{directory}: is a file; allowed: a directory that is new or holds no inventory")
    existing = [path for path in (directory / name for name in FILES) if path.exists() or path.is_symlink()]
    if existing:
        raise InitError(f"{existing[0]}: exists and is not overwritten; allowed: another directory")


def write_inventory(directory: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write the files, and a schema for editors beside them; return the paths of the former.

    Raises InitError before anything is written if one exists.
    """
    expect_room(directory)
    written = {name: modeline(name.count("/")) + text for name, text in texts.items()}
    written[FILE] = json_text(inventory_schema(), indent=None)
    for path, text in ((directory / name, text) for name, text in written.items()):
        try:
            make_directories(path.parent)
            write_atomic(path, text, usual_mode())
        except OSError as error:
            raise InitError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
    return [directory / name for name in texts]


__all__ = ("InitError", "expect_room", "files", "write_inventory")
