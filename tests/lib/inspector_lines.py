# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines as NCCL's inspector plugin writes them (NCCL 2.28.9 and 2.30.7: its README and json writer)."""

from __future__ import annotations

import json
from typing import Any

GIB = 1 << 30


def coll(kind: str, rank: Any, number: Any, us: Any, size: Any = GIB, comm: Any = "0x9f27a1b2c3", **more: Any) -> str:
    """``kind``: coll_perf, or p2p_perf, which has other names."""
    document = {
        "header": {"id": comm, "comm_name": "unknown", "rank": rank, "n_ranks": 2, "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                     "dump_timestamp_us": 1795694294918311, "hostname": "n1", "pid": 11634},
        kind: {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size, "coll_exec_time_us": us,
               "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.992543, "coll_busbw_gbs": 1.992543, **more},
    }
    return json.dumps(document, separators=(",", ":"))


def entry(rank: Any, number: Any, us: Any, **more: Any) -> str:
    return coll("coll_perf", rank, number, us, **more)
