# SPDX-License-Identifier: GPL-3.0-or-later
"""A command on a node that goes on: its lines come as they are written, bounded, until one side ends. Over ssh, or of a process here."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import asyncssh

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
from railwright.scan.dialogue import TAIL, Command, Dialogue, Heard, Payload, Refused, command_line

NO_CODE = "/dev/null/none"  # where no node has code that is installed: what goes on is small, and is sent
LINE = 256 * 1024  # bytes; 128 ports and 64 GPUs are half of it
# What a node may send: at the begin, and in each second. A line costs more than its bytes.
ROOM, ROOM_A_SECOND, LINE_COSTS = 4 << 20, 1 << 20, 16384
END_S = 2.0  # for a process of this machine, after the end of its input
BEAT_S = 10.0  # the node ends when it has heard nothing for three of them


class Feed(Dialogue):
    """``take`` gets each line, and raises Misfit for what is none of ours: the node is refused then."""

    def __init__(self, word: str, payload: Payload, command: Command, take: Callable[[bytes], None]) -> None:
        super().__init__(word, payload, command)
        self._take, self._room, self._since, self._live = take, float(ROOM), time.monotonic(), False

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if not self._live:
            super().data_received(data, datatype)
            return
        now = time.monotonic()
        self._room = min(ROOM, self._room + ROOM_A_SECOND * (now - self._since)) - len(data) - LINE_COSTS * data.count(b"\n")
        self._since = now
        if self._room < 0 or len(self._output) > LINE:
            self._refuse("the node sends more than a node has to say; the connection was closed")
        elif datatype is not None:
            self._errors += data
            del self._errors[:-TAIL]
        elif not self.heard.done():
            self._output += data
            self._answer()

    async def listened(self, begin_s: float) -> Heard:
        """What came of the command, when it has ended. Raises Refused, too where our code does not begin in time, asyncssh.Error."""
        began = time.monotonic()
        while not (await asyncio.wait([self.heard], timeout=BEAT_S))[0]:
            if self._live:
                self._chan.write(b"\n")
            elif time.monotonic() - began > begin_s:
                raise Refused(wire.SILENT % begin_s, began=False)
        return await self.heard

    def _question_sent(self) -> None:
        self._live = True
        del self._output[: self._searched]

    def _answer(self) -> None:
        *lines, rest = self._output.split(b"\n")
        self._output = rest
        try:
            for line in lines:
                self._take(bytes(line))
        except Misfit as misfit:
            self._refuse(f"the node's answer is none of top: {misfit}. The node is broken, or somebody lies there")


async def over_ssh(connection: asyncssh.SSHClientConnection, feed: Feed, command: Command) -> Heard:
    channel, _session = await connection.create_session(lambda: feed, command.line, encoding=None)
    return (await feed.listened(wire.within(wire.BEGIN_S)))._replace(status=channel.get_exit_status())


async def here(word: str, boot: str, feed: Feed) -> Heard:
    """The same of a process of this machine. It is over when this is."""
    local = _Local(feed)
    argv = (sys.executable, "-I", "-c", boot, word, NO_CODE)
    transport, _protocol = await asyncio.get_running_loop().subprocess_exec(lambda: local, *argv, start_new_session=True)
    try:
        return (await feed.listened(wire.BEGIN_S))._replace(status=transport.get_returncode())
    finally:
        local.end()
        await asyncio.wait([local.over], timeout=END_S)
        transport.close()


class _Local(asyncio.SubprocessProtocol):
    """A process as the channel of a connection: what the feed needs of one."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        stdin = transport.get_pipe_transport(0)
        self.write, self.end, self.abort = stdin.write, stdin.close, transport.close
        channel: Any = self
        self._feed.connection_made(channel)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._feed.data_received(data, None if fd == 1 else asyncssh.EXTENDED_DATA_STDERR)

    def connection_lost(self, exc: Exception | None) -> None:
        self._feed.connection_lost(exc)
        self.over.set_result(None)


def feed_command(word: str, boot: str, interpreter: str | None) -> Command:
    """Nothing that goes on needs root."""
    return command_line(word, (boot, NO_CODE), interpreter, None, probe=False)
