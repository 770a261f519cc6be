# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of container scenarios share: the node's name and rails, its container, and what the runs before said."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Run(NamedTuple):
    """One run of converge.yml: ``kind`` is check or apply; answers of our modules in order (shared/callback)."""

    kind: str
    answers: list[dict[str, Any]]

    def of(self, module: str, node: str | None = None) -> list[dict[str, Any]]:
        return [item for item in self.answers if item["module"] == module and node in (None, item["host"])]


@pytest.fixture(scope="session")
def scenario() -> str:
    return os.environ["MOLECULE_SCENARIO_NAME"]


@pytest.fixture(scope="session")
def runs(scenario: str) -> list[Run]:
    """Every run since the nodes were made, in order."""
    files = sorted((ROOT / "build" / "molecule" / scenario / "runs").glob("*.json"), key=lambda path: int(path.name.partition("-")[0]))
    return [Run(path.stem.partition("-")[2], json.loads(path.read_text(encoding="utf-8"))) for path in files]


@pytest.fixture(scope="session")
def applied(runs: list[Run]) -> Run:
    """The first run that changed anything."""
    found = [run for run in runs if run.kind == "apply"]
    assert found, "no run of converge.yml left its answers"
    return found[0]


@pytest.fixture
def node(host: Any) -> str:
    """The name in the inventory."""
    return str(host.backend.host)


@pytest.fixture
def idle(scenario: str, node: str) -> bool:
    """Whether the role is to do nothing on this node."""
    from cluster import Cluster

    return any(item.name == node and item.entry.get("idle") for item in Cluster(scenario).nodes)


@pytest.fixture
def container(scenario: str, node: str) -> Any:
    """The node as the machine below sees it: it can be restarted, which ssh cannot do."""
    from cluster import Cluster

    return Cluster(scenario).container(node)


@pytest.fixture
def rails(scenario: str, node: str) -> list[tuple[str, str, str]]:
    """(rail, interface, address) of the node, as the inventory has them."""
    from cluster import Cluster

    found = next(item for item in Cluster(scenario).nodes if item.name == node)
    return [(rail["name"], f"eth{place + 1}", rail["address"]) for place, rail in enumerate(found.rails)]


@pytest.fixture(scope="session")
def story(scenario: str) -> dict[str, Any]:
    """The life of a stack, told once for all tests of a scenario (tests/containers/story.py)."""
    from story import tell

    return dict(tell(scenario))


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait, with a bound, for what a manager does after it has answered."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline, "it did not come within 30 s"
            time.sleep(0.3)

    return wait


@pytest.fixture(scope="session")
def rollout(scenario: str) -> Any:
    """Four provisioned nodes with people at work on them (tests/containers/rollout.py)."""
    from rollout import Rollout

    made = Rollout(scenario, ROOT / "build" / "molecule" / scenario / "state")
    made.provision()
    return made
