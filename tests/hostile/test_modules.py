# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module and mode, asked of nodes that lie again and again and of two that do not: one play each, in one run of ansible-playbook.

Who answers what no honest node can is named and fails; nothing is executed, written or read on the controller; the honest ones pass.
RAILWRIGHT_LIES multiplies the number of lies: 10 is make test-hostile, 0.1 the stages of other releases of ansible-core.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.hostile.cluster import HONEST, Asked, Cluster, changed_files, inventory, unexpected
from tests.hostile.honest import ANSWERS, texts
from tests.hostile.lies import Lie, chosen, lies
from tests.hostile.modules import VARIABLES, tasks

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import FORMS
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import BUILTIN
from railwright.events import item_failed

SCALE = float(os.environ.get("RAILWRIGHT_LIES", "1"))
EACH = 39 if SCALE <= 1 else 65  # short answers have no more
# Asked only in plays of several nodes, or by an action of Ansible's that asks more than its module: test_plays.py.
ELSEWHERE = {
    "rdma_packages:failed", "rdma_measure:start", "rdma_measure:run", "rdma_measure:stop", "rdma_bench:nccl_tests.start",
    "rdma_facts:",  # facts, where no mode is named
    # Over our own ssh alone: test_scan.py, tests/unit/entry/test_bundle.py, tests/unit/agent.
    "rdma_check:check", "rdma_check:bundle", "rdma_check:agent", "rdma_check:hold", "rdma_check:trial",
    # Over our own ssh alone: tests/unit/isolate, tests/unit/cli.
    "rdma_facts:job", "rdma_facts:nodes", "rdma_measure:sample", "rdma_bench:nccl_tests.pairs",
    "rdma_ssh_mesh:key", "rdma_drain:", "raw:", "reboot:", "unarchive:", "wait_for_connection:",
}  # fmt: skip
PARTS = max(1, int(2 * SCALE))  # of the modules: two processes share the work, and a play of thousands of hosts costs more than its share


AT_ONCE = 13  # lies that one host tells, in a loop: a process for each host is what costs


class Modules(Cluster):
    """A group of hosts for each play; ``liars`` has, by host, the answer that it falsifies, and its lies."""

    liars: dict[str, tuple[str, list[Lie]]]

    def environment(self, place: Path) -> dict[str, str]:
        document = inventory([*HONEST, *self.liars], VARIABLES)
        for name, (_key, told) in self.liars.items():
            document["all"]["children"]["rdma"]["hosts"][name]["hostile_turns"] = list(range(len(told) + 1))
        for key in {key for key, _told in self.liars.values()}:
            hosts = [*HONEST, *(name for name, (falsified, _told) in self.liars.items() if falsified == key)]
            document["all"]["children"][group(key)] = {"hosts": {name: {} for name in hosts}}
        (place / "hosts.json").write_text(json.dumps(document))
        return super().environment(place)


def group(key: str) -> str:
    return "asked_" + key.replace(":", "_")


def told(key: str) -> list[Lie]:
    known = texts()
    text = json.dumps(ANSWERS.get(key) or ANSWERS[f"{key.partition(':')[0]}:*"]) if known.get(key, "@").startswith("@") else known[key]
    return chosen(list(lies(key, text, builtin=not key.startswith("rdma_"))), int(EACH * SCALE), key)


@pytest.mark.core
@pytest.mark.parametrize("part", range(PARTS))
def test_every_module_is_lied_about(part: int, tmp_path: Path) -> None:
    """Each host tells its lies one after the other, and the truth at the end."""
    asked = dict(list(tasks().items())[part::PARTS])
    shares = [(key, found[first : first + AT_ONCE]) for key in asked for found in (told(key),) for first in range(0, len(found), AT_ONCE)]
    cluster = Modules(tmp_path)
    cluster.liars = {f"liar{number:05}": share for number, share in enumerate(shares)}
    turns = {"loop": "{{ hostile_turns | default([0]) }}", "vars": {"hostile_lie": "{{ item }}"}}
    plays = [
        {"name": key, "hosts": group(key), "gather_facts": False, "tasks": [{"name": key, **task, **turns}]} for key, task in asked.items()
    ]
    before = changed_files(cluster.home)
    lies_told = {name: {key: [lie.text for lie in found]} for name, (key, found) in cluster.liars.items()}
    outcome = cluster.play(plays, VARIABLES, {"": texts()}, lies_told)

    assert outcome.code != 0
    asked_for, believed, doubted = set(outcome.asked), [], []
    for name, (key, found) in cluster.liars.items():
        assert {Asked(name, key, turn) for turn in range(len(found) + 1)} <= asked_for, outcome.output[-2000:]
        *lying, honest = (item_failed(item) for item in outcome.of(name)[0][1]["results"])
        believed += [lie.label for lie, failed in zip(found, lying, strict=True) if lie.named and not failed]
        doubted += [name] * honest
    assert believed == []
    assert doubted == [], "the truth after the lies"
    assert {name: outcome.failures(name) for name in HONEST} == {name: [] for name in HONEST}
    assert unexpected(cluster, outcome, before) == []


def test_this_is_every_module_and_mode() -> None:
    """A new one is in it, or says where else it is asked."""
    formed = {f"{module}:{mode}" for module, forms in FORMS.items() for mode in forms} | {f"{name.rpartition('.')[2]}:" for name in BUILTIN}
    assert formed - set(tasks()) - ELSEWHERE == set()
