# SPDX-License-Identifier: GPL-3.0-or-later
"""The pinned kernel: installed beside the others, chosen for the next boot, booted; what cannot be is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.node_text import dpkg_status
from tests.unit.areas.kernel.conftest import EL_NEW, EL_OLD, MIB, NEW, NEWER, OLD, Node, Planner, entry

from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import kernel
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import check_expected

Pinned = Callable[[str], Planner]
NEXT = kernel.NEXT


def test_without_a_pin_the_kernel_is_left_as_it_is(node: Node) -> None:
    node.install(NEWER)
    node.generate()
    planner = Planner(node)
    assert (planner.plan(), planner.problems(), planner.notes()) == ([], [], [])


def test_a_newer_kernel_comes_with_its_headers_and_a_reboot(node: Node, pinned: Pinned) -> None:
    planner = pinned(NEW)
    changes = planner.plan()
    assert [(change.what, change.before, change.after, change.disruption) for change in changes] == [
        (f"package linux-image-{NEW}", None, "present", "none"),
        (f"package linux-headers-{NEW}", None, "present", "none"),
        (NEXT, OLD, NEW, "none"),
        (f"kernel {NEW} runs", OLD, NEW, "reboot"),
    ]
    assert all(change.external for change in changes), "before the packages have come there is nothing for apply to do"
    assert [change.what for change in changes if change.needs_reboot] == [f"kernel {NEW} runs"]
    assert planner.problems() == []
    # Headers first: DKMS then builds when the image comes, before its initramfs is made.
    steps = package_steps(changes, "apt")["steps"]
    assert [step["names"] for step in steps] == [[f"linux-headers-{NEW}"], [f"linux-image-{NEW}"]]
    node.install(NEW)
    node.generate()  # what the package's own script does
    assert planner.drift() == [f"kernel {NEW} runs"]
    node.boot()
    assert planner.plan() == []


def test_a_pin_to_an_older_kernel_has_grub_start_it_and_its_undo_is_exact(node: Node, pinned: Pinned) -> None:
    node.install(NEWER)
    node.generate()
    before = node.read("/boot/grub/grub.cfg")
    planner = pinned(OLD)
    (change,) = planner.plan()
    assert (change.what, change.before, change.after, change.disruption, change.external) == (NEXT, NEWER, OLD, "none", False)
    journal = planner.apply()
    assert f'GRUB_DEFAULT="{entry(OLD)}"\n' in (node.read(kernel.DROP_IN) or "")
    assert planner.plan() == []
    node.install("6.1.0-99-amd64")  # an update of the system brings another one
    node.generate()
    assert planner.plan() == [], "the entry is named, not counted"
    (node.tree.root / "boot/vmlinuz-6.1.0-99-amd64").unlink()
    assert roll_back(node, journal.entries) == []
    assert not node.exists(kernel.DROP_IN)
    assert node.read("/boot/grub/grub.cfg") == before


def test_back_and_forth_and_no_kernel_is_ever_removed(node: Node, pinned: Pinned) -> None:
    for release in (NEW, OLD, NEW):
        if not node.exists(f"/boot/vmlinuz-{release}"):
            node.install(release)
            node.generate()
        planner = pinned(release)
        planner.apply()
        node.boot()
        assert planner.plan() == []
        assert not [change for change in planner.plan() if change.after is None]
    assert {"vmlinuz-" + OLD, "vmlinuz-" + NEW} <= set(node.listdir("/boot"))


def test_what_the_shown_plan_held_is_all_that_is_done_after_the_packages(node: Node, pinned: Pinned) -> None:
    node.install(NEWER)
    node.generate()
    planner = pinned(NEW)
    shown = planner.plan()
    node.install(NEW)
    node.generate()
    after = planner.plan()
    assert [change.what for change in after if not change.external] == [NEXT]
    check_expected(after, [change.key for change in shown])


def test_a_one_boot_entry_is_removed_and_restored_by_the_undo(node: Node, pinned: Pinned) -> None:
    node.install(NEW)
    node.generate()
    node.tree.write("boot/grub/grubenv", f"# GRUB Environment Block\nnext_entry={entry(NEW)}\n")
    planner = pinned(OLD)
    assert planner.plan()[0].before == NEW
    journal = planner.apply()
    assert planner.plan() == []
    assert roll_back(node, journal.entries) == []
    assert planner.plan()[0].before == NEW


def test_a_kernel_with_image_and_without_headers_asks_for_these_alone(node: Node, pinned: Pinned) -> None:
    node.install(NEW, headers=False)
    node.generate()
    assert pinned(NEW).drift() == [f"package linux-headers-{NEW}", f"kernel {NEW} runs"]


def test_on_el_grubby_is_told_and_the_saved_entry_comes_back(el: Node) -> None:
    planner = Planner(el, kernel_version=EL_NEW)
    assert planner.drift() == [f"package kernel-{EL_NEW}", f"package kernel-devel-{EL_NEW}", NEXT, f"kernel {EL_NEW} runs"]
    el.install(EL_NEW)
    assert [change.what for change in planner.plan() if not change.external] == [NEXT]
    environment = el.read("/boot/grub2/grubenv")
    journal = planner.apply()
    assert ("grubby", "--set-default", f"/boot/vmlinuz-{EL_NEW}") in el.commands
    assert planner.drift() == [f"kernel {EL_NEW} runs"]
    assert roll_back(el, journal.entries) == []
    assert sorted((el.read("/boot/grub2/grubenv") or "").split()) == sorted((environment or "").split())
    planner.apply()
    el.boot()
    assert planner.plan() == []


@pytest.mark.parametrize(("release", "image", "headers"), [
    (f"{EL_NEW}+64k", f"kernel-64k-{EL_NEW}", f"kernel-64k-devel-{EL_NEW}"),
    (f"{EL_NEW}+rt", f"kernel-rt-{EL_NEW}", f"kernel-rt-devel-{EL_NEW}"),
])  # fmt: skip
def test_flavours_of_el_have_packages_of_their_own(el: Node, release: str, image: str, headers: str) -> None:
    assert Planner(el, kernel_version=release).drift()[:2] == [f"package {image}", f"package {headers}"]


def test_ubuntus_extra_modules_follow_those_of_the_running_kernel(node: Node) -> None:
    old, new = "6.8.0-60-generic", "6.8.0-85-generic"
    node.tree.write("etc/os-release", 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04"\n')
    node.tree.write("proc/sys/kernel/osrelease", old + "\n")
    node.install(old)
    planner = Planner(node, kernel_version=new)
    extra = f"package linux-modules-extra-{new}"
    assert extra not in planner.drift()
    node.tree.write(f"lib/modules/{old}/modules.dep", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.zst:\n")
    node.tree.write("var/lib/dpkg/status", dpkg_status({f"linux-modules-extra-{old}": "6.8.0-60.63"}))
    assert extra in planner.drift()
    node.install(new)
    node.tree.write(f"lib/modules/{new}/modules.dep", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.zst:\n")
    assert extra not in planner.drift()


def test_a_boot_that_is_too_small_is_refused_with_numbers(node: Node, pinned: Pinned) -> None:
    node.initramfs(OLD, 90)
    node.free = 100 * MIB
    (problem,) = pinned(NEW).problems()
    assert problem.subject == "/boot"
    assert "has 100 MiB free and one more kernel needs 106 MiB there" in problem.message
    assert OLD in problem.message
    node.free = 106 * MIB
    assert pinned(NEW).problems() == []
    node.free = 0
    assert pinned(OLD).problems() == [], "it is there already"


@pytest.mark.parametrize("release", [EL_NEW, "6.1.0-26-arm64", "6.8.0-85-generic"])
def test_a_release_of_another_system_or_architecture_is_refused(pinned: Pinned, release: str) -> None:
    said = [problem.message for problem in pinned(release).problems() if problem.subject == "rdma_kernel_version"]
    assert said == [f"{release} is no kernel release of Debian GNU/Linux 12 (bookworm) on x86_64: there `uname -r` prints one like {OLD}"]


def test_a_release_of_debian_is_refused_on_el(el: Node) -> None:
    assert [problem.subject for problem in Planner(el, kernel_version=NEW).problems()] == ["rdma_kernel_version"]
    assert Planner(el, kernel_version=EL_OLD).problems() == []


def test_a_system_whose_packages_are_named_otherwise_is_refused(node: Node, pinned: Pinned) -> None:
    node.tree.write("etc/os-release", 'ID=sles\nID_LIKE=suse\nVERSION_ID="15.6"\nPRETTY_NAME="SLES 15 SP6"\n')
    planner = pinned("6.4.0-150600.23.17-default")
    assert ["not named after its release on SLES 15 SP6" in problem.message for problem in planner.problems()] == [True]
    assert planner.plan() == []


def test_an_unknown_boot_loader_is_refused_only_if_the_default_must_change(node: Node, pinned: Pinned) -> None:
    (node.tree.root / "cmd/update-grub").unlink()
    node.install(NEW)
    node.generate()
    assert ["neither" in problem.message for problem in pinned(OLD).problems()] == [True]
    assert pinned(NEW).problems() == [], "the next boot starts it anyway"


def test_a_file_that_overrules_ours_and_an_entry_that_is_missing_are_named(node: Node, pinned: Pinned) -> None:
    node.install(NEW)
    node.generate()
    node.tree.write("etc/default/grub.d/zzz-site.cfg", "GRUB_DEFAULT=0\n")
    assert ["zzz-site.cfg sets GRUB_DEFAULT" in problem.message for problem in pinned(OLD).problems()] == [True]
    node.tree.write("etc/default/grub.d/zzz-site.cfg", "GRUB_TIMEOUT=1\n")
    assert pinned(OLD).problems() == []
    node.install(NEWER)  # and nobody ran update-grub
    assert ["no entry in GRUB's menu" in problem.message for problem in pinned(NEWER).problems()] == [True]


def test_a_kernel_without_the_stacks_modules_is_refused_before_the_reboot(node: Node, pinned: Pinned) -> None:
    """Debian's cloud kernel has no rdma_rxe: seen in a machine."""
    node.install(NEW, modules=("ib_core", "ib_uverbs", "ib_umad"))
    node.generate()
    (problem,) = pinned(NEW).problems()
    assert problem.message == "has no module rdma_ucm, which the stack needs: the node would come back without RDMA"
    node.tree.write(f"lib/modules/{NEW}/modules.builtin", "kernel/drivers/infiniband/core/rdma_ucm.ko\n")
    assert pinned(NEW).problems() == []
    assert pinned(NEWER).problems() == [], "what is not here yet is judged when its packages have come"


def test_in_a_container_there_is_a_note_and_nothing_else(node: Node, pinned: Pinned) -> None:
    node.tree.write("run/systemd/container", "podman\n")
    planner = pinned(NEW)
    assert (planner.plan(), planner.problems()) == ([], [])
    assert ["container" in note for note in planner.notes()] == [True]


def test_a_choice_that_the_inventory_no_longer_names_is_told(node: Node, pinned: Pinned) -> None:
    node.install(NEWER)
    node.generate()
    pinned(OLD).apply()
    planner = Planner(node)
    assert planner.plan() == []
    assert [kernel.DROP_IN in note for note in planner.notes()] == [True]
