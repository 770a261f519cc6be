# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the clouds' network plugins for NCCL on a node. A plugin without a row (GPUDirect-TCPX) is not checked. Pure."""

from typing import NamedTuple, Tuple


class NetPlugin(NamedTuple):
    """``paths``: one of these files shows that it is installed."""

    transport: str  # as in tables/nccl_profiles.yml
    paths: Tuple[str, ...]
    source: str


_EFA = "/opt/amazon/ofi-nccl/lib"  # its installer since 1.44; before, a directory of the architecture; on dnf lib64
_OFI = tuple(directory + "/" + name
             for directory in (_EFA, _EFA + "64", _EFA + "/x86_64-linux-gnu", _EFA + "/aarch64-linux-gnu", "/opt/aws-ofi-nccl/lib")
             for name in ("libnccl-net.so", "libnccl-net-ofi.so"))
NET_PLUGINS = (
    NetPlugin("aws-ofi-nccl", _OFI, "awslabs/awsome-distributed-ai 662, 894, 936; NVIDIA-NeMo/RL 2585; public images (lib64)"),
    NetPlugin("gIB", ("/usr/local/gib/lib64/libnccl-net.so", "/usr/local/gib/lib64/libnccl-net_internal.so"), "GCT, CEA (nccl-gib)"),
    NetPlugin("GPUDirect-TCPXO", ("/var/lib/tcpxo/lib64/nccl-env-profile.sh",), "GCT (examples/machine-learning/a3-megagpu-8g)"),
)
