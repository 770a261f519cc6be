# SPDX-License-Identifier: GPL-3.0-or-later
# run.sh of the eRDMA walkthrough.
NP=16
NPER=8
HOSTFILE=hostfile.txt
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/lib/:/root/nccl/build/lib/
mpirun --allow-run-as-root -np $NP -npernode $NPER --hostfile $HOSTFILE \
    -x PATH -x LD_LIBRARY_PATH \
    -x NCCL_DEBUG=INFO \
    --bind-to none \
    -mca btl_tcp_if_include eth0 \
    ./build/all_reduce_perf -b 1B -e 512M -f 2 -g 1 -n 1000 -w 1000 -c 0 -z 0 -o sum
