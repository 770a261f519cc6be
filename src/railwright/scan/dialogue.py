# SPDX-License-Identifier: GPL-3.0-or-later
"""The one command on a node: what it runs, and what is said over its streams. What the node sends is bounded and never trusted.

A login may print what it likes before our lines; they are found by a word that is made anew for every run.
"""

import asyncio
import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

import asyncssh

from ansible_collections.railwright.rdma.plugins.module_utils.entry.boot import TOO_OLD
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import INTERPRETERS, SCRIPT
from railwright.scan.login import Become

HEADING = 128  # characters of the line before the answer: the mark, and its length
TAIL = 64 * 1024  # bytes of what a command printed beside the answer: the end of it
WRONG_PASSWORD, SUDO_NEEDS_PASSWORD = b"Sorry, try again.", b"sudo: a password is required"
RUN = f"""
word=$1 boot=$2 installed=$3; shift 3
[ $# -gt 0 ] || set -- {INTERPRETERS}
for name in "$@"; do
  full=$(PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin command -v "$name" 2>/dev/null) || continue
  "$full" -I -c "$boot" "$word" "$installed"; code=$?
  [ $code -eq {TOO_OLD} ] || exit $code
done
echo; echo "#railwright $word none"
exit 127
""".strip()


class Payload(NamedTuple):
    """What one node is sent."""

    code: bytes
    spec: bytes
    call: bytes

    def parts(self) -> list[bytes]:
        return [b"%d %d %d\n" % tuple(map(len, self)), *self]


class Heard(NamedTuple):
    """What came of the command. ``answer`` is None where none came; then ``no_python`` or the rest says why."""

    answer: bytes | None
    no_python: bool
    before: bytes  # what was printed before our first line: the probe's answer, a login's noise
    output: bytes  # the end of all that was printed
    errors: bytes
    status: int | None


class Refused(Exception):
    """The node did not let the command begin, or answered beyond the limits. ``began``: whether our code had begun on the node."""

    def __init__(self, text: str, *, began: bool) -> None:
        super().__init__(text)
        self.began = began


class Command(NamedTuple):
    """``prompt``: after which sudo waits for the password; empty: it asks for none, None: there is no sudo."""

    line: str
    prompt: str | None
    password: str


def command_line(word: str, code: Sequence[str], interpreter: str | None, become: Become | None, *, probe: bool) -> Command:
    """For a login shell of any kind. ``probe``: the preflight's script runs first, with the same rights."""
    own = [interpreter] if interpreter else []
    run = shlex.join(["/bin/sh", "-c", RUN, "railwright", word, *code, *own])
    if probe:
        run = shlex.join(["/bin/sh", "-c", SCRIPT, "railwright-probe", *own]) + " </dev/null; " + run
    if become is None:
        return Command(shlex.join(["/bin/sh", "-c", run]), None, "")
    return Command(*become.wrap(run), become.password)


class Dialogue(asyncssh.SSHClientSession[bytes]):
    """One command's streams. ``heard`` is done when the answer is there or none will come."""

    def __init__(self, word: str, payload: Payload, command: Command) -> None:
        self.heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._mark = b"#railwright " + word.encode("ascii") + b" "
        self._payload, self._command = payload, command
        self.begun = asyncio.Event()  # our first line came
        self._output, self._errors, self._read = bytearray(), bytearray(), 0
        self._begun: int | None = None  # where in the output our first line ends
        self._searched, self._asked = 0, False
        self._status: int | None = None
        self._advance: Callable[[], None] = self._greeting

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._chan = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._read += len(data)
        if self._read > wire.BYTES:
            return self._refuse(f"the node answered more than {wire.BYTES >> 20} MiB; the connection was closed")
        if self.heard.done():
            return None
        stream = self._output if datatype is None else self._errors
        stream += data
        del self._errors[:-TAIL]
        if self._begun is None and self._command.prompt is not None:
            self._sudo(self._command.prompt.encode())
        if not self.heard.done():
            self._advance()
        return None

    def exit_status_received(self, status: int) -> None:
        self._status = status

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.heard.done():
            if exc is not None:
                self.heard.set_exception(exc)
            else:
                self._finish(None)

    def _sudo(self, prompt: bytes) -> None:
        said = bytes(self._errors[-4096:] + self._output[-4096:])
        if SUDO_NEEDS_PASSWORD in said:
            self._refuse("Missing sudo password")
        elif prompt and WRONG_PASSWORD in said:
            self._refuse("Incorrect sudo password")
        elif prompt and not self._asked and prompt in said:
            self._asked = True
            self._chan.write(self._command.password.encode() + b"\n")

    def _greeting(self) -> None:
        start = self._output.find(self._mark, self._searched)
        if start < 0:
            self._searched = max(0, len(self._output) - len(self._mark))
            return
        self._searched, end = start, self._output.find(b"\n", start)
        if end < 0:
            return
        self.begun.set()
        said = self._output[start + len(self._mark) : end].strip()
        if said == b"none":
            self._begun = start
            self._finish(None, no_python=True)
            return
        self._begun, self._searched, self._advance = start, end + 1, self._answer
        for part in (self._payload._replace(code=b"") if said == b"have" else self._payload).parts():
            self._chan.write(part)
        self._question_sent()
        self._answer()

    def _question_sent(self) -> None:
        self._chan.write_eof()

    def _answer(self) -> None:
        start = self._output.find(self._mark, self._searched)
        if start < 0:
            self._searched = max(self._searched, len(self._output) - len(self._mark))
            return
        self._searched, end = start, self._output.find(b"\n", start, start + HEADING)
        if end < 0:
            if len(self._output) >= start + HEADING:
                self._finish(None)
            return
        words = re.fullmatch(rb"[0-9]{1,9}", bytes(self._output[start + len(self._mark) : end]).strip())
        if words is None:
            self._finish(None)
        elif len(self._output) >= end + 1 + int(words[0]):
            self._finish(bytes(self._output[end + 1 : end + 1 + int(words[0])]))

    def _finish(self, answer: bytes | None, *, no_python: bool = False) -> None:
        before = bytes(self._output[: self._begun])  # all of it where our first line never came
        self.heard.set_result(Heard(answer, no_python, before, bytes(self._output[-TAIL:]), bytes(self._errors), self._status))

    def _refuse(self, text: str) -> None:
        if not self.heard.done():
            self.heard.set_exception(Refused(text, began=self._begun is not None))
        self._chan.abort()
