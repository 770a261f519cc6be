#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of all_reduce_perf where nothing can be built: it says its options as nccl-tests 2.19.6 does, and can do nothing else."""

import sys

USAGE = """USAGE: all_reduce_perf
\t[-t,--nthreads <num threads>]
\t[-g,--ngpus <gpus per thread>]
\t[-b,--minbytes <min size in bytes>]
\t[-e,--maxbytes <max size in bytes>]
\t[-h,--help]
"""
if sys.argv[1:] != ["-h"]:
    sys.exit("there is no all_reduce_perf here: this stand-in says its options and can do nothing else")
sys.stdout.write(USAGE)
