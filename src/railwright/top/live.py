# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a live view: one connection each, which goes on; a document of all of them a second."""

import asyncio
import json
import secrets
import time
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import asyncssh

from ansible_collections.railwright.rdma.plugins.module_utils.entry.boot import PACKAGE
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import unanswered
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import boot_text, needed_files
from railwright.given import given
from railwright.inventory import Untemplated
from railwright.scan.connection import Connections
from railwright.scan.dialogue import Command, Heard, Payload, Refused
from railwright.scan.faults import Unreachable, fault_text
from railwright.scan.feed import Feed, feed_command, here, over_ssh
from railwright.scan.login import ByAnsible, Logins
from railwright.top.marks import mark
from railwright.top.sample import read_line, view

SILENT_S = 3.0
AGAIN_S = 10.0  # until a node that went away is asked again
LOGINS = 64  # at once
PERIOD = 1.0
UNKNOWN_WAY = "railwright's own ssh cannot reach it ({}); run `railwright top` there"
NOTHING: Mapping[str, Any] = {"rails": [], "gpus": [], "gpus_unknown": None}


class Target(NamedTuple):
    """``variables``: how Ansible reaches it. Of this machine there are none."""

    name: str
    spec: Spec | None
    variables: Mapping[str, Any] | None


class Watched:
    """One node: what it last said, and what became of it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.status, self.message = "connecting", ""
        self.view = dict(NOTHING)
        self._last: dict[str, Any] | None = None
        self._heard = 0.0

    def take(self, line: bytes) -> None:
        """Raises Misfit."""
        found, before = read_line(line), self._last
        seen = view(before, found)
        if before is not None and found["gpus_at"] == before["gpus_at"] and found["gpus"]:
            seen["gpus"] = self.view["gpus"]  # no news of them
        self.view, self._last, self._heard = seen, found, time.monotonic()
        self.status, self.message = "ok", ""

    def gone(self, status: str, message: str) -> None:
        self.status, self.message, self._last, self.view = status, message, None, dict(NOTHING)

    def document(self, now: float) -> dict[str, Any]:
        silent = now - self._heard
        if self.status == "ok" and silent > SILENT_S:
            return {"status": "silent", "message": f"for {silent:.0f} s", **NOTHING}
        return {"status": self.status, "message": self.message, **self.view}


async def documents(targets: Sequence[Target], seconds: float | None) -> AsyncGenerator[dict[str, Any]]:
    """One a second, for so many seconds or for ever."""
    nodes, ways = [Watched(target) for target in targets], Ways()
    tasks = [asyncio.create_task(watch(node, ways)) for node in nodes]
    begin = time.monotonic()
    number = 0
    try:
        while seconds is None or number < seconds:
            number = max(number + 1, int(time.monotonic() - begin))  # what is too late is left out
            await asyncio.sleep(max(0.0, begin + number * PERIOD - time.monotonic()))
            yield document(nodes)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await ways.close()


def document(nodes: Iterable[Watched]) -> dict[str, Any]:
    now = time.monotonic()
    found = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "nodes": {node.target.name: node.document(now) for node in nodes}}
    mark(found)
    return found


async def watch(node: Watched, ways: "Ways") -> None:
    """Until it is cancelled, or the node lies. One that went away is asked again."""
    while True:
        try:
            heard = await ways.follow(node)
        except Unreachable as error:
            node.gone("unreachable", str(error))
        except ByAnsible as reason:
            return node.gone("unreachable", UNKNOWN_WAY.format(reason))
        except Refused as error:
            return node.gone("failed", str(error))
        else:
            texts = [stream.decode("utf-8", "replace") for stream in (heard.output, heard.errors)]
            node.gone("failed", unanswered("top", heard.status, *texts, no_python=heard.no_python)["msg"])
        await asyncio.sleep(AGAIN_S)


class Ways:
    """How the nodes are reached."""

    def __init__(self) -> None:
        self._logins, self._word = Logins(), secrets.token_hex(16)
        self._connections, self._few = Connections(self._logins.config), asyncio.Semaphore(given.forks or LOGINS)

    async def follow(self, node: Watched) -> Heard:
        """Until its half ends. Raises Unreachable, ByAnsible, Refused."""
        spec, variables = node.target.spec, node.target.variables
        payload = Payload(code(), json.dumps({} if spec is None else spec.as_dict()).encode("ascii"), b'{"entry": "top"}')
        if variables is None:
            return await here(self._word, boot_text(), Feed(self._word, payload, Command("", None, ""), node.take))
        for name, value in variables.items():
            if isinstance(value, Untemplated):
                raise ByAnsible(f"{name}: {value.why}")
        quantum = spec is not None and bool(spec["ssh_post_quantum"])
        login = self._logins.login(node.target.name, {**variables, "ansible_become": False}, post_quantum=quantum)
        command = feed_command(self._word, boot_text(), login.interpreter)
        async with self._few:
            connection = await self._connections.open(login)
        try:
            return await over_ssh(connection, Feed(self._word, payload, command, node.take), command)
        except (asyncssh.Error, OSError) as error:
            raise Unreachable(fault_text(login.host, connection.get_extra_info("port"), error, began=True)) from error
        finally:
            connection.abort()

    async def close(self) -> None:
        await self._connections.close()


@cache
def code() -> bytes:
    files = needed_files(("__init__.py", "entry/__init__.py", "entry/top.py"))
    return zlib.compress(json.dumps({f"{PACKAGE}/{name}": text for name, text in sorted(files.items())}).encode("ascii"))
