# SPDX-License-Identifier: GPL-3.0-or-later
"""When the role's loops end: with what the scheduler said, and at once where it said nothing; never after a day of asking in vain."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jinja2 import Environment

from repo import ROOT

TASKS = ROOT / "roles" / "upgrade" / "tasks"


def loop(name: str) -> dict[str, Any]:
    [task] = [task for task in yaml.safe_load((TASKS / name).read_text(encoding="utf-8")) if "until" in task]
    return dict(task)


@pytest.mark.parametrize("name", ["drain.yml", "undrain.yml"])
@pytest.mark.parametrize(("result", "ends"), [
    ({"waiting": True}, False), ({"waiting": False}, True), ({"waiting": False, "failed": True}, True),
    ({"waiting": True, "failed": True}, True)])
def test_when_a_loop_ends(name: str, result: dict[str, Any], *, ends: bool) -> None:
    task = loop(name)
    environment = Environment(autoescape=True)
    environment.tests["failed"] = lambda value: bool(value.get("failed"))
    assert environment.compile_expression(task["until"])(**{task["register"]: result}) is ends


@pytest.mark.parametrize(("name", "seconds"), [("drain.yml", 86400), ("undrain.yml", 300)])
def test_a_loop_is_long_enough_to_see_that_its_time_is_over(name: str, seconds: int) -> None:
    """The module says so itself, but only when it is asked once more."""
    task = loop(name)
    for poll in ({"__upgrade_drain_poll_s": 7}, {}):
        values = {"upgrade_drain_timeout_s": seconds, **poll}
        retries, delay = (int(Environment(autoescape=True).from_string(str(task[key])).render(values)) for key in ("retries", "delay"))
        assert retries * delay > seconds
