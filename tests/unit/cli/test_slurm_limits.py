# SPDX-License-Identifier: GPL-3.0-or-later
"""--limit slurm:…, with programs in place of Slurm's that replay recorded answers. Real ones: molecule/drain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import railwright.run
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import model
from railwright.cli.main import run
from railwright.cli.options import Format
from railwright.cli.session import Conclusion, Session
from railwright.events import RunOutcome
from railwright.exitcodes import ExitCode, InputError

SITE = """
rdma: {hosts: {n1: , n2: , n3: , n4: {upgrade_node_name: gpu-4}}, vars: {rdma_fabric: roce, rdma_mtu: 9000}}
rack1: {hosts: {n1: , n2: }}
"""
# Slurm 22.05's forms: the queue of molecule/diagnose, a reservation as scontrol prints it (src/api/reservation_info.c), sinfo's error.
SQUEUE = r"""
case "$*" in
  *--jobs=4711*) printf '4711|RUNNING|n[1-2]|alice\n' ;;
  *--jobs=12*) printf '12_1|RUNNING|n1|bob\n12_2|RUNNING|gpu-4|bob\n12_[3-9]|PENDING||bob\n' ;;
  *--jobs=13*) printf '13|RUNNING|n1,login[7-9]|bob\n' ;;
  *--jobs=14*) printf '14|RUNNING|n[1-999999999]|bob\n' ;;
  *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;
esac
"""
SCONTROL = r"""
case "$5" in
  maint) printf 'ReservationName=maint StartTime=2026-11-20T10:00:00 EndTime=2027-11-20T10:00:00 Duration=365-00:00:00 '
         printf 'Nodes=n[2-3] NodeCnt=2 CoreCnt=2 Features=(null) PartitionName=rdma Flags=MAINT TRES=cpu=2\n' ;;
  lies) printf 'ReservationName=lies Comment= Duration=1 Nodes=n1 NodeCnt=1\n' ;;
  *) echo "Reservation $5 not found" >&2; exit 1 ;;
esac
"""
SINFO = r"""
case "$*" in
  *--states=drain*) printf 'n3\nn3\ngpu-4\n' ;;
  *--states=idle*) : ;;
  *) echo "sinfo: error: Bad state string: 'x'" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(model, "TOOL_DIRECTORIES", (str(tmp_path / "bin"),))
    (tmp_path / "bin").mkdir()
    for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL), ("sinfo", SINFO)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/asked\n{text}", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "hosts.yml").write_text(SITE, encoding="utf-8")
    return tmp_path / "hosts.yml"


@pytest.mark.parametrize(("limit", "hosts"), [
    ("slurm:job=4711", "n1 n2"), ("slurm:job=12", "n1 n4"), ("slurm:reservation=maint", "n2 n3"), ("slurm:state=drain", "n3 n4"),
    ("slurm:state=drain:!n3", "n4"), ("rdma:!slurm:job=4711", "n3 n4"), ("rack1,&slurm:reservation=maint", "n2"),
    ("rack1:!slurm:state=idle", "n1 n2"), ("slurm:nodes=gpu-4,n1", "n1 n4"), ("slurm:job=4711,slurm:state=drain:!n[1-2]", "n3 n4")])
def test_hosts_of_a_slurm_limit_by_a_stand_in_with_recorded_answers(site: Path, limit: str, hosts: str) -> None:
    session = Session("facts", site, limit, Format.TEXT)
    assert " ".join(session.judge().specs) == hosts
    session.judge()
    asked = (site.parent / "asked").read_text(encoding="utf-8").split() if "nodes=" not in limit else []
    assert len(asked) == len(set(asked)), "once in a run"
    assert session.record(Conclusion({}, {}, ExitCode.OK)).limit == limit, "as it was typed"


@pytest.mark.parametrize(("limit", "said"), [
    ("slurm:job=13", "login7, login8, login9: no host of group rdma has this name or upgrade_node_name"),
    ("slurm:job=99", "Invalid job id specified"), ("slurm:job=14", "cannot be read"),
    ("slurm:reservation=none", "Reservation none not found"),
    ("slurm:reservation=lies", "cannot be read"), ("slurm:state=nope", "Bad state string"), ("slurm:state=idle", "matches no host"),
    ("slurm:job=--all", "allowed behind slurm:"), ("slurm:state=a;b", "allowed behind slurm:"),
    ("slurm:partition=x", "allowed behind slurm:"),
    ("slurm:reservation=-x", "allowed behind slurm:"), ("slurm:nodes=n[1-", "is no host or group"), ("slurm:nodes=n9", "n9: no host of")])
def test_a_slurm_limit_that_is_refused_by_a_stand_in_with_recorded_answers(
    site: Path, limit: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert run(["lint", "-i", str(site), "--limit", limit]) == 64
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.startswith(f"railwright: error: --limit {limit}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_without_slurm(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for program in (site.parent / "bin").iterdir():
        program.unlink()
    assert run(["lint", "-i", str(site), "--limit", "slurm:job=4711"]) == 64
    printed = capsys.readouterr().err
    assert "squeue is not on this host" in printed
    assert "upgrade_scheduler_host" in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("host", ["{n1: {upgrade_scheduler_host: n1}, n2: }", "{n1: {upgrade_scheduler_host: nobody}}"])
def test_where_slurm_is_asked_is_one_host_of_the_inventory(site: Path, host: str) -> None:
    site.write_text(f"rdma: {{hosts: {host}, vars: {{rdma_fabric: roce, rdma_mtu: 9000}}}}\n", encoding="utf-8")
    with pytest.raises(InputError, match="allowed: one upgrade_scheduler_host for all nodes"):
        Session("facts", site, "slurm:job=4711", Format.TEXT).judge()


def test_ansible_gets_the_nodes_by_name(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows neither form of ours."""
    given: list[Any] = []
    monkeypatch.setattr(railwright.run, "run_playbook", lambda *words: given.append(words[6]) or RunOutcome())
    Session("facts", site, "slurm:nodes=n[1-2]", Format.TEXT).run("facts")
    Session("facts", site, "n1,n2", Format.TEXT).run("facts")
    assert given == [["n1", "n2"], None]
