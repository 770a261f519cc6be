# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook that drains what a search isolated: Ansible, the role and the site's own commands are real; no node is contacted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from railwright.cli.options import Format
from railwright.cli.session import Session
from railwright.isolate.drain import check_drain, drain

LOG = "import sys; open(sys.argv[1], 'a').write('|'.join(sys.argv[2:]) + '\\n')"
# As the drain of n3 alone is refused.
REFUSE = LOG + "; sys.exit(sys.argv[3] == 'n3' and sys.exit('no such node'))"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Nodes at addresses of documentation (RFC 5737), which nobody answers at."""
    log = str(tmp_path / "log")
    words = {name: [sys.executable, "-S", "-c", code, log, name, "{node}", "{reason}"]
             for name, code in (("drain", REFUSE), ("drained", LOG), ("undrain", LOG))}  # fmt: skip
    everybody: dict[str, Any] = {
        "rdma_fabric": "roce", "rdma_mtu": 9000, "upgrade_scheduler": "command",
        **{f"upgrade_{name}_command": given for name, given in words.items()},
        "rdma_rails": [{"name": "rail0", "match": {"pci": "0000:01:00.0"}}],
    }  # fmt: skip
    hosts = {f"n{number}": {"ansible_host": f"192.0.2.{number}"} for number in (1, 2, 3, 4)}
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"vars": everybody, "children": {"rdma": {"hosts": hosts}}}}))
    return path


def test_each_node_is_drained_with_its_reason(site: Path) -> None:
    session = Session("isolate", [site], None, Format.TEXT)
    check_drain(session.judge())
    reasons = {name: f"railwright isolate {session.id}: {rail} 41 of 392 Gb/s with 3 partners" for name, rail in
               (("n2", "rail2"), ("n3", "rail0"), ("n4", "rail7"))}  # fmt: skip
    found = drain(session, reasons)
    assert [(item.node, item.state) for item in found] == [("n2", "drained"), ("n3", "failed"), ("n4", "drained")]
    assert "upgrade_drain_command ended with 1 for n3: no such node" in found[1].text
    assert [item.reason for item in found if item.state == "drained"] == [reasons["n2"], reasons["n4"]]
    said = (site.parent / "log").read_text().splitlines()
    assert [line for line in said if line.startswith("drain|")] == [f"drain|{name}|{reason}" for name, reason in reasons.items()]
    assert not [line for line in said if "n1" in line or line.startswith("undrain")]
