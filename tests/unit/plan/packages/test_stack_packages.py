# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's stack in the plan: what it takes, what has to go before it, and the steps that come of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import packages
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity
from packages_nodes import BOOKWORM, ROCKY, TRIXIE, Node, whats

Make = Callable[..., Any]
KERNEL = "6.1.0-26-amd64"
VERBS = ("rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "rdmacm-utils", "infiniband-diags")
TOOLS = [("iproute2", "6.1-1"), ("kmod", "30-1"), ("iputils-ping", "3-1"), ("dkms", "3.0.10-8")]
INBOX = [*((name, "44.0-2") for name in VERBS), ("perftest", "4.5-1"), ("mstflint", "4.21-1"), *TOOLS]
CORE = "2510.0.12-1"
DOCA = [("doca-ofed", "3.2.3-019000"), ("ofed-scripts", "25.10.OFED.25.10.3.1.1-1"), ("mlnx-tools", "25.10.25103-1"),
        ("mlnx-ofed-kernel-dkms", "25.10.OFED.25.10.3.1.1-1"), ("iser-dkms", "25.10.OFED.25.10.3.1.1-1"), ("mft", "4.34.1-10"),
        *((name, CORE) for name in VERBS), ("perftest", "25.10.0-0.3.g1234567"), ("mstflint", "4.34.1-1.25.10.25103"),
        ("openmpi", "4.1.9a1-1.2510171"), ("ucx", "1.20.0-1.2510171"), *TOOLS]  # fmt: skip


class Area:
    def __init__(self, node: Node, spec: Spec, identity: Identity) -> None:
        self.node, self.spec, self.identity = node, spec, identity
        self.desired = packages.desired(spec, identity)
        for tool in ("ip", "rdma", "modprobe", "ping"):
            node.put("/usr/bin/" + tool, "")
            Path(node.path("/usr/bin/" + tool)).chmod(0o755)

    def plan(self) -> list[Change]:
        changes = packages.plan(self.desired, packages.observe(self.node, self.desired))
        assert all(change.area == "packages" and not change.ops and change.why and change.source for change in changes)
        return changes

    def problems(self) -> list[str]:
        found = packages.problems(self.spec, self.identity, self.desired)
        found = found + packages.conflicts(self.desired, packages.observe(self.node, self.desired))
        return [f"{problem.subject}: {problem.message}" for problem in found]

    def notes(self) -> list[str]:
        return packages.notes(self.desired, packages.observe(self.node, self.desired))


def test_a_bare_node_gets_headers_and_dkms_before_the_stack(node: Node, doca: Make, identity: Make) -> None:
    node.dpkg(*[row for row in INBOX if row[0] in ("iproute2", "kmod", "iputils-ping")])
    changes = Area(node, doca(), identity()).plan()
    assert whats(changes) == {
        "package linux-headers-" + KERNEL: (None, "present", "none"), "package dkms": (None, "present", "none"),
        "package doca-ofed": (None, "3.2.3*", "none"),
    }  # fmt: skip
    assert package_steps(changes, "apt")["steps"] == [
        {"area": "packages", "state": "present", "names": ["linux-headers-" + KERNEL, "dkms"]},
        {"area": "packages", "state": "present", "names": ["doca-ofed=3.2.3*"]},
    ]  # fmt: skip


def test_headers_from_wherever_will_do(node: Node, doca: Make, identity: Make) -> None:
    node.dpkg(*INBOX)
    node.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    assert list(whats(Area(node, doca(), identity()).plan())) == ["package doca-ofed"]


def test_a_container_builds_no_modules_and_says_so(node: Node, doca: Make, identity: Make) -> None:
    node.dpkg(*[row for row in INBOX if row[0] != "dkms"])
    area = Area(node, doca(), identity(BOOKWORM, "container"))
    assert list(whats(area.plan())) == ["package doca-ofed"]
    assert "no kernel module is built here" in area.notes()[0]


def test_headers_on_the_red_hat_family(node: Node, doca: Make, identity: Make) -> None:
    node.rpm(("bash", "5-1"))
    names = list(whats(Area(node, doca(), identity(ROCKY)).plan()))
    assert names[:3] == ["package kernel-devel-5.14.0-427.13.1.el9_4.x86_64", "package dkms", "package doca-ofed"]


@pytest.mark.parametrize(("installed", "release", "expected"), [
    ("3.2.2-035000", "3.2.3", ("3.2.2-035000", "3.2.3*", "restart")), ("3.2.3-019000", "3.2.2", ("3.2.3-019000", "3.2.2*", "downgrade")),
    ("3.2.3-019000", "3.2.3", None),
])  # fmt: skip
def test_upgrade_and_downgrade_of_the_stack(
    node: Node, doca: Make, identity: Make, installed: str, release: str, expected: tuple[str, str, str] | None,
) -> None:
    node.dpkg(*[("doca-ofed", installed) if row[0] == "doca-ofed" else row for row in DOCA])
    node.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    found = whats(Area(node, doca(rdma_stack_version=release), identity()).plan())
    assert found == ({"package doca-ofed": expected} if expected else {})


def test_from_doca_back_to_inbox(node: Node, spec: Make, identity: Make) -> None:
    """Family and marked packages go, inbox names come back, all with one class of disruption, and the uninstaller runs first."""
    node.dpkg(*DOCA)
    changes = Area(node, spec(rdma_stack="inbox"), identity()).plan()
    found = whats(changes)
    gone = {what.split()[1] for what, (_before, after, _class) in found.items() if after is None}
    assert gone == {"doca-ofed", "ofed-scripts", "mlnx-tools", "mlnx-ofed-kernel-dkms", "iser-dkms", "mft", "openmpi", "ucx"}
    back = {what.split()[1] for what, (_before, after, _class) in found.items() if after == "present"}
    assert back == {"rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "rdmacm-utils", "infiniband-diags",
                    "perftest", "mstflint"}  # fmt: skip
    assert {change.disruption for change in changes} == {"reload"}
    states = [(step["state"], step.get("argv")) for step in package_steps(changes, "apt")["steps"]]
    assert states == [("uninstall", ["/usr/sbin/ofed_uninstall.sh", "--force"]), ("absent", None), ("replaced", None)]


def test_back_to_inbox_once_and_then_never_again(node: Node, spec: Make, identity: Make) -> None:
    node.dpkg(*INBOX)
    assert Area(node, spec(rdma_stack="inbox"), identity()).plan() == []


def test_mlnx_ofed_to_doca_is_taken_off_first(node: Node, doca: Make, identity: Make) -> None:
    old = "2410mlnx54-1.2410068"
    node.dpkg(("mlnx-ofed-all", "24.10-4.1.4.0"), ("ofed-scripts", "24.10.OFED.24.10.4.1.4.1-1"), ("rdma-core", old), ("libibverbs1", old),
              ("mlnx-ofed-kernel-dkms", "24.10.OFED.24.10.4.1.4.1-1"), ("dkms", "3.0.10-8"), ("bash", "5-1"))  # fmt: skip
    node.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    found = whats(Area(node, doca(), identity()).plan())
    gone = {what.split()[1] for what, (_before, after, _class) in found.items() if after is None}
    assert gone == {"mlnx-ofed-all", "ofed-scripts", "rdma-core", "libibverbs1", "mlnx-ofed-kernel-dkms"}
    assert found["package doca-ofed"] == (None, "3.2.3*", "none")


def test_a_standalone_mft_is_no_stack(node: Node, spec: Make, identity: Make) -> None:
    node.dpkg(*INBOX, ("mft", "4.34.1-10"))
    assert Area(node, spec(rdma_stack="inbox"), identity()).plan() == []


def test_auto_and_erdma_take_nothing_off(node: Node, spec: Make, identity: Make) -> None:
    """eRDMA's driver for GPU nodes is built on MLNX_OFED, and auto never uninstalls."""
    node.dpkg(*DOCA)
    area = Area(node, spec(fabric="erdma", mtu=8500, rdma_stack="inbox"), identity())
    assert area.plan() == []
    assert "doca-ofed 3.2.3-019000 is installed and left alone" in area.notes()[0]
    node.dpkg(("mlnx-ofed-all", "24.10-4.1.4.0"), ("bash", "5-1"))
    own = {"rdma_stack_repository_url": "https://mirror.example/doca/", "rdma_stack_repository_key_url": "https://mirror.example/key.gpg",
           "rdma_stack_repository_fingerprint": "A" * 40}  # fmt: skip
    (said,) = Area(node, spec(rdma_stack="auto", **own), identity()).problems()
    assert said.startswith("rdma_stack: auto means doca here and mlnx-ofed-all 24.10-4.1.4.0 is installed, which auto does not take off")


def test_a_package_of_another_name_with_the_same_files_makes_room(node: Node, doca: Make, identity: Make) -> None:
    node.dpkg(*[("librdmacm1t64", "56.1-1") if row[0] == "librdmacm1" else row for row in INBOX])
    node.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    found = whats(Area(node, doca(), identity(TRIXIE)).plan())
    assert found["package librdmacm1t64"] == ("56.1-1", None, "restart")
    node.dpkg(*DOCA, ("librdmacm1t64", "56.1-1"))
    assert "package librdmacm1t64" not in whats(Area(node, doca(), identity(TRIXIE)).plan()), "only on the way there"


def test_a_held_package_that_must_change_is_named_with_the_remedy(node: Node, spec: Make, identity: Make) -> None:
    node.dpkg(*[(name, version, "hold ok installed") if name == "rdma-core" else (name, version) for name, version in INBOX])
    assert Area(node, spec(), identity()).problems() == [], "a hold on what stays is nobody's business"
    (said,) = Area(node, spec(rdma_stack_pins={"rdma-core": "44.0-3"}), identity()).problems()
    assert said == ("package rdma-core: is held at 44.0-2 by apt-mark hold and must become 44.0-3; lift the hold: "
                    "apt-mark unhold rdma-core")  # fmt: skip


def test_version_locks_of_others_hold_and_ours_do_not(node: Node, spec: Make, identity: Make) -> None:
    node.rpm(("perftest", "1.0-1.el9"), ("rdma-core", "1.0-1.el9"))
    ours = "# railwright: begin (the next apply overwrites these lines)\nrdma-core-1.0-1.el9.*\n# railwright: end\n"
    node.put("/etc/dnf/plugins/versionlock.list", ours + "perftest-0:1.0-1.el9.*\n")
    pins = {"perftest": "2.0-1.el9", "rdma-core": "2.0-1.el9"}
    (said,) = Area(node, spec(rdma_stack_pins=pins), identity(ROCKY)).problems()
    assert said.startswith("package perftest: is held at 1.0-1.el9 by dnf versionlock")
    assert said.endswith("dnf versionlock delete perftest")


def test_a_pin_with_an_epoch_does_not_drift_on_rpm(node: Node, spec: Make, identity: Make) -> None:
    node.rpm(("perftest", "25.01.0-1.el9"))
    area = Area(node, spec(rdma_stack_pins={"perftest": "1:25.01.0-1.el9"}), identity(ROCKY))
    assert "package perftest" not in whats(area.plan())


def test_a_pin_that_goes_back_is_a_downgrade(node: Node, spec: Make, identity: Make) -> None:
    node.dpkg(*INBOX)
    found = whats(Area(node, spec(rdma_stack_pins={"perftest": "4.4-1", "mstflint": "5-1"}), identity()).plan())
    assert found == {"package perftest": ("4.5-1", "4.4-1", "downgrade"), "package mstflint": ("4.21-1", "5-1", "none")}


def test_doca_as_one_package_file(node: Node, spec: Make, identity: Make) -> None:
    node.dpkg(*INBOX)
    node.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    offline = {"url": "https://mirror.example/doca-host.deb", "sha256": "0" * 64}
    changes = Area(node, spec(rdma_stack="doca", rdma_stack_offline_package=offline), identity()).plan()
    assert list(whats(changes)) == ["package doca-host", "package doca-ofed"]
    assert [(step["state"], step["names"]) for step in package_steps(changes, "apt")["steps"]] == [
        ("file", ["/var/cache/railwright/packages/doca-host.deb"]), ("present", ["doca-ofed=3.2.3*"]),
    ]  # fmt: skip


def test_the_version_lock_plugin_is_asked_for_where_something_is_held(node: Node, spec: Make, identity: Make) -> None:
    node.rpm(("bash", "5-1"))
    held = Area(node, spec(rdma_stack_kernel_hold=True), identity(ROCKY))
    assert "package python3-dnf-plugin-versionlock" in whats(held.plan())
    node.put("/etc/dnf/plugins/versionlock.conf", "[main]\nenabled = 1\n")
    assert "package python3-dnf-plugin-versionlock" not in whats(held.plan())
