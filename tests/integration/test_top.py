# SPDX-License-Identifier: GPL-3.0-or-later
"""`top` over real connections: what it says, that nothing of it stays on a node however it ends, and a node that lies.

The sshds are real and of our own; the nodes' halves are processes of this machine, found by the word that only they have as an argument.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ssh_world import World, address

pytestmark = pytest.mark.xdist_group("check")
LIMIT = 120  # a net, not a measure
GONE_S = 2.0


def environment(path: str = "") -> dict[str, str]:
    return {**os.environ, "SSH_AUTH_SOCK": "", "PATH": path + os.environ["PATH"], "TERM": "vt100"}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "railwright", "top", *argv]


def top(*argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*argv), env=environment(path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                          check=False)


def halves() -> set[int]:
    """Processes that run a node's half."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if len(words) > 4 and words[1:3] == [b"-I", b"-c"] and b"/dev/null/none" in words:
                found.add(int(path.parent.name))
    return found


def within(seconds: float, true: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Also where the test fails."""
    try:
        yield
    finally:
        process.kill()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    before = halves()
    yield
    assert within(GONE_S + 10, lambda: halves() <= before), "a node's half is left"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Hosts gpu0, gpu1, gone, and liar, whose Python says what it likes; the directory that comes first in PATH."""
    directory = tmp_path_factory.mktemp("top")
    with World(directory) as found:
        hosts = [address(1), address(2)]
        found.serve(hosts)
        liar = (r"""if [ "${0##*/}" = x ]; then :; fi; word=$(echo "$SSH_ORIGINAL_COMMAND" | grep -o "[0-9a-f]\{32\}" | head -n 1); """
                r"""printf "\n#railwright %s send\n" "$word"; while :; do printf "\033[2J{\"at\":1,\"ports\":[]}\n"; done""")
        found.serve([address(4)], f"ForceCommand {liar}")
        found.wait([*hosts, address(4)])
        names = "".join(f"Host gpu{number}\n  HostName {host}\n" for number, host in enumerate(hosts))
        names += f"Host gone\n  HostName {address(3)}\nHost liar\n  HostName {address(4)}\nHost *\n  Port {found.port}\n  User root\n"
        names += f"  IdentityFile {directory}/client\n  IdentitiesOnly yes\n  UserKnownHostsFile {found.known_hosts}\n"
        (directory / "config").write_text(names)
        (directory / "bin").mkdir()
        (directory / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/config "$@"\n')
        (directory / "bin/ssh").chmod(0o755)
        yield f"{directory}/bin:"


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_this_machine_for_scripts(tmp_path: Path) -> None:
    """A line a sample; what is recorded is the same, and what is replayed too."""
    record = tmp_path / "samples.jsonl"
    done = top("--for", "3", "--format", "json", "--record", str(record))
    assert (done.returncode, done.stderr) == (0, "")
    said = documents(done.stdout)
    assert len(said) == 3 and [list(each) for each in said] == [["at", "nodes"]] * 3
    (node,) = said[-1]["nodes"].values()
    assert (node["status"], node["message"]) == ("ok", "")
    assert record.read_text() == done.stdout
    assert documents(top("--replay", str(record), "--format", "json").stdout) == said
    picture = top("--replay", str(record))
    assert picture.returncode == 0 and picture.stdout.startswith("railwright top  1 node; ")
    again = top("--for", "1", "--format", "json", "--record", str(record))
    assert again.returncode == 64 and "is there already" in again.stderr


@pytest.mark.parametrize(("argv", "said"), [
    ((), "there is no terminal"), (("gpu1", "-i", "site"), "exclude each other"), (("--limit", "gpu1"), "--limit is for --inventory"),
    (("--replay", "/dev/null/no"), "Not a directory"), (("--replay", __file__), "line 1"),
])  # fmt: skip
def test_what_is_refused(argv: tuple[str, ...], said: str) -> None:
    done = top(*argv)
    assert done.returncode in (1, 64) and said in done.stderr and "Traceback" not in done.stderr


def test_hosts_over_ssh(world: str, tmp_path: Path) -> None:
    """Until all are what they are; then it is ended. The liar breaks no screen."""
    record = tmp_path / "samples.jsonl"
    wanted = {"gpu0": "ok", "gpu1": "ok", "gone": "unreachable", "liar": "failed"}
    with subprocess.Popen(command(*wanted, "--format", "json", "--record", str(record)), env=environment(world), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as process, ended(process):
        assert process.stdout is not None
        for line in process.stdout:
            last = json.loads(line)["nodes"]
            assert "\x1b" not in line
            if {name: node["status"] for name, node in last.items()} == wanted:
                break
        process.terminate()
        assert process.wait(LIMIT) == 3
    assert "is sshd running there?" in last["gone"]["message"]
    assert "somebody lies there" in last["liar"]["message"] and last["liar"]["rails"] == []
    shown = top("--replay", str(record)).stdout
    assert shown.replace("\n", "").isprintable() and "X liar" in shown and max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("hosts", [(), ("gpu0", "gpu1")])
def test_nothing_stays_when_it_is_killed(world: str, number: signal.Signals, hosts: tuple[str, ...]) -> None:
    before = halves()
    with subprocess.Popen(command(*hosts, "--format", "json"), env=environment(world), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as process, ended(process):
        assert process.stdout is not None
        while not all(node["status"] == "ok" for node in json.loads(process.stdout.readline())["nodes"].values()):
            pass
        assert len(halves() - before) == max(1, len(hosts))
        process.send_signal(number)
        assert within(GONE_S, lambda: halves() <= before)


def test_a_node_that_is_stopped_is_silent_and_comes_back(world: str) -> None:
    before = halves()
    with subprocess.Popen(command("gpu0", "--for", "14", "--format", "json"), env=environment(world), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as process, ended(process):
        assert process.stdout is not None
        states, stopped = list[str](), set[int]()
        for line in process.stdout:
            states.append(json.loads(line)["nodes"]["gpu0"]["status"])
            if states[-1] == "ok" and not stopped:
                stopped = halves() - before
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
            if states[-1] == "silent":
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
        assert process.wait() == 0
    assert re.fullmatch(r"(connecting )*(ok )+(silent )+(ok ?)+", " ".join(states))


def test_keys_on_a_terminal_and_the_terminal_as_it_was() -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(command(), env=environment(), stdin=slave, stdout=slave) as process, ended(process):
        shown = ""

        def seen(text: str) -> bool:
            nonlocal shown
            if select.select([master], [], [], 0.05)[0]:
                shown += os.read(master, 65536).decode()
            return text in shown

        assert within(LIMIT, lambda: seen("1 node; "))
        for keys, text in ((b"s", "sort: busy"), (b"v", "v rails  f"), (b"/gpu", "/gpu_"), (b"\r", "[gpu]"), (b"f", "FROZEN")):
            os.write(master, keys)
            assert within(LIMIT, lambda text=text: seen(text)), text
        os.write(master, b"q")
        assert within(LIMIT, lambda: seen("\x1b[?1049l"))
        assert process.wait(LIMIT) == 0
    os.close(master)
    os.close(slave)
