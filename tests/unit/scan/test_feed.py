# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that goes on: its lines as they come, the beat, and a node that lies, floods or says nothing."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
from railwright.scan import feed as module
from railwright.scan.dialogue import Command, Heard, Payload, Refused
from railwright.scan.feed import LINE, Feed
from railwright.top.sample import read_line
from ssh_channel import Channel

WORD = "c0ffee"
PAYLOAD = Payload(b"code", b"{}", b"[1]")
GREETING = f"login noise\n#railwright {WORD} send\n".encode()
STDERR = 1  # SSH_EXTENDED_DATA_STDERR


def fed(chunks: Sequence[tuple[bytes, int | None]]) -> tuple[list[bytes], Channel, Heard | Refused]:
    async def held() -> tuple[list[bytes], Channel, Heard | Refused]:
        found: list[bytes] = []

        def take(line: bytes) -> None:
            if line.startswith(b"no"):
                raise Misfit("a line of counters", "something else")
            found.append(line)

        feed, channel = Feed(WORD, PAYLOAD, Command("", None, ""), take), Channel()
        opened: Any = channel
        feed.connection_made(opened)
        for data, kind in chunks:
            feed.data_received(data, kind)
        feed.connection_lost(None)
        try:
            return found, channel, await feed.heard
        except Refused as refused:
            return found, channel, refused

    return asyncio.run(held())


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_lines_may_arrive_in_any_pieces(size: int) -> None:
    whole = GREETING + b'{"at": 1}\n{"at": 2}\n{"at"'
    lines, channel, heard = fed([(whole[at : at + size], None) for at in range(0, len(whole), size)])
    assert lines == [b'{"at": 1}', b'{"at": 2}']
    assert channel.written == b"4 2 3\ncode{}[1]" and not channel.eof, "its end would end the node's half"
    assert isinstance(heard, Heard)


def test_a_line_that_is_none_ends_it() -> None:
    lines, channel, refused = fed([(GREETING + b"yes\nno\nyes\n", None), (b"yes\n" * 10, None)])
    assert (lines, channel.aborted) == ([b"yes"], True)
    assert isinstance(refused, Refused) and "or somebody lies there" in str(refused)


@pytest.mark.parametrize(("flood", "kind"), [
    (b"x" * (LINE + 2), None), (b"y\n" * 100_000, None), (b"z" * (8 << 20), STDERR), (b"\n" * 5000, STDERR),
])  # fmt: skip
def test_a_flood_ends_it(flood: bytes, kind: int | None) -> None:
    pieces = [(flood[at : at + 32768], kind) for at in range(0, len(flood), 32768)]
    _lines, channel, refused = fed([(GREETING, None), *pieces, (b"x", None)])
    assert channel.aborted and isinstance(refused, Refused) and "more than a node has to say" in str(refused)


def test_what_is_said_aside_is_kept_bounded() -> None:
    _lines, _channel, heard = fed([(GREETING, None), (b"a" * 100_000, STDERR), (b"the end", STDERR)])
    assert isinstance(heard, Heard) and heard.errors.endswith(b"the end") and len(heard.errors) == 64 * 1024


def test_no_python() -> None:
    _lines, _channel, heard = fed([(f"\n#railwright {WORD} none\n".encode(), None)])
    assert isinstance(heard, Heard) and heard.no_python


@pytest.mark.parametrize("greeted", [True, False])
def test_it_beats_when_the_question_is_sent(monkeypatch: pytest.MonkeyPatch, greeted: bool) -> None:
    """A beat before it would be taken for the question."""
    monkeypatch.setattr(module, "BEAT_S", 0.02)

    async def beaten() -> bytes:
        feed, channel = Feed(WORD, PAYLOAD, Command("", None, ""), lambda line: None), Channel()
        opened: Any = channel
        feed.connection_made(opened)
        if greeted:
            feed.data_received(GREETING, None)
        asyncio.get_running_loop().call_later(0.2, feed.connection_lost, None)
        await feed.listened(30.0)
        return channel.written.removeprefix(b"4 2 3\ncode{}[1]")

    assert (asyncio.run(beaten()).count(b"\n") > 3) is greeted


def test_who_never_begins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.02)

    async def waited() -> None:
        await Feed(WORD, PAYLOAD, Command("", None, ""), lambda line: None).listened(0.1)

    with pytest.raises(Refused, match="no answer within"):
        asyncio.run(waited())


def test_its_lines_are_those_of_top() -> None:
    """What a hostile node may say passes the gate of top or ends its connection."""
    with pytest.raises(Misfit):
        read_line(b'{"at": 1, "ports": [' + b'{"hca":"a","port":1},' * 20_000 + b"{}]}")
