# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles of Azure (InfiniBand) and of AWS (EFA, which is libfabric's and none of NCCL's own transports)."""

from __future__ import annotations

from .profile_row import Correction, Exclusion, NcclProfile, NcclVariable

_AZ = "AZ (components/customizations/%s.sh) [V]"
_EFA = "EFA (aws-ofi-nccl, doc/efa-env-var.md) [V]"
_TOPOLOGY = "%s of Azure's HPC images (AZ: topology/%s-topo.xml, linked by components/customizations/%s.sh)"


def _azure(name: str, size: str, why: str) -> NcclProfile:
    source, path = _AZ % size, f"/opt/microsoft/{size}/topo.xml"
    return NcclProfile(
        name, ("infiniband",),
        (NcclVariable("NCCL_IB_PCI_RELAXED_ORDERING", "1",
                      "A virtual machine needs relaxed ordering for GPUDirect's full rate; NCCL's own 2 asks for it only where "
                      "libibverbs can.", source),
         NcclVariable("NCCL_TOPO_FILE", path,
                      "A virtual machine hides which HCA is near which GPU; the file says it. NCCL passes over a missing one with no more "
                      "than a line in its log.", source, _TOPOLOGY % (path, size, size)),
         NcclVariable("NCCL_IGNORE_CPU_AFFINITY", "1",
                      "A launcher that binds ranks elsewhere must not keep NCCL's threads off the GPU's own NUMA node.", source),),
        False, "mlx5_", why, _AZ % size,
        corrected=(Correction("no NCCL_IB_HCA", "the rails' ports, where the host has rails",
                              "NCCL would use every RDMA device that it finds, and a virtual machine has one for accelerated "
                              "networking too."),),
        needs=((f"{path} on the node: Azure's HPC images have it; on another image bring it, or leave the variable out by "
               f"nccl_overrides: {{NCCL_TOPO_FILE: null}}"),),
    )


def _efa_warning(name: str, why: str) -> Exclusion:
    return Exclusion(name, (), why, _EFA, "warning")


EFA = NcclProfile(
    "aws-efa", ("roce",), (), False, None,
    "AWS with EFA: libfabric and the plugin aws-ofi-nccl, which sets what it needs by itself.", _EFA,
    corrected=(
        Correction("FI_PROVIDER=efa, FI_EFA_USE_DEVICE_RDMA=1, NCCL_PROTO=simple", "nothing is set",
                   "Needed up to aws-ofi-nccl 1.5 (FI_EFA_USE_DEVICE_RDMA: before 1.7); newer ones choose by themselves."),
        Correction("RDMAV_FORK_SAFE=1, FI_EFA_FORK_SAFE=1", "nothing is set",
                   "The plugin sets the second where it matters; the first breaks things on newer kernels. Neither is a variable of NCCL: "
                   "they have no place in its files."),
    ),
    qos="none", transport="aws-ofi-nccl", node=(),
    excludes=(
        Exclusion("NCCL_NET_PLUGIN", ("none",), "none turns aws-ofi-nccl off, and with it EFA", "NCCL (src/plugin/net.cc)"),
        Exclusion("NCCL_NET", ("IB", "Socket"), "it forces NCCL's own transport in place of aws-ofi-nccl", "NCCL (src/plugin/net.cc)"),
        _efa_warning("NCCL_BUFFSIZE", "leave it to the default"),
        _efa_warning("NCCL_PROTO", "only aws-ofi-nccl up to 1.5 needed it"),
        _efa_warning("NCCL_MIN_NCHANNELS", "more channels make messages smaller, and EFA is starved for data"),
        _efa_warning("NCCL_MIN_CTAS", "more channels make messages smaller, and EFA is starved for data"),
        _efa_warning("NCCL_SOCKET_NTHREADS", "it is for NCCL's socket transport and does nothing on EFA"),
        _efa_warning("NCCL_NSOCKS_PERTHREAD", "it is for NCCL's socket transport and does nothing on EFA"),
    ),
    needs=("libfabric and aws-ofi-nccl on every node or in the image (AWS's EFA installer has them)",
           "rdma_fabric: roce, since EFA has no fabric of its own here, with rdma_qos_profile: none and no rails: no RoCE GIDs"),
)

PROFILES = (
    _azure("azure-ndv4", "ndv4", "Azure ND A100 v4: HDR InfiniBand by SR-IOV."),
    _azure("azure-ndv5", "ndv5", "Azure ND H100 v5: NDR InfiniBand by SR-IOV."),
    EFA,
)
