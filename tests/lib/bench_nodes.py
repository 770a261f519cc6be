# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a bench run as the inspection and the inventory describe them."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import Mpi
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import LoadableNccl
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS

H200 = 150754820096
OPENMPI = Mpi("openmpi4", "4.1.4", "/usr", "/usr/bin/mpirun")._asdict()


def wishes(**keys: Any) -> dict[str, Any]:
    """The role's defaults, as the action plugin hands them on."""
    own = {key.name: key.default for key in KEYS if key.owner == "nccl_tests"}
    return {**own, "fabric": "roce", "gpudirect_path": "auto", "rails": 8, "rail_names": [f"rail{at}" for at in range(8)], "leaves": [],
            "rate_gbps": 400, "root": False, **keys}


def seen(name: str, gpus: int = 8, **said: Any) -> dict[str, Any]:
    devices = [["NVIDIA H200", f"0000:{index + 1:x}b:00.0", H200] for index in range(gpus)]
    error = None if gpus else "libcuda.so.1 is not there"
    found = {
        "node": name, "hostname": f"{name}.example.com", "user": "mpi", "python": "/usr/bin/python3", "directory": "/opt/nccl-tests",
        "libraries": ["/opt/nccl/lib"], "interface": {"name": "eth0", "networks": ["192.0.2.0/24"]},
        "cuda": {"host": name, "rank": None, "devices": devices, "error": error, "cuda": "13.0", "nccl": None}, "driver": "580.65.06",
        "nccl": [LoadableNccl("/opt/nccl/lib/libnccl.so.2", "2.30.7", "named")._asdict()], "nccl_conf": [],
        "net_plugins": [],
        "mpi": [OPENMPI],
        "slurm": {"srun": None, "sinfo": None, "scancel": None}, "needs_job": False,
        "programs": [{"name": "all_reduce_perf", "path": "/opt/nccl-tests/all_reduce_perf", "sha256": "a" * 64, "json": True,
                      "problem": None}],
        "affinity": [], "places": [], "ports": [], "ends": {}, "verdicts": [], "problems": [],
    }
    return {**found, **said}


def node(name: str, gpus: int = 8, *, inventory: dict[str, Any] | None = None, **said: Any) -> Node:
    return Node(name, wishes(**(inventory or {})), seen(name, gpus, **said))
