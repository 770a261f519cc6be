# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a node: connecting, ok, silent, gone; and which of them are asked again."""

import asyncio
import json
import time
from typing import Any

import pytest

from railwright.scan.dialogue import Heard, Refused
from railwright.scan.faults import Unreachable
from railwright.scan.login import ByAnsible
from railwright.top import live
from railwright.top.live import Target, Watched, code, document, watch

from .conftest import gpu, line, port


def watched() -> Watched:
    return Watched(Target("gpu1", None, None))


def said(node: Watched, at: float, **more: Any) -> None:
    node.take(json.dumps({**line(at, [port(out_bytes=int(at * 1e9))], [gpu(nvlink_out=int(at * 1e9))]), **more}).encode())


def test_a_node_that_stops_talking_is_silent_and_what_it_said_is_old() -> None:
    node = watched()
    assert node.document(0.0)["status"] == "connecting"
    said(node, 1.0)
    said(node, 2.0)
    now = time.monotonic()
    assert node.document(now)["rails"][0]["out_gbps"] == 8.0
    later = node.document(now + 5)
    assert (later["status"], later["message"], later["rails"], later["gpus"]) == ("silent", "for 5 s", [], [])
    said(node, 7.0)
    assert node.document(time.monotonic())["status"] == "ok"


def test_no_news_of_the_gpus_is_no_rate_of_zero() -> None:
    node = watched()
    said(node, 1.0)
    said(node, 2.0)
    said(node, 3.0, gpus_at=2.0)
    assert node.document(time.monotonic())["gpus"][0]["nvlink_out_gbytes"] == 1.0


def test_after_it_was_gone_it_begins_anew() -> None:
    node = watched()
    said(node, 100.0)
    node.gone("unreachable", "no route")
    assert document([node])["nodes"]["gpu1"] == {
        "status": "unreachable", "message": "no route", "rails": [], "gpus": [], "gpus_unknown": None, "marks": [], "behind": None}
    said(node, 1.0)
    assert node.document(time.monotonic())["rails"][0]["out_gbps"] is None


@pytest.mark.parametrize(("error", "status", "again"), [
    (Unreachable("no route"), "unreachable", True), (ByAnsible("ssh option"), "unreachable", False),
    (Refused("lies", began=True), "failed", False), (None, "failed", True),
])  # fmt: skip
def test_who_is_asked_again(monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: str, again: bool) -> None:
    monkeypatch.setattr(live, "AGAIN_S", 0.01)
    asked = 0

    class Ways:
        async def follow(self, _node: Watched) -> Heard:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            if error is not None:
                raise error
            return Heard(None, False, b"", b"", b"Traceback:\nMemoryError\n", 1)

    async def run() -> Watched:
        node, ways = watched(), Ways()
        stand_in: Any = ways
        task = asyncio.create_task(watch(node, stand_in))
        await asyncio.wait([task], timeout=0.2)
        task.cancel()
        return node

    node = asyncio.run(run())
    assert node.status == status and (asked > 2) is again
    assert error is not None or "MemoryError" in node.message


def test_a_node_is_sent_little() -> None:
    """Each of 200 nodes gets it at the begin."""
    assert len(code()) < 60_000
