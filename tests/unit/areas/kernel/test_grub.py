# SPDX-License-Identifier: GPL-3.0-or-later
"""What GRUB starts, by a menu written from the form that Debian's grub-mkconfig gives it."""

from __future__ import annotations

import pytest
from tests.unit.areas.kernel.conftest import NEW, OLD, Node, entry, menu_text

from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import entry_of, observe_boot, observe_menu, parse_menu, starts


def put(node: Node, default: str, environment: str = "") -> None:
    node.install(NEW)
    node.tree.write("boot/grub/grub.cfg", menu_text([NEW, OLD], default))
    node.tree.write("boot/grub/grubenv", environment)


@pytest.mark.parametrize(("default", "environment", "release", "place"), [
    ("0", "", NEW, "default entry of /boot/grub/grub.cfg"),
    ("1", "", NEW, "default entry of /boot/grub/grub.cfg"),  # a submenu starts its first entry
    ("1>2", "", OLD, "default entry of /boot/grub/grub.cfg"),
    ("1>3", "", OLD, "default entry of /boot/grub/grub.cfg"),
    (entry(OLD), "", OLD, "default entry of /boot/grub/grub.cfg"),
    (f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {OLD}", "", OLD, "default entry of /boot/grub/grub.cfg"),
    ("gnulinux-5.10.0-1-amd64-advanced-1b3c2a", "", NEW, "default entry of /boot/grub/grub.cfg"),  # what is not there is the first
    ("${saved_entry}", f"saved_entry={entry(OLD)}\n", OLD, "saved_entry in /boot/grub/grubenv"),
    ("0", f"saved_entry={entry(OLD)}\n", NEW, "default entry of /boot/grub/grub.cfg"),  # saved, and nobody asks for it
    ("0", f"next_entry={entry(OLD)}\n", OLD, "next_entry in /boot/grub/grubenv"),
])  # fmt: skip
def test_the_default_entry_by_number_id_title_or_environment(
    node: Node, default: str, environment: str, release: str, place: str
) -> None:
    put(node, default, environment)
    menu = observe_menu(node)
    assert menu is not None
    assert starts(menu) == (release, place)
    boot = observe_boot(node, OLD)
    assert (boot.next, boot.next_source) == (release, place)


def test_what_the_settings_wish_counts_only_once_it_is_in_the_menu(node: Node) -> None:
    put(node, "0")
    node.tree.write("etc/default/grub", f'GRUB_DEFAULT="{entry(OLD)}"\n')
    assert observe_boot(node, OLD).next == NEW
    node.generate()
    assert observe_boot(node, OLD).next == OLD


def test_the_entry_of_a_kernel_is_its_own_and_no_recovery(node: Node) -> None:
    put(node, "0")
    menu = observe_menu(node)
    assert menu is not None
    assert entry_of(menu, NEW) == entry(NEW), "never the simple entry, which is whatever is newest"
    assert entry_of(menu, "6.1.0-1-amd64") is None
    flat = [line.strip() for line in menu_text([NEW, OLD], "0").splitlines() if "submenu" not in line]
    menu = menu._replace(items=parse_menu("\n".join(flat)))  # GRUB_DISABLE_SUBMENU=y
    assert entry_of(menu, OLD) == f"gnulinux-{OLD}-advanced-1b3c2a"


@pytest.mark.parametrize("text", ["", "linux /boot/vmlinuz root=/dev/vda1\nboot\n", "}\n}\nmenuentry 'a {\n", "menuentry {\n}\n"])
def test_a_menu_without_kernels_says_nothing(node: Node, text: str) -> None:
    node.tree.write("boot/grub/grub.cfg", text)
    assert observe_menu(node) is None
    assert observe_boot(node, OLD).next == OLD


def test_a_menu_of_kernels_that_are_gone_is_not_believed(node: Node) -> None:
    node.tree.write("boot/grub/grub.cfg", menu_text([NEW], "0"))
    assert observe_boot(node, OLD).next == OLD
