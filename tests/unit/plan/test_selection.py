# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan cut to what is wanted: nothing is made whose ground is left out, and everything that is left out says why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.files import FileState, plan_file
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.modules import loaded_module
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.units import enabled_unit, running_unit
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import CONSENT, NEEDS, NOT_ASKED, Plan, cut_plan, make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.types import PRESENT, Change, Identity, Op, Platform, run, set_value
from field_specs import build_spec

DEBIAN = Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt")
IDENTITY = Identity("node1", DEBIAN, "6.1.0", "x86_64", "3.11", None, (), (), ())
SYSTEM_CONF = "/etc/systemd/system.conf.d/90-railwright.conf"


def change(area: str, what: str, *ops: Op, disruption: str = "none", needs: tuple[str, ...] = ()) -> Change:
    return Change(area, what, None, "new", disruption, "why", "source", ops, needs=needs)


def package(name: str, area: str = "packages", disruption: str = "none") -> Change:
    return package_change(area, name, None, PRESENT, "why", "source", disruption)


def file(area: str, path: str) -> Change:
    return plan_file(area, FileState(path, None, None), "x\n", "why", "source")[0]


SYSCTL = change("sysctl", "sysctl net.x", set_value("/proc/sys/net/x", "1"))
CONF = file("nccl", "/etc/nccl.conf")
LIMITS = file("limits", SYSTEM_CONF)
EFFECTIVE = change("limits", "systemd DefaultLimitMEMLOCK", run(("systemctl", "daemon-reexec")))
UNIT = file("cpu", "/etc/systemd/system/railwright-x.service")
ENABLED = enabled_unit("cpu", "railwright-x.service", "why", "source")
MODULE = loaded_module("kernel_modules", "rdma_rxe", "why", "source")
AT_BOOT = file("kernel_modules", "/etc/modules-load.d/railwright.conf")
OPTIONS = file("erdma", "/etc/modprobe.d/erdma.conf")
ERDMA = loaded_module("erdma", "erdma", "why", "source")
MTU = change("network", "MTU of rail0 (eth1)", run(("ip", "link")), disruption="link")
ADDRESS = change("network", "address of rail0 (eth1)", run(("ip", "addr")), disruption="link")
RXE = change("rxe", "RDMA link rxe0 on rail0 (eth1)", run(("rdma", "link")), needs=("network: MTU of rail0 (eth1)",))
OTHER_RXE = change("rxe", "RDMA link rxe1 on rail1 (eth2)", run(("rdma", "link")), needs=("network: MTU of rail1 (eth2)",))
REPOSITORY = file("repositories", "/etc/apt/sources.list.d/doca.sources")
BUILD = change("dkms", "DKMS modules for kernel 6.1.0")
BURN = change("nic_firmware", "firmware X in flash on Y", run(("mstflint", "burn")), disruption="firmware")
REBOOT = change("nic_firmware", "firmware X in effect on Y", disruption="reboot")
QOS = change("roce_qos", "PFC of rail0 (eth1)", run(("systemctl", "start", "sys-kernel-config.mount")), set_value("/sys/x", "1"))
QOS_FILE = file("roce_qos", "/etc/railwright/qos/eth1")
OPENSM = running_unit("opensm", "opensm.service", "why", "source")


@pytest.fixture
def host(tmp_path: Path) -> TreeHost:
    for program in ("systemctl", "modprobe", "ip", "rdma"):
        path = tmp_path / "usr/sbin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    return TreeHost(str(tmp_path))


def cut(host: TreeHost, changes: tuple[Change, ...], *, without: Change) -> tuple[Plan, dict[str, tuple[str, str]]]:
    only = [item.key for item in changes if item is not without]
    plan, left = cut_plan(host, Plan(IDENTITY, changes, (), None), (), only)
    assert all((item.needs != "") == (item.cause == NEEDS) for item in left)
    return plan, {item.change.key: (item.cause, item.reason) for item in left}


@pytest.mark.parametrize(("first", "then"), [
    (UNIT, ENABLED),  # a unit is not enabled with the wrong file
    (LIMITS, EFFECTIVE),  # to read a file again that is still wrong changes nothing
    (OPTIONS, ERDMA),  # the module would be loaded in the wrong mode
    (MODULE, RXE),  # no link without its module
    (MTU, RXE),  # the link's MTU is the interface's when it is made
    (REPOSITORY, package("doca-ofed")),
    (package("rdma-core", disruption="downgrade"), package("libibverbs1")),  # one set
    (package("dkms"), BUILD),
    (package("opensm"), OPENSM),  # the unit comes with the package
    (BURN, REBOOT),
    (CONF, CONF._replace(what="file /etc/nccl.conf (NCCL_IB_HCA)")),
])  # fmt: skip
def test_what_builds_on_a_change_that_is_left_out_is_left_out(host: TreeHost, first: Change, then: Change) -> None:
    plan, left = cut(host, (first, then), without=first)
    assert plan.changes == ()
    assert left[first.key][0] == NOT_ASKED
    assert left[then.key] == (NEEDS, f"needs {first.key} first, which is left out")


@pytest.mark.parametrize(("first", "then"), [
    (AT_BOOT, MODULE),  # critical now, and the file is for the next boot
    (AT_BOOT, RXE),
    (ADDRESS, RXE),
    (MTU, OTHER_RXE),  # another rail's
    (package("perftest"), SYSCTL),
    (package("perftest"), ENABLED),  # the unit is our own: no package brings it
    (package("perftest"), package("nvidia-driver", "gpu_driver")),
    (QOS_FILE, QOS),  # a mount is started, not what the file is for
    (SYSCTL, CONF),
    (LIMITS, ENABLED),  # another area
])  # fmt: skip
def test_what_stands_by_itself_is_made(host: TreeHost, first: Change, then: Change) -> None:
    plan, left = cut(host, (first, then), without=first)
    assert plan.changes == (then,)
    assert list(left) == [first.key]


def test_a_chain_is_left_out_to_its_end(host: TreeHost) -> None:
    """The repository holds the package, the package the program, and the link is made by it."""
    (Path(host.path("/usr/sbin/rdma"))).unlink()
    plan, left = cut(host, (REPOSITORY, package("iproute2"), SYSCTL, RXE), without=REPOSITORY)
    assert plan.changes == (SYSCTL,)
    assert left[RXE.key] == (NEEDS, "needs packages: package iproute2 first, which is left out")


def test_consent_cuts_by_class(host: TreeHost) -> None:
    whole = Plan(IDENTITY, (SYSCTL, MTU, RXE, CONF), (), None)
    plan, left = cut_plan(host, whole, (), consented_only=True)
    assert plan.changes == (SYSCTL, CONF)
    assert [(item.change, item.cause) for item in left] == [(MTU, CONSENT), (RXE, NEEDS)]
    assert left[0].reason == "needs consent to link"
    assert cut_plan(host, whole, ("link",), consented_only=True) == (whole, ())
    assert cut_plan(host, whole, ()) == (whole, ()), "without options nothing is cut"


def test_nothing_asked_for_is_nothing_made(host: TreeHost) -> None:
    """An empty list is not the absence of one."""
    plan, left = cut_plan(host, Plan(IDENTITY, (SYSCTL,), (), None), (), [])
    assert plan.changes == ()
    assert [item.cause for item in left] == [NOT_ASKED]


def test_a_captured_nodes_plan_falls_into_two_parts(nodes: Path, tmp_path: Path) -> None:
    """Whatever is cut, order and problems stay, and each change is in exactly one part."""
    shutil.copytree(nodes / "roce8-bond", tmp_path / "node", symlinks=True)
    tree = TreeHost(str(tmp_path / "node"))
    rails = [{"name": f"rail{i}", "match": {"pci": f"0000:{30 + i}:00.0"}, "address": f"10.10.{i}.11/24"} for i in range(7)]
    spec, _findings = build_spec({"fabric": "roce", "rdma_stack": "inbox", "mtu": 9000, "rails": rails}, "node")
    assert spec is not None
    whole = make_plan(tree, spec)
    areas = {item.area for item in whole.changes}
    assert len(areas) > 3
    for area in areas:
        plan, left = cut_plan(tree, whole, (), [item.key for item in whole.changes if item.area != area])
        gone = [item.change for item in left]
        assert [item for item in whole.changes if item not in gone] == list(plan.changes)
        assert {item.change.area for item in left if item.cause == NOT_ASKED} == {area}
        assert plan.problems == whole.problems
