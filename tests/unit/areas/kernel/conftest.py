# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node with kernels side by side: update-grub, grub-editenv and grubby do to its files what the real ones do.

The menu is written from the form that Debian 12's grub-mkconfig gives it (00_header, 10_linux), not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_stacks import kernel as installed
from tests.fixtures.node_text import OS_RELEASE, dpkg_status, proc_modules
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import carry_out
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import kernel
from ansible_collections.railwright.rdma.plugins.module_utils.formats import sysfs_values
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import installed_kernels, observe_boot
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Problem
from field_specs import build_spec

OLD, NEW, NEWER = "6.1.0-18-amd64", "6.1.0-26-amd64", "6.1.0-27-amd64"
EL_OLD, EL_NEW = "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.12.1.el9_6.x86_64"
MIB = 1048576
MODULES = ("ib_core", "ib_uverbs", "rdma_ucm", "ib_umad")
_UUID = "1b3c2a"
_HEAD = """if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="%s"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
  fi
}
"""
_ENTRY = """menuentry '%s' --class debian --class gnu-linux $menuentry_id_option '%s' {
\tload_video
\tif [ x$feature_platform_search_hint = xy ]; then
\t  search --no-floppy --fs-uuid --set=root 1b3c2a
\tfi
\tlinux\t/boot/vmlinuz-%s root=UUID=1b3c2a ro quiet
\tinitrd\t/boot/initrd.img-%s
}
"""


def menu_text(releases: Sequence[str], default: str) -> str:
    """The menu of kernels, newest first, as 10_linux writes it: a simple entry, then the submenu with a recovery mode each."""
    text = _HEAD % default + _ENTRY % ("Debian GNU/Linux", f"gnulinux-simple-{_UUID}", releases[0], releases[0])
    text += f"submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-{_UUID}' {{\n"
    for release in releases:
        title = f"Debian GNU/Linux, with Linux {release}"
        for suffix, kind in (("", "advanced"), (" (recovery mode)", "recovery")):
            entry = _ENTRY % (title + suffix, f"gnulinux-{release}-{kind}-{_UUID}", release, release)
            text += "".join(f"\t{line}\n" for line in entry.splitlines())
    return text + "}\nmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n"


def entry(release: str) -> str:
    return f"gnulinux-advanced-{_UUID}>gnulinux-{release}-advanced-{_UUID}"


class Node(TreeHost):
    """Commands of the boot loader have their effect; ``free`` is the room in /boot."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.tree = Tree(root)
        self.commands: list[tuple[str, ...]] = []
        self.free = 900 * MIB
        root.mkdir(exist_ok=True)

    def free_bytes(self, path: str) -> int | None:
        return self.free if path == "/boot" else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command == ("update-grub",):
            self.generate()
            return Result(0, "", "")
        if command[:1] in (("grub-editenv",), ("grub2-editenv",)):
            path = "/boot/grub2/grubenv" if command[0] == "grub2-editenv" else command[1]
            return self._edit(path, command[2], command[3])
        if command[:2] == ("grubby", "--set-default"):
            return self._edit("/boot/grub2/grubenv", "set", "saved_entry=4c4c4544-" + command[2].rpartition("vmlinuz-")[2])
        return super().run(argv, timeout, stdin)

    def _edit(self, path: str, what: str, word: str) -> Result:
        values = sysfs_values.key_values(self.read(path))
        name, _equals, value = word.partition("=")
        values = {key: old for key, old in values.items() if key != name} | ({name: value} if what == "set" else {})
        self.tree.write(path[1:], "# GRUB Environment Block\n" + "".join(f"{key}={value}\n" for key, value in values.items()))
        return Result(0, "", "")

    def generate(self) -> None:
        """update-grub: newest first, the default by the last file that sets one."""
        releases = [item.release for item in installed_kernels(self)][::-1]
        paths = ["/etc/default/grub"] + ["/etc/default/grub.d/" + name for name in self.listdir("/etc/default/grub.d")]
        default = "0"
        for path in paths:
            default = sysfs_values.key_values(self.read(path)).get("GRUB_DEFAULT", default)
        self.tree.write("boot/grub/grub.cfg", menu_text(releases, "${saved_entry}" if default == "saved" else default))

    def install(self, release: str, *, headers: bool = True, modules: Sequence[str] = MODULES) -> None:
        installed(self.tree, release, "".join(f"kernel/drivers/infiniband/core/{name}.ko:\n" for name in modules), headers)
        self._directories.clear()  # a captured tree does not change; this one does

    def initramfs(self, release: str, megabytes: int) -> None:
        """A sparse file has its size and takes no room."""
        with (self.tree.root / f"boot/initrd.img-{release}").open("wb") as file:
            file.truncate(megabytes * MIB)

    def boot(self) -> None:
        """A reboot into whatever the boot loader was told."""
        found = observe_boot(self, "none").next
        assert found is not None
        self.tree.write("proc/sys/kernel/osrelease", found + "\n")


class Planner:
    """The area against a node, as plan.py calls it."""

    def __init__(self, node: Node, **values: Any) -> None:
        rails = [{"name": "rail0", "match": {"mac": "52:54:00:00:00:01"}, "address": "10.0.0.1/24"}]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, **values}, "n1")
        assert spec is not None, findings
        self.node, self.spec = node, spec

    def _parts(self) -> tuple[kernel.Desired, kernel.Observed]:
        wanted = kernel.desired(self.spec, observe_identity(self.node))
        return wanted, kernel.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes = kernel.plan(*self._parts())
        assert all(change.area == "kernel" and change.why and change.source for change in changes)
        return changes

    def drift(self) -> list[str]:
        return [change.what for change in self.plan()]

    def problems(self) -> list[Problem]:
        wanted, observed = self._parts()
        return kernel.problems(self.spec, wanted.identity, wanted) + kernel.conflicts(wanted, observed)

    def notes(self) -> list[str]:
        return kernel.notes(*self._parts())

    def apply(self) -> Journal:
        """The state changes, as apply makes them; the journal that undoes them."""
        journal = Journal(self.node, "test")
        carry_out(self.node, [change for change in self.plan() if not change.external], journal)
        return journal


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Debian 12 with GRUB and one kernel, which runs."""
    found = Node(tmp_path / "node")
    found.tree.system(OS_RELEASE["debian12"], OLD, "n1", proc_modules({"ib_core": ""}))
    found.tree.write("var/lib/dpkg/status", dpkg_status({"bash": "5.2"}))
    found.tree.write("etc/default/grub", "GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\n")
    found.tree.write("cmd/update-grub", "")
    found.install(OLD)
    found.generate()
    return found


@pytest.fixture
def el(tmp_path: Path) -> Node:
    """Rocky Linux 9 with grubby and two kernels; the older one runs and is the saved entry."""
    found = Node(tmp_path / "el")
    found.tree.system(OS_RELEASE["rocky9"], EL_OLD, "n1", proc_modules({"ib_core": ""}))
    found.tree.write("cmd/grubby", "")
    found.tree.write("boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry=4c4c4544-{EL_OLD}\nboot_success=0\n")
    found.install(EL_OLD)
    return found


@pytest.fixture
def pinned(node: Node) -> Callable[[str], Planner]:
    return lambda release: Planner(node, kernel_version=release)
