# SPDX-License-Identifier: GPL-3.0-or-later
"""The row of the schema for the kernel that a node is to run. ``schema.py`` joins it."""

from __future__ import annotations

from .key import Key

KERNEL_KEYS = (
    Key("rdma_kernel_version", "site", "str", None,
        "Kernel that the nodes are to run, as `uname -r` prints it: installed with its headers, chosen for the next boot, and booted with "
        "consent to reboot. An older one is fine: kernels are installed side by side and none is removed. Unset: the kernel is left as it "
        "is.",
        "domain F1 (kernel and headers before the stack); LSR and AZ (the stack is built for one kernel)",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$", form="a kernel release as `uname -r` prints it, in quotes",
        example="6.1.0-48-amd64"),
)
