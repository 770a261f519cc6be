# SPDX-License-Identifier: GPL-3.0-or-later
# What the page on RoCE v2 sets and runs: no variable of NCCL among it.
sudo ip link set dev ethX mtu 9000
git clone https://github.com/Mellanox/nv_peer_memory.git
cd nv_peer_memory && git checkout 1.0-9
make && sudo insmod ./nv_peer_mem.ko
sudo ib_write_bw -d mlx5_0 -F
