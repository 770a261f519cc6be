# SPDX-License-Identifier: GPL-3.0-or-later
"""An account is created only where getent finds neither its name nor its number; an existing one is never changed."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result

KEYS: dict[str, Any] = {"job_user": "mpi", "job_user_create": True, "job_user_uid": 2000}
LDAP = "mpi:*:70001:70001::/ldap/home/mpi:/bin/bash"


@pytest.fixture
def known(node: Any, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str | int]:
    """What getent answers: a line, or an exit code. useradd and userdel have their effect on it."""
    accounts: dict[tuple[str, str], str | int] = {}
    before = node.run

    def run(argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if argv[0] == "getent":
            found = accounts.get((argv[1], argv[2]), 2)
            return Result(found, "", "") if isinstance(found, int) else Result(0, found + "\n", "")
        if argv[0] in ("useradd", "userdel"):
            node.commands.append(tuple(argv))
            line = "mpi:x:2000:2000::/home/mpi:/bin/sh"
            for key in [(base, name) for base in ("passwd", "group") for name in ("mpi", "2000")]:
                accounts.pop(key, None)
                accounts.update({key: line} if argv[0] == "useradd" else {})
            return Result(0, "", "")
        if tuple(argv[:2]) == ("systemctl", "is-active"):
            return Result(0 if node.read("/run/test-sssd") else 3, "", "")
        return before(argv, timeout, stdin)

    monkeypatch.setattr(node, "run", run)
    return accounts


@pytest.mark.usefixtures("known")
def test_an_unknown_account_is_created_once_and_with_a_number_of_its_own(planner: Callable[..., Any], node: Any) -> None:
    plans = planner(**KEYS)
    assert plans.keys("job_user") == ["account mpi"]
    plans.converge("job_user")
    assert [command for command in node.commands if command[0] == "useradd"] == [
        ("useradd", "--uid", "2000", "--user-group", "--create-home", "--password", "*", "mpi")]


def test_nothing_is_created_unasked(planner: Callable[..., Any], known: dict[Any, Any]) -> None:
    assert planner(job_user="mpi").keys("job_user") == []
    assert known == {}


def test_an_account_of_ldap_is_neither_shadowed_nor_changed(planner: Callable[..., Any], known: dict[Any, Any]) -> None:
    known[("passwd", "mpi")] = LDAP
    plans = planner(**KEYS)
    assert plans.keys("job_user") == []
    assert plans.problems("job_user") == []


@pytest.mark.parametrize("key", [("passwd", "2000"), ("group", "2000"), ("group", "mpi")])
def test_a_number_or_group_of_somebody_else(planner: Callable[..., Any], known: dict[Any, Any], key: tuple[str, str]) -> None:
    known[key] = "alice:*:2000:2000::/home/alice:/bin/sh"
    plans = planner(**KEYS)
    assert plans.keys("job_user") == []
    (problem,) = plans.problems("job_user")
    assert f"getent finds {key[0]} {key[1]} (alice)" in problem


def test_a_directory_that_does_not_answer_is_no_answer(planner: Callable[..., Any], node: Any, known: dict[Any, Any]) -> None:
    node.put("/etc/nsswitch.conf", "passwd: sss files systemd\n")
    node.put("/etc/sssd/sssd.conf", "[sssd]\n", 0o600)
    plans = planner(**KEYS)
    assert plans.keys("job_user") == []
    assert "sssd does not answer" in plans.problems("job_user")[0]
    node.put("/run/test-sssd", "x")
    assert plans.keys("job_user") == ["account mpi"]
    known[("passwd", "2000")] = 3
    assert plans.keys("job_user") == []
    assert "getent passwd 2000" in plans.problems("job_user")[0]
