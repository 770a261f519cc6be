# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's steps as runs of the collection's playbooks, on some nodes each. Slow to import: ansible_runner is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from railwright.events import Echo, Listener, RunOutcome
from railwright.run import run_playbook

PLAYBOOKS = {"preflight": "upgrade_preflight", "rollback": "rollback", "revalidate": "validate"}
TASKS = {"look": "scheduler"}  # how roles/upgrade calls it, where that is another word
# A node that was rolled back is judged by its inventory: it has nothing of the release any more.
WITHOUT_PINS = ("rollback", "revalidate")

Shown = Callable[[str], AbstractContextManager[Listener]]


class Playbooks:
    """``variables``: of every step; ``pins``: of those that know the release."""

    def __init__(
        self, inventory: Path, variables: Mapping[str, Any], pins: Mapping[str, Any], shown: Shown, echo: Echo | None = None
    ) -> None:
        self._inventory, self._variables, self._pins = inventory, dict(variables), dict(pins)
        self._shown, self._echo = shown, echo

    def execute(self, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome:
        if not nodes:
            return RunOutcome()  # no limit would mean every node
        given = {**self._variables, **({} if step in WITHOUT_PINS else self._pins), **variables}
        playbook = PLAYBOOKS.get(step, "upgrade_step")
        if playbook == "upgrade_step":
            given["rdma_upgrade_step"] = TASKS.get(step, step)
        with self._shown(step) as listener:
            return run_playbook(playbook, self._inventory, ",".join(nodes), given, listener, self._echo)
