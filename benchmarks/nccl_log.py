# SPDX-License-Identifier: GPL-3.0-or-later
"""Time and memory of `railwright nccl log` for a constructed log of 1,024 ranks on 128 nodes, 400 MB, in which one HCA's port fails.

The lines are those of NCCL 2.28.9 at INFO: a node's devices, 32 channels to ring and tree neighbours of every rank, the end of the setup, a
training loop's own lines, then the port error, its completions with status 12 and 5, and the watchdogs of torch. The claims are that the
cause, its node and the next step are found in LIMIT_S with less than LIMIT_MB of memory; exit 1 when one does not hold.

    python -m benchmarks.nccl_log [MEGABYTES]
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LIMIT_S, LIMIT_MB = 60.0, 500.0
NODES, GPUS, CHANNELS = 128, 8, 32
RANKS = NODES * GPUS
DEVICES = " ".join(f"[{number}]mlx5_{number}:1/RoCE" for number in range(GPUS))


def origin(rank: int) -> str:
    return f"gpu{rank // GPUS:03d}:{2000 + rank % GPUS}:{2100 + rank % GPUS} [{rank % GPUS}]"


def rank_lines(rank: int) -> Iterator[str]:
    info = f"{origin(rank)} NCCL INFO "
    local = rank % GPUS
    yield f"{info}Bootstrap: Using eth0:10.1.{rank // GPUS // 250}.{rank // GPUS % 250 + 1}<0>"
    yield f"{info}NET/IB : Using {DEVICES} [RO]; OOB eth0:10.1.{rank // GPUS // 250}.{rank // GPUS % 250 + 1}<0>"
    yield f"{info}Using network IB"
    yield f"{info}comm 0x7f{rank:04x} rank {rank} nRanks {RANKS} nNodes {NODES} localRanks {GPUS} localRank {local} MNNVL 0"
    for channel in range(CHANNELS):
        for step in (GPUS, 2 * GPUS, RANKS - GPUS):
            peer = (rank + step) % RANKS
            yield f"{info}Channel {channel:02d}/0 : {rank}[{local}] -> {peer}[{local}] [send] via NET/IB/{local}/GDRDMA"
            yield f"{info}Channel {channel:02d}/0 : {peer}[{local}] -> {rank}[{local}] [receive] via NET/IB/{local}/GDRDMA"
        near = (local + 1) % GPUS
        yield f"{info}Channel {channel:02d}/0 : {rank}[{local}] -> {rank // GPUS * GPUS + near}[{near}] via P2P/CUMEM"
    yield (f"{info}ncclCommInitRankConfig comm 0x7f{rank:04x} rank {rank} nranks {RANKS} cudaDev {local} nvmlDev {local} busId {local}b000 "
           "commId 0x75202b67b1237402 - Init COMPLETE")


def death() -> Iterator[str]:
    """Rank 517 is on gpu064, whose mlx5_5 loses its port; every rank dies of it."""
    source = "transport/net_ib.cc:2543 NCCL WARN NET/IB"
    yield f"[2026-11-29 03:00:00] {origin(517)} {source} : mlx5_5:1 Got non-fatal async event: port error(10)"
    for rank in (509, 525):
        for status, vendor in (("IBV_WC_RETRY_EXC_ERR(12)", 129), ("IBV_WC_WR_FLUSH_ERR(5)", 249)):
            yield (f"[2026-11-29 03:00:31] {origin(rank)} {source}: Got completion from peer 10.1.0.65<4711> with status={status} "
                   f"opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err={vendor} req_type=Send localGid ::ffff:10.2.5.64 "
                   "remoteGids::ffff:10.2.5.65 hca mlx5_5")
    for rank in range(RANKS):
        yield (f"[rank{rank}]:[E1129 03:10:00.000000001 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
               "timeout: WorkNCCL(SeqNum=9001, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600001 "
               "milliseconds before timing out.")


def write(path: Path, size: int) -> None:
    """Channel lines are two thirds of what the ranks write; the rest is what the program prints."""
    with path.open("w", encoding="utf-8") as log:
        log.write("NCCL version 2.28.9+cuda13.0\n")
        for rank in range(RANKS):
            log.writelines(line + "\n" for line in rank_lines(rank))
        ends = "".join(line + "\n" for line in death())
        step = 0
        while log.tell() + len(ends) < size:
            rank = step % RANKS
            log.write(f"{origin(rank)} NCCL INFO AllReduce: opCount {step:x} sendbuff 0x7f3c{step:08x} recvbuff 0x7f3c{step:08x} count 9 "
                      f"datatype 7 op 0 root 0 comm 0x7f{rank:04x} [nranks={RANKS}] stream 0x55d0\n" if step % 3 else
                      f"{rank}: step {step} loss 2.31 grad norm 0.71 tokens/s 4123 memory 71.2 GiB\n")
            step += 1
        log.write(ends)


def main() -> int:
    size = int(sys.argv[1] if sys.argv[1:] else "400") * 1_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        log = Path(directory) / "train.log"
        write(log, size)
        began = time.monotonic()
        argv = [sys.executable, "-m", "railwright", "nccl", "log", str(log), "--format", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        spent, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        memory, cpu = used.ru_maxrss / 1000, used.ru_utime + used.ru_stime
        found = {item["check"]: item for item in json.loads(done.stdout)["verdicts"]}["nccl.error"]
        size = log.stat().st_size
        print(f"{size / 1e6:.0f} MB, {RANKS} ranks: {spent:.1f} s ({cpu:.1f} s of CPU), {memory:.0f} MB, exit {done.returncode}")
        print(found["message"])
    right = found["message"].startswith("gpu064 rank 517, mlx5_5: ") and "next: railwright check gpu064" in found["message"]
    return 0 if done.returncode == 1 and right and spent < LIMIT_S and memory < LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
