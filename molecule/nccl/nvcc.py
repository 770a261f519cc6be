# SPDX-License-Identifier: GPL-3.0-or-later
"""An nvcc that answers two questions as the real one does, and compiles nothing: ``nvcc.py RELEASE``, on the node, before the role."""

import sys
from pathlib import Path

SCRIPT = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release %s, V%s.88" ;;
--list-gpu-code) printf 'sm_80\\nsm_90\\nsm_100\\n' ;;
*) exit 1 ;;
esac
"""
program = Path("/usr/local/cuda/bin/nvcc")
program.parent.mkdir(parents=True)
program.write_text(SCRIPT % (sys.argv[1], sys.argv[1]), encoding="ascii")
program.chmod(0o755)
