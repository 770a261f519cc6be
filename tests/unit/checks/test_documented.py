# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that the code can give is in docs/reference/checks.md, and nothing else is."""

from __future__ import annotations

import re

from ansible_collections.railwright.rdma.plugins.module_utils.measure import counter_verdicts
from repo import ROOT

NAME = r"(?:rail|port|hca|node|ping|perftest|cluster|pci|firmware|nccl|topology|qos|ssh|gds|gpu|cpu)\.[a-z_0-9]+"
PLUGINS = ROOT / "plugins"
SOURCES = [
    *(path for path in (PLUGINS / "module_utils/checks").glob("*.py") if path.name != "next_command.py"),  # that one has beginnings
    *(PLUGINS / "module_utils/areas").rglob("*verdicts.py"),
    PLUGINS / "module_utils/areas/system/limits.py",
    *(PLUGINS / "module_utils/measure").rglob("*.py"),
    *(PLUGINS / "plugin_utils").rglob("*.py"),
    *(PLUGINS / "action").glob("*.py"),
    PLUGINS / "module_utils/entry/alone.py",
    ROOT / "src/railwright/nccl/log.py",
    ROOT / "src/railwright/burn_in/judge.py",
]


def test_the_table_of_checks_is_the_code() -> None:
    in_code = {name for path in SOURCES for name in re.findall(rf'"({NAME})"', path.read_text())}
    table = (ROOT / "docs/reference/checks.md").read_text()
    in_docs = {name for line in table.splitlines() if line.startswith("| `") for name in re.findall(rf"^\| `({NAME})`", line)}
    assert in_code == in_docs
    assert len(in_code) > 20


def test_every_judged_counter_is_documented() -> None:
    table = (ROOT / "docs/reference/checks.md").read_text()
    assert [name for name in counter_verdicts.FAULTS + counter_verdicts.SUSPECT if f"`{name}`" not in table] == []
