# SPDX-License-Identifier: GPL-3.0-or-later
"""Lays the node's own Open MPI out as HPC-X's archive has one, packed as that is. Runs on the node: ``hpcx_tree.py DIRECTORY ARCHIVE``.

The layout is that of NVIDIA's manual (Installing and Loading HPC-X): one directory above everything, in it hpcx-init.sh and a directory for
each part. Real: Open MPI and UCX of Debian. Empty: UCC, HCOLL and SHARP, which Debian has not; the NCCL plugin is a text.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

LIB = Path("/usr/lib/x86_64-linux-gnu")
INIT = """#!/bin/sh
export HPCX_DIR=$(cd "$(dirname "${BASH_SOURCE:-$0}")" && pwd)
export HPCX_MPI_DIR=$HPCX_DIR/ompi
hpcx_load() { export PATH=$HPCX_MPI_DIR/bin:$PATH OPAL_PREFIX=$HPCX_MPI_DIR; }
"""


def copy(files, target):
    subprocess.run(("cp", "-a", *map(str, files), str(target)), check=True)


directory, archive = Path(sys.argv[1]), sys.argv[2]
ompi = directory / "ompi"
for part in ("ompi", "ucx", "ucc", "hcoll", "sharp", "nccl_rdma_sharp_plugin"):
    for name in ("bin", "lib"):
        (directory / part / name).mkdir(parents=True)
(directory / "nccl_rdma_sharp_plugin/lib/libnccl-net.so").write_text("no library\n", encoding="ascii")
(directory / "hpcx-init.sh").write_text(INIT, encoding="ascii")
copy([f"/usr/bin/{name}" for name in ("orterun", "orted", "opal_wrapper", "ompi_info")], ompi / "bin")
for name, target in (("mpirun", "orterun"), ("mpicc", "opal_wrapper")):
    (ompi / "bin" / name).symlink_to(target)
for name in ("libmpi.so.*", "libopen-rte.so.*", "libopen-pal.so.*", "libmca_common_*.so.*"):
    copy(sorted(LIB.glob(name)), ompi / "lib")
(ompi / "lib/libmpi.so").symlink_to("libmpi.so.40")
copy([LIB / "openmpi/lib/openmpi3"], ompi / "lib")
copy([LIB / "openmpi/include"], ompi)
(ompi / "share").mkdir()
copy(["/usr/share/openmpi"], ompi / "share")
# Where Debian's build looks below its prefix.
below = ompi / "lib/x86_64-linux-gnu/openmpi"
below.mkdir(parents=True)
(below / "lib").symlink_to("../..")
(below / "include").symlink_to("../../../include")
copy([*sorted(LIB.glob("libuc[mpst]*.so.*")), LIB / "ucx"], directory / "ucx/lib")
with tarfile.open(archive, "w:bz2") as tar:  # the node has no bzip2: the role brings it
    tar.add(str(directory), directory.name)
