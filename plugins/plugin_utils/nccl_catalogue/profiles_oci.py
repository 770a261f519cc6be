# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles of Oracle Cloud's cluster networks, one a generation of GPUs. RoCE v2, DSCP 10 on priority 1."""

from __future__ import annotations

from .profile_row import Correction, NcclProfile, NcclVariable
from .profiles_site import GID_WHY, TIMEOUT

_OCI = "OCI (roles/nccl-conf, template %s) [V]"


def _mlx5(*numbers: int) -> tuple[str, ...]:
    return tuple(f"mlx5_{number}" for number in numbers)


_H200 = _mlx5(0, 3, 4, 5, 6, 9, 10, 11)
# In the order of the templates. A shape's own list is used only where a host has no rails: see ``areas/nccl/environment.py``.
SHAPES = {
    "oci-a100": (("BM.GPU4.8", _mlx5(0, 2, 6, 8, 10, 12, 14, 16, 1, 3, 7, 9, 11, 13, 15, 17)),
                 ("BM.GPU.B4.8, BM.GPU.A100-v2.8", _mlx5(5, 6, 7, 8, 1, 2, 3, 4, 14, 15, 16, 17, 9, 10, 11, 12))),
    "oci-h100": (("BM.GPU.H100.8", _mlx5(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17)),),
    "oci-h200": (("BM.GPU.H200.8", _H200),),
    "oci-b200": (("BM.GPU.B200.8", _H200),),
    "oci-b300": (("BM.GPU.B300.8", _mlx5(0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21)),),
}
_CORRECTED = (
    Correction("NCCL_IB_TC=41", "from rdma_qos_profile oci-dscp10, which is 41",
               "41 >> 2 = DSCP 10, 41 >> 5 = priority 1. Taken from the QoS profile, the variable and the NIC's lossless priority cannot "
               "contradict each other."),
    Correction("NCCL_IB_GID_INDEX=3", "nothing is set; nccl_gid_index: 3 is checked against every HCA before it is written", GID_WHY),
    Correction("NCCL_IB_HCA: a list for the shape", "the rails' ports; the shape's list only on hosts without rails",
               "Names of devices change with drivers and with udev's rules; a rail is matched by something that does not."),
    Correction("NCCL_IB_SL=0", "left out", "NCCL takes 0 without it, unless the communicator asks for another."),
)
_CORRECTED_LATER = (
    *_CORRECTED,
    Correction("NCCL_IB_QPS_PER_CONNECTION=1, NCCL_IB_SPLIT_DATA_ON_QPS=0", "left out", "They are NCCL's own defaults (the second since "
               "2.20)."),
    Correction("NCCL_SOCKET_IFNAME=eth0", "the node's management interface, or rdma_bootstrap_interface",
               "Which one that is, the node knows."),
    Correction("NCCL_NET_PLUGIN=the path below /opt/hpcx-…, or none", "left out",
               "The path changes with every HPC-X. Unset, NCCL takes a libnccl-net.so that the loader finds, and else its own transport; "
               "who wants HPC-X's names its path in nccl_overrides."),
)
_NEEDS = ("roce_qos_manage: false too, where Oracle's own agent sets the NICs",)


def _variables(template: str, *names: str) -> tuple[NcclVariable, ...]:
    source = _OCI % template
    rows = (
        NcclVariable("NCCL_DEBUG", "WARN", "Warnings name their cause; without it NCCL is silent.", source),
        NcclVariable("NCCL_IGNORE_CPU_AFFINITY", "1",
                     "A launcher that binds ranks elsewhere must not keep NCCL's threads off the GPU's own NUMA node.",
                     source),
        NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "4", "Several queue pairs give ECMP several flows to spread over the spines.", source),
        NcclVariable("NCCL_CUMEM_ENABLE", "0",
                     "NCCL's buffers come from cudaMalloc and not from cuMem; the source sets it without a reason.",
                     source),
        TIMEOUT._replace(source=source),
    )
    return tuple(row for row in rows if row.name in names)


def _row(name: str, template: str, why: str, names: tuple[str, ...], corrected: tuple[Correction, ...]) -> NcclProfile:
    return NcclProfile(name, ("roce",), _variables(template, *names), False, "mlx5_", why, _OCI % template, corrected=corrected,
                       qos="oci-dscp10", hcas=SHAPES[name], needs=_NEEDS)


_A100 = ("NCCL_DEBUG", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IB_QPS_PER_CONNECTION")
_LATER = ("NCCL_DEBUG", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_CUMEM_ENABLE", "NCCL_IB_TIMEOUT")

PROFILES = (
    _row("oci-a100", "bm.gpu4.8, a100_b4.8", "Oracle's A100 shapes: BM.GPU4.8, BM.GPU.B4.8 and BM.GPU.A100-v2.8.", _A100, _CORRECTED),
    _row("oci-h100", "h100", "Oracle's BM.GPU.H100.8.", _LATER, _CORRECTED_LATER),
    _row("oci-h200", "h200", "Oracle's BM.GPU.H200.8.", _LATER, _CORRECTED_LATER),
    _row("oci-b200", "b200", "Oracle's BM.GPU.B200.8.", _LATER, _CORRECTED_LATER),
    _row("oci-b300", "b300", "Oracle's BM.GPU.B300.8.", _LATER, _CORRECTED_LATER),
)
