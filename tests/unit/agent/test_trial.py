# SPDX-License-Identifier: GPL-3.0-or-later
"""What each check would have drained, held against who else took the node out; and who may promote a check."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.agent.history import DAY, Moment
from ansible_collections.railwright.rdma.plugins.module_utils.agent.trial import failures
from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import Scope, choose_fixes
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import NODE_CODES, default_mode, derived_modes
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE
from railwright.agent.decide import Node
from railwright.agent.trial import AFTER_S, HOUR, PERSON, SLURM, TICKET, Failure, Outage, as_document, by_of, judge, tickets
from railwright.cli import agent_trial
from railwright.cli.agent_drain import breaker, holds, state_file
from railwright.cli.agent_hold import change, held_text
from railwright.cli.options import Format
from railwright.cli.session import Session
from railwright.writing import json_text, make_directories

BASE = {"rdma_fabric": "roce", "rdma_mtu": 9000}
T = 1_800_000_000.0
NOW = Moment(T, 30 * DAY, "b")


def record(kind: str, up: float, **more: str) -> dict[str, Any]:
    return {"kind": kind, "t": T, "up": up, "boot": "b", "id": "00000001", "check": "gpu.xid", "subject": "GPU 0", "status": "fail", **more}


def test_failures_of_a_history() -> None:
    found = failures([
        record("boot", 0.0), record("found", DAY, status="warn"), record("worse", 2 * DAY), record("cured", 3 * DAY),
        record("found", 4 * DAY, id="00000002", check="port.flaps"), record("found", 5 * DAY, id="00000002", check="port.flaps")], NOW)
    assert [(row["check"], row["began"] / DAY, row["ended"] and row["ended"] / DAY) for row in found] == [
        ("gpu.xid", 28.0, 27.0), ("port.flaps", 26.0, None)]


def test_each_check_has_what_it_would_have_drained_and_who_did() -> None:
    failed = [Failure("n1", "gpu.xid", T), Failure("n1", "gpu.xid", T + 5), Failure("n2", "gpu.xid", T), Failure("n3", "gpu.ecc", T),
              Failure("n4", "port.flaps", T)]
    outages = [Outage("n1", T + HOUR, SLURM, "Not responding"), Outage("n2", T + AFTER_S + 1, PERSON, "late"),
               Outage("n3", T - HOUR / 2, PERSON, "first"), Outage("n9", T, TICKET, "unseen")]
    found = judge(failed, outages, ["gpu.xid", "gpu.ecc", "port.flaps", "gpu.power"], 9, 30.0)
    rows = {row.code: (row.drained, dict(row.by), row.stayed, row.proven) for row in found.rows}
    assert rows["gpu.xid"] == (2, {SLURM: 1, PERSON: 0, TICKET: 0}, ("n2",), False)
    assert rows["gpu.ecc"] == (1, {SLURM: 0, PERSON: 1, TICKET: 0}, (), True)
    assert rows["gpu.power"] == (0, {SLURM: 0, PERSON: 0, TICKET: 0}, (), True)
    assert [outage.node for outage in found.missed] == ["n2", "n9"]


@pytest.mark.parametrize(("reason", "by"), [
    ("Not responding", SLURM), ("Low RealMemory (reported:1 < 2)", SLURM), ("Kill task failed", SLURM), ("RMA 4711", PERSON), ("", PERSON)])
def test_whose_a_reason_is(reason: str, by: str) -> None:
    assert by_of(reason) == by


@pytest.mark.parametrize(("text", "wrong"), [
    ("host,time\n", "line 1: has the columns host, time"), ("node,time\nn1,yesterday\n", "line 2: time: 'yesterday'"),
    ("node,time\nn7,2026-11-01\n", "line 2: node: 'n7' is not in the inventory")])
def test_bad_tickets(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        tickets(text, {"n1"})
    assert wrong in str(raised.value)


def test_tickets_are_read() -> None:
    assert tickets("node,time,reason\nn1,2026-11-01T08:00+00:00,fan\n", {"n1"}) == [Outage("n1", 1793520000.0, TICKET, "fan")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "site"
    (place / "group_vars/all").mkdir(parents=True)
    (place / "hosts.yml").write_text("all: {children: {rdma: {hosts: {n1: {}, n2: {}}}}}\n")
    (place / "group_vars/all/site.yml").write_text(yaml.safe_dump({
        **BASE, "agent_mode": "drain", "rdma_checks_release": "0.1.0", "rdma_rails": [
            {"name": "rail0", "match": {"pci": "0000:13:00.0"}}]}))
    return place


def call(*argv: str) -> int:
    """Run a verb in a process of its own, because what is read of an inventory is kept for one run; its output goes to ours."""
    done = subprocess.run([sys.executable, "-m", "railwright", *argv], check=False, capture_output=True, text=True, timeout=300)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def keep_trial(site: Path, document: dict[str, Any]) -> None:
    session = Session("agent", [site], None, Format.TEXT)
    file = state_file(session, "trial")
    make_directories(file.parent, 0o700)
    file.write_text(json_text(document))


def entries(site: Path) -> Any:
    return yaml.safe_load((site / agent_trial.FILE).read_text())["rdma_checks"]


def trial_of(stayed: tuple[str, ...] = (), days: float = 30.0, at: float | None = None) -> dict[str, Any]:
    failed = [Failure(name, "port.flaps", T) for name in ("n1", *stayed)]
    found = judge(failed, [Outage("n1", T, PERSON, "")], ["port.flaps"], 2, days)
    return as_document(found) | {"at": time.time() if at is None else at}


def test_a_check_is_promoted_by_its_trial_and_demoted_by_a_word(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_trial(site, trial_of())
    assert call("agent", "promote", "port.flaps", "-i", str(site)) == 0
    assert "next: railwright apply" in capsys.readouterr().out
    assert entries(site)["port.flaps"]["reason"] == "trial of 30 days on 2 nodes: would have drained 1, all taken out"
    assert call("agent", "promote", "gpu.ecc", "-i", str(site), "--reason", "3 of 3", "--by", "anna") == 0
    assert entries(site)["gpu.ecc"] == {"mode": "enforce", "reason": "3 of 3", "by": "anna"}
    assert call("agent", "demote", "port.flaps", "-i", str(site)) == 0
    assert entries(site) == {"port.flaps": "observe", "gpu.ecc": {"mode": "enforce", "reason": "3 of 3", "by": "anna"}}


@pytest.mark.parametrize(("document", "wrong"), [
    (None, "there is no trial of the last seven days"), (trial_of(at=T - 30 * 365 * DAY), "there is no trial of the last seven days"),
    (trial_of(days=3.0), "3 days of history, and seven are needed"), (trial_of(("n2",)), "would have drained n2, which nobody took out")])
def test_a_promotion_without_data_ends_64(
    site: Path, document: dict[str, Any] | None, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if document is not None:
        keep_trial(site, document)
    assert call("agent", "promote", "port.flaps", "-i", str(site)) == 64
    assert wrong in capsys.readouterr().err
    assert not (site / agent_trial.FILE).exists()


@pytest.mark.parametrize(("argv", "wrong"), [
    (("promote", "gpu.nvlnk"), "gpu.nvlnk is no check; did you mean gpu.nvlink?"), (("demote", "x"), "x is no check"),
    (("promote", "gpu.ecc", "--by", "anna"), "--reason and --by belong together"),
    (("hold", "gpu.x", "--reason", "y"), "gpu.x is no check"),
    (("hold",), "--reason: is not one line"), (("trial", "--for", "90d"), "allowed: 1d to 30d")])
def test_bad_input_is_one_line_and_64(site: Path, argv: tuple[str, ...], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("agent", *argv, "-i", str(site)) == 64
    said = capsys.readouterr().err
    assert [wrong in line for line in said.splitlines() if "warning:" not in line] == [True]


def test_entries_of_another_file_are_left_alone(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "group_vars/all/more.yml").write_text("rdma_checks: {gpu.xid: observe}\n")
    assert call("agent", "demote", "gpu.ecc", "-i", str(site)) == 64
    assert "rdma_checks of n1, n2 is set outside" in capsys.readouterr().err


def test_outages_are_what_others_closed_since_the_last_run(site: Path) -> None:
    session = Session("agent", [site], None, Format.TEXT)

    def run(**reasons: str) -> list[tuple[str, str]]:
        nodes = [Node(name, "drain", None, {"closed": name in reasons, "reason": reasons.get(name)}) for name in ("n1", "n2", "n3")]
        agent_trial.record_outages(session, nodes)
        return [(outage.node, outage.by) for outage in agent_trial.known_outages(session)]

    assert run(n1="RMA") == [], "nobody knows since when"
    assert run(n1="RMA", n2="Not responding", n3="railwright watch: gpu.xid") == [("n2", SLURM)]
    assert run(n2="Not responding") == [("n2", SLURM)]
    assert run(n1="RMA", n2="Not responding") == [("n2", SLURM), ("n1", PERSON)]


def test_a_hold_begins_while_a_drain_is_at_work(site: Path) -> None:
    """A gate of the drain may take an hour."""
    session = Session("agent", [site], None, Format.TEXT)
    with breaker(session), holds(session) as kept:
        change(kept, [], "driver 595", end=False)
    assert held_text(session).startswith("driver 595 (by ")
    with holds(session) as kept:
        change(kept, [], "", end=True)
    assert held_text(session) == ""


# The modes of a site.


def test_every_check_has_a_release_and_what_it_was_seen_on_or_nothing() -> None:
    assert {row.changed for row in BY_CODE.values()} == {"0.1.0"}
    assert default_mode("gpu.nvlink", "0.1.0").mode == "enforce"
    assert default_mode("gpu.nvlink", "0.0.9").why == "its judgement is of 0.1.0, and rdma_checks_release is 0.0.9"
    assert default_mode("gpu.nvlink", None).mode == "observe"
    assert default_mode("port.optics", "0.1.0").why == "it was never seen on hardware"
    assert default_mode("config.nccl", None).mode == "enforce"
    assert default_mode("gpu.of_next_year", "9.0.0").mode == "observe"
    assert "gpu.nvlink" in derived_modes({}, "0.1.0")["enforced"]
    assert set(derived_modes({}, "0.1.0")["enforced"]) < set(NODE_CODES)


def test_lint_says_which_checks_drain_nothing() -> None:
    values = {**BASE, "agent_mode": "drain", "rdma_checks_release": "0.1.0", "rdma_checks": {"port.optics": "enforce"}}
    _spec, findings = build_spec(values, "n")
    (text,) = [item.message for item in findings if item.key == "agent_mode"]
    assert "checks drain nothing, because it was never seen on hardware: " in text
    assert "port.optics" not in text


def test_an_area_in_observe_is_not_remediated() -> None:
    finding = {"key": "file /etc/nccl.conf", "kind": "setting", "area": "nccl", "severity": "major", "disruption": "none", "what": "x"}
    scope = Scope((), "minor", (), {"config.nccl": {"mode": "observe"}})
    assert choose_fixes({"findings": [finding]}, scope, {}, {})["left"][0]["cause"] == "mode"
    assert choose_fixes({"findings": [finding]}, Scope((), "minor", ()), {}, {})["fix"] == ["file /etc/nccl.conf"]
