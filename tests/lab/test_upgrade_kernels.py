# SPDX-License-Identifier: GPL-3.0-or-later
"""A rolling upgrade of two machines from one real kernel to another while work is done on them: one at a time, each after its job.

The scheduler is a command (docs/drain.md) that keeps a book of what it is asked. The tests are one story and run in this order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from lab_debs import Keyring
from lab_images import KERNELS
from lab_kernels import CONSENT, SITE, fitted, kernels_of, runs
from lab_machine import RUN_SECONDS, Machine, Outcome
from railwright import lab

RECIPE = KERNELS
HARDWARE = lab.Hardware()
RAILS = 1
Pair = tuple[Machine, Machine]
JOB = "trap 'echo killed > /root/job; exit 143' TERM INT HUP; until [ -e /root/last-step ]; do sleep 1; done; echo done > /root/job"
# A queue whose jobs are units of the nodes. One that is asked for the third time whether its job has ended lets the job take its last step.
QUEUE = """
import subprocess, sys
from pathlib import Path
from railwright import lab
book, state_dir, verb, node = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
def on_node(*command):
    argv = lab.ssh_argv(node, list(command), state_dir=state_dir)
    return subprocess.run(argv, capture_output=True, text=True, timeout=120).stdout.strip()
busy = verb == "drained" and on_node("systemctl", "is-active", "job.service") == "active"
line = f"{'busy' if busy else verb} {node}"
with book.open("a") as file:
    print(line, file=file)
if busy and book.read_text().splitlines().count(line) == 3:
    on_node("touch", "/root/last-step")
sys.exit(75 if busy else 0)
"""


class Roll(NamedTuple):
    """The upgrade, what each machine's boot was before it, and what the queue was asked, in its order."""

    run: Outcome
    boots: tuple[str, ...]
    book: list[str]


@pytest.fixture(scope="module")
def pair(machines: Pair, keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both provisioned on the kernel that they came with, and a queue. An upgrade that an earlier run left behind is not gone on with."""
    for machine in machines:
        fitted(machine, keyring, tmp_path_factory.mktemp(machine.node))
        machine.rails()  # the second kernel has no rdma_rxe, and validate would miss the HCA
    work = tmp_path_factory.mktemp("queue")
    (work / "jobs.py").write_text(QUEUE, encoding="utf-8")
    (work / "book").touch()
    queue = [sys.executable, str(work / "jobs.py"), str(work / "book"), str(machines[0].state_dir)]
    machines[0].site({
        **SITE, "upgrade_scheduler": "command", "upgrade_max_unavailable": 1,
        **{f"upgrade_{verb}_command": [*queue, verb, "{node}"] for verb in ("drain", "drained", "undrain")},
    })
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        done = machines[0].railwright("apply")
        assert done.code in (0, 2), (done.document, done.err)
        yield machines


@pytest.fixture(scope="module")
def kernels(pair: Pair) -> tuple[str, str]:
    return kernels_of(pair[0])


@pytest.fixture(scope="module")
def roll(pair: Pair, kernels: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Roll:
    """A job runs on the second machine when it begins."""
    release = tmp_path_factory.mktemp("release") / "release.yml"
    release.write_text(yaml.safe_dump({"name": "second", "pins": {"rdma_kernel_version": kernels[1]}}), encoding="utf-8")
    pair[1].run("systemd-run", "--unit", "job", "sh", "-c", JOB)
    boots = tuple(machine.boot_id() for machine in pair)
    run = pair[0].railwright("upgrade", "--to", str(release), *CONSENT, timeout=len(pair) * RUN_SECONDS)  # one after the other
    site = yaml.safe_load((pair[0].inventory / "group_vars/all/site.yml").read_text(encoding="utf-8"))
    return Roll(run, boots, Path(site["upgrade_drain_command"][2]).read_text(encoding="utf-8").splitlines())


def test_every_machine_ends_on_the_other_kernel(pair: Pair, kernels: tuple[str, str], roll: Roll) -> None:
    assert roll.run.code == 0, (roll.run.document, roll.run.err)
    assert {name: node["state"] for name, node in roll.run.document["nodes"].items()} == {"node1": "done", "node2": "done"}
    for machine, boot in zip(pair, roll.boots, strict=True):
        assert machine.boot_id() != boot
        runs(machine, kernels[1])


def test_one_after_the_other_in_the_order_of_the_journal(roll: Roll) -> None:
    assert roll.run.document["batches"] == [["node1"], ["node2"]]
    asked = [line for line in roll.book if line.split()[0] in ("drain", "undrain")]
    assert list(dict.fromkeys(asked)) == ["drain node1", "undrain node1", "drain node2", "undrain node2"]


def test_the_job_came_to_its_end_and_the_machine_was_not_touched_before(pair: Pair, roll: Roll) -> None:
    assert pair[1].run("cat", "/root/job").strip() == "done"
    asked = roll.book[roll.book.index("drain node2"):]
    free = asked.index("drained node2")
    assert "busy node2" in asked[:free], "it was still at work when it was drained"
    assert "busy node2" not in asked[free:]


def test_the_inventory_follows_and_then_there_is_nothing_to_do(pair: Pair, kernels: tuple[str, str], roll: Roll) -> None:
    (row,) = roll.run.document["inventory_changes"]
    assert "kernel_version" in str(row), row
    pair[0].site({**SITE, "rdma_kernel_version": kernels[1]})
    plan = pair[0].railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
