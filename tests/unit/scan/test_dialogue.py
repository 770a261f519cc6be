# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said over the streams of the one command: however it arrives, whatever stands around it, within the limits."""

import asyncio
import shlex
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from railwright.scan import dialogue
from railwright.scan.dialogue import Command, Dialogue, Heard, Payload, Refused, command_line
from railwright.scan.login import Become
from ssh_channel import Channel

WORD = "c0ffee"
PAYLOAD = Payload(b"code", b"{}", b"[1]")
GREETING = f"\n#railwright {WORD} send\n".encode()
ANSWER = f'\n#railwright {WORD} 9\n{{"a": 1}}\n\n'.encode()
NO_SUDO = Command("", None, "")
STDERR = 1  # SSH_EXTENDED_DATA_STDERR


def hold(chunks: Sequence[tuple[bytes, int | None]], command: Command = NO_SUDO) -> tuple[Heard, Channel]:
    async def held() -> tuple[Heard, Channel]:
        talk, channel = Dialogue(WORD, PAYLOAD, command), Channel()
        opened: Any = channel
        talk.connection_made(opened)
        for data, kind in chunks:
            talk.data_received(data, kind)
        talk.exit_status_received(0)
        talk.connection_lost(None)
        return await talk.heard, channel

    return asyncio.run(held())


@given(st.lists(st.integers(0, len(GREETING + ANSWER) + 40), max_size=12), st.binary(max_size=40))
def test_it_may_arrive_in_any_pieces_after_any_noise(cuts: list[int], noise: bytes) -> None:
    whole = noise + GREETING + ANSWER
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    found, channel = hold([(whole[start:end], None) for start, end in pairwise(places)])
    assert found.answer == b'{"a": 1}\n'
    assert found.before == noise + b"\n"
    assert (channel.written, channel.eof) == (b"4 2 3\ncode{}[1]", True)


def test_a_node_that_has_the_code_is_sent_none() -> None:
    _found, channel = hold([(GREETING.replace(b"send", b"have"), None), (ANSWER, None)])
    assert channel.written == b"0 2 3\n{}[1]"


@pytest.mark.parametrize("said", [
    b"", GREETING, b"#railwright other send\n" + ANSWER.replace(WORD.encode(), b"other"), GREETING + b"Traceback\n",
    GREETING + ANSWER.replace(b" 9\n", b" 99999999999999999999\n"), GREETING + ANSWER.replace(b" 9\n", b" -1\n"), GREETING + ANSWER[:-8],
])  # fmt: skip
def test_anything_else_is_no_answer(said: bytes) -> None:
    found, _channel = hold([(b"last words\n", STDERR), (said, None)])
    assert (found.answer, found.no_python, found.errors) == (None, False, b"last words\n")


def test_a_node_without_python_says_so() -> None:
    found, channel = hold([(f"\n#railwright {WORD} none\n".encode(), None)])
    assert (found.no_python, found.answer, channel.written) == (True, None, b"")


def test_sudo_gets_its_password_once_and_at_its_prompt() -> None:
    command = Command("", "[sudo] password:", "secret")
    _found, channel = hold([(b"lecture\n[sudo] pass", STDERR), (b"word:", STDERR), (b"\n", STDERR), (GREETING + ANSWER, None)], command)
    assert channel.written == b"secret\n4 2 3\ncode{}[1]"


@pytest.mark.parametrize(("said", "prompt", "why"), [
    (b"sudo: a password is required\n", "", "Missing sudo password"), (b"Sorry, try again.\n", "p:", "Incorrect sudo password"),
])  # fmt: skip
def test_sudo_that_refuses_is_that_nodes_failure(said: bytes, prompt: str, why: str) -> None:
    with pytest.raises(Refused, match=why) as caught:
        hold([(said, STDERR)], Command("", prompt, "x"))
    assert not caught.value.began


def test_more_than_the_limit_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BYTES", 1 << 20)
    with pytest.raises(Refused, match="more than 1 MiB") as caught:
        hold([(GREETING, None), (b"x" * (1 << 20), None)])
    assert caught.value.began


def test_no_stream_beside_the_answer_is_kept_whole() -> None:
    found, _channel = hold([(b"e" * 1000, STDERR)] * 200)
    assert len(found.errors) == dialogue.TAIL


BOOT = "import sys; print('\\n#railwright', sys.argv[1], 'send'); print(repr(sys.stdin.read()))"


@pytest.mark.parametrize("interpreter", [None, "python3"])
def test_the_command_runs_in_a_real_shell(interpreter: str | None) -> None:
    command = command_line(WORD, (BOOT, "/none"), interpreter, None, probe=False)
    done = subprocess.run(["/bin/sh", "-c", command.line], input=b"in", capture_output=True, check=True)
    assert done.stdout.decode().split() == ["#railwright", WORD, "send", "'in'"]


def test_a_shell_that_finds_no_python_says_so() -> None:
    command = command_line(WORD, (BOOT, "/none"), "/no/python", None, probe=False)
    done = subprocess.run(["/bin/sh", "-c", command.line], input=b"", capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (127, [b"#railwright", WORD.encode(), b"none"])


def test_the_probe_comes_first_and_has_no_input_of_ours() -> None:
    command = command_line(WORD, (BOOT, "/none"), None, None, probe=True)
    done = subprocess.run(["/bin/sh", "-c", command.line], input=b"in", capture_output=True, check=True)
    before, _mark, after = done.stdout.decode().partition(f"#railwright {WORD} send")
    assert "#railwright:uid" in before
    assert "#railwright:end" in before
    assert after.strip() == "'in'"


def test_become_wraps_all_of_it() -> None:
    become = Become(lambda line: (f"sudo {shlex.quote(line)}", "p:"), "secret")
    command = command_line(WORD, (BOOT, "/none"), None, become, probe=True)
    assert (command.prompt, command.password) == ("p:", "secret")
    assert command.line.startswith("sudo ")
    assert "secret" not in command.line
