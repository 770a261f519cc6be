# SPDX-License-Identifier: GPL-3.0-or-later
# The mpirun line of the page on NCCL over several nodes.
export NCCL_HOME=/path/to/nccl
mpirun -hostfile mpi_hosts \
    -np 2 \
    --allow-run-as-root \
    -x LD_LIBRARY_PATH=:/lib \
    -x NCCL_IB_HCA=:1 \
    -x NCCL_DEBUG=TRACE \
    -x NCCL_PROTOS=2 \
    -x NCCL_TOPO_DUMP_FILE=./topo.txt \
    -x NCCL_GRAPH_DUMP_FILE=./graph.txt \
    /mccl-tests/all_reduce_perf -b 1M -e 128M -f 2 -g 1 -t 1
