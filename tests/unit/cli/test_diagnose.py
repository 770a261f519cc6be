# SPDX-License-Identifier: GPL-3.0-or-later
"""What `railwright diagnose` refuses before it asks a node, and what a node refuses to be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.facts import answer
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from railwright.cli.diagnose import _began_on
from railwright.cli.main import run

SITE = "rdma: {hosts: {node1: {}, node2: {}}, vars: {rdma_fabric: roce, rdma_mtu: 9000, upgrade_scheduler: SCHEDULER}}\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(SITE.replace("SCHEDULER", "none"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("words", "why"), [
    ([], "whose processes? allowed: JOB, or --process NAME"), (["12", "--process", "x"], "whose processes?"),
    (["12"], "JOB 12: upgrade_scheduler is none; allowed: slurm or kubernetes")])
def test_bad_input(site: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    assert run(["diagnose", "-i", str(site), *words]) == 64
    assert why in capsys.readouterr().err


def test_what_ras_said_is_json(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ras.txt").write_text("Job summary\n", encoding="utf-8")
    assert run(["diagnose", "-i", str(site), "--process", "x", "--ras", str(tmp_path / "ras.txt")]) == 64
    assert "is no JSON object" in capsys.readouterr().err


def asked(tmp_path: Path, **given: Any) -> Any:
    params = {"mode": "ranks", "scheduler": None, "job": None, "process": None, "uid": None, "pods": [], "seconds": 10, **given}
    return answer(TreeHost(str(tmp_path)), params, False)


@pytest.mark.parametrize("given", [
    {}, {"job": "12", "seconds": 0}, {"job": "12", "seconds": 601}, {"pods": ["../x"]},
    *({"mode": "job", "scheduler": "slurm", "job": job} for job in ("1,2", "--all", "12 13", "", "12\n", "12.0")),
    *({"mode": "job", "scheduler": "kubernetes", "job": job} for job in ("--all", "a/b/c", "A", "")),
    {"mode": "job", "scheduler": "none", "job": "12"}])
def test_a_question_that_no_node_takes(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(RailwrightError, match=r"allowed|needs"):
        asked(tmp_path, **given)


def test_a_node_without_the_job(tmp_path: Path) -> None:
    assert asked(tmp_path, job="12") == {"ranks": {"ranks": [], "counters": [], "xids": []}}


def test_nodes_that_slurm_took_out_of_the_job() -> None:
    """Seen in molecule/diagnose: with --no-kill a node that is down is in the queue's list no longer."""
    seen = {"node1": {"ranks": [{"began_on": text} for text in ("gpu-node[1-2]", None, "n[1-", "n[1-999999999]")]}}
    assert _began_on(seen) == {"gpu-node1", "gpu-node2"}
