# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles, one row each: of fabrics that a site runs itself, Scnet, Alibaba's eRDMA, Azure, AWS, Google and Oracle. Controller only.

A node is handed what comes of its row (``derived`` in ``profiles.py``), not the reasons. Only what differs from NCCL's own default is set
(NCCL 2.30.7), and nothing that a node must find out: NCCL_IB_HCA and NCCL_SOCKET_IFNAME are added there from the match.
NCCL_IB_GID_INDEX is in no row for RoCE: see ``nccl_gid_index``.
"""

from typing import Any, NamedTuple

HCA = "NCCL_IB_HCA"
SOCKET = "NCCL_SOCKET_IFNAME"
NODE_ADDS = (HCA, SOCKET)  # what only the node knows: the rails' devices, and the interface of the bootstrap


class NcclVariable(NamedTuple):
    """``file``: the value names a file of the node, and this is where it comes from."""

    name: str
    value: str
    why: str
    source: str
    file: str = ""


class Correction(NamedTuple):
    """What the source says, what the profile does instead, and why."""

    said: str
    instead: str
    why: str


class Exclusion(NamedTuple):
    """A variable that defeats the profile. ``values`` (): whatever its value; ``severity``: error, or warning where it only costs speed."""

    name: str
    values: tuple[str, ...]
    why: str
    source: str
    severity: str = "error"


class NcclProfile(NamedTuple):
    """One row: everything that a fabric or a cloud needs of NCCL, and what it was corrected against."""

    name: str
    fabrics: tuple[str, ...]
    variables: tuple[NcclVariable, ...]
    address_range: bool  # set NCCL_IB_ADDR_RANGE to the rails' subnet when they share one
    hca_prefix: str | None  # the driver's device names, for documentation; lists are rendered from the match
    why: str
    source: str
    corrected: tuple[Correction, ...] = ()
    qos: str | None = None  # the QoS profile that the fabric's switches know; "none": there must be none; None: any
    nccl: tuple[str | None, str | None] = (None, None)  # first and last release that it is for
    transport: str = ""  # a plugin that brings its own: it finds devices and GIDs, and NCCL_IB_* are not its settings
    node: tuple[str, ...] = NODE_ADDS  # what the node adds
    hcas: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (shape, its HCAs): used where a host has no rails
    excludes: tuple[Exclusion, ...] = ()
    needs: tuple[str, ...] = ()  # what must be there beside it, in words


# Fabrics of a site, and Scnet, whose nodes are ordinary RoCE nodes with rules of their own.
TIMEOUT = NcclVariable(
    "NCCL_IB_TIMEOUT", "22", "A timeout of 4.096 us * 2^22, some 17 s, rides out a link flap or a switch failover; NCCL's own is 20.",
    "OCI (H100 and later shapes) and Scnet set 22")
GID_WHY = ("The index is a place in each port's own table: it differs from NIC to NIC and with every address, and one number for all is "
           "luck. NCCL finds it since 2.21; before, nccl_gid_index decides.")

ROCE = NcclProfile(
    "roce", ("roce",),
    (TIMEOUT,
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "4", "Several queue pairs give ECMP several flows to spread over the spines.",
                  "4 to 8 is usual for ConnectX-6/7; OCI A100 shapes use 4"),),
    False, "mlx5_", "RoCE v2 on ConnectX-6/7 and alike; the traffic class comes from the QoS profile.",
    "OCI and Scnet presets, without their GID index and device lists",
    corrected=(Correction("NCCL_IB_GID_INDEX=3", "nothing is set", GID_WHY),
               Correction("NCCL_IB_HCA=mlx5", "the rails' ports, exactly",
                          "A prefix takes in the NICs of storage and management, and a bond.")),
)

INFINIBAND = NcclProfile(
    "infiniband", ("infiniband",), (TIMEOUT,), False, "mlx5_",
    "InfiniBand routes by LID: no GID index and no traffic class.",
    "NCCL src/transport/net_ib/connect.cc (returns before it reads the GID index)")

_SPCX = "NVIDIA's documentation: HPC-X 2.26 (Spectrum-X NCCL Plugin), Cumulus Linux (adaptive routing), NIC configuration operator"
SPECTRUM_X = NcclProfile(
    "spectrum-x", ("roce",), (TIMEOUT,), False, "mlx5_",
    "Spectrum-X: RoCE v2 whose switches choose a path for every packet, so that one queue pair already uses all spines.", _SPCX,
    corrected=(
        Correction("NCCL_NET_PLUGIN=spcx", "nothing is set",
                   "The plugin is HPC-X's: jobs that run in its environment load it by the library path. Forced on others, the name finds "
                   "no library and NCCL goes on without a plugin, with no more than a line in its log."),
        Correction("NCCL_IB_ADAPTIVE_ROUTING=1, NCCL_IB_SPLIT_DATA_ON_QPS=1", "nothing is set",
                   "NVIDIA's cluster-readiness-engine (287) sets both for one cloud's GB300, and NCCL's authors say "
                   "that the first is for InfiniBand (nccl 1687). Measure before you set one in nccl_overrides."),
    ),
    needs=("adaptive routing on the switches, which is off by default, and RoCE in lossless mode: the QoS profile is yours to choose",
           "ConnectX-8 or BlueField-3 SuperNICs with the settings that NVIDIA gives to its customers: nothing here sets or checks them"),
)

SCNET = NcclProfile(
    "scnet", ("roce",),
    (NcclVariable("NCCL_DEBUG", "INFO", "The platform's own setting: its page tells success by the lines that NCCL prints (NET/IB).",
                  "Scnet documentation (default variables)"),
     TIMEOUT._replace(source="Scnet documentation (default variables)"),
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "8", "Several queue pairs give ECMP several flows to spread over the spines.",
                  "Scnet documentation (default variables); the PAI Lingjun preset has the same"),),
    False, "mlx5_", "Nodes and pods of Scnet: RoCE v2 whose switches carry DSCP 34 on priority 4.",
    "Scnet documentation (default variables), corrected",
    corrected=(
        Correction("NCCL_IB_TC=136", "from rdma_qos_profile scnet-dscp34-prio4, which is 136",
                   "136 >> 2 = DSCP 34, 136 >> 5 = priority 4: PFC must be on 4. Taken from the QoS profile, the variable and the NIC's "
                   "lossless priority cannot contradict each other."),
        Correction("NCCL_IB_GID_INDEX=3", "nothing is set; nccl_gid_index: 3 is checked against every HCA before it is written",
                   GID_WHY),
        Correction("NCCL_IB_HCA=mlx5", "the rails' ports, exactly",
                   "A prefix takes in the NICs of storage and management too; the page itself says that number and names differ by node."),
        Correction("NCCL_SOCKET_IFNAME=eth, and ib0 in its example", "the node's management interface, or rdma_bootstrap_interface",
                   "It carries NCCL's bootstrap, not its data; eth is a prefix, and ib0 is right only where it has an address that all "
                   "ranks reach. In a pod it is eth0."),
        Correction("NCCL_IB_DISABLE=0", "left out", "0 is NCCL's own default."),
    ),
    qos="scnet-dscp34-prio4",
    needs=("roce_qos_manage: false too, where the platform sets the NICs itself (in its pods)",),
)

# Alibaba's eRDMA: NCCL's own transport, or AIACC's plugin in its place. One excludes the other.
_ERC = "alibabacloud-erdma-controller runbook"
_GUIDE = "the guide to eRDMA, line 150: after aiacc-nccl-plugin is installed no communication parameter is needed"
GID_INDEX = NcclVariable(
    "NCCL_IB_GID_INDEX", "-1", "The index differs between the NICs of one node (erdma_0: 2, erdma_1: 1); NCCL 2.21 finds it.", _ERC)

NATIVE = NcclProfile(
    "erdma-native", ("erdma",),
    (GID_INDEX,
     NcclVariable("NCCL_IB_ADDR_FAMILY", "AF_INET", "eRDMA has no IPv6.", _ERC),
     NcclVariable("NCCL_IB_ROCE_VERSION_NUM", "2", "Pins the GID type that the automatic choice looks for.", _ERC),
     NcclVariable("NCCL_IB_QPS_PER_CONNECTION", "8", "One queue pair does not fill an eRDMA NIC.", "PAI preset"),
     NcclVariable("NCCL_MIN_CTAS", "16", "Enough channels to keep both NICs busy; PAI writes the deprecated name NCCL_MIN_NCHANNELS.",
                  "PAI preset, renamed in NCCL 2.17"),
     NcclVariable("NCCL_NET_GDR_LEVEL", "SYS", "GPUs and eRDMA NICs are far apart on PCIe; without it NCCL copies through host memory.",
                  _ERC),
     NcclVariable("NCCL_NET_PLUGIN", "none", "Keeps an installed AIACC plugin from replacing NCCL's own transport.",
                  "PAI preset"),),
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
    _GUIDE,
    corrected=(
        Correction("nccl from git's HEAD (the guide, line 25) beside the plugin", "NCCL 2.8 to 2.16",
                   "The guide's own line 38 names these releases; git's HEAD is far newer."),
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

# Azure: InfiniBand. Its images know two kinds of size; those with Grace CPUs need no topology file.
_AZ = "AZ (components/customizations/%s.sh)"
_AIA = "AIA (infrastructure_validations/slurm/NCCL/configs/graceblackwell.conf, skills/slurm/nccl_allreduce_test)"
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
                              "networking too."),
                   Correction("NCCL_PXN_DISABLE=1, NCCL_MIN_NCHANNELS=32, NCCL_IB_QPS_PER_CONNECTION=4, NCCL_COLLNET_ENABLE=1 (AIA)",
                              "left out", "AIA tunes them for its benchmark of ND v5; AZ's images, which every node boots, set none.")),
        needs=((f"{path} on the node: Azure's HPC images have it; on another image bring it, or leave the variable out by "
               f"nccl_overrides: {{NCCL_TOPO_FILE: null}}"),),
    )


def _azure_grace(name: str, why: str) -> NcclProfile:
    return NcclProfile(
        name, ("infiniband",),
        (NcclVariable("NCCL_IB_SL", "1", "Azure's validation of these sizes says that the fabric needs service level 1; NCCL's own is 0.",
                      _AIA),),
        False, "mlx5_", why, _AIA,
        corrected=(
            Correction("nothing (AZ: ndv6.sh writes no nccl.conf; AIA's values-gb300.yaml names no service level)", "NCCL_IB_SL=1",
                       "Three pages of AIA name it (this one, its skill's text and inferenceX for GB300), none of Azure's says otherwise; "
                       "null in nccl_overrides leaves it out."),
            Correction("NCCL_MNNVL_ENABLE=1, NCCL_NVLS_ENABLE=1, NCCL_DMABUF_ENABLE=1, NCCL_NET_GDR_C2C=1 (AIA)", "left out",
                       "The last two are NCCL's own defaults. 1 in place of NCCL's 2 (use it where it is there) ends a job with an error "
                       "where its nodes are in two racks, or in none."),
            Correction("NCCL_IGNORE_CPU_AFFINITY=1, NCCL_IB_QPS_PER_CONNECTION=4, NCCL_NET_GDR_LEVEL=PHB, NCCL_SHM_DISABLE=1 (AIA)",
                       "left out", "AIA contradicts itself: its values-gb300.yaml takes the first two away as H100's, and sets none."),
        ),
        needs=("nvidia-imex on every node of a rack, for NVLink between them (verdict gpu.imex); without it NCCL takes InfiniBand",),
    )


# Clouds whose plugin takes the place of NCCL's transports. None is installed here, so that a profile can only set and refuse variables.
_EFA = "EFA (aws-ofi-nccl, doc/efa-env-var.md)"
_ONLY = "%s is yours to install and to keep up to date: nothing here installs, pins or checks it, this profile only sets variables"


def _defeats(plugin: str) -> tuple[Exclusion, ...]:
    return (Exclusion("NCCL_NET_PLUGIN", ("none",), f"none turns {plugin} off", "NCCL (src/plugin/net.cc)"),
            Exclusion("NCCL_NET", ("IB", "Socket"), f"it forces NCCL's own transport in place of {plugin}", "NCCL (src/plugin/net.cc)"))


def _efa_warning(name: str, why: str) -> Exclusion:
    return Exclusion(name, (), why, _EFA, "warning")


EFA = NcclProfile(
    "aws-efa", ("roce",), (), False, None,
    "AWS with EFA: libfabric and the plugin aws-ofi-nccl, which sets what it needs by itself. This profile only sets variables.", _EFA,
    corrected=(
        Correction("FI_PROVIDER=efa, FI_EFA_USE_DEVICE_RDMA=1, NCCL_PROTO=simple", "nothing is set",
                   "Needed up to aws-ofi-nccl 1.5 (FI_EFA_USE_DEVICE_RDMA: before 1.7); newer ones choose by themselves."),
        Correction("RDMAV_FORK_SAFE=1, FI_EFA_FORK_SAFE=1", "nothing is set",
                   "The plugin sets the second where it matters; the first breaks things on newer kernels. Neither is a variable of NCCL: "
                   "they have no place in its files."),
    ),
    qos="none", transport="aws-ofi-nccl", node=(),
    excludes=(
        *_defeats("aws-ofi-nccl"),
        _efa_warning("NCCL_BUFFSIZE", "leave it to the default"),
        _efa_warning("NCCL_PROTO", "only aws-ofi-nccl up to 1.5 needed it"),
        _efa_warning("NCCL_MIN_NCHANNELS", "more channels make messages smaller, and EFA is starved for data"),
        _efa_warning("NCCL_MIN_CTAS", "more channels make messages smaller, and EFA is starved for data"),
        _efa_warning("NCCL_SOCKET_NTHREADS", "it is for NCCL's socket transport and does nothing on EFA"),
        _efa_warning("NCCL_NSOCKS_PERTHREAD", "it is for NCCL's socket transport and does nothing on EFA"),
    ),
    needs=(_ONLY % "AWS's EFA installer (the driver, libfabric and aws-ofi-nccl, on every node or in the image)",
           "rdma_fabric: roce, since EFA has no fabric of its own here, with rdma_qos_profile: none and no rails: no RoCE GIDs"),
)

_GIB = "GCT (examples/machine-learning/%s)"
_TCPX = "GCT (examples/machine-learning/a3-highgpu-8g/nccl-tests/run-nccl-tests.sh), CEA (gpudirect-tcpx/nccl-config.yaml)"
_MEGA = "CEA (gpudirect-tcpxo/README.md), GCT (examples/machine-learning/a3-megagpu-8g)"
_SCRIPT = Correction("values of NCCL's variables, copied into jobs", "nothing is set: jobs source %s",
                     "The values belong to a release of the plugin and change with it, and its checker refuses others (NVIDIA/aicr 422).")


def _google(name: str, plugin: str, why: str, source: str, script: str, **more: Any) -> NcclProfile:
    return NcclProfile(
        name, ("roce",), more.get("variables", ()), False, more.get("prefix"), why, source, corrected=more["corrected"], qos="none",
        transport=plugin, node=(SOCKET,), excludes=_defeats(plugin),
        needs=(_ONLY % f"Google's plugin {plugin}, with the NCCL that it was built for,", script,
               "rdma_fabric: roce, as Google has no fabric of its own here, with rdma_qos_profile: none: the plugin marks its traffic"))


def _gib(name: str, directory: str, why: str) -> NcclProfile:
    script = "/usr/local/gib/scripts/set_nccl_env.sh"
    return _google(
        name, "gIB", why, _GIB % directory, f"{script} sourced by every job, and /usr/local/gib/lib64 in its library path (nccl-gib)",
        prefix="mlx5_", corrected=(
            _SCRIPT._replace(instead=_SCRIPT.instead % script),
            Correction("NCCL_NET=gIB", "nothing is set",
                       "NCCL loads the plugin by itself where the library path has it; the name, set for all, ends every other job."),
            Correction("NCCL_SOCKET_IFNAME=enp0s19,enp192s20", "the node's management interface, or rdma_bootstrap_interface",
                       "Which interface that is, the node knows."),
        ))


_TCPX_WHY = "GPUDirect-TCPX is tuned for it; both of Google's lists have the same value."
GOOGLE = (
    _google("gcp-a3-high", "GPUDirect-TCPX", "Google's a3-highgpu-8g: H100, and four NICs that carry TCP out of GPU memory.", _TCPX,
            "NCCL_GPUDIRECTTCPX_* (interfaces, CPUs and the socket of the receive daemon) in every job: they name that node's devices",
            variables=tuple(NcclVariable(variable, value, _TCPX_WHY, "GCT, CEA (as above)") for variable, value in (
                ("NCCL_CROSS_NIC", "0"), ("NCCL_PROTO", "Simple"), ("NCCL_NET_GDR_LEVEL", "PIX"), ("NCCL_P2P_PXN_LEVEL", "0"),
                ("NCCL_P2P_NET_CHUNKSIZE", "524288"), ("NCCL_P2P_PCI_CHUNKSIZE", "524288"), ("NCCL_P2P_NVL_CHUNKSIZE", "1048576"),
                ("NCCL_BUFFSIZE", "4194304"), ("NCCL_NSOCKS_PERTHREAD", "4"), ("NCCL_SOCKET_NTHREADS", "1"))),
            corrected=(Correction("NCCL_ALGO=Ring (GCT), Ring,Tree (CEA)", "nothing is set", "The two contradict each other."),
                       Correction("NCCL_DYNAMIC_CHUNK_SIZE=524288", "left out", "NCCL has no such variable."),
                       Correction("NCCL_NET=GPUDirectTCPX_v7", "nothing is set",
                                  "The name is that of one release of the plugin, and runs on one node must not have it (GCT)."))),
    _google("gcp-a3-mega", "GPUDirect-TCPXO", "Google's a3-megagpu-8g: H100, and eight NICs that carry TCP out of GPU memory (FasTrak).",
            _MEGA, "nccl-env-profile.sh of the plugin sourced by every job, NCCL_FASTRAK_* with the node's interfaces, and the daemon",
            corrected=(_SCRIPT._replace(instead=_SCRIPT.instead % "the plugin's nccl-env-profile.sh"),)),
    _gib("gcp-a3-ultra", "a3-ultragpu-8g", "Google's a3-ultragpu-8g: H200, and RoCE with the plugin gIB."),
    _gib("gcp-a4", "a4-highgpu-8g", "Google's a4-highgpu-8g: B200, and RoCE with the plugin gIB."),
)

# Oracle Cloud's cluster networks, one a generation of GPUs. RoCE v2, DSCP 10 on priority 1.
_OCI = "OCI (roles/nccl-conf, template %s)"


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


def _oracle(name: str, template: str, why: str, names: tuple[str, ...], corrected: tuple[Correction, ...]) -> NcclProfile:
    return NcclProfile(name, ("roce",), _variables(template, *names), False, "mlx5_", why, _OCI % template, corrected=corrected,
                       qos="oci-dscp10", hcas=SHAPES[name], needs=_NEEDS)


_A100 = ("NCCL_DEBUG", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IB_QPS_PER_CONNECTION")
_LATER = ("NCCL_DEBUG", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_CUMEM_ENABLE", "NCCL_IB_TIMEOUT")

NCCL_PROFILES: tuple[NcclProfile, ...] = (
    ROCE, INFINIBAND, NATIVE, AIACC, SCNET, SPECTRUM_X,
    _azure("azure-ndv4", "ndv4", "Azure ND A100 v4: HDR InfiniBand by SR-IOV."),
    _azure("azure-ndv5", "ndv5", "Azure ND H100 v5 and ND H200 v5: NDR InfiniBand by SR-IOV."),
    _azure_grace("azure-gb200", "Azure ND GB200 v6: NVLink inside a rack, NDR InfiniBand between racks."),
    _azure_grace("azure-gb300", "Azure ND GB300 v6: NVLink inside a rack, InfiniBand between racks."),
    _oracle("oci-a100", "bm.gpu4.8, a100_b4.8", "Oracle's A100 shapes: BM.GPU4.8, BM.GPU.B4.8 and BM.GPU.A100-v2.8.", _A100, _CORRECTED),
    _oracle("oci-h100", "h100", "Oracle's BM.GPU.H100.8.", _LATER, _CORRECTED_LATER),
    _oracle("oci-h200", "h200", "Oracle's BM.GPU.H200.8.", _LATER, _CORRECTED_LATER),
    _oracle("oci-b200", "b200", "Oracle's BM.GPU.B200.8.", _LATER, _CORRECTED_LATER),
    _oracle("oci-b300", "b300", "Oracle's BM.GPU.B300.8.", _LATER, _CORRECTED_LATER),
    EFA, *GOOGLE,
)
