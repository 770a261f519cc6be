# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of a site, which really run here: exit codes, and words that stay words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import command
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.command import Commands

RUN = "railwright upgrade 20261121T180000Z-upgrade-1"
SAY = ("import sys; open(sys.argv[1], 'a').write('|'.join(sys.argv[3:]) + '\\n'); print('line one'); print('7 jobs'); "
       "sys.exit(int(sys.argv[2]))")


def commands(log: Path, drain: int = 0, drained: int = 0, undrain: int = 0) -> Commands:
    def made(code: int, *words: str) -> tuple[str, ...]:
        return (sys.executable, "-S", "-c", SAY, str(log), str(code), *words)

    return Commands(made(drain, "drain", "{node}", "{reason}"), made(drained, "drained", "{node}"), made(undrain, "undrain", "node={node}"))


def test_a_drain_asks_then_looks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    [found], changed = command.drain(Host(), commands(log), ["gpu1"], RUN)
    assert (found.state, found.done, found.by, changed) == ("drained", True, "us", True)
    assert log.read_text() == f"drain|gpu1|{RUN}\ndrained|gpu1\n"


def test_not_yet(tmp_path: Path) -> None:
    [found], _changed = command.drain(Host(), commands(tmp_path / "log", drained=75), ["gpu1"], RUN)
    assert (found.state, found.done, found.holders, found.message) == ("draining", False, ("7 jobs",), None)


@pytest.mark.parametrize(("codes", "said"), [
    ({"drain": 3}, "upgrade_drain_command ended with 3 for gpu1: 7 jobs"),
    ({"drained": 1}, "upgrade_drained_command ended with 1 for gpu1; allowed: 0 (empty), 75 (not yet). It said: 7 jobs"),
    ({"drained": -9}, "upgrade_drained_command ended with 247 for gpu1; allowed: 0 (empty), 75 (not yet). It said: 7 jobs")])
def test_any_other_code_is_an_error(tmp_path: Path, codes: dict[str, int], said: str) -> None:
    [found], _changed = command.drain(Host(), commands(tmp_path / "log", **codes), ["gpu1"], RUN)
    assert (found.state, found.done, found.message) == ("unknown", False, said)


def test_a_command_that_is_not_there() -> None:
    gone = Commands(("/nowhere/drain", "{node}"), ("x",), ("x",))
    [found], _changed = command.drain(Host(), gone, ["gpu1"], RUN)
    assert found.message == "upgrade_drain_command ended with 127 for gpu1: /nowhere/drain: No such file or directory"


def test_looking_has_no_effect_and_cannot_say_who_drained(tmp_path: Path) -> None:
    log = tmp_path / "log"
    [found] = command.inspect_nodes(Host(), commands(log), ["gpu1"], RUN, begun=False)
    assert (found.state, found.by, found.done) == ("available", None, False)
    [found] = command.inspect_nodes(Host(), commands(log), ["gpu1"], RUN, begun=True)
    assert (found.state, found.done) == ("drained", True)
    assert log.read_text() == "drained|gpu1\n" * 2


def test_undrain(tmp_path: Path) -> None:
    log = tmp_path / "log"
    [found], _changed = command.undrain(Host(), commands(log), ["gpu1"], RUN)
    assert (found.state, log.read_text()) == ("available", "undrain|node=gpu1\n")
    [found], _changed = command.undrain(Host(), commands(log, undrain=1), ["gpu1"], RUN)
    assert found.message == "upgrade_undrain_command ended with 1 for gpu1: 7 jobs"


def test_a_name_is_one_word_whatever_is_in_it() -> None:
    assert command.command_for_node(("drain", "{node}", "r={reason}", "{other}"), "a {reason}; $(b)", "why {node}") == (
        "drain", "a {reason}; $(b)", "r=why {node}", "{other}")


def test_a_search_gives_each_node_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reasons = {"gpu1": "railwright isolate 1: a", "gpu2": "railwright isolate 1: b"}
    found, changed = command.close(Host(), commands(log, drained=75), reasons)
    assert ([(item.state, item.reason) for item in found], changed) == ([("draining", reason) for reason in reasons.values()], True)
    assert log.read_text().splitlines()[:2] == [f"drain|{node}|{reason}" for node, reason in reasons.items()]
