# SPDX-License-Identifier: GPL-3.0-or-later
"""From one release to the next, past a disk without room, a node that does not come back from its reboot, and a package that fails."""

from __future__ import annotations

import pytest

from rollout import Rollout
from way import REPAIR, Way, stopped_at


@pytest.fixture(scope="module")
def way(rollout: Rollout) -> Way:
    return Way(rollout)


def test_a_disk_without_room_is_found_before_anything_begins(rollout: Rollout, way: Way) -> None:
    """The package manager's cache lies on a file system of its own, which is too small."""
    node = rollout.cluster.container("node4")
    node.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/var/cache/apt/archives")
    try:
        done = way.refused()
    finally:
        node.run("umount", "/var/cache/apt/archives")
    assert done.code == 1, done
    assert list(done.document["refused"]) == ["node4"], done
    assert "/var/cache/apt" in done.document["refused"]["node4"]
    assert rollout.witness.reboots(way.mark) == dict.fromkeys(rollout.nodes, 0)
    assert rollout.witness.drains(way.mark) == dict.fromkeys(rollout.nodes, 0)
    assert not any(rollout.witness.unpacked(way.mark).values())
    assert [name for name in rollout.nodes if rollout.witness.leased(name)] == []


def test_a_node_that_does_not_come_back_from_its_reboot(rollout: Rollout, way: Way) -> None:
    node = rollout.cluster.container("node2")
    way.say({"node2": {"rdma_reboot_timeout_s": 60}})
    node.write("/var/lib/stand-in/hangs", "")
    done = way.go()
    row = stopped_at(rollout, done, "node2", "change", "unreachable")
    assert "60 s" in row["message"]
    node.run("rm", "/var/lib/stand-in/hangs")
    node.wait_booted()
    way.say()


def test_a_package_that_cannot_be_configured(rollout: Rollout, way: Way) -> None:
    """Its neighbour comes to its end, and goes back to its jobs."""
    node = rollout.cluster.container("node3")
    node.write("/run/stand-in.fails", "")
    done = way.go()
    row = stopped_at(rollout, done, "node3", "change", "failed")
    assert "mlnx-tools" in row["message"]
    assert rollout.witness.installed()["node3"] != way.release
    node.run("rm", "/run/stand-in.fails")


def test_half_changed_packages_are_finished_with_consent_only(rollout: Rollout, way: Way) -> None:
    row = stopped_at(rollout, way.go(), "node3", "change", "failed")
    assert "repair" in row["message"]
    assert rollout.witness.installed()["node3"] != way.release


def test_every_node_has_the_new_set_and_nothing_was_done_twice(rollout: Rollout, way: Way) -> None:
    way.to_its_end("--consent", REPAIR)
    assert rollout.complaints(way.mark, way.release) == []
    assert [name for batch in rollout.order() for name in batch] == rollout.nodes
