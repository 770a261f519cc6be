# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable that NCCL 2.30.7 reads, and names that its own library does not read: its in-tree plugins', removed, never existing,
other software's. Controller only.
"""

from typing import NamedTuple

from .variable_rows import ROWS, Variable

__all__ = ("NEVER_IN_NCCL", "OWNED_BY_OTHERS", "PLUGIN_VARIABLES", "RANGES", "REMOVED", "VARIABLES", "VERSION", "Other", "Removed",
           "Variable")

VERSION = "2.30.7"


class Removed(NamedTuple):
    """A variable that NCCL no longer reads."""

    name: str
    existed: str  # first .. last tag
    replacement: str | None


class Other(NamedTuple):
    """A variable (or a glob of them) that looks like NCCL's and is read by other software."""

    name: str
    owner: str
    use_instead: str | None


# Read by the profiler, inspector and tuner plugins in NCCL's source tree.
PLUGIN_ROWS: tuple[Variable, ...] = (
    Variable("NCCL_INSPECTOR_ENABLE", "bool", "0", "", "Inspector profiler on/off"),
    Variable("NCCL_INSPECTOR_ENABLE_P2P", "bool", "1", "", "Record send/recv"),
    Variable("NCCL_INSPECTOR_DUMP_THREAD_ENABLE", "bool", "1", "", "Dump thread"),
    Variable("NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", "int", "-1", "", "Dump interval"),
    Variable("NCCL_INSPECTOR_DUMP_DIR", "string", "unset", "", "Output directory"),
    Variable("NCCL_INSPECTOR_DUMP_VERBOSE", "bool", "0", "", "Verbose dump"),
    Variable("NCCL_INSPECTOR_PROM_DUMP", "bool", "0", "", "Prometheus text output"),
    Variable("NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES", "int", "8192", "", "Ignore smaller operations"),
    Variable("NCCL_INSPECTOR_DUMP_COLL_RING_SIZE", "int", "1024", "", "Collective ring"),
    Variable("NCCL_INSPECTOR_DUMP_P2P_RING_SIZE", "int", "1024", "", "P2P ring"),
    Variable("NCCL_INSPECTOR_COLL_POOL_SIZE", "int", "256", "", "Pool"),
    Variable("NCCL_INSPECTOR_P2P_POOL_SIZE", "int", "256", "", "Pool"),
    Variable("NCCL_INSPECTOR_COMM_POOL_SIZE", "int", "256", "", "Pool"),
    Variable("NCCL_INSPECTOR_POOL_GROW", "bool", "1", "", "Grow pools"),
    Variable("NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING", "bool", "1", "", "Need kernel timing"),
    *(Variable(f"NCCL_PROFILE_{pool}_POOL_SIZE", "int", "plugin default", "", "Example profiler pool size") for pool in (
        "GROUP_API", "COLL_API", "P2P_API", "KERNEL_LAUNCH", "GROUP", "COLL", "P2P", "PROXY_CTRL", "CE_COLL", "CE_SYNC", "CE_BATCH",
        "PROXY_DETACH")),
    Variable("NCCL_PROFILE_EVENT_MASK", "int", "plugin default", "", "Event mask"),
    Variable("NCCL_PROFILE_DUMP_FILE", "string", "unset", "", "Trace file"),
    Variable("NCCL_PROFILER_CE_TIMING", "bool", "plugin default", "", "Copy-engine timing"),
    Variable("NCCL_PROFILER_CE_POLLER_INTERVAL_MICROSECONDS", "int", "plugin default", "", "Copy-engine poll interval"),
    Variable("NCCL_TUNER_CONFIG_FILE", "string", "nccl_tuner.conf", "", "CSV with tuning choices"),
)

# What the queue pair or NCCL has room for; -1 where it stands for unset. The widths of the InfiniBand Architecture Specification (timeout
# 5 bits, retry count 3, service level 4), libibverbs' types (pkey_index 16 bits, sgid_index 8), "Values accepted" of NCCL's user guide.
RANGES: dict[str, tuple[int, int]] = {
    "NCCL_IB_TIMEOUT": (0, 31), "NCCL_IB_RETRY_CNT": (0, 7), "NCCL_IB_SL": (-1, 15), "NCCL_IB_PKEY": (0, 65535),
    "NCCL_IB_GID_INDEX": (-1, 255), "NCCL_CROSS_NIC": (0, 2), "NCCL_IB_QPS_PER_CONNECTION": (1, 128), "NCCL_IB_ROCE_VERSION_NUM": (1, 2),
    "NCCL_IB_PCI_RELAXED_ORDERING": (0, 2),
}

REMOVED_ROWS: tuple[Removed, ...] = (
    Removed("NCCL_IB_CUDA_SUPPORT", "v2.3.5-5 .. v2.3.7-1", "NCCL_NET_GDR_LEVEL"),
    Removed("NCCL_IB_GDR_LEVEL", "v2.3.5-5 .. v2.3.7-1", "NCCL_NET_GDR_LEVEL"),
    Removed("NCCL_LL_THRESHOLD", "v2.3.5-5 .. v2.4.8-1", "NCCL_PROTO (do not set)"),
    Removed("NCCL_TREE_THRESHOLD", "v2.4.2-1 .. v2.4.8-1", "NCCL_ALGO (do not set)"),
    Removed("NCCL_SINGLE_RING_THRESHOLD", "2.1..2.2", None),
    Removed("NCCL_CHECKS_DISABLE", "2.0.5..2.2", "NCCL_CHECK_MODE"),
    Removed("NCCL_THREAD_THRESHOLD", "v2.3.5-5 .. v2.4.8-1", "NCCL_THREAD_THRESHOLDS"),
    Removed("NCCL_RINGS", "v2.3.5-5 .. v2.4.8-1", "NCCL_GRAPH_FILE"),
    Removed("NCCL_GRAPH", "v2.5.6-1 .. v2.5.7-1", "NCCL_GRAPH_FILE"),
    Removed("NCCL_SHARED_BUFF_COUNT", "v2.8.3-1 .. v2.8.4-1", None),
    Removed("NCCL_GDRCOPY_TAIL_ENABLE", "v2.9.6-1 .. v2.11.4-1", "NCCL_GDRCOPY_SYNC_ENABLE"),
    Removed("NCCL_AGG_CHANNEL_SIZE", "v2.10.3-1 .. v2.19.4-1", None),
    Removed("NCCL_PROXY_PROFILE", "v2.12.7-1 .. v2.22.3-1", "NCCL_PROFILER_PLUGIN"),
    Removed("NCCL_WORK_FIFO_DEPTH", "v2.13.4-1 .. v2.21.5-1", "NCCL_WORK_FIFO_BYTES"),
    Removed("NCCL_CREATE_THREAD_CONTEXT", "v2.13.4-1 .. v2.30.4-1", None),
    Removed("NCCL_SHM_USE_CUDA_MEMCPY", "v2.13.4-1 .. v2.30.4-1", None),
    Removed("NCCL_SHM_MEMCPY_MODE", "v2.13.4-1 .. v2.30.4-1", None),
    Removed("NCCL_GIN_SIGNAL_POOL_SIZE", "v2.28.7-1 .. v2.29.7-1", None),
    Removed("NCCL_GIN_COUNTER_POOL_SIZE", "v2.28.7-1 .. v2.29.7-1", None),
    Removed("NCCL_GIN_NCONTEXTS", "v2.28.7-1 .. v2.29.7-1", "NCCL_GIN_NCONNECTIONS"),
    Removed("NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS", "v2.14.3-1 .. v2.16.2-1", "NCCL_ALLOC_P2P_NET_LL_BUFFERS"),
    Removed("NCCL_MNNVL", "v2.20.3-1 .. v2.20.5-1", "NCCL_MNNVL_ENABLE"),
    Removed("NCCL_CUDA_PATH", "v2.13.4-1 .. v2.20.5-1", None),
    Removed("NCCL_AGG_ALLOC_MODE", "v2.10.3-1 .. v2.12.12-1", None),
    Removed("NCCL_GIN_EXCLUSIVE_CONTEXTS", "v2.29.7-1 .. v2.29.7-1", None),
)

# Seen in blogs and job scripts; no tag of NCCL has ever read them. The value is what was meant.
NEVER_IN_NCCL: dict[str, str | None] = {
    "NCCL_NCHANNELS": "NCCL_MIN_CTAS/NCCL_MAX_CTAS",
    "NCCL_CHUNKSIZE": "NCCL_CHUNK_SIZE (debug), NCCL_P2P_NET_CHUNKSIZE or NCCL_BUFFSIZE",
    "NCCL_PROTOS": "NCCL_PROTO",
    "NCCL_ALGOS": "NCCL_ALGO",
    "NCCL_MIN_NCHANNELS_BEFORE_SWITCH": None,
    "NCCL_NCHANNELS_PER_NET": "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_IB_TRAFFIC_CLASS": "NCCL_IB_TC",
    "NCCL_IB_QPS": "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_GID": "NCCL_IB_GID_INDEX",
    "NCCL_GID_INDEX": "NCCL_IB_GID_INDEX",
    "NCCL_IB_GID_INDX": "NCCL_IB_GID_INDEX",
    "NCCL_NVLINK_DISABLE": "NCCL_P2P_LEVEL/NCCL_P2P_DISABLE",
    "NCCL_NET_DISABLE": "NCCL_NET",
    "NCCL_TIMEOUT": "framework timeout (e.g. torch init_process_group timeout)",
    "NCCL_TEMP_DIR": None,
    "NCCL_TOPO_AFFINITY": "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_IB_ADAPTIVE_ROUTING_ENABLE": "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_MAX_P2P_PEERS": "NCCL_P2P_MAX_PEERS",
}

# A * stands for the rest of a name.
OWNED_BY_OTHERS: tuple[Other, ...] = (
    Other("NCCL_ASYNC_ERROR_HANDLING", "PyTorch", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    Other("NCCL_BLOCKING_WAIT", "PyTorch", "TORCH_NCCL_BLOCKING_WAIT"),
    Other("NCCL_DESYNC_DEBUG", "PyTorch", "TORCH_NCCL_DESYNC_DEBUG"),
    Other("NCCL_ENABLE_TIMING", "PyTorch", "TORCH_NCCL_ENABLE_TIMING"),
    Other("NCCL_PLUGIN_P2P", "nccl-rdma-sharp-plugins (HPC-X)", None),
    Other("NCCL_IBEXT_DISABLE", "nccl-rdma-sharp-plugins (HPC-X)", None),
    Other("NCCL_SHARP_*", "nccl-rdma-sharp-plugins", None),
    Other("OFI_NCCL_*", "aws-ofi-nccl", None),
    Other("NCCL_FASTRAK_*", "Google FasTrak plugin", None),
    Other("NCCL_GPUDIRECTTCPX_*", "Google GPUDirect-TCPX plugin", None),
    Other("NCCL_TESTS_*", "nccl-tests (not the library)", None),
    Other("RCCL_*", "AMD RCCL", None),
    Other("HCCL_RDMA_TC", "Huawei HCCL", None),
    Other("NCCL_EP_DEBUG", "NCCL's contrib libraries, not the library itself", None),
    Other("NCCL_EP_TIMEOUT_MS", "NCCL's contrib libraries, not the library itself", None),
    Other("NCCL_CHECKPOINT_KVS_PATH", "NCCL's contrib libraries, not the library itself", None),
    Other("NCCL_RESHARD_*", "NCCL's contrib libraries, not the library itself", None),
)

VARIABLES: dict[str, Variable] = {row.name: row for row in ROWS}
PLUGIN_VARIABLES: dict[str, Variable] = {row.name: row for row in PLUGIN_ROWS}
REMOVED: dict[str, Removed] = {row.name: row for row in REMOVED_ROWS}
