# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook remediate, run by the real ansible-playbook: which node is asked for what, in which order, and where it stops.

What nodes find and do is played (tests/lib/remediate_site.py); plays, batches, tasks and the choice of what is fixed are the real ones.
"""

from pathlib import Path

import pytest

from drift_findings import BURNT, CONF, LINE, MASKED, MTU, PORT, SYSCTL, finding
from remediate_site import Site
from upgrade_site import said

pytestmark = pytest.mark.slow

DEVICE = finding("rxe: RDMA link rxe0 on rail0 (eth1)", severity="critical")
MODULE = finding("kernel_modules: module rdma_rxe loaded", severity="critical")


def test_the_first_batch_that_does_not_come_back_clean_is_the_last(tmp_path: Path) -> None:
    """n1 is clean, n2 and n3 are a batch of which n2 fails, n4 waits for its turn, n5 has only what is not fixed."""
    site = Site(tmp_path, n1={}, n2={"findings": [SYSCTL, CONF], "stuck": [CONF["key"]]}, n3={"findings": [SYSCTL, LINE]},
                n4={"findings": [SYSCTL]}, n5={"findings": [MTU, BURNT, PORT]})
    done = site.play(rdma_batch=2)
    assert done.returncode == 2, done.stdout + done.stderr
    both = f"{SYSCTL['key']},{CONF['key']}"
    assert site.calls("n2") == ["inspect", "inspect", f"plan True {both}", f"apply None {both}", "inspect"]
    assert site.calls("n3") == ["inspect", "inspect", f"plan True {SYSCTL['key']}", f"apply None {SYSCTL['key']}",
                                "inspect"], "it ends its turn"
    assert [site.calls(name) for name in ("n1", "n4", "n5")] == [["inspect"]] * 3
    assert {name: site.left(name) for name in ("n2", "n3", "n4")} == {
        "n2": [SYSCTL["key"], CONF["key"]], "n3": [LINE["key"]], "n4": [SYSCTL["key"]],
    }  # fmt: skip
    assert f"did not come back clean: {CONF['key']}: write: Device or resource busy" in said(done)
    assert "Not touched: n4" in said(done)
    # What stood in the way is gone.
    (tmp_path / "nodes" / "n2.json").write_text((tmp_path / "nodes" / "n2.json").read_text().replace('"stuck"', '"was"'))
    again = site.play(rdma_batch="50%", consent=("link",))
    assert again.returncode == 0, again.stdout + again.stderr
    assert [site.left(name) for name in ("n2", "n4", "n5")] == [[], [], [BURNT["key"], PORT["key"]]]


def test_a_node_lost_during_the_run_stops_it_and_one_away_before_does_not(tmp_path: Path) -> None:
    site = Site(tmp_path, n1={"findings": [SYSCTL]}, n2={"findings": [SYSCTL]}, n3={"findings": [SYSCTL], "dies": True},
                n4={"findings": [SYSCTL]})
    (tmp_path / "nodes" / "n1.away").touch()
    done = site.play(rdma_batch=2)
    assert done.returncode == 4, done.stdout + done.stderr
    assert site.left("n2") == [], "n1 was away before anything began"
    assert site.left("n3") == []
    assert site.calls("n4") == ["inspect"]
    assert "lost: n3. Not touched: n4" in said(done)


def test_changes_found_later_are_remediated_and_later_problems_stop_it(tmp_path: Path) -> None:
    """n1's module brings a device that needs a link; n2's repair costs it a port; n3 is refused; n4 is asked for more than it can."""
    held = [CONF["key"]]
    site = Site(tmp_path, n1={"findings": [MODULE], "brings": {MODULE["key"]: [DEVICE]}}, n2={"findings": [SYSCTL, MASKED]},
                n3={"findings": [SYSCTL, CONF], "held": held}, n4={"findings": [DEVICE], "brings": {DEVICE["key"]: [MTU]}},
                n5={"findings": [SYSCTL]})
    done = site.play(rdma_batch=1)
    assert done.returncode == 2, done.stdout + done.stderr
    assert site.left("n1") == []
    assert [call for call in site.calls("n1") if call.startswith("apply")] == [f"apply None {MODULE['key']}", f"apply None {DEVICE['key']}"]
    assert site.calls("n2") == ["inspect"], "apply would refuse it"
    assert site.left("n3") == held
    assert f"did not come back clean: new since: {MTU['key']}. Not touched: n5" in said(done)
    assert site.calls("n5") == ["inspect"]


def test_only_what_was_asked_for_and_nothing_in_check_mode(tmp_path: Path) -> None:
    site = Site(tmp_path, n1={"findings": [SYSCTL, CONF, MODULE]}, n2={"findings": [SYSCTL]})
    checked = site.play("--check", rdma_batch=1)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert (site.left("n1"), site.left("n2")) == ([SYSCTL["key"], CONF["key"], MODULE["key"]], [SYSCTL["key"]])
    done = site.play(rdma_remediate_areas=["nccl", "kernel_modules"], rdma_remediate_severity="critical")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site.left("n1"), site.left("n2")) == ([SYSCTL["key"], CONF["key"]], [SYSCTL["key"]])
    bad = site.play(rdma_remediate_areas=["ncl"])
    assert bad.returncode == 2
    assert "areas: ncl: no such area; allowed: repositories" in said(bad)
