# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift on two machines: silence while nothing differs, 27 faults at once of which each is named, and what repairs them.

The first machine has a NIC with DCB (modules/README.md), the second a Soft-RoCE device; the faults are what people and packages do
to nodes, each by the distribution's own tools. The tests are one story and run in this order.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lab_images import DRIFT
from lab_machine import Machine
from railwright import lab

RECIPE = DRIFT
HARDWARE = lab.Hardware()
RAILS = 1
NETDEV, HCA, MAC = "roce0", "mlx5_0", "52:54:00:4d:fe:01"
FIRMWARE = "28.39.1002"
OLD_CONNECTION_S = 65  # ControlPersist: what a connection was given when it began would be unknown
QUIET_RUNS = 10
SITE: dict[str, Any] = {
    "rdma_fabric": "roce",
    "rdma_mtu": 9000,
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": 600,  # two emulated machines on two cores are slow to answer, and nothing here is to be reverted
    "rdma_stack_kernel_hold": True,
    "rdma_stack_pins": {"infiniband-diags": "44.0-2"},
    "validate_perftest": False,
}
OF_NODE: dict[str, dict[str, Any]] = {
    "node1": {
        "rdma_stack": "inbox",
        "rdma_expect": {"fw_ver": FIRMWARE},
        "rdma_rails": [{"name": "rail0", "match": {"mac": MAC}, "address": "10.77.0.11/24"}],
    },
    "node2": {"rdma_stack": "soft_roce", "rdma_expect": {"link_layer": "Ethernet"}},
}
Pair = tuple[Machine, Machine]


class Fault(NamedTuple):
    """``script``: what does it, as root. ``what``: the finding."""

    node: str
    area: str
    script: str
    what: str
    expected: Any
    found: Any
    left: str = ""  # remediate does not fix it without more: the class that it lacks consent to, or the kind that is nobody's setting


FILE = "# Managed by railwright"  # how a file of ours begins
RAIL = f"rail0 ({NETDEV})"
CONFIGFS = f"/sys/kernel/config/rdma_cm/{HCA}/ports/1/default_roce_tos"
OLDER = """cd /root; apt-get -qq update; apt-get -qq download infiniband-diags; dpkg-deb -R infiniband-diags_*.deb older
sed -i 's/^Version:.*/Version: 43.0-1/; /^Depends:/d' older/DEBIAN/control
dpkg-deb -b older older.deb; dpkg -i --force-downgrade older.deb"""
BLOCK = """nft add table inet site; nft 'add chain inet site input { type filter hook input priority 0; }'
nft add rule inet site input udp dport 4791 drop"""
FAULTS = {
    "package": Fault("node1", "packages", "dpkg --purge perftest", "package perftest", "present", None),
    "version": Fault("node2", "packages", OLDER, "package infiniband-diags", "44.0-2", "43.0-1"),
    "kernel hold": Fault(
        "node1", "repositories", "rm /etc/apt/preferences.d/railwright-kernel.pref", "file /etc/apt/preferences.d/railwright-kernel.pref",
        FILE, None),
    "module": Fault("node2", "kernel_modules", "modprobe -r rdma_ucm", "module rdma_ucm loaded", True, False),
    "modules at boot": Fault(
        "node2", "kernel_modules", "rm /etc/modules-load.d/railwright.conf", "file /etc/modules-load.d/railwright.conf", FILE, None),
    "firmware": Fault(
        "node1", "hca", "echo 28.30.1000 > /sys/module/lab_dcb/parameters/firmware", f"hca.fw_ver of {HCA} port 1 {RAIL}", FIRMWARE,
        "28.30.1000", "state"),
    "MTU": Fault("node1", "network", f"ip link set dev {NETDEV} mtu 1500", f"MTU of {RAIL}", 9000, 1500, "link"),
    "MTU at boot": Fault(
        "node1", "network", "sed -i s/9000/1500/ /etc/systemd/network/10-railwright-rail0.network",
        "file /etc/systemd/network/10-railwright-rail0.network", FILE, FILE, "link"),
    "address": Fault(
        "node2", "network", "ip address del 10.77.0.12/24 dev eth1", "address of rail0 (eth1)", "10.77.0.12/24", None),
    "PFC": Fault("node1", "roce_qos", f"dcb pfc set dev {NETDEV} prio-pfc all:off", f"PFC of {RAIL}", [3], [], "link"),
    "DSCP map": Fault(
        "node1", "roce_qos", f"dcb app replace dev {NETDEV} dscp-prio 26:1", f"DSCP map of {RAIL}", {"26": [3], "48": [6]},
        {"26": [1], "48": [6]}, "link"),
    "ECN": Fault(
        "node1", "roce_qos", f"echo 0 > /sys/class/net/{NETDEV}/ecn/roce_np/enable/3", f"ECN of {RAIL}", {"np": [3], "rp": [3]},
        {"np": [], "rp": [3]}),
    "ToS of RDMA-CM": Fault(
        "node1", "roce_qos", f"echo 0 > {CONFIGFS}", f"RDMA-CM default of {RAIL}", {"mode": "RoCE v2", "tos": 106},
        {"mode": "RoCE v2", "tos": 0}),
    "QoS at boot": Fault(
        "node1", "roce_qos", f"systemctl disable railwright-roce-qos@{NETDEV}.service",
        f"unit railwright-roce-qos@{NETDEV}.service enabled", True, False),
    "udev rule": Fault(
        "node1", "roce_qos", "rm /etc/udev/rules.d/90-roce-qos.rules", "file /etc/udev/rules.d/90-roce-qos.rules", FILE, None),
    "limits of logins": Fault(
        "node1", "limits", "rm /etc/security/limits.d/90-railwright.conf", "file /etc/security/limits.d/90-railwright.conf", FILE, None),
    "limits of services": Fault(
        "node1", "limits", "rm /etc/systemd/system.conf.d/90-railwright.conf; systemctl daemon-reexec", "systemd DefaultLimitMEMLOCK",
        "infinity", "8388608"),
    "sysctl": Fault(
        "node2", "sysctl", "sysctl -qw net.ipv4.conf.eth1.arp_ignore=0", "sysctl net.ipv4.conf.eth1.arp_ignore", "2", "0"),
    "sysctl at boot": Fault(
        "node1", "sysctl", "sed -i '$d' /etc/sysctl.d/90-railwright.conf", "file /etc/sysctl.d/90-railwright.conf", FILE, FILE),
    "nccl.conf": Fault("node2", "nccl", "echo NCCL_DEBUG=TRACE > /etc/nccl.conf", "file /etc/nccl.conf", FILE, "NCCL_DEBUG=TRACE"),
    "profile.d": Fault(
        "node2", "nccl", "rm /etc/profile.d/railwright-nccl.sh", "file /etc/profile.d/railwright-nccl.sh", FILE, None),
    "login shell": Fault(
        "node1", "nccl", "echo 'export NCCL_IB_TIMEOUT=14' > /etc/profile.d/zz-site.sh", "NCCL_IB_TIMEOUT for login shells", "22", "14",
        "effective"),
    "ssh command": Fault(
        "node2", "nccl", "echo NCCL_IB_RETRY_CNT=1 >> /etc/environment", "NCCL_IB_RETRY_CNT for ssh commands", None, "1", "effective"),
    "systemd service": Fault(
        "node2", "nccl", "systemctl set-environment NCCL_IB_TC=41", "NCCL_IB_TC for systemd services", "106", "41", "effective"),
    "unit": Fault(
        "node2", "rxe", "systemctl disable railwright-rxe0.service", "unit railwright-rxe0.service enabled", True, False),
    "HCA": Fault("node2", "rxe", "rdma link delete rxe0", "RDMA link rxe0 on rail0 (eth1)", "rxe0 on eth1", None),
    "firewall": Fault(
        "node2", "firewall", BLOCK, "firewall.roce of rail0 (eth1)", "UDP port 4791 of the cluster's nodes comes in on eth1",
        "inet site input, handle 2: drop"),
}
# What goes with a fault, beside what it is: a file and the limit that it set, the settings of a device that is gone, the rules' files.
BESIDE = {
    "node1": {"file /etc/systemd/system.conf.d/90-railwright.conf", "systemd DefaultLimitNOFILE"},
    "node2": {
        "RDMA-CM default of rail0 (eth1)", "file /usr/local/libexec/railwright/firewall", "file /etc/railwright/firewall.nft",
        "rules for the cluster's nodes in nftables", "file /etc/systemd/system/railwright-firewall.service",
        "unit railwright-firewall.service enabled", "unit railwright-firewall.service running",
    },
}


def write_inventory(inventory: Path) -> None:
    file = inventory / "hosts.yml"
    hosts = yaml.safe_load(file.read_text(encoding="utf-8"))
    for name, entry in hosts["all"]["children"]["rdma"]["hosts"].items():
        entry.update(OF_NODE[name])
    file.write_text(yaml.safe_dump(hosts), encoding="utf-8")
    (inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(SITE), encoding="utf-8")


@pytest.fixture(scope="module")
def pair(machines: tuple[Machine, ...]) -> Pair:
    """Both machines as the inventory wants them."""
    one, two = machines
    write_inventory(one.inventory)
    options = f"options lab_dcb driver_name=mlx5_core rdma_name={HCA} firmware={FIRMWARE}\n"
    one.write("/etc/modprobe.d/lab.conf", options)
    one.write("/etc/modules-load.d/lab.conf", "lab_dcb\n")
    one.run("modprobe", "lab_dcb")
    # What a module brings to light gets its settings with the next apply.
    for code in ((0, 2), (0,)):
        run = one.railwright("apply")
        assert run.code in code, (run.document, run.err)
    return one, two


@pytest.fixture(scope="module")
def drifted(pair: Pair) -> tuple[int, dict[str, Any]]:
    """All faults at once, then one look."""
    for fault in FAULTS.values():
        pair[int(fault.node[-1]) - 1].sh(fault.script)
    time.sleep(OLD_CONNECTION_S)
    run = pair[0].railwright("drift")
    return run.code, run.document


@pytest.fixture(scope="module")
def fixed(pair: Pair, drifted: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Without consent to anything."""
    assert drifted[0] == 2
    run = pair[0].railwright("remediate", "--batch", "2", "--consent", "restart")
    return run.code, run.document


def whats(document: dict[str, Any], node: str) -> set[str]:
    return {item["what"] for item in document["nodes"][node]["findings"]}


def begins(value: Any, wanted: Any) -> bool:
    """A file is told by its first line."""
    return str(value).startswith(wanted) if wanted in (FILE, "NCCL_DEBUG=TRACE") else bool(value == wanted)


def test_nothing_differs_in_ten_runs(pair: Pair) -> None:
    for _run in range(QUIET_RUNS):
        run = pair[0].railwright("drift")
        assert (run.code, {name: node["findings"] for name, node in run.document["nodes"].items()}) == (0, {"node1": [], "node2": []})


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named(drifted: tuple[int, dict[str, Any]], name: str) -> None:
    fault = FAULTS[name]
    found = [item for item in drifted[1]["nodes"][fault.node]["findings"] if item["what"] == fault.what]
    (item,) = found
    assert item["area"] == fault.area
    assert begins(item["expected"], fault.expected), item
    assert begins(item["found"], fault.found), item


def test_and_nothing_else_is(drifted: tuple[int, dict[str, Any]]) -> None:
    code, document = drifted
    assert code == 2
    for node in ("node1", "node2"):
        wanted = {fault.what for fault in FAULTS.values() if fault.node == node} | BESIDE[node]
        assert whats(document, node) == wanted


def test_remediate_fixes_all_that_needs_no_consent(fixed: tuple[int, dict[str, Any]]) -> None:
    code, document = fixed
    assert code == 2, document
    for node in ("node1", "node2"):
        assert whats(document, node) == {fault.what for fault in FAULTS.values() if fault.node == node and fault.left}


def test_with_consent_it_fixes_the_rest_of_the_settings(pair: Pair, fixed: tuple[int, dict[str, Any]]) -> None:
    run = pair[0].railwright("remediate", "--batch", "2", "--consent", "link,restart")
    assert run.code == 2, run.document
    left = {node: {fault.what for fault in FAULTS.values() if fault.node == node and fault.left not in ("", "link")} for node in BESIDE}
    assert {node: whats(run.document, node) for node in left} == left


def test_what_people_put_there_they_take_away(pair: Pair, fixed: tuple[int, dict[str, Any]]) -> None:
    pair[0].sh(f"rm /etc/profile.d/zz-site.sh; echo {FIRMWARE} > /sys/module/lab_dcb/parameters/firmware")
    pair[1].sh("sed -i /NCCL_IB_RETRY_CNT/d /etc/environment; systemctl unset-environment NCCL_IB_TC; nft delete table inet site")
    time.sleep(OLD_CONNECTION_S)
    run = pair[0].railwright("drift")
    assert (run.code, {node: whats(run.document, node) for node in BESIDE}) == (0, {"node1": set(), "node2": set()}), run.document
