# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a container a library that stands in for NCCL, and, with ``nvcc``, a compiler that stands in for CUDA's. Runs on the node."""

import subprocess
import sys
from pathlib import Path

LIBRARY = """
extern "C" int ncclGetVersion(int *version) { *version = 23007; return 0; }
__attribute__((used)) const char text[] = "NCCL version 2.30.7+cuda13.0";
"""
# The first two answers are those of nvcc 13.0.
NVCC = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
--list-gpu-code) printf 'sm_75\\nsm_80\\nsm_90\\nsm_100\\n' ;;
*) exec g++ "$@" ;;
esac
"""

lib = Path("/usr/lib/x86_64-linux-gnu/libnccl.so.2")
argv = ("g++", "-x", "c++", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", str(lib), "-")
subprocess.run(argv, input=LIBRARY, text=True, check=True)
subprocess.run(("ldconfig",), check=True)
Path("/usr/include/nccl.h").write_text('extern "C" int ncclGetVersion(int *version);\n', encoding="ascii")
if "nvcc" in sys.argv[1:]:
    nvcc = Path("/usr/local/cuda/bin/nvcc")
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(NVCC, encoding="ascii")
    nvcc.chmod(0o755)
