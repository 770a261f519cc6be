# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles of Alibaba's eRDMA: NCCL's own transport, or AIACC's plugin in its place. One excludes the other."""

from __future__ import annotations

from .profile_row import Correction, Exclusion, NcclProfile, NcclVariable

_ERC = "alibabacloud-erdma-controller runbook [V]"
_S4 = "S4, line 150: after aiacc-nccl-plugin is installed no communication parameter is needed"
GID_INDEX = NcclVariable(
    "NCCL_IB_GID_INDEX", "-1", "The index differs between the NICs of one node (erdma_0: 2, erdma_1: 1); NCCL 2.21 finds it.", _ERC)

NATIVE = NcclProfile(
    "erdma-native", ("erdma",),
    (GID_INDEX,
     NcclVariable("NCCL_IB_ADDR_FAMILY", "AF_INET", "eRDMA has no IPv6.", _ERC),
     NcclVariable("NCCL_IB_ROCE_VERSION_NUM", "2", "Pins the GID type that the automatic choice looks for.", _ERC),
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "8", "One queue pair does not fill an eRDMA NIC.", "PAI preset [V]"),
     NcclVariable("NCCL_MIN_CTAS", "16", "Enough channels to keep both NICs busy; PAI writes the deprecated name NCCL_MIN_NCHANNELS.",
                  "PAI preset [V], renamed in NCCL 2.17"),
     NcclVariable("NCCL_NET_GDR_LEVEL", "SYS", "GPUs and eRDMA NICs are far apart on PCIe; without it NCCL copies through host memory.",
                  _ERC),
     NcclVariable("NCCL_NET_PLUGIN", "none", "Keeps an installed AIACC plugin from replacing NCCL's own transport.",
                  "PAI preset [V]"),),
    True, "erdma_", "eRDMA in compat or ofed mode with NCCL's own transport, best from NCCL 2.21 on.",
    "alibabacloud-erdma-controller and PAI presets",
    corrected=(
        Correction("NCCL_IB_GID_INDEX=1 (PAI)", "-1, with NCCL_IB_ADDR_FAMILY, NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_RANGE",
                   "Two NICs of one node have different indexes. With NCCL before 2.21 an index is written only where all HCAs share it."),
        Correction("NCCL_IB_HCA=erdma (PAI)", "the rails' ports, exactly", "A prefix takes in every eRDMA device, those of no rail too."),
        Correction("NCCL_MIN_NCHANNELS=16 (PAI)", "NCCL_MIN_CTAS=16", "The name is deprecated since NCCL 2.17."),
        Correction("NCCL_SOCKET_IFNAME=eth0 (PAI)", "the node's management interface, or rdma_bootstrap_interface",
                   "Which interface that is, the node knows."),
        Correction("NCCL_DEBUG=INFO (PAI)", "left out", "A job asks for it where it needs it: nccl_overrides, or its environment."),
    ),
    nccl=("2.19", None),
    excludes=(Exclusion("NCCL_IB_ADDR_FAMILY", ("AF_INET6",), "eRDMA has no IPv6", _ERC),),
    needs=("the driver in compat or ofed mode (erdma_mode): in default mode no GID is of type RoCE v2",
           "aiacc_install: false: the plugin would take the place of the transport that this profile sets up"),
)

AIACC = NcclProfile(
    "erdma-aiacc", ("erdma",), (), False, "erdma_",
    "eRDMA with aiacc-nccl-plugin, which NCCL loads in place of its own transport and which needs no settings.",
    _S4,
    corrected=(
        Correction("nccl from git's HEAD (S4, line 25) beside the plugin", "NCCL 2.8 to 2.16",
                   "S4's own line 38 names these releases; git's HEAD is far newer."),
        Correction("nothing is said of NCCL_NET_PLUGIN", "it must not be set",
                   "NCCL looks for libnccl-net.so by itself while the variable is unset; none turns the plugin off."),
    ),
    nccl=("2.8", "2.16"), transport="aiacc-nccl-plugin", node=(),
    excludes=(
        Exclusion("NCCL_NET_PLUGIN", (), "NCCL loads the AIACC plugin only while it is unset; none turns plugins off",
                  "NCCL (src/plugin/net.cc)"),
        Exclusion("NCCL_NET", ("IB", "Socket"), "it forces NCCL's own transport in place of the AIACC plugin",
                  "NCCL (src/plugin/net.cc)"),
    ),
    needs=("aiacc-nccl-plugin on every node (aiacc_install), and /usr/local/lib in the loader's path",
           "the driver in compat or ofed mode (erdma_mode)"),
)

PROFILES = (NATIVE, AIACC)
