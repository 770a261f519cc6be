# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_state module: what it refuses, and that check mode refuses the same."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack.packages import NAME as PACKAGES
from ansible_collections.railwright.rdma.plugins.module_utils.entry import state
from ansible_collections.railwright.rdma.plugins.module_utils.entry.rollback import run_name
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity, Platform, Problem, write_file
from field_specs import build_spec
from module_double import Module
from rooted import change

NOWHERE = Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt")
IDENTITY = Identity("node1", NOWHERE, "6.1.0", "x86_64", "3.11.2", None, (), (), ())
UNFIT = Problem("preflight", "disk /", "1 MiB free")
LINK = change(write_file("/nowhere/at/all", "x\n"))._replace(disruption="link")
PACKAGE = package_change(PACKAGES, "perftest", None, "present", "why", "source")


PARAMS = {"mode": "apply", "areas": None, "expected": None, "run_id": None, "now": None, "confirm_seconds": 0, "confirm_token": None,
          "only": None, "consented_only": False}  # fmt: skip


class Ended:
    """The result that the module ends with."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result, self.failed = result, bool(result.get("failed"))


def ended(monkeypatch: pytest.MonkeyPatch, plan: Plan, *, check_mode: bool, **params: Any) -> Ended:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000}, "node1")
    assert spec is not None
    monkeypatch.setattr(state, "make_plan", lambda *_arguments: plan)
    return Ended(Module({**PARAMS, "spec": spec.as_dict(), **params}, check_mode=check_mode).call(state.answer))


def plan_of(*changes: Change, problems: tuple[Problem, ...] = ()) -> Plan:
    return Plan(IDENTITY, changes, problems, None)


@pytest.mark.parametrize(("plan", "expected", "message"), [
    (plan_of(LINK, problems=(UNFIT,)), None, "disk /: 1 MiB free"),
    (plan_of(LINK), None, "refused without consent"),
    (plan_of(LINK), ["test: something else"], "plan diverged"),
])  # fmt: skip
def test_check_mode_refuses_what_apply_refuses(monkeypatch: pytest.MonkeyPatch, plan: Plan, expected: Any, message: str) -> None:
    end = ended(monkeypatch, plan, check_mode=True, expected=expected)
    assert end.failed
    assert message in end.result["msg"]
    assert [item["key"] for item in end.result["plan"]] == ["test: something"], "the refused plan is shown all the same"


def test_check_mode_shows_packages_that_nothing_has_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = ended(monkeypatch, plan_of(PACKAGE), check_mode=True)
    assert not end.failed
    assert end.result["changed"] is True
    assert end.result["packages"]["steps"][0]["names"] == ["perftest"]


def test_a_plan_is_never_refused_and_never_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    end = ended(monkeypatch, plan_of(LINK, problems=(UNFIT,)), check_mode=False, mode="plan")
    assert (end.failed, end.result["changed"]) == (False, False)
    assert [item["message"] for item in end.result["problems"]] == ["1 MiB free"]


def test_a_cut_plan_is_not_refused_for_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the missing consent nor the missing package is of the part that is asked for."""
    file = change(write_file("/nowhere/else", "x\n"), what="file")
    end = ended(monkeypatch, plan_of(PACKAGE, LINK, file), check_mode=True, only=[file.key])
    assert not end.failed
    assert [item["key"] for item in end.result["plan"]] == end.result["only"] == [file.key]
    assert [(item["key"], item["cause"]) for item in end.result["left"]] == [(PACKAGE.key, "not asked"), (LINK.key, "not asked")]
    assert end.result["packages"]["needed"] is False


def test_consented_only_leaves_out_in_place_of_refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    end = ended(monkeypatch, plan_of(LINK), check_mode=True, consented_only=True)
    assert (end.failed, end.result["changed"], end.result["plan"]) == (False, False, [])
    assert [(item["disruption"], item["reason"]) for item in end.result["left"]] == [("link", "needs consent to link")]


def test_a_whole_plan_tells_nobody_to_keep_to_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    end = ended(monkeypatch, plan_of(LINK), check_mode=False, mode="plan")
    assert end.result["left"] == []
    assert "only" not in end.result


def test_what_was_left_out_has_not_come_to_light_by_the_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    file = change(write_file("/nowhere/else", "x\n"), what="file")
    fresh = LINK._replace(what="something that a module brought")
    monkeypatch.setattr(state, "apply_plan", lambda *_arguments: state.Applied("journal", (LINK, fresh), (), (LINK.key, fresh.key)))
    monkeypatch.setattr(state, "exclusive", lambda _host, *, wanted: contextlib.nullcontext())
    end = ended(monkeypatch, plan_of(LINK, file), check_mode=False, only=[file.key])
    assert [item["key"] for item in end.result["remaining"]] == [fresh.key]
    assert end.result["reboot_needed"] == [fresh.key]


def test_applies_of_one_second_that_nobody_named_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two controllers, or of a playbook and a rollback beside it."""
    names: list[str] = []
    monkeypatch.setattr("time.strftime", lambda *_arguments: "20260101T000000Z")
    monkeypatch.setattr(state, "apply_plan", lambda *arguments: names.append(arguments[3]) or state.Applied("journal", ()))
    monkeypatch.setattr(state, "exclusive", lambda _host, *, wanted: contextlib.nullcontext())
    for _controller in range(2):
        ended(monkeypatch, plan_of(LINK), check_mode=False)
    names.append(run_name(PARAMS))
    assert len(set(names)) == 3
    assert all(re.fullmatch("20260101T000000Z-[0-9a-f]{8}", name) for name in names)
