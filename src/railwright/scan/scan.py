# SPDX-License-Identifier: GPL-3.0-or-later
"""One question to many nodes at once. What comes of each node is an event, as of a run of Ansible's, so that everything after it is one."""

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import asyncssh

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.node_code import DIRECTORY
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import boot_text, code_digest, packed_code
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import agent_derived
from railwright.events import Collector, Echo, Listener, RunOutcome
from railwright.given import given
from railwright.scan.connection import Connections
from railwright.scan.dialogue import Command, Dialogue, Heard, Payload, Refused, command_line
from railwright.scan.faults import Unreachable, fault_text
from railwright.scan.login import ByAnsible, Login, Logins
from railwright.scan.questions import Asked, Question

END_S = 10.0  # after the answer
AT_ONCE = 64  # nodes; each holds at most wire.BYTES, and usually a five-hundredth of it
OPENSSH = re.compile(r"SSH-2\.0-OpenSSH_([0-9]{1,2})\.([0-9]{1,2})")
FIRST_MLKEM = (9, 9)  # OpenSSH's release notes: mlkem768x25519-sha256, the one post-quantum exchange that asyncssh has too


class Node(NamedTuple):
    """``variables``: how Ansible reaches it, templated. ``derived``: fields of the Spec that are of all nodes."""

    name: str
    spec: Spec
    variables: Mapping[str, Any]
    derived: Mapping[str, Any]


class Transport(Protocol):
    """How a question gets to a node. Another one may stand in for ssh: see TRANSPORT."""

    classical: set[str]  # nodes whose key exchange was not post-quantum

    async def hear(self, login: Login, command: Command, payload: Payload) -> Heard:
        """Raises Unreachable, ByAnsible, Refused."""

    async def close(self) -> None: ...


class Ssh:
    """One connection and one command a node."""

    def __init__(self, logins: Logins, word: str) -> None:
        self._connections, self._word = Connections(logins.config), word
        self.classical: set[str] = set()

    async def hear(self, login: Login, command: Command, payload: Payload) -> Heard:
        connection = await self._connections.open(login)
        version = OPENSSH.match(str(connection.get_extra_info("server_version")))
        if version is not None and (int(version[1]), int(version[2])) < FIRST_MLKEM:
            self.classical.add(login.node)
        try:
            return await self._asked(connection, command, payload)
        except (asyncssh.Error, OSError) as error:
            raise Unreachable(fault_text(login.host, connection.get_extra_info("port"), error, began=True)) from error
        finally:
            connection.abort()

    async def _asked(self, connection: asyncssh.SSHClientConnection, command: Command, payload: Payload) -> Heard:
        dialogue = Dialogue(self._word, payload, command)
        channel, _session = await connection.create_session(lambda: dialogue, command.line, encoding=None)
        try:
            async with asyncio.timeout(wire.within(wire.INSPECT_S)):
                await asyncio.wait((begun := asyncio.ensure_future(dialogue.begun.wait()), dialogue.heard),
                                   timeout=wire.within(wire.BEGIN_S), return_when=asyncio.FIRST_COMPLETED)
                begun.cancel()
                if not dialogue.begun.is_set() and not dialogue.heard.done():
                    raise Refused(wire.SILENT % wire.within(wire.BEGIN_S), began=False)
                heard = await dialogue.heard
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_S):
                        await channel.wait_closed()  # the status comes last
                return heard._replace(status=channel.get_exit_status())
        except TimeoutError:
            raise Refused(wire.SILENT % wire.within(wire.INSPECT_S), began=dialogue.begun.is_set()) from None

    async def close(self) -> None:
        await self._connections.close()


# What makes the transport of a scan. The benchmark puts simulated nodes here.
TRANSPORT: Callable[..., Transport] = Ssh


class Scanned(NamedTuple):
    """``by_ansible``: nodes that were not asked, each with why. ``classical``: whose key exchange was not post-quantum."""

    outcome: RunOutcome
    by_ansible: dict[str, str]
    classical: set[str]


Keep = Callable[[str, dict[str, Any]], None]  # (node, the result of its last step, which did not fail)


def scan(
    question: Question, nodes: Iterable[Node], listener: Listener | None, echo: Echo | None, keep: Keep | None = None,
    at_once: int | None = None,
) -> Scanned:  # fmt: skip
    """Ask every node. Raises KeyboardInterrupt."""
    run = _Scan(question, Collector(listener, echo), keep, at_once or given.forks or AT_ONCE)
    asyncio.run(run.all(list(nodes)))
    run.tell("playbook_on_stats", processed={})
    return Scanned(run.collector.finish(), run.by_ansible, run.transport.classical)


class _Scan:
    def __init__(self, question: Question, collector: Collector, keep: Keep | None, at_once: int) -> None:
        self._at_once = at_once
        self.collector, self.by_ansible = collector, dict[str, str]()
        self._question, self._logins, self._word, self._keep = question, Logins(), secrets.token_hex(16), keep
        self.transport = TRANSPORT(self._logins, self._word)
        self._code, self._boot = packed_code(), (boot_text(), f"{DIRECTORY}/{code_digest()}")
        self._packed: tuple[Spec | None, bytes] = (None, b"")
        self._commands: dict[tuple[int, str | None], Command] = {}

    async def all(self, nodes: list[Node]) -> None:
        self.tell("playbook_on_task_start", task=self._question.task)
        pending = iter(nodes)

        async def work() -> None:
            for node in pending:
                await self._one(node)

        try:
            async with asyncio.TaskGroup() as group:
                for _number in range(min(self._at_once, len(nodes))):
                    group.create_task(work())
        finally:
            await self.transport.close()

    def tell(self, event: str, **data: Any) -> None:
        self.collector.handle({"event": event, "event_data": data})

    def _task(self, event: str, node: str, result: dict[str, Any], task: str = "", action: str = "") -> None:
        self.tell(event, host=node, res=result, task=task or self._question.task, resolved_action=action or self._question.module)

    async def _one(self, node: Node) -> None:
        self._task("runner_on_start", node.name, {})
        try:
            login = self._logins.login(node.name, node.variables, post_quantum=node.spec["ssh_post_quantum"])
            payload = Payload(self._code, self._spec(node.spec), json.dumps(self._call(node)).encode("ascii"))
            sent = time.time()
            heard = await self.transport.hear(login, self._command(login), payload)
            asked = Asked(node.name, node.spec, login.interpreter, sent, time.time(), heard)
            for step in self._question.steps(self._question, asked):
                failed = bool(step.result.get("failed"))
                if self._keep is not None and not failed:
                    self._keep(node.name, step.result)
                self._task("runner_on_failed" if failed else "runner_on_ok", node.name, step.result, step.task, step.action)
        except ByAnsible as reason:
            self.by_ansible[node.name] = str(reason)
        except Unreachable as error:
            first = self._question.probe_task or self._question.task
            self._task("runner_on_unreachable", node.name, {"unreachable": True, "msg": str(error)}, first)
        except Refused as error:
            told: tuple[str, ...] = ()
            if self._question.probe_task and not error.began:
                told = (self._question.probe_task, "rdma_preflight")
            self._task("runner_on_failed", node.name, {"failed": True, "msg": str(error)}, *told)

    def _call(self, node: Node) -> dict[str, Any]:
        given = self._question.given(node.name, node.spec)
        derived = {**node.derived, "code_derived": {"digest": code_digest()}, "agent_derived": agent_derived(node.spec)}
        return {"module": self._question.module, "given": given, "derived": derived}

    def _spec(self, spec: Spec) -> bytes:
        """Equal hosts share their Spec and stand together, so each is packed once; those of 10,000 nodes are no small thing to keep."""
        if self._packed[0] is not spec:
            self._packed = (spec, json.dumps(spec.as_dict()).encode("ascii"))
        return self._packed[1]

    def _command(self, login: Login) -> Command:
        key = (id(login.become), login.interpreter)
        if key not in self._commands:
            self._commands[key] = command_line(
                self._word, self._boot, login.interpreter, login.become, probe=bool(self._question.probe_task))
        return self._commands[key]
