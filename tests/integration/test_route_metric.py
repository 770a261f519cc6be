# SPDX-License-Identifier: GPL-3.0-or-later
"""The route metric of a rail on a real kernel: what the plan's commands do and undo, and what networkd makes of our files.

The node is a network namespace of this machine; networkd runs in it with a /run, a /sys and an /etc/systemd/network of its own.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import netplan, networkd
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.model import DesiredInterface, Observed, UnitState
from namespaces import Fabric

NETWORKD = Path("/lib/systemd/systemd-networkd")
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes network namespaces"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="needs iproute2"),
    pytest.mark.xdist_group("rails"),
]

ADDRESS, SUBNET = "172.20.20.1/24", "172.20.20.0/24"
MAC = "02:00:00:00:01:01"
RAIL = DesiredInterface("rail0", 0, "eth1", "rail0 (eth1)", MAC, "ethernet", None, False, 1400, ADDRESS, None, None, True, 200)
MODULES = "ansible_collections.railwright.rdma.plugins.module_utils"
LIVE = f"""
import subprocess
from {MODULES}.host.host import Host
from {MODULES}.areas.network import evidence, routes
from {MODULES}.areas.network.model import DesiredInterface

rail = DesiredInterface(*given["rail"])
def seen():
    return [list(route) for route in evidence.observe(Host(), [rail]).connected]
def planned():
    return [op for change in routes.metric_changes(rail, evidence.observe(Host(), [rail]), "link") for op in change.ops]
def run(argv):
    subprocess.run(argv, check=True)

said = {{"before": seen()}}
ops = planned()
for op in ops:
    run(op.argv)
said.update(after=seen(), left=len(planned()))
for op in reversed(ops):
    for argv in op.undo:
        run(argv)
said["undone"] = seen()
print(json.dumps(said))
"""
# $1: where the networkd files of the test lie. udev does not run here: a read-only /sys tells networkd so.
OWN_NETWORKD = """
set -e
umount -l /sys; mount -t sysfs -o ro none /sys
mount -t tmpfs none /run; mkdir -p /run/systemd/netif /run/systemd/network; chmod 777 /run/systemd/netif
mount -t tmpfs none /etc/systemd/network; cp -r "$1/etc/." /etc/systemd/network/; cp -r "$1/run/." /run/systemd/network/
timeout 20 /lib/systemd/systemd-networkd >"$1/log" 2>&1 & daemon=$!
for _attempt in $(seq 100); do
    ip -4 route show dev eth1 | grep -q . && break
    sleep 0.1
done
ip -4 route show dev eth1
kill $daemon; wait || true
"""


@pytest.fixture
def node() -> Iterator[Fabric]:
    """One node, whose rail has its address as the kernel gives it: without a metric."""
    with Fabric(1, ["172.20.20.{}/24"]) as fabric:
        yield fabric


def test_live_and_back_on_an_address_of_the_kernels(node: Fabric) -> None:
    said = node.python("n1", LIVE, {"rail": list(RAIL)})
    assert (said["before"], said["after"], said["undone"]) == ([[SUBNET, "eth1", 0]], [[SUBNET, "eth1", 200]], [[SUBNET, "eth1", 0]])
    assert said["left"] == 0


def test_live_and_back_on_an_address_as_networkmanager_adds_it(node: Fabric) -> None:
    node.ip("n1", "addr", "flush", "dev", "eth1")
    node.ip("n1", "addr", "add", ADDRESS, "broadcast", "+", "noprefixroute", "dev", "eth1")
    node.ip("n1", "route", "add", SUBNET, "dev", "eth1", "proto", "kernel", "scope", "link", "src", "172.20.20.1", "metric", "101")
    said = node.python("n1", LIVE, {"rail": list(RAIL)})
    assert (said["before"], said["after"], said["undone"]) == ([[SUBNET, "eth1", 101]], [[SUBNET, "eth1", 200]], [[SUBNET, "eth1", 101]])
    assert said["left"] == 0


def test_the_up_line_of_ifupdown(node: Fabric) -> None:
    node.ip("n1", "addr", "replace", ADDRESS, "broadcast", "+", "metric", "200", "dev", "eth1")  # twice: ifup may run again
    node.ip("n1", "addr", "replace", ADDRESS, "broadcast", "+", "metric", "200", "dev", "eth1")
    assert node.ip("n1", "-4", "route", "show", "dev", "eth1").split() == [
        SUBNET, "proto", "kernel", "scope", "link", "src", "172.20.20.1", "metric", "200"]  # fmt: skip


@pytest.mark.skipif(not NETWORKD.exists(), reason="needs systemd-networkd")
@pytest.mark.parametrize("manager", ["networkd", "netplan"])
def test_networkd_takes_the_metric_from_our_files(node: Fabric, tmp_path: Path, manager: str) -> None:
    for directory in ("etc", "run"):
        (tmp_path / directory).mkdir()
    observed = Observed({}, {networkd.UNIT: UnitState("loaded", "active", "enabled")}, {}, (), True, None, (), networkd_metrics=True)
    if manager == "networkd":
        files = networkd.files((RAIL,), observed)
    else:
        files = netplan.files((RAIL,), observed)
        del files[netplan.PATH]  # what netplan generates of it stands here in its place
        generated = f"[Match]\nMACAddress={MAC}\n\n[Link]\nMTUBytes=1400\n\n[Network]\nLinkLocalAddressing=ipv6\nAddress={ADDRESS}\n"
        (tmp_path / "run/10-netplan-railwright-rail0.network").write_text(generated)
    for path, wanted in files.items():
        target = tmp_path / "etc" / Path(path).relative_to(networkd.DIRECTORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(wanted.content)
    assert files
    node.ip("n1", "addr", "flush", "dev", "eth1")
    tmp_path.parent.chmod(0o755)
    argv = ("ip", "netns", "exec", node.name("n1"), "unshare", "-m", "bash", "-c", OWN_NETWORKD, "-", str(tmp_path))
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "metric 200" in done.stdout, done.stdout + (tmp_path / "log").read_text()
    assert len(done.stdout.splitlines()) == 1
