# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages: by name, by exact version, and those that only a missing tool or module asks for."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import COMMANDS, candidates
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps

# The planner's Spec is Soft-RoCE: no firmware and no InfiniBand subnet, so none of the tools for them.
STACK = ["rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "rdmacm-utils", "perftest"]
HARDWARE = ["infiniband-diags", "mstflint"]
TOOLS = {"ip": "iproute2", "rdma": "iproute2", "modprobe": "kmod", "ping": "iputils-ping"}


def install(node: Any, **versions: str) -> None:
    stanza = "Package: %s\nStatus: install ok installed\nVersion: %s\n\n"
    rows = [stanza % (name.replace("_", "-"), version) for name, version in versions.items()]
    node.put("/var/lib/dpkg/status", node.get("/var/lib/dpkg/status") + "".join(rows))


def bring_tools(node: Any) -> None:
    for name in TOOLS:
        node.put("/usr/bin/" + name, "", 0o755)


def names(plans: Any) -> list[str]:
    return [key.removeprefix("package ") for key in plans.keys("packages")]


def test_a_bare_node_needs_the_stack_and_its_tools(planner: Callable[..., Any], node: Any) -> None:
    assert names(planner()) == [*STACK, "iproute2", "kmod", "iputils-ping"]
    bring_tools(node)
    assert names(planner()) == STACK


def test_hardware_needs_its_tools_too(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    assert sorted(names(planner(rdma_stack="inbox"))) == sorted([*STACK, *HARDWARE])


def test_changes_carry_no_ops_and_say_what_is_there(planner: Callable[..., Any]) -> None:
    for change in planner().plan("packages"):
        assert (change.before, change.after, change.disruption, change.ops) == (None, "present", "none", ())


def test_installed_packages_ask_for_nothing(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    install(node, **{name.replace("-", "_"): "44.0-2" for name in STACK})
    assert planner().plan("packages") == []


def test_one_removed_package_alone(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    install(node, **{name.replace("-", "_"): "44.0-2" for name in STACK})
    node.put("/var/lib/dpkg/status", node.get("/var/lib/dpkg/status").replace(
        "Package: perftest\nStatus: install ok installed", "Package: perftest\nStatus: deinstall ok config-files"))  # fmt: skip
    assert names(planner()) == ["perftest"]


def test_a_pin_is_exact(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    install(node, **{name.replace("-", "_"): "44.0-2" for name in STACK})
    plans = planner(rdma_stack_pins={"rdma-core": "44.0-3", "perftest": "44.0-2", "libnl-3-200": "3.7.0-1"})
    assert [(change.what, change.before, change.after) for change in plans.plan("packages")] == [
        ("package rdma-core", "44.0-2", "44.0-3"), ("package libnl-3-200", None, "3.7.0-1"),
    ]  # fmt: skip


def test_another_version_of_a_service_needs_consent(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    pins = {"rdma-core": "44.0-3", "perftest": "44.0-3"}
    assert {change.disruption for change in planner(rdma_stack_pins=pins).plan("packages")} == {"none"}
    install(node, **{name.replace("-", "_"): "44.0-2" for name in STACK})
    found = {change.what: change.disruption for change in planner(rdma_stack_pins=pins).plan("packages")}
    assert found == {"package rdma-core": "restart", "package perftest": "none"}


def test_extra_packages_and_the_subnet_manager(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    rails = [{"name": "rail0", "match": {"guid": "b8ce:f603:00ab:0000"}}]
    plans = planner(fabric="infiniband", rdma_stack="inbox", mtu=2044, rails=rails, network_opensm=True, rdma_stack_extra_packages=["ucx"])
    assert sorted(names(plans)) == sorted([*STACK, *HARDWARE, "opensm", "ucx"])


def test_the_package_of_a_kernel_module_only_where_the_module_is_missing(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    node.put("/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n')
    assert not [name for name in names(planner()) if name.startswith("linux-modules-extra")]
    kernel = "6.1.0-26-amd64"
    node.put(f"/lib/modules/{kernel}/modules.dep", "kernel/ib_uverbs.ko:\n")
    assert f"linux-modules-extra-{kernel}" in names(planner())
    assert not [name for name in names(planner(rdma_stack="inbox")) if name.startswith("linux-modules-extra")]
    node.put("/run/.containerenv", "")
    assert not [name for name in names(planner()) if name.startswith("linux-modules-extra")]


def test_rpm_names_and_versions(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    node.put("/etc/os-release", 'ID=rocky\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n')
    node.put("/cmd/rpm_-qa", "rdma-core-48.0-1.el9.x86_64\nperftest-4.5-12.el9.x86_64\n")
    found = names(planner(rdma_stack_pins={"perftest": "4.5-13.el9"}))
    assert "rdma-core" not in found
    assert "perftest" in found
    assert "libibverbs-utils" in found


def test_an_unreadable_database_is_a_problem_and_not_an_empty_node(planner: Callable[..., Any], node: Any) -> None:
    node.remove("/var/lib/dpkg/status")
    assert planner().plan("packages") == []
    assert planner().problems("packages") == ["package database: cannot be read (apt); what is installed is not known"]


def test_the_plan_as_arguments_of_the_package_modules(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    changes = planner(rdma_stack_pins={"rdma-core": "44.0-3"}).plan("packages")
    for manager, joint in (("apt", "="), ("zypper", "="), ("dnf", "-"), ("yum", "-")):
        pinned = f"rdma-core{joint}44.0-3"
        steps = [{"area": "packages", "state": "present", "names": [pinned, *STACK[1:]]}]
        assert package_steps(changes, manager) == {"manager": manager, "steps": steps}
    other = planner().plan("limits")
    assert other
    assert package_steps(other, "apt") == {"manager": "apt", "steps": []}


APT = """rdma-core:
  Installed: 44.0-2
  Candidate: 44.0-2+deb12u1
  Version table:
     44.0-2+deb12u1 500
        500 http://mirror.example/debian bookworm/main amd64 Packages
perftest:
  Installed: 44.0-2
  Candidate: 44.0-2
ucx:
  Installed: (none)
  Candidate: (none)
"""
DNF = """Available Upgrades
rdma-core.x86_64                1:51.0-1.el9                baseos
perftest.x86_64                 4.5-13.el9                  appstream
"""
ZYPPER = """S | Repository | Name      | Current Version | Available Version | Arch
--+------------+-----------+-----------------+-------------------+-------
v | SLE-Update | rdma-core | 42.0-1.1        | 49.1-150700.1.1   | x86_64
"""


def record(node: Any, manager: str, names: list[str], text: str) -> None:
    argv = COMMANDS[manager] + (() if manager == "zypper" else tuple(names))
    node.put("/cmd/" + recording_name(argv), text)


@pytest.mark.parametrize(("manager", "text", "found"), [
    ("apt", APT, {"rdma-core": "44.0-2+deb12u1", "perftest": "44.0-2"}),
    ("dnf", DNF, {"rdma-core": "51.0-1.el9", "perftest": "4.5-13.el9"}),
    ("yum", DNF, {"rdma-core": "51.0-1.el9", "perftest": "4.5-13.el9"}),
    ("zypper", ZYPPER, {"rdma-core": "49.1-150700.1.1"}),
])  # fmt: skip
def test_newer_versions_as_each_package_manager_prints_them(node: Any, manager: str, text: str, found: dict[str, str]) -> None:
    names = ["rdma-core", "perftest", "ucx"]
    record(node, manager, names, text)
    assert candidates(node, manager, names) == found


def test_latest_upgrades_what_is_not_pinned(planner: Callable[..., Any], node: Any) -> None:
    bring_tools(node)
    install(node, **{name.replace("-", "_"): "44.0-2" for name in STACK})
    free = [name for name in STACK if name != "perftest"]
    record(node, "apt", free, APT)
    pins = {"perftest": "44.0-2"}
    assert planner(rdma_stack_pins=pins).plan("packages") == []
    (change,) = planner(rdma_stack_pins=pins, rdma_stack_packages_state="latest").plan("packages")
    assert (change.what, change.before, change.after) == ("package rdma-core", "44.0-2", "44.0-2+deb12u1")


def test_an_rdma_core_without_the_fabrics_provider_is_named(planner: Callable[..., Any], node: Any) -> None:
    """Ubuntu 22.04's rdma-core 39 installs well and knows no eRDMA device."""
    plans = planner(fabric="erdma", mtu=8500, rdma_stack="inbox")
    assert plans.notes("packages") == [], "nothing is installed yet: nothing is known"
    bring_tools(node)
    install(node, **{name.replace("-", "_"): "39.0-1" for name in STACK + HARDWARE})
    assert plans.plan("packages") == []
    (note,) = plans.notes("packages")
    assert "no provider for erdma" in note
    node.put("/etc/libibverbs.d/erdma.driver", "driver erdma\n")
    assert plans.notes("packages") == []
    assert planner().notes("packages") == [], "other fabrics need no such provider"
