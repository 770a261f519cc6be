# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories: exactly what ``railwright init`` writes."""

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS
from railwright.init import files as init_files


def files() -> dict[str, str]:
    """inventories/<fabric>/…"""
    return {f"inventories/{fabric}/{name}": text for fabric in FABRICS for name, text in init_files(fabric).items()}
