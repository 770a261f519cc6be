# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright bench` over a real ansible-playbook: polls as the runner really hands them over, the document on its way, the files left.

The steps' module is a stand-in that returns what the test hands it; that of the real role is tested on nodes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench_documents import document, training

from .test_cli_runs import COLLECTION, MODULE, Site

VERDICT = {"check": "nccl.busbw", "node": "", "hca": None, "port": None, "subject": "all_reduce of 4 GPUs", "status": "pass",
           "expected": 340.0, "found": 342.9, "message": "342.9 GB/s busbw"}
PROGRESS = {"collective": "all_reduce", "size": 1 << 28, "seconds": 12.4, "rows": 9, "busbw": 198.25}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path)
    for name in ("rdma_bench", "rdma_bench"):
        (tmp_path / COLLECTION / "plugins" / "modules" / f"{name}.py").write_text(MODULE)
    one.hosts("n1", "n2")
    yield one
    assert not [path.name for path in one.temporary.iterdir() if path.name.startswith("railwright-")]


def playbook(site: Site, name: str, action: str, judged: dict[str, Any], passes: str = "true") -> None:
    """Poll on one node until the third try, judge once, and the assertion that ends the roles."""
    full = f"railwright.rdma.{action}"
    once = {"when": "inventory_hostname == 'n1'"}
    tasks = [
        {"name": "Wait for its end", full: {"result": {"progress": PROGRESS}}, "register": "polled",
         "until": "polled.attempts | default(9) >= 3", "retries": 5, "delay": 0, **once},
        {"name": "Judge the run", full: {"result": judged}, "run_once": True},
        {"name": "Pass only where no verdict failed", "ansible.builtin.assert": {"that": passes, "quiet": True}},
    ]
    whole = [{"name": name, "hosts": "rdma", "gather_facts": False, "tasks": tasks}]
    (site.directory / COLLECTION / "playbooks" / f"{name}.yml").write_text(json.dumps(whole))


def test_progress_result_and_report(site: Site) -> None:
    playbook(site, "nccl_tests", "rdma_bench", {"bench": document(), "verdicts": [VERDICT]})
    playbook(site, "ddp_benchmark", "rdma_bench", {"ddp": training(), "verdicts": []})
    code, out, err = site.run("bench", "-i", "hosts.yml", "--ddp")
    assert (code, "Traceback" in err) == (0, False)
    assert any(line.endswith("bench: n1: all_reduce: 256 MiB after 12 s, 198.2 GB/s busbw") for line in err.splitlines())
    assert "busbw: 342.90 GB/s on the largest sizes; floor 340.00" in out
    assert "5120.5" in out
    report = Path(out.splitlines()[-1].removeprefix("report: "))
    assert "busbw-all_reduce.svg" in report.read_text()
    ET.parse(report.parent / "busbw-all_reduce.svg")
    assert (report.parent / "run.json").stat().st_mode & 0o077 == 0


def test_a_failed_verdict_is_1_on_nodes_that_are_ok(site: Site) -> None:
    bad = VERDICT | {"status": "fail", "expected": 400.0}
    playbook(site, "nccl_tests", "rdma_bench", {"bench": document(), "verdicts": [bad]}, passes="false")
    code, found = site.json("bench", "-i", "hosts.yml")
    assert code == 1
    assert [node["status"] for node in found["nodes"].values()] == ["ok", "ok"]
    assert [item["status"] for item in found["verdicts"]] == ["fail"]
    assert found["bench"]["runs"][0]["rows"][-1]["out_of_place"]["busbw"] == 345.5


def test_a_bad_option_contacts_no_node(site: Site) -> None:
    playbook(site, "nccl_tests", "rdma_bench", {"bench": document(), "verdicts": []})
    code, out, err = site.run("bench", "-i", "hosts.yml", "--purpose", "fast")
    assert (code, out) == (64, "")
    assert err.startswith("--purpose: nccl_tests_purpose: fast: is not a value")
    assert "Wait for its end" not in err
