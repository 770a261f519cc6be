# SPDX-License-Identifier: GPL-3.0-or-later
"""``validate --area``: of all verdicts of a run only those of some families are said and counted. The run itself is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench_documents import event, stats
from railwright.events import Collector, RunOutcome
from verb_said import said_by

CHECKS = {"port.state": "pass", "qos.pfc": "fail", "perftest.write_bw": "warn"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the playbook was given."""
    given: list[dict[str, Any]] = []

    def validate(_session: Any, extra: Mapping[str, Any], _transport: Any) -> RunOutcome:
        given.append(dict(extra))
        collector = Collector()
        verdicts = [{"check": check, "node": "n1", "hca": None, "port": None, "subject": "rail0", "status": status, "expected": 1,
                     "found": 2, "message": "m"} for check, status in CHECKS.items()]  # fmt: skip
        for item in (event("runner_on_ok", "n1", {"verdicts": verdicts}, "railwright.rdma.rdma_cluster"), stats("n1")):
            collector.handle(item)
        return collector.finish()

    monkeypatch.setattr("railwright.cli.validate.judged_by_validate", validate)
    return given


@pytest.mark.parametrize(("words", "code", "said", "variables"), [
    ((), 1, set(CHECKS), {}),
    (("--area", "port"), 0, {"port.state"}, {"validate_perftest": False}),
    (("--area", "port", "--area", "qos"), 1, {"port.state", "qos.pfc"}, {"validate_perftest": False}),
    (("--area", "perftest"), 0, {"perftest.write_bw"}, {}),
    (("--area", "port", "--perftest"), 0, {"port.state"}, {"validate_perftest": True}),
])  # fmt: skip
def test_the_families_that_were_asked_for(
    words: tuple[str, ...], code: int, said: set[str], variables: dict[str, Any], asked: list[dict[str, Any]], tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    site = tmp_path / "hosts.json"
    site.write_text(json.dumps({"all": {"children": {"rdma": {"vars": {"rdma_fabric": "roce", "rdma_mtu": 9000}, "hosts": {"n1": {}}}}}}))
    ran = said_by(capfd, "validate", "-i", str(site), "--format", "json", *words)
    assert ran.code == code, ran.err
    assert ({verdict["check"] for verdict in json.loads(ran.out)["verdicts"]}, asked) == (said, [variables])


def test_a_family_that_is_none(asked: list[dict[str, Any]], capfd: pytest.CaptureFixture[str]) -> None:
    ran = said_by(capfd, "validate", "-i", "inventories/roce", "--area", "network")
    assert (ran.code, asked) == (64, [])
    assert "--area network: no check's code begins so; allowed: accelerator, aiacc, cluster, " in ran.err
