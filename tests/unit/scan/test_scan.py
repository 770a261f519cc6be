# SPDX-License-Identifier: GPL-3.0-or-later
"""Many nodes at once, over a transport that plays them: what each verb makes of an answer, and of none."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from field_specs import build_spec
from railwright.events import Update
from railwright.inventory import _quiet
from railwright.scan import scan
from railwright.scan.dialogue import Command, Heard, Payload, Refused
from railwright.scan.faults import Unreachable
from railwright.scan.login import ByAnsible, Login
from railwright.scan.questions import QUESTIONS
from railwright.scan.scan import Node, Scanned

DRIFT = {"changed": False, "findings": [], "judged": ["network"], "unknown": [], "unasked": [], "drivers": {}, "notes": []}
Answers = Callable[[str], Any]


class Played:
    """Bytes are an answer, an exception is raised."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.classical = answers, {"old"}
        self.heard: list[tuple[str, Payload, Command]] = []

    async def hear(self, login: Login, command: Command, payload: Payload) -> Heard:
        self.heard.append((login.node, payload, command))
        found = self.answers(login.node)
        if isinstance(found, Exception):
            raise found
        return Heard(found, no_python=False, before=b"", output=b"", errors=b"Segmentation fault\n", status=139)

    async def close(self) -> None:
        self.closed = True


def wishes() -> Spec:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000}, "one")
    assert spec is not None
    return spec


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Scanned, Played, list[Update]]]]:
    spec = wishes()

    def ask(verb: str, answers: Answers, *names: str, **variables: Any) -> tuple[Scanned, Played, list[Update]]:
        played, updates = Played(answers), list[Update]()
        monkeypatch.setattr(scan, "TRANSPORT", lambda _logins, _word: played)
        nodes = [Node(name, spec, {"ansible_ssh_common_args": "-F none", **variables}, {}) for name in names]
        found = scan.scan(QUESTIONS[verb], nodes, updates.append, None)
        assert played.closed
        return found, played, updates

    with _quiet():
        yield ask


def test_each_node_gets_its_own_outcome(asked: Any) -> None:
    answers = {
        "clean": json.dumps(DRIFT).encode(), "away": Unreachable("no answer; is it up?"), "odd": b'{"findings": 1}', "torn": b'{"a',
        "silent": None, "slow": Refused("too late", began=True),
    }  # fmt: skip
    found, played, updates = asked("drift", answers.__getitem__, *answers)
    hosts = found.outcome.hosts
    assert {name: host.status for name, host in hosts.items()} == {
        "clean": "ok", "away": "unreachable", "odd": "failed", "torn": "failed", "silent": "failed", "slow": "failed"}
    assert hosts["clean"].drift["judged"] == ["network"]
    assert {host.task for host in hosts.values() if host.status != "ok"} == {"Look for drift"}
    assert "Segmentation fault" in hosts["silent"].message
    assert (hosts["away"].message, hosts["slow"].message) == ("no answer; is it up?", "too late")
    assert [update.kind for update in updates].count("start") == len(answers)
    assert found.classical == {"old"}
    (_node, payload, command) = played.heard[0]
    assert json.loads(payload.call)["given"]["mode"] == "drift"
    assert json.loads(payload.spec)["fabric"] == "roce"
    assert " sudo " in command.line


def test_who_goes_by_ansible_is_no_outcome(asked: Any) -> None:
    found, played, _updates = asked("drift", lambda _name: ByAnsible("its login needs Kerberos"), "one")
    assert (found.by_ansible, found.outcome.hosts) == ({"one": "its login needs Kerberos"}, {})
    found, played, _updates = asked("drift", lambda _name: None, "one", ansible_connection="local")
    assert (found.by_ansible, played.heard) == ({"one": "ansible_connection is local"}, [])


def test_equal_wishes_are_packed_once(asked: Any) -> None:
    _found, played, _updates = asked("drift", lambda _name: json.dumps(DRIFT).encode(), "one", "two")
    assert played.heard[0][1].spec is played.heard[1][1].spec
    assert played.heard[0][2] is played.heard[1][2]


def test_a_plan_begins_with_the_probe(asked: Any) -> None:
    """One that is missing fails the node as it does in the playbook; nothing else of the answer counts."""
    found, played, _updates = asked("plan", lambda _name: b"{}", "one")
    host = found.outcome.hosts["one"]
    assert (host.status, host.task, host.planned) == ("failed", "Inspect the node before Python", False)
    assert "the node answered nothing that the probe prints" in host.message
    assert "railwright-probe" in played.heard[0][2].line
    found, _played, _updates = asked("plan", lambda _name: Refused("Missing sudo password", began=False), "one")
    assert found.outcome.hosts["one"].task == "Inspect the node before Python"


def test_facts_of_another_form_are_refused(asked: Any) -> None:
    found, _played, _updates = asked("facts", lambda _name: b'{"changed": false, "rdma": {"schema": 1}}', "one")
    assert found.outcome.hosts["one"].status == "failed"
    assert found.outcome.hosts["one"].facts is None
