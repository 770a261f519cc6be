# SPDX-License-Identifier: GPL-3.0-or-later
# The tuning section of the InfiniBand page.
export NCCL_DEBUG=INFO
export NCCL_IB_DISABLE=0
export NCCL_IB_GID_INDEX=0,3,5,7
export NCCL_NCHANNELS=4

export NCCL_MIN_NCHANNELS_BEFORE_SWITCH=4
export NCCL_MAX_NCHANNELS=4
export NCCL_CHUNKSIZE=524288

export NCCL_IB_CUDA_SUPPORT=1
