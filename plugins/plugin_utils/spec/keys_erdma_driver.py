# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for eRDMA's kernel driver and its mode. ``keys_erdma.py`` joins them."""

from __future__ import annotations

from .key import Key

ERDMA_DRIVER = (
    Key("erdma_driver", "erdma", "str", "auto",
        "The kernel driver. dkms: Alibaba's, built from its source. mainline: the kernel's own, which has no modes. leave: whatever is "
        "there, driver and mode untouched. auto: a driver with modes that is there is kept; the kernel's own is taken where its devices "
        "show that they are RoCE-compatible (`1: CA`) and the mode is compat; else dkms.",
        "ERD, ERC (compat.go: what is installed is kept); docs/erdma.md", choices=("auto", "dkms", "mainline", "leave")),
    Key("erdma_driver_version", "erdma", "str", None,
        "Release of Alibaba's driver: 0.2.37, the public source, or a release of the vendor's installer such as 1.5.7, of which only the "
        "source is taken. Unset: 0.2.37, and a driver that is there already stays.", "ERD (r0.2.37); ALI (erdma-usage)",
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", form="a release of three numbers, in quotes"),
    Key("erdma_mode", "erdma", "str", "auto",
        "Mode of the driver: default (iWARP-like, RDMA-CM only), compat (RoCE-compatible: NCCL, UCX), ofed (compat on top of MLNX_OFED). "
        "auto: ofed on nodes with an NVIDIA GPU, else compat. Nodes in default cannot talk RDMA to the others.",
        "ERC (internal/drivers: ofed where there is a GPU), ALI", choices=("auto", "default", "compat", "ofed")),
)
