# SPDX-License-Identifier: GPL-3.0-or-later
"""Sysctls: one file, live values, what overrides us, and names that cannot be written."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import sysctl

FILE = sysctl.FILE
NIC = {"rp_filter": "2", "arp_ignore": "2", "arp_announce": "2"}  # per RDMA NIC
EXPECTED = {f"net.ipv4.conf.{nic}.{key}": value for nic in ("eth1", "eth2") for key, value in NIC.items()} | {
    "net.ipv4.neigh.default.gc_thresh1": "4096",
    "net.ipv4.neigh.default.gc_thresh2": "8192",
    "net.ipv4.neigh.default.gc_thresh3": "16384",
    "vm.zone_reclaim_mode": "1",
    "kernel.numa_balancing": "0",
}


def test_a_bare_node_needs_all_and_then_nothing(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    assert sorted(plans.keys("sysctl")) == sorted([f"file {FILE}", *(f"sysctl {name}" for name in EXPECTED)])
    plans.converge("sysctl")
    rows = dict(row.split(" = ") for row in node.get(FILE).splitlines() if not row.startswith("#"))
    assert rows == EXPECTED
    assert node.line("/proc/sys/net/ipv4/conf/eth2/arp_ignore") == "2"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_live_value_alone(planner: Callable[..., Any], node: Any, name: str) -> None:
    plans = planner()
    plans.converge("sysctl")
    node.put("/proc/sys/" + name.replace(".", "/"), "77\n")
    (change,) = plans.plan("sysctl")
    assert (change.what, change.before, change.after) == (f"sysctl {name}", "77", EXPECTED[name])
    assert change.subject == ("sysctl", name)


def test_the_file_alone(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    plans.converge("sysctl")
    node.remove(FILE)
    assert plans.keys("sysctl") == [f"file {FILE}"]


def test_a_kernel_without_a_key_leaves_it_out_and_says_so(planner: Callable[..., Any], node: Any) -> None:
    node.remove("/proc/sys/vm/zone_reclaim_mode")
    node.remove("/proc/sys/kernel/numa_balancing")
    plans = planner()
    plans.converge("sysctl")
    assert "zone_reclaim" not in node.get(FILE)
    assert "numa" not in node.get(FILE)
    assert plans.notes("sysctl") == ["sysctl: vm.zone_reclaim_mode left out, this kernel does not have it"]


def test_the_inventory_replaces_adds_and_removes(planner: Callable[..., Any], node: Any) -> None:
    node.put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    plans = planner(host_tuning_numa_balancing=True, host_tuning_sysctls={
        "vm.zone_reclaim_mode": None, "net.ipv4.conf.{nic}.rp_filter": 0, "net/ipv4/tcp_rmem": "4096  131072 6291456",
    })  # fmt: skip
    keys = plans.keys("sysctl")
    assert not [key for key in keys if "zone_reclaim" in key or "numa" in key or "rp_filter" in key or "tcp_rmem" in key]
    plans.converge("sysctl")
    assert "net.ipv4.tcp_rmem = 4096 131072 6291456\n" in node.get(FILE)
    assert "kernel.numa_balancing = 1\n" in node.get(FILE)


def test_an_interface_with_a_dot_keeps_its_name(planner: Callable[..., Any], node: Any, nics: Any) -> None:
    for key in ("rp_filter", "arp_ignore", "arp_announce"):
        node.put(f"/proc/sys/net/ipv4/conf/eth1.100/{key}", "1\n")
    plans = planner(nics=(nics[0], nics[1]._replace(name="eth1.100"), nics[2]))
    assert "sysctl net/ipv4/conf/eth1.100/rp_filter" in plans.keys("sysctl")
    plans.converge("sysctl")
    assert "net/ipv4/conf/eth1.100/rp_filter = 2\n" in node.get(FILE)
    assert ("net/ipv4/conf/eth1.100/rp_filter", "2") in sysctl.assignments(node.get(FILE))


@pytest.mark.parametrize("name", ["eth*", "e[12]", "a;b", "x\ny"])
def test_an_interface_name_that_would_be_a_pattern_is_refused(planner: Callable[..., Any], nics: Any, name: str) -> None:
    plans = planner(nics=(nics[0], nics[1]._replace(name=name), nics[2]))
    assert len([text for text in plans.problems("sysctl") if "cannot be written" in text]) == 3
    assert not [change for change in plans.plan("sysctl") if name in str(change.after)]


def test_a_later_file_that_wins_is_named(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    node.put("/usr/lib/sysctl.d/99-vendor.conf", "; vendor\n-net.ipv4.conf.eth1.rp_filter=1\n")
    (problem,) = plans.problems("sysctl")
    assert problem.startswith("net.ipv4.conf.eth1.rp_filter: /usr/lib/sysctl.d/99-vendor.conf sets 1, and comes after ")
    assert f"{FILE}, which wants 2" in problem
    node.put("/etc/sysctl.d/99-vendor.conf", "# the administrator's own version of it\n")
    assert plans.problems("sysctl") == []


@pytest.mark.parametrize(
    "line", ["vm.zone_reclaim_mode = 1", "#vm.zone_reclaim_mode = 0", "net.ipv4.conf.*.rp_filter = 1", "vm.swappiness=1"],
)  # fmt: skip
def test_lines_that_do_not_win(planner: Callable[..., Any], node: Any, line: str) -> None:
    node.put("/etc/sysctl.d/99-sysctl.conf", line + "\n")
    node.put("/etc/sysctl.d/10-early.conf", "vm.zone_reclaim_mode = 0\n")
    assert planner().problems("sysctl") == []


def test_a_container_changes_its_own_network_only(planner: Callable[..., Any], node: Any) -> None:
    node.put("/run/.containerenv", "")
    plans = planner()
    assert all(key.startswith(("file ", "sysctl net.")) for key in plans.keys("sysctl"))
    plans.converge("sysctl")
    assert any("vm.zone_reclaim_mode is 0, not 1" in note for note in plans.notes("sysctl"))
    assert "vm.zone_reclaim_mode = 1\n" in node.get(FILE)


def test_a_mount_of_a_user_is_no_mount_of_proc(node: Any) -> None:
    """FUSE takes the source from its user. The kernel escapes a space in it, and not the other characters that ``split()`` parts at."""
    node.put("/proc/self/mounts", "proc /proc proc rw 0 0\nx\x1f/proc/sys\x1fy\x1fro /home/a fuse rw 0 0\n")
    assert not sysctl.read_only(node)


def test_a_read_only_proc_sys_gets_the_file_alone(planner: Callable[..., Any], node: Any) -> None:
    node.put("/proc/self/mounts", "proc /proc proc rw 0 0\nproc /proc/sys proc ro,nosuid 0 0\n")
    assert planner().keys("sysctl") == [f"file {FILE}"]
    assert len(planner().notes("sysctl")) == len(EXPECTED)


@pytest.mark.parametrize(("key", "value", "everywhere", "fights"), [
    ("rp_filter", None, 2, False), ("rp_filter", None, 1, False), ("rp_filter", 0, 1, True), ("rp_filter", 0, 2, True),
    ("rp_filter", 0, 0, False), ("rp_filter", 1, 2, True), ("arp_ignore", None, 3, True), ("arp_ignore", None, 1, False),
    ("arp_announce", None, 2, False), ("arp_announce", 0, 1, True),
])  # fmt: skip
def test_the_kernel_takes_the_larger_of_all_and_the_interfaces_own(
    planner: Callable[..., Any], node: Any, key: str, value: int | None, everywhere: int, *, fights: bool
) -> None:
    node.put(f"/proc/sys/net/ipv4/conf/all/{key}", f"{everywhere}\n")
    plans = planner(**({"host_tuning_sysctls": {f"net.ipv4.conf.{{nic}}.{key}": value}} if value is not None else {}))
    found = plans.problems("sysctl")
    assert [text.partition(":")[0] for text in found] == ([f"net.ipv4.conf.{nic}.{key}" for nic in ("eth1", "eth2")] if fights else [])
    assert all(f"conf.all.{key} is {everywhere} here" in text for text in found)


def test_conf_all_in_the_inventory_settles_it(planner: Callable[..., Any], node: Any) -> None:
    node.put("/proc/sys/net/ipv4/conf/all/rp_filter", "1\n")
    wishes = {"net.ipv4.conf.{nic}.rp_filter": 0, "net.ipv4.conf.all.rp_filter": 0}
    assert planner(host_tuning_sysctls=wishes).problems("sysctl") == []
    wishes["net.ipv4.conf.all.rp_filter"] = 1
    assert len(planner(host_tuning_sysctls=wishes).problems("sysctl")) == 2
