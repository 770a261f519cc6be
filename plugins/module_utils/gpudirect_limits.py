# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions at which the paths to GPU memory begin and end; the sources are those of rules/gpudirect.py."""

DMABUF_KERNEL = (5, 12)  # first with ib_umem_dmabuf, and mlx5_ib the first driver that used it
OPEN_DRIVER = 515  # first branch with open kernel modules; it brings CUDA 11.7
PEERMEM_DRIVER = 470  # nvidia_peermem is part of the driver from here on
DMABUF_CUDA = (11, 7)
NV_PEER_MEM_OFED = (5, 1)  # nv_peer_mem 1.2 and newer register as the new kind of client of OFED 5.1; older ones can deadlock there
OFED_STACKS = ("doca", "mlnx_ofed")
