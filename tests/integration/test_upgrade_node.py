# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of an upgrade, run by the real ansible-playbook: what is asked of which node in which order, and where it stops.

What the plans say is canned (tests/lib/upgrade_site.py); plays, role, lease and the drain without a scheduler are the real ones.
"""

import json
from pathlib import Path

import pytest

from upgrade_site import Site, plan, said

pytestmark = pytest.mark.slow

KERNEL = "kernel: 6.1.0-48-amd64 runs"
STACK = "stack: kernel modules of doca in use"
PIN = "packages: package rdma-core"
LATER = "nccl: place of mlx5_0 in /etc/nccl.conf"
RUN = "20261121T180000Z-upgrade"


def test_a_roll_out_from_the_first_node_to_one_that_fails_and_on_again(tmp_path: Path) -> None:
    """n1 needs a kernel and two reboots, n2 has everything, n3 does not pass, n4 beside it does, n5 waits for its turn."""
    site = Site(tmp_path, n1={"rdma_consent": ["reboot"], "rdma_kernel_version": "6.1.0-48-amd64"}, n2={}, n3={"sick": True}, n4={}, n5={})
    kernel = plan(KERNEL, reboot=(KERNEL,))
    site.answer(
        "n1", plan(KERNEL, PIN, STACK, reboot=(KERNEL, STACK)), kernel, kernel, plan(), plan(PIN, STACK, reboot=(STACK,)),
        plan(STACK, reboot=(STACK,)), plan(LATER), plan(LATER), plan(),
    )  # fmt: skip
    site.answer("n2", plan())
    for name in ("n3", "n4"):
        site.answer(name, plan(PIN), plan(PIN), plan(PIN), plan())
    site.answer("n5", plan(PIN))
    done = site.play("upgrade", rdma_upgrade_serial=[1, 1, 2, 1], rdma_upgrade_release="2026-11")
    output = said(done)
    assert done.returncode == 2, done.stdout + done.stderr
    kernel_first = [("plan", ["repositories", "kernel"]), ("apply", ["kernel"]), ("plan", ["kernel"])]
    rounds = [("plan", None), ("apply", None), ("plan", None), ("apply", None), ("plan", None)]
    assert [(call["mode"], call["areas"]) for call in site.calls("n1")] == [("plan", None), *kernel_first, *rounds]
    assert {call["run_id"] for call in site.calls("n1") if call["mode"] == "apply"} == {"playbook-2026-11"}
    assert site.reboots("n1") == 2
    assert [len(site.calls(name)) for name in ("n2", "n3", "n4", "n5")] == [1, 4, 4, 1]
    assert "n3 stays drained: n3: 1 verdict of n3+n4 failed" in output, "the batch is judged by itself"
    assert [site.lease(name) is not None for name in site.nodes] == [False, False, True, False, True], "n4 came to its end"
    assert (site.lease("n3") or {})["step"] == "change"

    site.nodes["n3"]["sick"] = False
    for name in site.nodes:
        site.answer(name, plan(), plan())
    site.answer("n5", plan(PIN), plan(PIN), plan(PIN), plan())
    again = site.play("upgrade", rdma_upgrade_serial=[1, 1, 2, 1], rdma_upgrade_release="2026-11")
    assert again.returncode == 0, again.stdout + again.stderr
    assert [len(site.calls(name)) for name in site.nodes] == [1, 1, 2, 1, 4], "n3 is inspected again and validated; nobody is changed twice"
    assert not [name for name in site.nodes if site.lease(name)]


def test_what_stops_the_change_of_a_node_is_its_own_clear_line(tmp_path: Path) -> None:
    """n1 does not come back from its reboot; n2 needs again what was done; n3 does not settle; n4 lacks consent; n5 is another run's."""
    site = Site(tmp_path, n1={"rdma_consent": ["reboot"]}, n2={}, n3={}, n4={}, n5={})
    site.answer("n1", plan(STACK, reboot=(STACK,)), plan(STACK, reboot=(STACK,)))
    site.answer("n2", plan(PIN, LATER), plan(PIN, LATER), plan(PIN), plan(PIN))
    site.answer("n3", *(plan(f"sysctl: number {number // 2}") for number in range(10)))
    site.answer("n4", plan(STACK, reboot=(STACK,)))
    site.answer("n5", plan(PIN))
    other = {"run": "20261121T170000Z-upgrade", "controller": "head2", "user": "bob", "since": "2026-11-21T17:00:00Z", "step": "change"}
    site.own("n5", "lease").write_text(json.dumps(other))
    done = site.play("upgrade_step", rdma_upgrade_step="change", rdma_upgrade_run=RUN, swallowed="n1")
    output = said(done)
    assert done.returncode & 4, "a node that did not come back is unreachable"
    assert "n1 did not come back from its reboot within 30 s (rdma_reboot_timeout_s): Failed to connect to the host via ssh" in output
    assert f"n2 needs again what was done a moment ago: {PIN}" in output
    assert "n3 still needs after 4 rounds of planning and changing: sysctl: number 4" in output
    assert "refused without consent; nothing was changed. Needed: reboot" in output
    assert "the node is being upgraded by run 20261121T170000Z-upgrade of bob on head2" in output
    assert [len(site.calls(name)) for name in site.nodes] == [2, 3, 9, 1, 0]
    assert site.lease("n5") == other


def test_a_dry_look_takes_no_lease_and_says_what_would_be(tmp_path: Path) -> None:
    site = Site(tmp_path, n1={"rdma_consent": ["reboot"]}, n2={}, n3={}, n4={})
    site.answer("n1", plan(PIN, STACK, reboot=(STACK,)))
    site.answer("n2", plan(PIN, problems=("its headers are not installed",)))
    site.answer("n3", plan(PIN, packages=True))
    site.answer("n4", plan(PIN, packages=True, brought=("https://example.com/key.gpg",)))
    done = site.play("upgrade_preflight", "-v", rdma_upgrade_run=RUN, rdma_upgrade_dry=True)
    output = said(done)
    assert done.returncode == 2
    assert '"classes": ["reboot"]' in output
    assert '"pending": true' in output
    assert "its headers are not installed" in output
    assert '"packages": [{"from": "52.0-1", "name": "rdma-core", "to": "53.0-1"}]' in output
    assert [site.lease(name) for name in site.nodes] == [None] * 4
    assert [site.proofs(name) for name in site.nodes] == [[], [], ["looked"], []], "no key is brought for an inspection"


def test_a_node_that_is_lost_ends_the_roll_out_after_its_batch(tmp_path: Path) -> None:
    """Ansible itself goes on with the next batch where a host is unreachable, and counts only failed ones for max_fail_percentage."""
    site = Site(tmp_path, n1={"rdma_consent": ["reboot"]}, n2={}, n3={})
    site.answer("n1", *[plan(STACK, reboot=(STACK,))] * 3)
    site.answer("n2", plan(PIN), plan(PIN), plan(PIN), plan())
    site.answer("n3", plan(PIN))
    done = site.play("upgrade", rdma_upgrade_serial=[2, 1], swallowed="n1")
    assert done.returncode & 4, done.stdout + done.stderr
    assert "n1: lost on the way, not undrained; the next batch does not begin" in said(done)
    assert [len(site.calls(name)) for name in site.nodes] == [3, 4, 1]
    assert [site.lease(name) is not None for name in site.nodes] == [True, False, True], "n2 came to its end"
