# SPDX-License-Identifier: GPL-3.0-or-later
# The settings of the Scnet page: the platform's defaults, and those of its training example.
export NCCL_IB_TC=136
export NCCL_IB_GID_INDEX=3
export NCCL_SOCKET_IFNAME=eth
export NCCL_DEBUG=INFO
export NCCL_IB_HCA=mlx5
export NCCL_IB_TIMEOUT=22
export NCCL_IB_QPS_PER_CONNECTION=8
export NCCL_IB_DISABLE=0

# node 1 and node 2 of the example
NCCL_IB_DISABLE=0 NCCL_SOCKET_IFNAME=ib0 NCCL_DEBUG=INFO python train.py
