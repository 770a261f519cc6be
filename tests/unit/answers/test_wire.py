# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits on what a connection brings, each in a process of its own: what goes over them ends all that the process has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from repo import ROOT

BEGIN = f"""
import subprocess, sys, time
sys.path.insert(0, {str(ROOT / ".dev")!r})
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
wire.BYTES = 4 * 1024 * 1024
class Connection:
    def exec_command(self, cmd, in_data=None, sudoable=True):
        with subprocess.Popen(cmd, shell=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            out = child.stdout.read()
        return child.returncode, out, b""
    def put_file(self, *paths):
        pass
    def fetch_file(self, source, target):
        self.exec_command("cat %s > %s" % (source, target))
connection = Connection()
"""


def run(text: str) -> str:
    done = subprocess.run((sys.executable, "-c", BEGIN + text), capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def ending(command: str, seconds: float) -> str:
    return run(f"""
wire.limited(connection, {seconds})
try:
    print(connection.exec_command({command!r}))
except wire.Exceeded as error:
    print("exceeded:", error)
""")


@pytest.mark.parametrize("command", ["exec yes", "yes", "yes | cat", "exec cat /dev/zero", "(yes; true) & wait"])
def test_an_answer_without_end_is_ended(command: str) -> None:
    assert ending(command, 60) == "exceeded: the node answered more than 4 MiB; the connection was closed\n"


@pytest.mark.parametrize("command", ["sleep 1000", "exec sleep 1000", "while :; do echo x; sleep 0.2; done"])
def test_no_answer_is_not_waited_for(command: str) -> None:
    assert ending(command, 0.6) == f"exceeded: {wire.SILENT % 0.6}\n"


def test_what_the_node_reads_itself_is_no_answer() -> None:
    """Over a local connection a child that has ended leaves what it read to this process, as Linux counts."""
    text = """
with wire.watched(60):
    subprocess.run("head -c 64M /dev/zero >/dev/null", shell=True)
    time.sleep(0.5)
print("well")
"""
    assert run(text) == "well\n"


def test_what_is_within_the_limits_is_untouched() -> None:
    assert ending("printf hello; exit 3", 60) == "(3, b'hello', b'')\n"


def test_the_environment_shortens_and_never_lengthens() -> None:
    script = "import os; os.environ[wire.LIMIT_VARIABLE] = '{}'; print(wire.within(10.0))"
    assert [run(script.format(seconds)) for seconds in (3, 100)] == ["3.0\n", "10.0\n"]


def test_a_second_limit_replaces_the_first(tmp_path: Path) -> None:
    assert run("""
for seconds in (60, 0.5):
    wire.limited(connection, seconds)
try:
    connection.exec_command("sleep 1000")
except wire.Exceeded as error:
    print(error)
wire.limited(connection, 60)
print(connection.exec_command("printf again"))
""") == f"{wire.SILENT % 0.5}\n(0, b'again', b'')\n"


def test_a_fetched_file_does_not_fill_the_disk(tmp_path: Path) -> None:
    target = tmp_path / "target"
    said = run(f"""
wire.FILE_BYTES = 3_000_000
wire.limited(connection, 60)
from pathlib import Path
wire.fetched(connection, "/dev/zero", Path({str(target)!r}))
with open({str(tmp_path / "after")!r}, "wb") as stream:  # the limit is gone afterwards
    stream.write(b"x" * 4_000_000)
""")
    assert target.stat().st_size == 3_000_000, said
    assert (tmp_path / "after").stat().st_size == 4_000_000


def test_another_failure_of_the_connection_is_its_own() -> None:
    assert "ValueError: theirs" in run("""
def broken(*arguments):
    raise ValueError("theirs")
connection.exec_command = broken
wire.limited(connection, 60)
connection.exec_command("x")
""")
