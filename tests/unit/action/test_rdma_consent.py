# SPDX-License-Identifier: GPL-3.0-or-later
"""What is fixed, what is left and why, and when a node has come back clean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_consent
from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import ROUNDS, Scope, choose_fixes, judge
from drift_findings import BURNT, CONF, KERNEL, LINE, MASKED, MTU, PORT, SYSCTL, finding, seen

pytestmark = pytest.mark.core
EVERYTHING = Scope((), "minor", ())


def keys(rows: list[dict[str, Any]]) -> list[str]:
    return [row["key"] for row in rows]


def causes(document: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["cause"] for row in document["left"]}


def test_settings_are_fixed_and_the_rest_has_its_reason() -> None:
    document = choose_fixes(seen(SYSCTL, CONF, MTU, BURNT, KERNEL, LINE, PORT), EVERYTHING, {}, {})
    assert document["fix"] == keys(document["tried"]) == [SYSCTL["key"], CONF["key"]]
    assert causes(document) == {
        MTU["key"]: "consent", BURNT["key"]: "reboot", KERNEL["key"]: "reboot", LINE["key"]: "effective", PORT["key"]: "state",
    }  # fmt: skip
    reasons = {row["key"]: row["reason"] for row in document["left"]}
    assert reasons[MTU["key"]] == "needs consent to link"
    assert "set in /etc/profile.d/site.sh:1" in reasons[LINE["key"]]
    assert "x" * 100 not in str(document), "values of files are in the drift, once"


def test_consent_is_enough_for_its_class_and_never_for_a_reboot() -> None:
    document = choose_fixes(seen(MTU, BURNT), EVERYTHING._replace(consent=("link", "reboot")), {}, {})
    assert document["fix"] == [MTU["key"]]
    assert causes(document) == {BURNT["key"]: "reboot"}


def test_only_what_was_asked_for() -> None:
    assert choose_fixes(seen(SYSCTL, CONF), EVERYTHING._replace(areas=("nccl",)), {}, {})["fix"] == [CONF["key"]]
    critical = choose_fixes(seen(SYSCTL, finding("rxe: RDMA link", severity="critical")), EVERYTHING._replace(severity="critical"), {}, {})
    assert critical["fix"] == ["rxe: RDMA link"]
    assert causes(critical) == {SYSCTL["key"]: "severity"}


def test_a_node_that_apply_refuses_is_not_tried() -> None:
    document = choose_fixes(seen(SYSCTL, MASKED), EVERYTHING, {}, {})
    assert document["fix"] == []
    assert causes(document) == {SYSCTL["key"]: "refused", MASKED["key"]: "problem"}


def test_changes_found_later_get_another_round_and_nothing_is_tried_twice() -> None:
    first = choose_fixes(seen(SYSCTL), EVERYTHING, {}, {})
    second = choose_fixes(seen(SYSCTL, CONF), EVERYTHING, first, {"left": []})
    assert second["fix"] == [CONF["key"]]
    assert keys(second["tried"]) == [SYSCTL["key"], CONF["key"]]
    assert choose_fixes(seen(SYSCTL, CONF), EVERYTHING, second, {})["fix"] == []


def test_rounds_have_an_end() -> None:
    document: dict[str, Any] = {}
    tries = 0
    for number in range(10):
        document = choose_fixes(seen(finding(f"nccl: file /{number}")), EVERYTHING, document, {})
        tries += bool(document["fix"])
    assert tries == ROUNDS


def test_what_the_node_left_out_is_no_failure() -> None:
    """Only the node sees what a change builds on."""
    first = choose_fixes(seen(SYSCTL, CONF), EVERYTHING, {}, {})
    left = [{"key": CONF["key"], "cause": "needs", "reason": "needs it first", "needs": "packages: package x"},
            {"key": MTU["key"], "cause": "not asked", "reason": "not asked for"}]
    second = choose_fixes(seen(CONF), EVERYTHING, first, {"left": left})
    assert second["fix"] == []
    end = judge(seen(SYSCTL, CONF), seen(CONF), EVERYTHING, second, "")
    assert end["clean"]
    assert keys(end["fixed"]) == [SYSCTL["key"]]
    assert (end["left"][0]["reason"], end["left"][0]["needs"]) == ("needs it first", "packages: package x")


def judged(before: dict[str, Any], after: dict[str, Any], scope: Scope = EVERYTHING, error: str = "") -> dict[str, Any]:
    return judge(before, after, scope, choose_fixes(before, scope, {}, {}), error)


def test_clean_is_gone_and_nothing_new() -> None:
    end = judged(seen(SYSCTL, LINE, PORT), seen(LINE, PORT))
    assert (end["clean"], keys(end["fixed"]), keys(end["left"])) == (True, [SYSCTL["key"]], [LINE["key"], PORT["key"]])


@pytest.mark.parametrize(("after", "part"), [
    (seen(SYSCTL), "still"),
    (seen(PORT), "new"),  # of another area, and caused by what was fixed or not: nobody goes on
    (seen(MTU), "new"),
    (seen(MASKED), "new"),
])  # fmt: skip
def test_not_clean(after: dict[str, Any], part: str) -> None:
    end = judged(seen(SYSCTL), after)
    assert not end["clean"]
    assert keys(end[part]) == keys(after["findings"])


@pytest.mark.parametrize("new", [
    LINE,  # somebody else's line shows only when our own file is right
    BURNT,  # what was fixed waits for its reboot
    finding("containers: x", severity="minor"),  # less severe than what was asked for
])  # fmt: skip
def test_new_and_no_reason_to_stop(new: dict[str, Any]) -> None:
    end = judged(seen(SYSCTL), seen(new), EVERYTHING._replace(severity="major"))
    assert end["clean"]
    assert keys(end["left"]) == [new["key"]]


def test_a_severity_that_nobody_knows_is_the_worst() -> None:
    newer = finding("nccl: x", kind="state", severity="catastrophic")
    assert not judged(seen(SYSCTL), seen(newer), EVERYTHING._replace(severity="critical"))["clean"]


def test_an_error_is_not_clean_and_an_unseen_node_has_nothing_remediated() -> None:
    assert not judged(seen(SYSCTL), seen(), error="no space")["clean"]
    end = judged(seen(SYSCTL), {"failed": True, "msg": "x"})
    assert not end["clean"]
    assert end["fixed"] == []


NAME = "railwright.rdma.rdma_consent"


def run(values: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """The action as ansible-core calls it; it has no module."""
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=False, diff=False, action=NAME, environment=None)
    loader = DataLoader()
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
    action = rdma_consent.ActionModule(task, connection, SimpleNamespace(), loader, Templar(loader, values), None)
    action._load_name = NAME
    result: dict[str, Any] = action.run(task_vars=values)
    return result


def test_the_message_names_what_is_wrong_and_who_is_left_alone() -> None:
    values = {"ansible_play_hosts_all": ["n1", "n2", "n3"], "hostvars": {"n1": {"began": {}}, "n2": {"began": {}}, "n3": {}}}
    choice = run(values, mode="choose", drift=seen(SYSCTL))
    error = {"msg": "", "results": [{"failed": True, "msg": "a"}, {"msg": "fine"}, {"failed": True, "msg": "b"}]}
    end = run(values, mode="judge", before=seen(SYSCTL), drift=seen(SYSCTL, PORT), earlier=choice, error=error, began="began")
    assert end["failed"]
    assert end["msg"] == (
        "did not come back clean: a; b. still there: sysctl: sysctl net.x. new since: port.state: mlx5_0 port 1. Not touched: n3")
    assert not run(values, mode="judge", before=seen(SYSCTL), drift=seen(), earlier=choice, began="began").get("failed")


def test_a_batch_that_lost_a_node_is_told() -> None:
    hostvars = {"n1": {"b": 1}, "n2": {"b": 1}, "n3": {}}
    values = {"ansible_play_hosts_all": ["n1", "n2", "n3"], "ansible_play_hosts": ["n1", "n3"], "hostvars": hostvars}
    found = run(values, mode="guard", began="b")
    assert found["lost"] == ["n2"]
    assert found["warnings"] == ["lost: n2. Not touched: n3"]
    whole = run({**values, "ansible_play_hosts": ["n1", "n2", "n3"]}, mode="guard", began="b")
    assert (whole["lost"], whole.get("warnings")) == ([], None)


def test_the_consent_is_the_inventorys() -> None:
    assert run({"rdma_consent": ["link"]}, mode="choose", drift=seen(MTU))["remediation"]["fix"] == [MTU["key"]]
    assert run({}, mode="choose", drift=seen(MTU))["remediation"]["fix"] == []


def test_an_area_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AnsibleActionFail, match="areas: ncl: no such area; allowed: repositories, "):
        run({}, mode="choose", drift=seen(MTU), areas=["ncl"])
