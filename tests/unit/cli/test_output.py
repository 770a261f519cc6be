# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and lines: bounded by a terminal's width, whole in a pipe, and never interpreted."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree
from node_trees import NODES
from railwright.cli import changes, console, verdicts
from railwright.cli.facts import show_facts
from railwright.cli.plan import conclusion, show_plan
from railwright.events import HostOutcome, RunOutcome


class Screen(io.StringIO):
    """A terminal of some width, as rich sees it."""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    terminal = Console(file=screen, force_terminal=True, width=80, color_system=None, highlight=False, markup=False)
    monkeypatch.setattr(console, "out", lambda: terminal)
    return screen


@pytest.fixture
def pipe(capsys: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    console.out.cache_clear()
    yield capsys
    console.out.cache_clear()


def change(**more: Any) -> dict[str, Any]:
    base = {"key": "k", "area": "network", "what": "MTU of rail0 (eth1)", "before": 1500, "after": 9000, "disruption": "link"}
    return base | more


def verdict(**more: Any) -> dict[str, Any]:
    base = {"check": "port.state", "node": "gpu-node-0001", "hca": "mlx5_0", "port": 1, "subject": "rail0 (ens1f0np0)", "status": "fail"}
    return base | {"expected": "ACTIVE", "found": "DOWN", "message": "the port is down: " + "inspect the cable " * 5} | more


def test_a_terminal_is_never_overrun(narrow: Screen) -> None:
    changes.change_table([change(what="x" * 120, before="b" * 200, after="a" * 200)])
    verdicts.show_verdicts([verdict()], passes=False)
    assert max(len(line) for line in narrow.getvalue().splitlines()) <= 80


def test_a_narrow_verdict_still_says_everything(narrow: Screen) -> None:
    verdicts.show_verdicts([verdict(message="down")], passes=False)
    text = " ".join(narrow.getvalue().split())
    assert "fail gpu-node-0001 port.state mlx5_0 port 1 rail0 (ens1f0np0) expected ACTIVE, found DOWN down" in text


def test_a_pipe_gets_whole_lines(pipe: pytest.CaptureFixture[str]) -> None:
    changes.change_table([change(what="x" * 300)])
    lines = pipe.readouterr().out.splitlines()
    assert any("x" * 300 in line and line.endswith("link") for line in lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_node_text_is_neither_markup_nor_control(pipe: pytest.CaptureFixture[str]) -> None:
    verdicts.show_verdicts([verdict(message="[red]\x1b[2J:smile:", subject="a\nb")], passes=False)
    out = pipe.readouterr().out
    assert "[red]\\u001b[2J:smile:" in out
    assert "a\\nb" in out
    assert "\x1b" not in out


def test_areas_stay_together_in_the_order_of_the_plan() -> None:
    plan = [change(area=area, what=what) for area, what in (("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5))]
    assert [(item["area"], item["what"]) for item in changes.by_area(plan)] == [("b", 1), ("b", 3), ("a", 2), ("a", 5), ("c", 4)]


def test_failures_come_first_and_an_odd_status_is_one() -> None:
    statuses = ["pass", "unknown", "odd", "warn", "fail", "unproven", "skipped"]
    items = [verdict(status=status, check=f"{number}") for number, status in enumerate(statuses)]
    assert [item["status"] for item in verdicts.ordered(items)] == ["odd", "fail", "warn", "unknown", "unproven", "skipped", "pass"]
    assert verdicts.counts(items) == {"fail": 2, "warn": 1, "unknown": 1, "unproven": 1, "skipped": 1, "pass": 1}


def test_a_node_is_called_by_its_worst_verdict() -> None:
    none = verdicts.counts([])
    assert verdicts.worst(none | {"fail": 19, "unknown": 1, "pass": 30}) == "fail"
    assert verdicts.worst(none | {"unproven": 1, "pass": 30}) == "unproven"
    assert verdicts.worst(none | {"skipped": 2, "pass": 30}) == "ok"


def test_what_many_nodes_share_is_shown_once() -> None:
    mtu, route = change(), change(key="r", what="route")
    address = [change(key="a", what="address", after=f"10.0.0.{number}") for number in range(3)]
    nodes = {f"n{number}": [mtu, address[number]] for number in range(3)}
    nodes["n2"].append(route)
    assert changes.sections(nodes) == [
        (["n0", "n1", "n2"], [mtu]),
        (["n0"], [address[0]]),
        (["n1"], [address[1]]),
        (["n2"], [address[2], route]),
    ]


def test_a_value_that_differs_is_not_folded() -> None:
    assert len(changes.sections({"n0": [change(before=1500)], "n1": [change(before=4200)]})) == 2


def test_of_many_nodes_a_change_is_one_row_whatever_its_values(pipe: pytest.CaptureFixture[str]) -> None:
    nodes = {f"n{number:03d}": [change(), change(key="a", what="address", after=f"10.0.0.{number}")] for number in range(400)}
    nodes["n007"].append(change(key="r", what="route"))
    changes.show_changes({name: {"changes": own} for name, own in nodes.items()})
    lines = [" ".join(line.split()) for line in pipe.readouterr().out.splitlines()]
    assert lines[2:] == [
        "n[000-399] (400) network MTU of rail0 (eth1) 1500 9000 link",
        "n[000-399] (400) network address 1500 (differs) link",
        "n007 network route 1500 9000 link",
        "(differs): another value on each node; --limit NODE shows its own, --format json has all.",
    ]


@pytest.mark.parametrize(("statuses", "line"), [
    ({"n1": ("failed", False)}, "1 node (1 failed): not planned, 1 problem"),
    ({"n1": ("unreachable", False)}, "1 node (1 unreachable): not planned, 1 problem"),
    ({"n1": ("failed", True)}, "1 node (1 failed): 0 changes, 1 problem"),
    ({"n1": ("failed", False), "n2": ("ok", True)}, "2 nodes (1 failed): 0 changes, 1 node not planned, 2 problems"),
    ({"n1": ("unreachable", False), "n2": ("ok", True)}, "2 nodes (1 unreachable): 0 changes, 2 problems"),
])  # fmt: skip
def test_a_node_that_was_not_planned_has_no_count_of_changes(
    statuses: dict[str, tuple[str, bool]], line: str, pipe: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    problem = {"area": "preflight", "subject": "systemd", "message": "is not what this node was started with"}
    hosts = {name: HostOutcome(name, status, planned=planned, problems=[problem]) for name, (status, planned) in statuses.items()}
    end = conclusion(RunOutcome(hosts))
    show_plan(RunOutcome(hosts), end)
    lines = pipe.readouterr().out.splitlines()
    assert lines[-1] == line
    assert ("n1 failed not planned, 1 problem" in lines) == (statuses["n1"] == ("failed", False))
    assert end.summary["not_planned"] == sum(not planned for _status, planned in statuses.values())
    assert [end.nodes[name]["planned"] for name in sorted(hosts)] == [planned for _status, planned in statuses.values()]


def test_many_nodes_that_would_be_shown_alike_are_one(pipe: pytest.CaptureFixture[str]) -> None:
    hosts = {f"n{number}": HostOutcome(f"n{number}", notes=["left out"]) for number in range(9)}
    hosts["n3"].status, hosts["n3"].message = "unreachable", "no route"
    changes.show_hosts(hosts)
    shown = [line for line in pipe.readouterr().out.splitlines() if line and not line.startswith("  note")]
    assert shown == ["n[0-2,4-8] (8) ok 0 changes", "n3 unreachable no route"]
    changes.show_hosts({name: hosts[name] for name in ("n0", "n1")})
    assert [line for line in pipe.readouterr().out.splitlines() if "changes" in line] == ["n0 ok 0 changes", "n1 ok 0 changes"]


PAGED = """
import sys
from railwright.cli import console
with console.paged():
    for number in range(int(sys.argv[1])):
        console.say(f"line {number}")
"""


@pytest.mark.parametrize(("lines", "variables", "first"), [
    (100, {"PAGER": "sed s/^/paged/"}, "pagedline 0"), (5, {"PAGER": "sed s/^/paged/"}, "line 0"),
    (100, {"PAGER": "sed s/^/paged/", "RAILWRIGHT_PAGER": "cat"}, "line 0"), (100, {"PAGER": "no-such-pager"}, "line 0"),
    (100, {"PAGER": ""}, "line 0"), (100, {"PAGER": "sed s/^/paged/", "TERM": "dumb"}, "line 0"),
])  # fmt: skip
def test_what_is_longer_than_the_screen_goes_through_the_pager(lines: int, variables: dict[str, str], first: str) -> None:
    master, slave = os.openpty()
    environ = {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "80", **variables}
    command = [sys.executable, "-c", PAGED, str(lines)]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, env=environ) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # Linux: the terminal is gone
            while part := os.read(master, 4096):
                shown += part
        process.wait()
    os.close(master)
    assert shown.decode().splitlines()[0] == first
    assert len(shown.decode().splitlines()) == lines


def test_a_pipe_has_no_pager() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PAGED, "100"], env={**os.environ, "PAGER": "sed s/^/paged/"}, capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines()[0] == "line 0"


def test_passes_are_summed_up_with_what_was_found(pipe: pytest.CaptureFixture[str]) -> None:
    good = [verdict(status="pass", found="ACTIVE", node=f"n{number}") for number in range(5)]
    speeds = [verdict(status="pass", check="perftest.write_bw", found=number + 0.5, node="n0") for number in range(5)]
    verdicts.show_verdicts([*good, *speeds, verdict(check="rail.mtu", expected=9000, found=1500)], passes=False)
    text = pipe.readouterr().out
    assert text.index("fail") < text.index("perftest.write_bw")
    (state,) = [line.split() for line in text.splitlines() if "port.state" in line]
    assert state == ["pass", "port.state", "5", "ACTIVE"]
    (speed,) = [line for line in text.splitlines() if "perftest.write_bw" in line]
    assert speed.endswith("0.5 Gb/s, 1.5 Gb/s, 2.5 Gb/s … 2 more")


def test_facts_on_a_narrow_terminal_keep_every_word_whole(narrow: Screen) -> None:
    show_facts(facts_of_tree(str(NODES / "roce8-bond")))
    shown = narrow.getvalue()
    assert max(len(line) for line in shown.splitlines()) <= 80
    for part in ("mlx5_bond_0", "ACTIVE LinkUp, 100 Gb/s, Ethernet", "MTU 1024/1500, bond0, GIDs 4", "MT4125 22.41.1000, 0000:41:00.0"):
        assert part in shown
