# SPDX-License-Identifier: GPL-3.0-or-later
"""A key that holds for the whole site is read from all hosts, never from the first one."""

import re

import repo
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS

FIELDS = {key.field for key in KEYS if key.site_wide}
READS = re.compile(rf"""\[["']({'|'.join(sorted(FIELDS))})["']\]""")
# Who reads one by its name, and why that is no decision by one host.
EXCEPTIONS = {
    "src/railwright/lint.py": "names that each host gives are looked up",
    "src/railwright/leaves.py": "the name of one host's leaf",
    "src/railwright/upgrade/order.py": "the least of all",
    "src/railwright/report/isolate.py": "a field of a stored run",
    "src/railwright/report/topology.py": "a field of a stored run",
    "plugins/plugin_utils/spec/check_rules.py": "rules of one host",
    "plugins/plugin_utils/spec/check_jobs.py": "rules of one host",
    "plugins/plugin_utils/nccl_tests/plan_jobs.py": "compared there over all nodes",
    "plugins/module_utils/areas/system/agent.py": "the window of the node's own upgrades",
    "plugins/action/rdma_bench.py": "the plan refuses nodes that differ",
}


def test_limits_of_a_fleet_are_marked() -> None:
    assert {"drain_most", "drain_share", "drain_leaf_most", "upgrade_max_unavailable", "upgrade_canary", "upgrade_gate"} <= FIELDS


def test_nobody_reads_them_from_one_host() -> None:
    found = {name for name in repo.python("plugins/", "src/") if READS.search(repo.text(name))}
    assert found == set(EXCEPTIONS)
