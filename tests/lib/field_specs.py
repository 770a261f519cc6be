# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs for tests of nodes, which speak of the Spec's fields (``mtu``) and not of the inventory's names (``rdma_mtu``)."""

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec import validate
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS

NAMES = {key.field: key.name for key in KEYS}


def build_spec(fields: Mapping[str, Any], host: str) -> tuple[Spec | None, list[Finding]]:
    """``validate.build_spec``, with each field under the name that an inventory has for it."""
    return validate.build_spec({NAMES.get(field, field): value for field, value in fields.items()}, host)
