# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_state module: what it refuses, and that check mode refuses the same."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils import adapter
from ansible_collections.railwright.rdma.plugins.module_utils.areas.packages import NAME as PACKAGES
from ansible_collections.railwright.rdma.plugins.module_utils.plan import Plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.validate import build_spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity, Platform, Problem, write_file
from rooted import change

NOWHERE = Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt")
IDENTITY = Identity("node1", NOWHERE, "6.1.0", "x86_64", "3.11.2", None, (), (), ())
UNFIT = Problem("preflight", "disk /", "1 MiB free")
LINK = change(write_file("/nowhere/at/all", "x\n"))._replace(disruption="link")
PACKAGE = Change(PACKAGES, "package perftest", None, "present", "none", "why", "source", ())


class Ended(BaseException):
    """How AnsibleModule ends: with a result."""

    def __init__(self, result: dict[str, Any], *, failed: bool) -> None:
        super().__init__(str(result))
        self.result, self.failed = result, failed


class Module:
    def __init__(self, *, check_mode: bool, **params: Any) -> None:
        spec, _findings = build_spec({"fabric": "roce", "mtu": 9000}, "node1")
        assert spec is not None
        base = {"mode": "apply", "areas": None, "expected": None, "run_id": None, "now": None, "confirm_seconds": 0, "confirm_token": None}
        self.params, self.check_mode = {**base, "spec": spec.as_dict(), **params}, check_mode

    def exit_json(self, **result: Any) -> None:
        raise Ended(result, failed=False)

    def fail_json(self, **result: Any) -> None:
        raise Ended(result, failed=True)


def ended(monkeypatch: pytest.MonkeyPatch, plan: Plan, **params: Any) -> Ended:
    monkeypatch.setattr(adapter, "make_plan", lambda *_arguments: plan)
    with pytest.raises(Ended) as caught:
        adapter.run_state(Module(**params))
    return caught.value


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
