# SPDX-License-Identifier: GPL-3.0-or-later
"""railwright: provision, prove and keep RDMA GPU nodes."""

__version__ = "0.1.0"
