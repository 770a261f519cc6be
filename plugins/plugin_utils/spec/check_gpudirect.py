# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over the keys of GPUDirect: a path that contradicts what the same inventory asks of driver, CUDA or RDMA stack.

What only the node can say (kernel, HCA, an installed driver) is refused there, by the decision table.
"""

from typing import Any, Dict, Mapping, Optional

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.gpudirect_limits import DMABUF_CUDA, OFED_STACKS, OPEN_DRIVER, PEERMEM_DRIVER

from .findings import Findings

KEY = "gpudirect_path"
READ = (KEY, "gpudirect_traffic", "gpudirect_min_bandwidth_gbps", "gpu_driver_branch", "gpu_driver_flavour", "cuda_version", "rdma_stack")


def check_gpudirect(checked: Dict[str, Any], findings: Findings) -> None:
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


def _branch(checked: Mapping[str, Any]) -> Optional[int]:
    return int(checked["gpu_driver_branch"]) if checked["gpu_driver_branch"] is not None else None


def _dmabuf(checked: Mapping[str, Any]) -> Optional[str]:
    if checked["rdma_stack"] == "soft_roce":
        return "needs an HCA; rdma_stack is soft_roce, and there the CPU copies"
    branch = _branch(checked)
    if branch is not None and branch < OPEN_DRIVER:
        return "needs driver R%d or newer; gpu_driver_branch is %d" % (OPEN_DRIVER, branch)
    if branch is not None and checked["gpu_driver_flavour"] == "proprietary":
        return "needs the open kernel modules; gpu_driver_flavour is proprietary"
    if checked["cuda_version"] is not None and numbers(checked["cuda_version"]) < DMABUF_CUDA:
        return "needs CUDA 11.7 or newer; cuda_version is %s" % checked["cuda_version"]
    return None


def _stack(checked: Mapping[str, Any]) -> Optional[str]:
    """auto is decided on the node: it may be OFED there."""
    if checked["rdma_stack"] in OFED_STACKS + ("auto",):
        return None
    return "needs DOCA-OFED or MLNX_OFED; rdma_stack is %s" % checked["rdma_stack"]


def _peermem(checked: Mapping[str, Any]) -> Optional[str]:
    branch = _branch(checked)
    if branch is not None and branch < PEERMEM_DRIVER:
        return "needs driver R%d or newer; gpu_driver_branch is %d" % (PEERMEM_DRIVER, branch)
    return _stack(checked)


def _nv_peer_mem(checked: Mapping[str, Any]) -> Optional[str]:
    branch = _branch(checked)
    if branch is not None and branch >= PEERMEM_DRIVER:
        return "is for drivers before R%d, newer ones bring nvidia_peermem; gpu_driver_branch is %d" % (PEERMEM_DRIVER, branch)
    return _stack(checked)
