# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan and facts over our own ssh say what they say by Ansible: the nodes of tests/integration/test_scan_equal.py, which has drift."""

from __future__ import annotations

import json

from tests.integration.test_scan_equal import NEEDS_ROOT, Site, both, nodes

pytestmark = NEEDS_ROOT
__all__ = ["nodes"]


def test_a_plan_is_the_same(nodes: Site) -> None:
    found = both(nodes, "plan")
    assert found["clean"]["changes"] == []
    assert any("vm.swappiness" in json.dumps(change) for change in found["drift-sysctl"]["changes"])


def test_facts_are_the_same(nodes: Site) -> None:
    """The document has the nodes that answered; of the others is said what befell them."""
    code, found, said = nodes.run("auto", "facts")
    expected_code, expected, expected_said = nodes.run("ansible", "facts")
    assert json.dumps(found) == json.dumps(expected)
    assert code == expected_code
    assert fates(said) == fates(expected_said)
    assert {"clean", "sudo", "slow"} <= set(found)


def fates(said: str) -> set[str]:
    words = [line.split(": ") for line in said.splitlines()]
    return {": ".join(parts[:2]) for parts in words if parts[1:2] in (["failed"], ["unreachable"])}
