# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's service as a plan, what it starts by a real Python, and what schedulers run by a real shell."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import agent, node_code
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import code_digest, packed_code
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


@pytest.fixture(autouse=True)
def systemd(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit is active once it was started."""
    told = type(node).run

    def run(host: Any, argv: Any, *rest: Any, **named: Any) -> Result:
        if tuple(argv) == ("systemctl", "is-active", agent.TIMER):
            return Result(0, "active\n" if ("systemctl", "start", agent.TIMER) in host.commands else "inactive\n", "")
        found: Result = told(host, argv, *rest, **named)
        return found

    monkeypatch.setattr(type(node), "run", run)


def test_off_is_the_default_and_plans_nothing(planner: Callable[..., Any], node: Any) -> None:
    assert planner().plan("agent") == []


def test_it_comes_and_goes(planner: Callable[..., Any], node: Any) -> None:
    plans = planner(agent_mode="observe")
    changes = plans.plan("agent")
    unit, timer = (f"file /etc/systemd/system/{name}" for name in (agent.UNIT, agent.TIMER))
    assert [change.what for change in changes] == [
        unit, f"file {agent.STARTER}", f"file {agent.HOOK}", timer, f"unit {agent.TIMER} enabled", f"unit {agent.TIMER} running"]
    assert {change.disruption for change in changes} == {"none"}
    assert {change.needs for change in changes} == {(f"{node_code.NAME}: {node_code.WHAT}",)}
    plans.converge("agent")
    gone = planner().plan("agent")
    assert [change.what for change in gone] == [f"unit {agent.TIMER} removed", unit, f"file {agent.STARTER}", f"file {agent.HOOK}"]


def test_another_mode_is_another_starter(planner: Callable[..., Any], node: Any) -> None:
    planner(agent_mode="observe").converge("agent")
    (change,) = planner(agent_mode="drain").plan("agent")
    assert change.what == f"file {agent.STARTER}"


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """The starter beside the code, as an apply leaves both; root's own, below a directory of the test's."""
    import base64

    code = {"digest": code_digest(), "code": base64.b64encode(packed_code()).decode("ascii")}
    any_node: Any = None
    wanted = node_code.desired(Spec({**nobodys_spec().as_dict(), "code_derived": code}), any_node)
    (tmp_path / wanted.file).write_text(node_code.compiled(wanted))
    starter = tmp_path / "agent"
    settings = {"mode": "observe", "flaps": 3, "textfile": "", "values": nobodys_spec().as_dict(), "directory": str(tmp_path / "memory")}
    starter.write_text(agent.starter_text(f"{tmp_path}/{wanted.file}", settings))
    return starter


def test_the_starter_runs_from_the_code_that_is_there(started: Path) -> None:
    answer = subprocess.run([sys.executable, "-I", started, "events"], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "open" in answer.stdout


def test_a_look_of_this_machine_leaves_its_status(started: Path) -> None:
    """Of the real machine, by the real Python; where no test may write, only that it ends well."""
    unit = agent.unit_text("").replace(agent.STARTER, str(started)).replace("$$", "$").replace("\\\n", "")
    (line,) = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
    answer = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")
    (history,) = (started.parent / "memory").glob("*.log")
    assert '"kind":"boot"' in history.read_text()


def test_another_python_is_named(started: Path) -> None:
    (code,) = [path for path in started.parent.iterdir() if path.name.startswith(code_digest())]
    title, made_for, body = code.read_text().split("\n", 2)
    code.write_text("\n".join([title, "00000000 " + made_for.split()[1], body]))
    answer = subprocess.run([sys.executable, "-I", started, "events"], capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 1
    assert "another Python" in answer.stderr


def hook(
    tmp_path: Path, line: str | None, word: str, *, shell: str = "dash", without: str = "ok", up: float = 1000.0, unjudged: str = "ok"
) -> Any:
    """What the script says of a status line. Its two paths lead into a directory of the test's."""
    (tmp_path / "uptime").write_text(f"{up:.2f} 4000.00\n")
    (tmp_path / "status").unlink(missing_ok=True)
    if line is not None:
        (tmp_path / "status").write_text(line + "\n")
    text = agent.hook_text(without, unjudged).replace("/run/railwright/agent/status", f"{tmp_path}/status")
    text = text.replace("/proc/uptime", f"{tmp_path}/uptime")
    script = tmp_path / "node-status"
    script.write_text(text)
    argv = [str(shutil.which(shell)), *(["sh"] if shell == "busybox" else [])]
    return subprocess.run([*argv, script, word], capture_output=True, text=True, check=False, timeout=60, env={"PATH": "/nowhere"})


REASON = "gpu.xid GPU 0000:27:00.0: H100: Xid 79"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "word", "rc", "said"), [
    ("ok 990 drain ", "prolog", 0, ""),
    ("refuse 990 drain " + REASON, "prolog", 1, "railwright: " + REASON),
    ("refuse 990 observe " + REASON, "prolog", 0, ""),
    ("refuse 990 drain " + REASON, "epilog", 0, "railwright: " + REASON),
    ("shared 990 drain port.flaps mlx5_0", "prolog", 0, ""),
    ("unjudged 990 drain gpu.answers GPUs: no answer", "prolog", 0, "railwright: not judged: gpu.answers GPUs: no answer"),
    ("unjudged 990 drain gpu.answers GPUs: no answer", "npd", 2, "gpu.answers GPUs: no answer"),
    ("unjudged 990 drain gpu.answers GPUs: no answer", "health", 0, "railwright: unjudged: gpu.answers GPUs: no answer"),
    ("refuse 600 drain " + REASON, "prolog", 0, ""),  # of an agent that is down
    (None, "prolog", 0, ""),
    ("refuse 990 drain " + REASON, "health", 0, "railwright: refuse: " + REASON),
    (None, "health", 0, "railwright: none: the agent has said nothing"),
    ("ok 990 drain ", "npd", 0, "healthy"),
    ("refuse 990 observe " + REASON, "npd", 1, REASON),
    ("shared 990 observe port.flaps mlx5_0", "npd", 1, "port.flaps mlx5_0"),
    ("ok 600 drain ", "npd", 2, "the agent is down"),
    (None, "npd", 2, "the agent has said nothing"),
    ("", "prolog", 0, ""),
    ("refuse $(touch x) drain `id`; rm -rf /", "prolog", 0, ""),
    ("refuse 990 drain $(touch planted) `id` %s * ;", "prolog", 1, "railwright: $(touch planted) `id` %s * ;"),
    ("ok 990 drain ", "other", 64, ""),
])  # fmt: skip
def test_what_a_scheduler_hears(tmp_path: Path, shell: str, line: str | None, word: str, rc: int, said: str) -> None:
    answer = hook(tmp_path, line, word, shell=shell)
    assert (answer.returncode, answer.stdout.strip()) == (rc, said)
    assert not (tmp_path / "planted").exists()


def test_no_agent_refuses_where_the_site_says_so(tmp_path: Path) -> None:
    assert hook(tmp_path, None, "prolog", without="refuse").returncode == 1
    assert hook(tmp_path, "ok 990 drain ", "prolog", without="refuse").returncode == 0


def test_a_message_has_the_80_bytes_of_node_problem_detector(tmp_path: Path) -> None:
    assert len(hook(tmp_path, "refuse 990 drain " + "x" * 200, "npd").stdout.strip()) == 80


def test_the_hook_starts_no_process(tmp_path: Path) -> None:
    """strace is in group unit of tools/need; that no program is started the empty PATH of ``hook`` shows too."""
    hook(tmp_path, "refuse 990 drain " + REASON, "prolog")
    answer = subprocess.run(["strace", "-f", "-e", "trace=process", "dash", tmp_path / "node-status", "prolog"], capture_output=True,
                            text=True, check=False, timeout=60)
    assert "clone" not in answer.stderr
    assert "fork" not in answer.stderr


def test_the_settings_are_read_as_they_were_written(started: Path) -> None:
    """Quotes and backslashes in a directory's name end no string of the starter."""
    settings = {"mode": "observe", "textfile": "/var/lib/x", "values": {"a": "\\\"'\n"}, "flaps": 3}
    text = agent.starter_text("/nowhere", settings)
    body = text.split('SETTINGS = r"""', 1)[1].split('"""', 1)[0]
    assert json.loads(body) == settings
    assert os.fspath(started)


@pytest.mark.parametrize(("mode", "rc"), [("drain", 1), ("observe", 0)])
def test_a_prolog_refuses_unjudged_nodes_where_the_key_says_so(tmp_path: Path, mode: str, rc: int) -> None:
    answer = hook(tmp_path, f"unjudged 990 {mode} gpu.answers GPUs: no answer", "prolog", unjudged="refuse")
    assert answer.returncode == rc
