#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of nccl-tests' programs where there is no GPU: ranks that a real mpirun started say who they are, and rank 0 prints a table.

NCCL's log is written as its source has it, over the device that NCCL_IB_HCA names. A node hangs where ``/var/lib/stand-in/hang`` lies.
"""

import os
import socket
import sys
import time
from pathlib import Path

USAGE = """USAGE: a stand-in for nccl-tests
\t[-b,--minbytes <min size in bytes>]
"""
HANG = Path("/var/lib/stand-in/hang")
CHANNEL = "{0}:1:1 [0] NCCL INFO Channel 00/0 : {1}[0] -> {2}[0] [send] via {3}\n"


def log(rank, ranks, host):
    device = os.environ.get("NCCL_IB_HCA", "=mlx5_0:1").lstrip("=")
    several = ranks > int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"])
    text = f"{host}:1:1 [0] NCCL INFO Using network IB\n"
    text += f"{host}:1:1 [0] NCCL INFO NET/IB : Using [0]{device}/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"
    text += CHANNEL.format(host, rank, (rank + 1) % ranks, "NET/IB/0/GDRDMA" if several else "P2P/CUMEM")
    Path(os.environ["NCCL_DEBUG_FILE"].replace("%h", host).replace("%p", str(os.getpid()))).write_text(text)


def main():
    if sys.argv[1:] == ["-h"]:
        sys.stdout.write(USAGE)
        return
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    log(rank, ranks, socket.gethostname())
    if HANG.exists():
        time.sleep(3600)
    time.sleep(1)
    if rank:
        return
    size, rows = int(options["-b"]), ""
    while size <= int(options["-e"]):
        rows += f"{size:12} {size // 4:12}     float     sum     -1" + f"{size / 2e4:10.2f} {50:7.2f} {50:7.2f}      0" * 2 + "\n"
        size *= int(options["-f"])
    half = "     time   algbw   busbw  #wrong"
    sys.stdout.write(f"#       size         count      type   redop    root{half}{half}\n{rows}"
                     "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 50 \n#\n")


main()
