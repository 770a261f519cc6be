# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over the keys of GPUDirect: a path that contradicts what the same inventory asks of driver, CUDA or RDMA stack.

What only the node can say (kernel, HCA, an installed driver) is refused there, by the decision table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.rules.gpudirect import DMABUF_CUDA, OFED_STACKS, OPEN_DRIVER, PEERMEM_DRIVER

from .findings import Findings

KEY = "gpudirect_path"
READ = (KEY, "gpudirect_traffic", "gpudirect_min_bandwidth_gbps", "gpu_driver_branch", "gpu_driver_flavour", "cuda_version", "rdma_stack")


def check_gpudirect(checked: dict[str, Any], findings: Findings) -> None:
    if any(name not in checked for name in READ):
        return  # the key itself is an error already
    path = checked[KEY]
    against = {"dmabuf": _dmabuf, "nvidia_peermem": _peermem, "nv_peer_mem": _nv_peer_mem}
    found = against[path](checked) if path in against else None
    if found is not None:
        findings.error(KEY, path, found, "auto, or a path that fits")
    if checked["gpudirect_min_bandwidth_gbps"] is not None and not checked["gpudirect_traffic"]:
        findings.warning("gpudirect_min_bandwidth_gbps", checked["gpudirect_min_bandwidth_gbps"],
                         "is never judged: gpudirect_traffic is false", "gpudirect_traffic: true, or no minimum")


def _branch(checked: Mapping[str, Any]) -> int | None:
    return int(checked["gpu_driver_branch"]) if checked["gpu_driver_branch"] is not None else None


def _dmabuf(checked: Mapping[str, Any]) -> str | None:
    if checked["rdma_stack"] == "soft_roce":
        return "needs an HCA; rdma_stack is soft_roce, and there the CPU copies"
    branch = _branch(checked)
    if branch is not None and branch < OPEN_DRIVER:
        return f"needs driver R{OPEN_DRIVER} or newer; gpu_driver_branch is {branch}"
    if branch is not None and checked["gpu_driver_flavour"] == "proprietary":
        return "needs the open kernel modules; gpu_driver_flavour is proprietary"
    if checked["cuda_version"] is not None and numbers(checked["cuda_version"]) < DMABUF_CUDA:
        return f"needs CUDA 11.7 or newer; cuda_version is {checked['cuda_version']}"
    return None


def _stack(checked: Mapping[str, Any]) -> str | None:
    """auto is decided on the node: it may be OFED there."""
    if checked["rdma_stack"] in (*OFED_STACKS, "auto"):
        return None
    return f"needs DOCA-OFED or MLNX_OFED; rdma_stack is {checked['rdma_stack']}"


def _peermem(checked: Mapping[str, Any]) -> str | None:
    branch = _branch(checked)
    if branch is not None and branch < PEERMEM_DRIVER:
        return f"needs driver R{PEERMEM_DRIVER} or newer; gpu_driver_branch is {branch}"
    return _stack(checked)


def _nv_peer_mem(checked: Mapping[str, Any]) -> str | None:
    branch = _branch(checked)
    if branch is not None and branch >= PEERMEM_DRIVER:
        return f"is for drivers before R{PEERMEM_DRIVER}, newer ones bring nvidia_peermem; gpu_driver_branch is {branch}"
    return _stack(checked)
