# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed kernels, the one that the next boot starts, DKMS's tree and its status text, written from documented formats."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.fixtures.node_stacks import dkms as registered
from tests.fixtures.node_stacks import kernel
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import observe_boot, release_key
from ansible_collections.railwright.rdma.plugins.module_utils.observe.dkms import Build, dkms_builds, make_log_tail, parse_status

Make = Callable[[], Tree]
ONE, TWO = "6.1.0-9-amd64", "6.1.0-26-amd64"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path / "node")
    for release in (TWO, ONE):
        kernel(made, release, "kernel/x.ko:\n", headers=release == TWO)
    return made


def host(tree: Tree) -> TreeHost:
    return TreeHost(str(tree.root))


@pytest.mark.parametrize(
    "ordered",
    [
        ("6.1.0-9-amd64", "6.1.0-18-amd64", "6.1.0-18-cloud-amd64", "6.10.1-1-amd64"),
        ("5.14.0-427.el9.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.12.1.el9_6.x86_64"),
        ("5.15.0-91-generic", "5.15.0-91-lowlatency", "6.8.0-85-generic", "6.8.0-85-generic-64k"),
        ("5.10.134-16.3.al8.x86_64", "5.10.134-17.3.al8.x86_64"),
    ],
)
def test_kernels_sort_as_grub_and_rpm_sort_them(ordered: tuple[str, ...]) -> None:
    keys = [release_key(release) for release in ordered]
    assert all(older < newer for older, newer in pairwise(keys))


def test_the_newest_kernel_is_next_and_headers_are_each_kernels_own(tree: Tree) -> None:
    boot = observe_boot(host(tree), ONE)
    assert [(item.release, item.headers) for item in boot.kernels] == [(ONE, False), (TWO, True)]
    assert (boot.newest, boot.next, boot.running_is_newest) == (TWO, TWO, False)
    assert observe_boot(host(tree), TWO).running_is_newest is True


def test_what_is_no_kernel_does_not_count(tree: Tree) -> None:
    tree.write("lib/modules/6.9.0-1-amd64/updates/dkms/x.ko", "")  # DKMS left it behind
    tree.write("boot/vmlinuz-0-rescue-4c4c45", "")
    tree.write("boot/vmlinuz-7.0.0-1-amd64.old", "")
    assert observe_boot(host(tree), ONE).newest == TWO


def test_without_images_kernels_with_modules_count(tree: Tree) -> None:
    for path in (tree.root / "boot").iterdir():
        path.unlink()
    assert observe_boot(host(tree), ONE).next == TWO
    empty = Tree(tree.root.parent / "empty")
    empty.write("etc/hostname", "n1\n")
    boot = observe_boot(host(empty), ONE)
    assert (boot.kernels, boot.next, boot.running_is_newest) == ((), None, None)


@pytest.mark.parametrize(
    ("files", "chosen", "source"),
    [
        ({"boot/grub2/grubenv": f"saved_entry=0a1b2c-{ONE}\n"}, ONE, "saved_entry in /boot/grub2/grubenv"),
        ({"boot/grub/grubenv": f"saved_entry=gnulinux-{ONE}-advanced-0a1b\n"}, TWO, "newest installed kernel"),  # GRUB_DEFAULT is not saved
        (
            {"boot/grub/grubenv": f"saved_entry=a>gnulinux-{ONE}-advanced-0a\n", "etc/default/grub": "GRUB_DEFAULT=saved\n"},
            ONE,
            "saved_entry in /boot/grub/grubenv",
        ),
        ({"boot/grub/grubenv": f"saved_entry=0\nnext_entry=Debian GNU/Linux, with Linux {ONE}\n"}, ONE, "next_entry in /boot/grub/grubenv"),
        ({"etc/default/grub": f'GRUB_DEFAULT="Advanced options>Debian, with Linux {ONE}"\n'}, ONE, "GRUB_DEFAULT in /etc/default/grub"),
        (
            {"etc/default/grub": f'GRUB_DEFAULT="with Linux {ONE}"\n', "etc/default/grub.d/50-cloud.cfg": "GRUB_DEFAULT=0\n"},
            TWO,
            "newest installed kernel",
        ),
        ({"boot/grub2/grubenv": "saved_entry=0a1b2c-5.0.0-1\n"}, TWO, "newest installed kernel"),  # names no kernel that is there
        ({"boot/grub2/grubenv": f"saved_entry=0a1b-{ONE}-dbg\n"}, ONE, "saved_entry in /boot/grub2/grubenv"),
    ],
)
def test_grub_may_have_been_told_which_kernel_to_start(tree: Tree, files: dict[str, str], chosen: str, source: str) -> None:
    for path, text in files.items():
        tree.write(path, text)
    boot = observe_boot(host(tree), TWO)
    assert (boot.next, boot.next_source) == (chosen, source)


def test_a_release_that_is_part_of_another_is_not_taken_for_it(tree: Tree) -> None:
    kernel(tree, "6.1.0-9-amd64-custom", "kernel/x.ko:\n")
    tree.write("boot/grub2/grubenv", "saved_entry=0a1b-6.1.0-9-amd64-custom\n")
    assert observe_boot(host(tree), TWO).next == "6.1.0-9-amd64-custom"


def test_secure_boot_of_a_capture_without_firmware_files_is_not_known(tree: Tree) -> None:
    assert observe_boot(host(tree), TWO).secure_boot is None
    tree.write("sys/firmware/efi/efivars/x", "")
    assert observe_boot(host(tree), TWO).secure_boot is None
    tree.write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\x00\x00\x00")  # cut short
    assert observe_boot(host(tree), TWO).secure_boot is None


def test_the_tree_of_dkms_tells_every_state(tree: Tree) -> None:
    registered(tree, "added", "1", (), ())
    registered(tree, "built", "1", ("built",), (TWO,))
    registered(tree, "done", "1", ("done", "done-two"), (ONE, TWO), TWO)
    for name in ("done.ko.xz", "done_two.ko.xz"):  # the kernel takes - and _ for the same
        tree.write(f"lib/modules/{TWO}/extra/{name}", "")
    registered(tree, "gone", "1", ("gone",), (TWO,), TWO)
    registered(tree, "sourceless", "1", (), ())
    (tree.root / "usr/src/sourceless-1/dkms.conf").unlink()
    assert dkms_builds(host(tree)) == (
        Build("added", "1", None, None, "added"),
        Build("built", "1", TWO, "x86_64", "built"),
        Build("done", "1", TWO, "x86_64", "installed"),
        Build("done", "1", ONE, "x86_64", "built"),
        Build("gone", "1", TWO, "x86_64", "broken"),
        Build("sourceless", "1", None, None, "broken"),
    )


STATUS = {
    "dkms 3": "mlnx-ofed-kernel/25.10, 6.1.0-26-amd64, x86_64: installed\niser/25.10: added\n",
    "dkms 2": "mlnx-ofed-kernel, 25.10, 6.1.0-26-amd64, x86_64: installed (original_module exists)\niser, 25.10: added\n",
}


@pytest.mark.parametrize("text", STATUS.values(), ids=STATUS)
def test_both_forms_of_dkms_status_written_from_its_source(text: str) -> None:
    assert parse_status(text + "Deprecated feature: REMAKE_INITRD\n\n") == (
        Build("mlnx-ofed-kernel", "25.10", "6.1.0-26-amd64", "x86_64", "installed"),
        Build("iser", "25.10", None, None, "added"),
    )


@pytest.mark.parametrize(
    "remark",
    [
        "(WARNING! Diff between built and installed module!)",
        "(Differences between built and installed modules)",
        "(Built modules are missing in the kernel modules folder)",
    ],
)
def test_a_module_that_somebody_replaced_is_broken(remark: str) -> None:
    assert [build.state for build in parse_status(f"nvidia/580.95.05, {TWO}, x86_64: installed {remark}\n")] == ["broken"]


def test_status_is_asked_only_without_the_tree(tree: Tree) -> None:
    tree.write("cmd/dkms_status", STATUS["dkms 3"])
    assert len(dkms_builds(host(tree))) == 2
    registered(tree, "added", "1", (), ())
    assert [build.module for build in dkms_builds(host(tree))] == ["added"]


def test_the_end_of_a_failed_build_is_there_and_harmless(tree: Tree) -> None:
    registered(tree, "m", "1", (), ())
    assert make_log_tail(host(tree), "m", "1") is None
    tree.write("var/lib/dkms/m/1/build/make.log", "".join(f"line {n}\n" for n in range(50)) + "\x1b[31merror\x07\n")
    tail = make_log_tail(host(tree), "m", "1", 3)
    assert tail == "line 48\nline 49\n?[31merror?"
    assert make_log_tail(host(tree), "../../etc", "1") is None
