# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds in every step of a stack's story (scenarios stacks and stacks_dnf), on every node.

``story``: the steps by name (tests/containers/story.py).
"""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest

STEPS = ("inbox", "doca 3.2.2", "doca 3.2.3", "doca 3.2.2 again", "inbox again", "mlnx_ofed", "doca after mlnx_ofed")
REFUSED = "doca 3.2.2 without consent"


def keys(host: Any) -> list[tuple[str, Any, Any, str]]:
    return [(item["key"], item["before"], item["after"], item["disruption"]) for item in host.plan]


def fits(found: str | None, wanted: str) -> bool:
    """``wanted``: a version, a glob of one, or present."""
    return found is not None and (wanted == "present" or fnmatch.fnmatchcase(found, wanted))


@pytest.mark.parametrize("name", STEPS)
def test_nothing_failed(story: Any, name: str) -> None:
    step = story[name]
    for run in (step.check, step.apply, step.again):
        assert {node: host.failed for node, host in run.items() if host.failed} == {}
    assert set(step.again) == set(step.apply) == set(step.before)


@pytest.mark.parametrize("name", STEPS)
def test_check_mode_shows_what_apply_does(story: Any, name: str) -> None:
    step = story[name]
    for node in step.before:
        assert keys(step.check[node]), f"{node}: a step that has nothing to do proves nothing"
        assert keys(step.check[node]) == keys(step.apply[node]), node


@pytest.mark.parametrize("name", [*STEPS, REFUSED])
def test_check_mode_changed_nothing(story: Any, name: str) -> None:
    assert story[name].between == story[name].before


@pytest.mark.parametrize("name", STEPS)
def test_every_package_of_the_plan_is_as_planned(story: Any, name: str) -> None:
    step = story[name]
    for node, state in step.after.items():
        packages = [item for item in step.apply[node].plan if item["what"].startswith("package ")]
        assert packages, node
        for item in packages:
            found = state.installed.get(item["what"].removeprefix("package "))
            # What was removed may come back as the new stack's: its meta package brings it.
            right = found != item["before"] if item["after"] is None else fits(found, item["after"])
            assert right, f"{node}: {found}: {item}"


@pytest.mark.parametrize("name", STEPS)
def test_a_second_apply_changes_nothing(story: Any, name: str) -> None:
    for node, host in story[name].again.items():
        assert (node, host.changed, [answer["plan"] for answer in host.of("rdma_state") if answer["plan"]]) == (node, [], [])


@pytest.mark.parametrize("name", STEPS)
def test_no_package_is_half_done(story: Any, name: str) -> None:
    for node, state in story[name].after.items():
        assert [package for package, row in state.packages.items() if row[0].strip() not in ("ii", "rc")] == [], node


def test_going_back_needs_consent(story: Any) -> None:
    step = story[REFUSED]
    for node, host in step.apply.items():
        assert len(host.failed) == 1, node
        _task, message = host.failed[0]
        assert "downgrade" in message
        assert "doca-ofed" in message
        assert "\n" not in message
        assert step.after[node] == step.before[node], f"{node}: refused, and yet changed"
