# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from a pin elsewhere: DKMS, the kernel guard, packages, version locks, the verdict, drift."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.node_stacks import dkms as registered
from tests.unit.areas.kernel.conftest import EL_NEW, EL_OLD, NEW, OLD, Node, Planner

from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel.kernel import judge_kernel
from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel.kernel_guard import guard_problems
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms, packages, repositories
from ansible_collections.railwright.rdma.plugins.module_utils.checks.area_verdicts import SETTLED
from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import boot_facts, observe_boot
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Verdict

# As the distributions name them, Debian 13 with its plus sign.
RELEASES = (
    "6.1.0-48-amd64", "6.12.43+deb13-amd64", "6.1.0-0.deb11.13-cloud-amd64", "6.8.0-85-generic", "6.8.0-1015-nvidia-64k",
    "4.18.0-553.el8_10.x86_64", "5.14.0-570.12.1.el9_6.x86_64+64k", "5.10.134-16.3.al8.x86_64", "5.10.0-216.0.0.115.oe2203sp4.x86_64",
)  # fmt: skip
GPU = ("nvidia", "580.95.05")


def of_dkms(node: Node, release: str | None) -> tuple[list[Change], list[str]]:
    wanted = dkms.desired(Planner(node, kernel_version=release).spec, observe_identity(node))
    observed = dkms.observe(node, wanted)
    return dkms.plan(wanted, observed), [problem.message for problem in dkms.conflicts(wanted, observed)]


@pytest.fixture
def built(node: Node) -> Node:
    """The GPU driver's module, built for the kernel that runs."""
    registered(node.tree, *GPU, ("nvidia",), (OLD,), OLD)
    node.tree.write(f"lib/modules/{OLD}/updates/dkms/nvidia.ko", "")
    node.tree.write("sys/firmware/memmap/0/type", "System RAM\n")
    return node


def test_the_kernel_comes_before_everything_that_is_built_for_it() -> None:
    names = [area.name for area in AREAS]
    assert names.index("repositories") < names.index("kernel") < names.index("packages") < names.index("dkms")


def test_modules_for_a_pinned_kernel_are_planned_and_left_to_its_hooks(built: Node) -> None:
    assert of_dkms(built, None) == ([], [])
    changes, said = of_dkms(built, NEW)
    assert [(change.what, change.after) for change in changes] == [
        (f"modules of the GPU driver built for {NEW}", {"nvidia": "580.95.05, installed"})]  # fmt: skip
    assert changes[0].external
    assert said == []
    built.install(NEW)
    built.generate()
    built.boot()  # and no hook has built
    changes, said = of_dkms(built, NEW)
    assert [op.argv for change in changes for op in change.ops] == [("dkms", "install", "nvidia/580.95.05", "-k", NEW)]
    assert said == []


def test_the_guard_leaves_the_next_boot_to_the_pin(built: Node) -> None:
    """A newer kernel that waits forbids to build for the running one, unless the running one is pinned: then it will stay."""
    built.install(NEW)
    built.generate()
    boot, platform = observe_boot(built, OLD), observe_identity(built).platform
    assert ["reboot the node first" in item.message for item in guard_problems("dkms", boot, platform, False)] == [True]
    assert guard_problems("dkms", boot, platform, False, OLD) == []
    assert guard_problems("dkms", boot, platform, False, NEW) == []
    locked = boot._replace(secure_boot=True)
    assert ["no key yet" in item.message for item in guard_problems("dkms", locked, platform, False, NEW)] == [True]
    assert guard_problems("dkms", locked, platform, True, NEW) == []


def test_headers_come_with_the_pinned_kernel_and_not_twice(node: Node) -> None:
    (node.tree.root / f"lib/modules/{OLD}/build").unlink()
    for release, wanted in ((None, True), (NEW, False)):
        spec = Planner(node, kernel_version=release, rdma_stack="doca", rdma_stack_version="3.2.3").spec
        rows = packages.desired(spec, observe_identity(node)).packages
        assert any(row.name.startswith("linux-headers-") for row in rows) is wanted


@pytest.mark.parametrize(("pin", "version"), [(None, "5.14.0-427.13.1.el9_4"), (EL_NEW, "5.14.0-570.12.1.el9_6")])
def test_a_hold_keeps_the_pinned_kernel(el: Node, pin: str | None, version: str) -> None:
    wanted = repositories.desired(Planner(el, kernel_version=pin, rdma_stack_kernel_hold=True).spec, observe_identity(el))
    assert {row.version for row in repositories.observe(el, wanted).kernels} == {version}


def verdicts(node: Node, pin: str | None, **facts: Any) -> list[Verdict]:
    identity = observe_identity(node)
    known = {"kernel": identity.kernel, "boot": boot_facts(observe_boot(node, identity.kernel)), **facts}
    return judge_kernel(inspection_of("n1", Planner(node, kernel_version=pin).spec, identity, known))


def test_the_verdict_on_the_pin(node: Node) -> None:
    assert verdicts(node, None) == []
    assert [(item.status, item.expected, item.found) for item in verdicts(node, OLD)] == [("pass", OLD, OLD)]
    (absent,) = verdicts(node, NEW)
    assert (absent.status, absent.found) == ("fail", OLD)
    assert absent.message == f"runs {OLD}, not {NEW}; it is not installed"
    node.install(NEW)
    node.generate()
    assert verdicts(node, NEW)[0].message == f"runs {OLD}, not {NEW}; the next boot starts it"
    (later,) = verdicts(node, OLD)
    assert (later.status, later.found) == ("fail", NEW)
    assert "the next boot starts" in later.message
    assert verdicts(node, OLD, kernel=None)[0].status == "unknown"
    node.tree.write("run/systemd/container", "podman\n")
    assert verdicts(node, NEW) == []


def test_drift_says_it_once() -> None:
    assert ("kernel", "kernel.pinned") in SETTLED


def test_an_el_release_in_the_hold_has_no_architecture(el: Node) -> None:
    wanted = repositories.desired(Planner(el, kernel_version=EL_OLD, rdma_stack_kernel_hold=True).spec, observe_identity(el))
    assert not any("x86_64" in row.version for row in repositories.observe(el, wanted).kernels)


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_of_a_distribution_is_taken(node: Node, release: str) -> None:
    assert Planner(node, kernel_version=release).spec["kernel_version"] == release


def test_a_plus_sign_in_a_release_is_found_in_grubs_menu(node: Node) -> None:
    node.install("6.12.43+deb13-amd64")
    node.generate()
    planner = Planner(node, kernel_version="6.12.43+deb13-amd64")
    assert planner.drift() == ["kernel 6.12.43+deb13-amd64 runs"]
    assert planner.problems() == []
