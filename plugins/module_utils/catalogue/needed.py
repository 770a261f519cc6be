# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks whose answer `railwright check` needs before it ends 0: those that judge each accelerator and each RDMA port of a node.

Where one of them is ``unknown`` and nothing failed, `check` ends 4. A check is not in this set if its evidence needs root (the kernel's
log, configuration space, VPD) or a tool that a healthy node may lack (ibv_devinfo, modinfo): `check` promises to work without both. The
column "needed" of docs/reference/checks.md comes from here. Source: choice, 2026-11-29.
"""

NEEDED = frozenset((
    "accelerator.judged", "erdma.port", "gpu.answers", "port.link_layer", "port.phys_state", "port.rate", "port.state",
))
