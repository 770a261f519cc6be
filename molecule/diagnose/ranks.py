# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank of a job with a collective at every step, by gloo or MPI: ``ranks.py KIND CASE ADDRESS PORT``.

``steady`` goes on for ever; ``slow`` computes for seconds at every step; in ``loop`` rank 1 leaves for a loop of its own.
Each says when it has made its first steps.
"""

import os
import sys
import time

kind, case, address, port = sys.argv[1:]
if kind == "gloo":
    import torch
    import torch.distributed as group

    rank = int(os.environ["SLURM_PROCID"])
    torch.set_num_threads(1)
    group.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=2)
    values = torch.ones(1000)

    def collective() -> None:
        group.all_reduce(values)
else:
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()

    def collective() -> None:
        MPI.COMM_WORLD.allreduce(1.0)


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


step = 0
while True:
    if step == 3:
        sys.stdout.write(f"ready {rank}\n")
        sys.stdout.flush()
    if step >= 3 and case == "loop" and rank == 1:
        while True:
            pass
    if step >= 3 and case == "slow":
        compute(2 + rank)
    collective()
    step += 1
