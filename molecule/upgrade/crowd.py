# SPDX-License-Identifier: GPL-3.0-or-later
"""Users with jobs: keeps the queue of partition rdma filled, as long as it runs; on the controller, as the user bench.

Each job is one task of 5 to 20 seconds and writes a line a second on its node, and one at its end. What ended it before would show there.
"""

import itertools
import subprocess
import time
import zlib

QUEUED = 10  # running and waiting: four nodes of two CPUs run eight at a time
SHORTEST, SPREAD = 5, 16  # seconds
JOB = """#!/bin/bash
trap 'echo killed; exit 143' TERM INT HUP
echo begin
for second in $(seq "$1"); do sleep 1; echo "$second"; done
echo end
"""


def queued():
    done = subprocess.run(("squeue", "--noheader", "--format=%i"), capture_output=True, text=True, check=False, timeout=30)
    return len(done.stdout.splitlines()) if done.returncode == 0 else QUEUED


def main():
    options = ("--partition=rdma", "--job-name=crowd", "--ntasks=1", "--no-requeue", "--chdir=/var/lib/jobs", "--output=%j.log")
    # As uneven as chance, and the same in every run.
    lengths = (SHORTEST + zlib.crc32(b"%d" % number) % SPREAD for number in itertools.count())
    while True:
        for _free in range(QUEUED - queued()):
            argv = ("sbatch", "--parsable", *options, "/dev/stdin", str(next(lengths)))
            subprocess.run(argv, input=JOB, text=True, check=False, timeout=30, stdout=subprocess.DEVNULL)
        time.sleep(1)


main()
