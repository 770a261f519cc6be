# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of eRDMA's user space: which, when an installed one is the wrong one, and what stands in the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import packages
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity
from packages_nodes import Node

PINNED = {"erdma_repository_fingerprint": "A" * 40}
DEB = ("libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1")
RPM = ("libibverbs", "rdma-core", "librdmacm", "libibverbs-utils")
DRIVER = "/etc/libibverbs.d/erdma.driver"
TOOLS = ("ip", "rdma", "modprobe", "ping")
Make = Callable[..., Any]


def changes(node: Node, spec: Spec, identity: Identity) -> list[Change]:
    wanted = packages.desired(spec, identity)
    return [row for row in packages.plan(wanted, packages.observe(node, wanted)) if "modules-extra" not in row.what]


def conflicts(node: Node, spec: Spec, identity: Identity) -> list[str]:
    wanted = packages.desired(spec, identity)
    return [row.message for row in packages.conflicts(wanted, packages.observe(node, wanted))]


@pytest.fixture(autouse=True)
def tools(node: Node) -> None:
    for name in TOOLS:
        node.put("/usr/bin/" + name, "")
        Path(f"{node.root}/usr/bin/{name}").chmod(0o755)


def test_a_bare_node_gets_them_from_wherever_they_come(node: Node, erdma: Make, on: Make) -> None:
    found = changes(node, erdma(**PINNED), on("ubuntu 22.04"))
    assert [row.package for row in found] == [*DEB, "rdmacm-utils", "perftest"]
    assert {(row.before, row.after, row.disruption) for row in found} == {(None, "present", "none")}
    node.rpm(("bash", "5.1"))
    assert [row.package for row in changes(node, erdma(**PINNED), on("alinux 3"))] == [*RPM, "perftest"]


def test_the_distributions_names_where_it_has_the_provider(node: Node, erdma: Make, on: Make) -> None:
    named = [row.package for row in changes(node, erdma(), on("debian 12"))]
    assert {*DEB, "rdma-core", "infiniband-diags"} <= set(named)


def test_an_installed_one_without_the_provider_is_the_wrong_one(node: Node, erdma: Make, on: Make) -> None:
    node.dpkg(*((name, "39.0-1") for name in (*DEB, "rdmacm-utils", "perftest")))
    found = changes(node, erdma(**PINNED), on("ubuntu 22.04"))
    assert [(row.package, row.before, row.after, row.disruption) for row in found] == [(name, "39.0-1", "present", "none") for name in DEB]
    (step,) = package_steps(found, "apt")["steps"]
    assert (step["state"], step["names"]) == ("replaced", list(DEB))
    node.put(DRIVER, "driver erdma\n")
    assert changes(node, erdma(**PINNED), on("ubuntu 22.04")) == []


def test_rdma_core_as_rpm_restarts_a_service(node: Node, erdma: Make, on: Make) -> None:
    node.rpm(*((name, "35.0-1.al8") for name in (*RPM, "perftest")))
    found = changes(node, erdma(**PINNED), on("alinux 3"))
    assert {row.package: row.disruption for row in found} == {
        "libibverbs": "none", "rdma-core": "restart", "librdmacm": "none", "libibverbs-utils": "none"}


def test_some_are_there_and_some_are_not(node: Node, erdma: Make, on: Make) -> None:
    node.dpkg(("libibverbs1", "39.0-1"), ("perftest", "4.4"))
    steps = package_steps(changes(node, erdma(**PINNED), on("ubuntu 22.04")), "apt")["steps"]
    assert [(step["state"], step["names"]) for step in steps] == [("replaced", ["libibverbs1"]), ("present", [*DEB[1:], "rdmacm-utils"])]


def test_distribution_packages_stay_if_wanted_and_a_note_lists_the_missing(node: Node, erdma: Make, on: Make) -> None:
    node.dpkg(*((name, "39.0-1") for name in (*DEB, "rdma-core", "rdmacm-utils", "perftest", "infiniband-diags", "mstflint")))
    spec, identity = erdma(erdma_repository="false"), on("ubuntu 22.04")
    assert changes(node, spec, identity) == []
    wanted = packages.desired(spec, identity)
    (area,) = [row for row in AREAS if row.name == "packages"]
    (note,) = area.notes(wanted, packages.observe(node, wanted))
    assert "no provider for erdma (/etc/libibverbs.d/erdma.driver)" in note
    assert "rdma-core 43" in note


def test_a_pin_says_its_own_version(node: Node, erdma: Make, on: Make) -> None:
    node.dpkg(*((name, "39.0-1") for name in (*DEB, "rdmacm-utils", "perftest")))
    found = changes(node, erdma(rdma_stack_pins=dict.fromkeys(DEB, "52.0-1"), **PINNED), on("ubuntu 22.04"))
    assert [(row.package, row.after) for row in found] == [(name, "52.0-1") for name in DEB]


def test_another_stack_is_not_taken_apart(node: Node, erdma: Make, on: Make) -> None:
    node.rpm(("mlnx-ofed-all", "24.10-4.1.4.0.rhel8"), *((name, "2410mlnx54-1.2410068") for name in RPM))
    (said,) = conflicts(node, erdma(**PINNED), on("alinux 3"))
    assert said.startswith("mlnx-ofed-all 24.10-4.1.4.0.rhel8 is installed, and its user space has no provider for eRDMA")
    node.put(DRIVER, "driver erdma\n")
    assert conflicts(node, erdma(**PINNED), on("alinux 3")) == []


def test_a_hold_on_the_wrong_one_is_named(node: Node, erdma: Make, on: Make) -> None:
    node.dpkg(("libibverbs1", "39.0-1", "hold ok installed"))
    (said,) = conflicts(node, erdma(**PINNED), on("ubuntu 22.04"))
    assert "is held at 39.0-1 by apt-mark hold" in said
