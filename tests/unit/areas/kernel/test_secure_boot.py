# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS's key under Secure Boot, step by step: what is left is planned, what is done is not done again, the console is a person's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.fixtures.node_text import OS_RELEASE, proc_modules

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import carry_out
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import secure_boot
from ansible_collections.railwright.rdma.plugins.module_utils.entry.state import enrolled_first
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import observe_mok
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan
from ansible_collections.railwright.rdma.plugins.module_utils.types import UNENROLLED, Change, Identity, Problem
from field_specs import build_spec

from .conftest import OLD, Node

HASH = "$6$WmYjtUdEABCz$" + "a" * 86
VARIABLE = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
KEY = "/var/lib/dkms/mok.pub"
MADE, FORWARD, CONSOLE = (f"key of DKMS{end}" for end in ("", " put forward for enrolment", " enrolled at the console"))
# As mokutil 0.6.0 of Debian 12 answers.
SAYS = {
    "new": f"{KEY} is not enrolled\n",
    "pending": f"{KEY} is already in the enrollment request\n",
    "enrolled": f"{KEY} is already enrolled\n",
}
LISTED = "[key 1]\nSHA1 Fingerprint: 39:3a:75:b4:4a:b8:d6:0b:77:45:a4:ef:a8:e2:c6:e2:55:39:9f:8c\nCertificate:\n    Data:\n"


class Shim(Node):
    """mokutil and openssl have their effect; ``state`` is what shim knows of the key, ``other`` that a key of somebody else waits."""

    state, other = "new", False

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        if command[0] == "openssl":
            self.tree.write("var/lib/dkms/mok.key", "")
            self.tree.write(KEY[1:], "")
        elif command[:2] == ("rm", "-f"):
            for path in command[2:]:
                (self.tree.root / path[1:]).unlink()
        elif command[0] == "mokutil":
            return self._mokutil(command[1:], stdin)
        elif command[0] != "mkdir":
            return super().run(argv, timeout, stdin)
        self._directories.clear()
        self.commands.append(command)
        return Result(0, "", "")

    def _mokutil(self, words: tuple[str, ...], stdin: str | None) -> Result:
        if words[0] == "--list-new":
            return Result(0, LISTED if self.other or self.state == "pending" else "", "")
        if words[0] == "--test-key":
            return Result(int(self.state != "new"), SAYS[self.state], "")
        self.commands.append(("mokutil", *words))
        if words[0] == "--import":
            assert (words[1:], stdin) == ((KEY, "--hash-file", "/dev/stdin"), HASH)
            self.state = "pending"
        elif words == ("--revoke-import",):
            self.state = "new"
        return Result(0, "", "")


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    found = Shim(tmp_path / "node")
    found.tree.system(OS_RELEASE["debian12"], OLD, "n1", proc_modules({}))
    found.tree.write(VARIABLE, b"\x06\x00\x00\x00\x01")
    for program in ("openssl", "mokutil"):
        found.tree.write(f"cmd/{program}", "")
    return found


def parts(node: Shim, password: str | None = HASH, identity: Identity | None = None) -> tuple[secure_boot.Desired, secure_boot.Observed]:
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:00:00:01"}, "address": "10.0.0.1/24"}]
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, "mok_password_hash": password}, "n1")
    assert spec is not None, findings
    wanted = secure_boot.desired(spec, identity or observe_identity(node))
    return wanted, secure_boot.observe(node, wanted)


def planned(node: Shim, password: str | None = HASH) -> list[Change]:
    assert secure_boot.conflicts(*parts(node, password)) == []
    return secure_boot.plan(*parts(node, password))


def whats(node: Shim) -> list[str]:
    return [change.what for change in planned(node)]


def apply(node: Shim) -> Journal:
    journal = Journal(node, "test")
    carry_out(node, [change for change in planned(node) if not change.external], journal)
    return journal


def test_every_step_is_planned_and_none_is_made_twice(shim: Shim) -> None:
    changes = planned(shim)
    assert [(change.what, change.disruption, change.external) for change in changes] == [
        (MADE, "none", False), (FORWARD, "secure_boot", False), (CONSOLE, "secure_boot", True)]
    assert not any(change.needs_reboot for change in changes), "a reboot of ours would lose the request"
    apply(shim)
    assert whats(shim) == [CONSOLE]
    done = list(shim.commands)
    apply(shim)
    assert shim.commands == done
    shim.state = "enrolled"
    assert whats(shim) == []


def test_a_request_that_nobody_confirmed_is_made_again_with_the_same_key(shim: Shim) -> None:
    apply(shim)
    shim.state = "new"  # MokManager forgets what nobody comes for
    assert whats(shim) == [FORWARD, CONSOLE]
    apply(shim)
    assert [command[0] for command in shim.commands].count("openssl") == 1


def test_undone_nothing_waits_and_no_key_is_left(shim: Shim) -> None:
    journal = apply(shim)
    assert roll_back(shim, journal.entries) == []
    assert (shim.state, shim.exists(KEY), shim.exists("/var/lib/dkms/mok.key")) == ("new", False, False)


def test_the_hash_is_in_no_plan_and_no_journal(shim: Shim) -> None:
    shown = [change._replace(ops=()) for change in planned(shim)]
    journal = apply(shim)
    assert ("mokutil", "--import", KEY, "--hash-file", "/dev/stdin") in shim.commands
    kept = (shim.tree.root / journal.path[1:]).read_text()
    assert "--import" in kept
    assert HASH[3:15] not in f"{shown}{kept}{shim.commands}"


def test_without_secure_boot_password_or_machine_it_is_nobodys_business(shim: Shim) -> None:
    assert planned(shim, None) == []
    container = observe_identity(shim)._replace(capabilities=("container",))
    assert secure_boot.plan(*parts(shim, identity=container)) == []
    shim.tree.write(VARIABLE, b"\x06\x00\x00\x00\x00")
    assert planned(shim) == []


def test_a_key_of_somebody_else_that_waits_is_left_alone(shim: Shim) -> None:
    shim.other = True
    (problem,) = secure_boot.conflicts(*parts(shim))
    assert "another key waits" in problem.message


@pytest.mark.parametrize(("gone", "said"), [("openssl", "no key can be made"), ("mokutil", "does not tell")])
def test_a_missing_tool_is_named(shim: Shim, gone: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if gone == "mokutil":
        shim.tree.write(KEY[1:], "")
        monkeypatch.setattr(Shim, "_mokutil", lambda *_words: Result(127, "", "mokutil: not found"))
    (shim.tree.root / "cmd" / gone).unlink()
    (problem,) = secure_boot.conflicts(*parts(shim))
    assert (problem.subject, said in problem.message) == (gone, True), problem
    assert secure_boot.plan(*parts(shim)) == [] or gone == "openssl"


def test_ubuntus_dkms_has_its_key_elsewhere(shim: Shim) -> None:
    shim.tree.system(OS_RELEASE["ubuntu2404"], OLD, "n1", proc_modules({}))
    assert secure_boot.plan(*parts(shim))[0].after == "/var/lib/shim-signed/mok/MOK.der"


@pytest.mark.parametrize(("state", "known"), [("new", (False, False)), ("pending", (False, True)), ("enrolled", (True, False))])
def test_what_mokutil_says_of_a_key(shim: Shim, state: str, known: tuple[bool, bool]) -> None:
    shim.tree.write(KEY[1:], "")
    shim.state = state
    assert observe_mok(shim, True) == (KEY, *known)
    assert observe_mok(shim, False) == (KEY, None, None)


def test_the_steps_stand_in_place_of_the_problem_they_solve(shim: Shim) -> None:
    problems = (Problem("dkms", "Secure Boot", "is on", UNENROLLED), Problem("dkms", "kernel", "is gone"))
    identity = observe_identity(shim)
    assert enrolled_first(Plan(identity, tuple(planned(shim)), problems, None)).problems == problems[1:]
    assert enrolled_first(Plan(identity, (), problems, None)).problems == problems
