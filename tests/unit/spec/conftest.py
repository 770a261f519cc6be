# SPDX-License-Identifier: GPL-3.0-or-later
"""Host variables for spec tests: a good RoCE host, with keys replaced or removed."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

RAIL = {"name": "rail0", "match": {"mac": "02:00:00:00:01:00"}, "address": "198.51.100.11/25"}
Judge = Callable[..., tuple[Spec | None, list[Finding]]]


@pytest.fixture
def judge() -> Judge:
    """build_spec of the good host with these keys instead; a key that is ... is left out."""

    def build(**keys: Any) -> tuple[Spec | None, list[Finding]]:
        values: dict[str, Any] = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": [RAIL], **keys}
        return build_spec({name: value for name, value in values.items() if value is not ...}, "n1")

    return build
