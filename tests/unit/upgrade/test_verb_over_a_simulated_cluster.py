# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright upgrade` from its command line to its document; only the playbooks are played by a double."""

import json
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

# First of all, as in a real run: what the verbs import is there before Ansible's own importer takes over.
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import ExitCode
from simulated_cluster import Cluster, Machine, Playing, Switch, drain_of
from verb_said import said_by

SITE = "rdma_fabric: roce\nrdma_mtu: 9000\nupgrade_scheduler: slurm\nupgrade_max_unavailable: 2\nupgrade_scheduler_host: localhost\n"
RELEASE = 'name: "2026-11"\npins:\n  rdma_stack_pins: {rdma-core: "52.0-1"}\n'
NODES = ("n1", "n2", "n3")
Run = Callable[..., tuple[int, str, str]]


class Plays:
    """What run_playbook is to the verb."""

    def __init__(self) -> None:
        self.cluster = Cluster({name: Machine() for name in NODES})
        self.wrong: dict[tuple[str, str], tuple[str, str]] = {}
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []
        self.stop_at = ""
        self.silent = ""

    def __call__(
        self, playbook: str, _inventory: Path, limit: str, variables: Mapping[str, Any], listener: object, _echo: object
    ) -> RunOutcome:
        assert listener is not None
        step = "preflight" if playbook == "upgrade_preflight" else variables.get("rdma_upgrade_step", playbook)
        self.asked.append((step, limit, variables))
        if step == self.stop_at:
            raise KeyboardInterrupt
        if step == "preflight":
            return RunOutcome({name: self.look(name) for name in limit.split(",") if name != self.silent})
        playing = Playing(self.cluster, Switch())
        playing.wrong = self.wrong
        return playing.execute({"scheduler": "inspect"}.get(step, step), limit.split(","), variables)

    def look(self, name: str) -> HostOutcome:
        status, message = self.wrong.get(("preflight", name), ("ok", ""))
        machine = self.cluster.machines[name]
        upgrade = {
            "pending": machine.version == "old",
            "plan": ["packages|package rdma-core"],
            "classes": ["restart"],
            "before": {"kernel": "old"},
            "packages": [{"name": "rdma-core", "from": "44.0-2", "to": "52.0-1"}],
            "scheduler": drain_of(machine),
            "lease": {"run": "RUN", "step": "preflight"},
        }
        return HostOutcome(name, status, message=message, upgrade=upgrade if status == "ok" else None)


@pytest.fixture
def plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plays:
    monkeypatch.chdir(tmp_path)
    rails = 'rdma_rails: [{name: rail0, match: {mac: "02:00:00:00:0N:00"}, address: 198.51.100.N/25}]\n'
    hosts = "".join(f"{name}:\n" + textwrap.indent(rails.replace("N", name[1]), "  ") for name in NODES)
    Path("inv/group_vars").mkdir(parents=True)
    Path("inv/hosts.yml").write_text("rdma:\n  hosts:\n" + textwrap.indent(hosts, "    "))
    Path("inv/group_vars/all.yml").write_text(SITE)
    Path("release.yml").write_text(RELEASE)
    double = Plays()
    from railwright.cli import upgrade_run

    monkeypatch.setattr(upgrade_run, "run_playbook", double)
    return double


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        said = said_by(capfd, "upgrade", "-i", "inv", "--yes", *arguments)
        assert "Traceback" not in said.err
        return said

    return command


def test_from_the_old_set_to_the_new_one(plays: Plays, run: Run) -> None:
    code, out, err = run("--to", "release.yml", "--consent", "restart", "--format", "json")
    assert code == ExitCode.OK, err
    found = json.loads(out)
    assert {name: node["state"] for name, node in found["nodes"].items()} == dict.fromkeys(NODES, "done")
    assert found["batches"] == [["n1"], ["n2", "n3"]]
    assert found["nodes"]["n1"]["before"] == {"kernel": "old"}
    assert found["nodes"]["n1"]["after"] == {"kernel": "new"}
    assert found["inventory_changes"] == [
        {"key": "rdma_stack_pins", "found": None, "write": {"rdma-core": "52.0-1"}, "nodes": list(NODES)}
    ], "else drift reports the release"
    steps = [step for step, _limit, _variables in plays.asked]
    assert steps[0] == "preflight"
    assert steps[-1] == "release"
    step, limit, variables = plays.asked[1]
    assert (step, limit) == ("drain", "n1")
    assert variables["rdma_stack_pins"] == {"rdma-core": "52.0-1"}
    assert variables["rdma_consent"] == ["restart"]
    assert variables["rdma_upgrade_run"] == variables["rdma_run_id"] == found["run"]
    assert "upgrade: n1: draining (0 of 3 done" in err

    code, out, _err = run("--status", "--format", "json")
    assert code == ExitCode.OK
    assert json.loads(out)["finished"]
    code, out, err = run("--resume")
    assert code == ExitCode.USAGE
    assert "has come to its end; there is nothing to resume" in err

    code, out, err = run("--to", "release.yml")
    assert code == ExitCode.OK, err
    assert "has the whole set already" in out
    assert [step for step, _limit, _variables in plays.asked].count("drain") == 2, "who has the set already is not drained"


def test_nothing_begins_when_one_node_cannot(plays: Plays, run: Run) -> None:
    plays.wrong = {("preflight", "n2"): ("failed", "needs consent to reboot"), ("preflight", "n3"): ("unreachable", "no route")}
    code, out, err = run("--to", "release.yml")
    assert code == ExitCode.UNREACHABLE
    assert "n2: needs consent to reboot" in err
    assert "n3: no route" in err
    assert "nothing was changed: n2, n3 cannot be upgraded" in out
    assert [(step, limit) for step, limit, _variables in plays.asked] == [("preflight", "n1,n2,n3"), ("release", "n1,n2")]
    nodes = json.loads(run("--status", "--format", "json")[1])["nodes"]
    assert {name: (node["state"], node["status"], node["message"]) for name, node in nodes.items()} == {
        "n1": ("waiting", "ok", ""),
        "n2": ("waiting", "failed", "needs consent to reboot"),
        "n3": ("waiting", "unreachable", "no route"),
    }, "whoever asks later is told why, too"
    plays.wrong, plays.silent = {}, "n2"
    code, _out, err = run("--to", "release.yml")
    assert code == ExitCode.FAILED
    assert "n2: the run ended before this node" in err
    assert plays.asked[-1][:2] == ("release", "n1,n3")
    plays.silent = ""
    assert run("--to", "release.yml")[0] == ExitCode.OK, "there is nothing to resume"


def test_nothing_begins_without_room(plays: Plays, run: Run) -> None:
    plays.cluster.machines["n2"].drained_by = plays.cluster.machines["n3"].drained_by = "other"
    code, out, _err = run("--to", "release.yml")
    assert code == ExitCode.FAILED
    assert "upgrade_max_unavailable allows 2 away, and so many are already: n2 drained (bad fan), n3 drained (bad fan)" in out


def test_stopped_and_resumed(plays: Plays, run: Run) -> None:
    plays.stop_at = "validate"
    code, _out, err = run("--to", "release.yml", "--consent", "restart")
    assert code == ExitCode.INTERRUPTED
    assert "go on with: railwright upgrade -i inv --resume" in err
    plays.stop_at = ""

    code, out, _err = run("--status")
    assert "validating" in out
    assert "nobody is at work on it; go on with: railwright upgrade -i inv --resume" in out
    code, _out, err = run("--to", "release.yml")
    assert code == ExitCode.FAILED
    assert "is not finished: go on with railwright upgrade -i inv --resume, or give it up with --take-over" in err
    Path("release.yml").write_text(RELEASE.replace("52.0-1", "53.0-1"))
    code, _out, err = run("--resume", "--to", "release.yml")
    assert code == ExitCode.USAGE
    assert "with another content than release.yml" in err

    before = len(plays.asked)
    code, out, err = run("--resume")
    assert code == ExitCode.OK, err
    again = plays.asked[before:]
    assert [(step, limit) for step, limit, _variables in again[:3]] == [
        ("scheduler", "n1,n2,n3"),
        ("lease", "n1,n2,n3"),
        ("change", "n1"),  # who knows what became of it meanwhile
    ]
    assert again[3][:2] == ("validate", "n1")
    assert again[0][2]["rdma_consent"] == ["restart"]
    assert again[0][2]["rdma_stack_pins"] == {"rdma-core": "52.0-1"}
    assert "3 nodes: 3 done" in out


def test_a_node_that_fails_is_reported_with_what_helps(plays: Plays, run: Run) -> None:
    plays.wrong = {("change", "n2"): ("failed", "no space left")}
    code, out, _err = run("--to", "release.yml", "--rollback-failed")
    assert code == ExitCode.FAILED
    assert "rolled back" in out
    assert plays.asked[-1][0] == "validate"
    assert "rdma_stack_pins" not in plays.asked[-1][2], "it is judged by its inventory again"
    assert "give it back to its jobs as it is: scontrol update nodename=n2 state=resume" in out


def test_a_second_controller_on_this_machine(plays: Plays, run: Run) -> None:
    from railwright.upgrade.journal import locked

    with locked(Path("inv"), "20261121T180000Z-upgrade"):
        code, _out, err = run("--to", "release.yml")
    assert code == ExitCode.FAILED
    assert "inv is being changed on this controller already, by process " in err
    assert ", run 20261121T180000Z-upgrade" in err
    assert err.count("\n") == 1
    assert not plays.asked


def test_a_dry_run_takes_nothing(plays: Plays, run: Run, state_home: Path) -> None:
    code, out, _err = run("--to", "release.yml", "--dry-run")
    assert code == ExitCode.OK
    assert [step for step, _limit, _variables in plays.asked] == ["preflight"]
    assert plays.asked[0][2]["rdma_upgrade_dry"] is True
    assert "rdma-core 44.0-2 -> 52.0-1" in out
    assert "3 nodes of 3 to upgrade, in 2 batches" in out
    assert not (state_home / "railwright" / "upgrades").exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (RELEASE + "  rdma_mtu: 9000\n", "release.yml:4: rdma_mtu: is the inventory's"),
        ('name: "1"\npins:\n  rdma_stack_version: "3.2.3"\n', "release.yml:3: rdma_stack_version: 3.2.3: is for a vendor's stack"),
    ],
)
def test_a_bad_release_touches_no_node(text: str, line: str, plays: Plays, run: Run) -> None:
    """The second one is good by itself, and not with this inventory: what lint sees is the pins in force."""
    Path("release.yml").write_text(text)
    with Path("inv/group_vars/all.yml").open("a") as stream:
        stream.write("rdma_stack: inbox\n")
    code, _out, err = run("--to", "release.yml")
    assert code == ExitCode.USAGE
    assert line in err
    assert not plays.asked


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "--to is missing; allowed: a release file (or --resume, --status)"),
        (("--resume", "--status"), "--resume and --status are two things; allowed: one of them"),
        (("--resume", "--limit", "n1"), "--limit has no meaning with --resume"),
        (("--status", "--take-over"), "--take-over has no meaning with --status"),
        (("--status",), "inv was never upgraded from this controller"),
        (("--resume",), "there is no upgrade to resume on this controller"),
    ],
)
def test_usage(arguments: tuple[str, ...], line: str, plays: Plays, run: Run) -> None:
    code, _out, err = run(*arguments)
    assert code == ExitCode.USAGE
    assert line in err
    assert not plays.asked
