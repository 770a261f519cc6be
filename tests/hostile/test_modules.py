# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module and mode, asked of nodes that lie and of two that do not: one play each, in one run of ansible-playbook.

Who answers what no honest node can is named and fails; nothing is executed, written or read on the controller; the honest ones pass.
RAILWRIGHT_LIES multiplies the number of lies.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.hostile.cluster import HONEST, Cluster, changed_files, inventory, unexpected
from tests.hostile.honest import ANSWERS, texts
from tests.hostile.lies import Lie, chosen, lies
from tests.hostile.modules import VARIABLES, tasks

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import FORMS
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import BUILTIN

SCALE = int(os.environ.get("RAILWRIGHT_LIES", "1"))
EACH = 39 if SCALE == 1 else 65  # short answers have no more
# Asked only in plays of several nodes, or by an action of Ansible's that asks more than its module: test_plays.py.
ELSEWHERE = {
    "rdma_packages:failed", "rdma_measure:start", "rdma_measure:run", "rdma_measure:stop", "rdma_nccl_tests:start", "rdma_ssh_mesh:key",
    "rdma_drain:", "raw:", "reboot:", "unarchive:", "wait_for_connection:",
}  # fmt: skip
PARTS = 2 * SCALE  # of the modules: two processes share the work, and a play of thousands of hosts costs more than its share


class Modules(Cluster):
    """Groups of hosts for the plays."""

    groups: dict[str, list[str]]

    def environment(self, place: Path) -> dict[str, str]:
        document = inventory([*HONEST, *(name for names in self.groups.values() for name in names)], VARIABLES)
        document["all"]["children"] |= {
            group: {"hosts": {name: {} for name in [*HONEST, *names]}} for group, names in self.groups.items()}
        (place / "hosts.json").write_text(json.dumps(document))
        return super().environment(place)


def told(key: str) -> list[Lie]:
    known = texts()
    text = json.dumps(ANSWERS.get(key) or ANSWERS[f"{key.partition(':')[0]}:*"]) if known.get(key, "@").startswith("@") else known[key]
    return chosen(list(lies(key, text, builtin=not key.startswith("rdma_"))), EACH * SCALE, key)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_module_is_lied_about(part: int, tmp_path: Path) -> None:
    asked = dict(list(tasks().items())[part::PARTS])
    everybody = {(key, number): lie for key in asked for number, lie in enumerate(told(key))}
    names = {place: f"liar{number:05}" for number, place in enumerate(everybody)}
    cluster = Modules(tmp_path)
    cluster.groups = {f"g{number}": [names[place] for place in everybody if place[0] == key] for number, key in enumerate(asked)}
    plays = [
        {"name": key, "hosts": f"g{number}", "gather_facts": False, "tasks": [{"name": key, **task}]}
        for number, (key, task) in enumerate(asked.items())
    ]
    before = changed_files(cluster.home)
    outcome = cluster.play(plays, VARIABLES, {"": texts()}, {names[place]: {place[0]: lie.text} for place, lie in everybody.items()})

    assert outcome.code != 0
    reached = {(f"{module}:{mode}", host) for host, module, mode in outcome.asked}
    unasked = sorted({key for (key, _number), name in zip(everybody, names.values(), strict=True) if (key, name) not in reached})
    assert unasked == [], outcome.output[-2000:]
    believed = [lie.label for place, lie in everybody.items() if lie.named and not outcome.failures(names[place])]
    assert believed == []
    assert {name: outcome.failures(name) for name in HONEST} == {name: [] for name in HONEST}
    assert unexpected(cluster, outcome, before) == []


def test_this_is_every_module_and_mode() -> None:
    """A new one is in it, or says where else it is asked."""
    formed = {f"{module}:{mode}" for module, forms in FORMS.items() for mode in forms} | {f"{name.rpartition('.')[2]}:" for name in BUILTIN}
    assert formed - set(tasks()) - ELSEWHERE == set()
