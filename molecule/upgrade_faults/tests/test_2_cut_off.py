# SPDX-License-Identifier: GPL-3.0-or-later
"""And back to the old release, past a disk that fills up in the middle of a package and a network that is cut for a minute."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import Container
from rollout import WAIT_SECONDS, Rollout
from way import REPAIR, Way, stopped_at

CUT_SECONDS = 60
BLOBS = "/usr/share/stand-in"  # where the largest package has its file of 400 kB
LARGEST = "mlnx-ofed-kernel-dkms"
# As apt calls it when it installs. It takes seconds: to ask from outside would come too late.
AWAIT_DPKG = "until pgrep -f '^/usr/bin/dpkg .*--status-fd' >/dev/null; do sleep 0.05; done"


@pytest.fixture(scope="module")
def way(rollout: Rollout) -> Way:
    return Way(rollout)


def test_a_disk_that_fills_up_while_packages_are_unpacked(rollout: Rollout, way: Way) -> None:
    """There was room when it was asked for; then there is none where one package has its large file."""
    node = rollout.cluster.container("node1")
    with way.going() as upgrade:
        rollout.until(lambda: "node1" in rollout.witness.away_now(), "node1 is drained")
        node.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", BLOBS)
        done = upgrade.done()
    row = stopped_at(rollout, done, "node1", "change", "failed")
    assert "No space left on device" in row["message"]
    node.run("umount", BLOBS)


@contextmanager
def unplugged(container: Container) -> Iterator[None]:
    """The switch's end of the node's cable is off: no packet passes, and no connection is told so."""
    place = container.out("cat", "/sys/class/net/eth0/iflink").strip()
    links = subprocess.run(("ip", "-oneline", "link"), capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()
    port = next(line.split()[1].partition("@")[0] for line in links if line.startswith(f"{place}:"))
    subprocess.run(("ip", "link", "set", "dev", port, "down"), check=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(("ip", "link", "set", "dev", port, "up"), check=True, timeout=10)


def test_a_network_that_is_cut_for_a_minute(rollout: Rollout, way: Way) -> None:
    """In the middle of dpkg. Whether the connection lives through it is ssh's to say; what was begun on the node is finished there, so that
    going on needs no consent to a repair, which the node with the full disk did need."""
    node = rollout.cluster.container("node2")
    with way.going("--consent", REPAIR) as upgrade:
        rollout.until(lambda: "node2" in rollout.witness.away_now(), "node2 is drained")
        node.run("sh", "-c", AWAIT_DPKG, timeout=WAIT_SECONDS)
        with unplugged(node):
            time.sleep(CUT_SECONDS)
        done = upgrade.done()
    if done.code != 0:
        stopped_at(rollout, done, "node2", "change", "unreachable")
        way.to_its_end()


def test_every_node_has_the_new_set_and_nothing_was_done_twice(rollout: Rollout, way: Way) -> None:
    """But for the one package that had no room."""
    assert rollout.complaints(way.mark, way.release, twice=("node1",)) == []
    assert rollout.witness.reboots(way.mark) == dict.fromkeys(rollout.nodes, 1)
    assert rollout.witness.repeated(way.mark)["node1"] == [f"{LARGEST}:all"]
    assert [name for batch in rollout.order() for name in batch] == rollout.nodes
