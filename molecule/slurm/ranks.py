# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank of a test: says where it is and what it was given; with ``stay`` it stays, with ``defy`` it does not care for TERM either."""

import json
import os
import signal
import sys
import time

NAMES = ("PLAIN", "COMMAS", "SPACES", "EQUALS", "QUOTES", "SLURM_JOB_PARTITION", "SLURM_JOB_NAME", "SLURM_JOB_COMMENT")
said = {"rank": int(os.environ["SLURM_PROCID"]), "ranks": int(os.environ["SLURM_NTASKS"]), "host": os.environ["SLURMD_NODENAME"],
        "environment": {name: os.environ.get(name) for name in NAMES}}
if "defy" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdout.write(f"rank {json.dumps(said)}\n")
sys.stdout.flush()
if len(sys.argv) > 1:
    time.sleep(3600)
