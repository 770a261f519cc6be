# SPDX-License-Identifier: GPL-3.0-or-later
"""Each body that a question over our own ssh may name is in the code that a node gets."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import ALONE, MODULES
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import needed_files

BODIES = {*(row[1] for row in MODULES.values()), *ALONE.values()}


@pytest.mark.parametrize("body", sorted(BODIES))
def test_the_body_is_sent(body: str) -> None:
    assert (body[1:].replace(".", "/") if body.startswith(".") else f"entry/{body}") + ".py" in needed_files()
