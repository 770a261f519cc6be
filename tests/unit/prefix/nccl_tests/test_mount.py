# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl_tests_nfs: a mount unit of ours, and never a mount of others taken away. No NFS server is asked: tests/lab/test_nfs.py has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import mount

SOURCE, PATH = "nfs1:/export/nccl-tests", "/shared/nccl-tests"
UNIT = "/etc/systemd/system/shared-nccl\\x2dtests.mount"
ROOT_LINE = "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw"
Make = Callable[..., TreeHost]


@pytest.fixture
def tree(tmp_path: Path) -> Make:
    def make(mounts: str = "", unit: str | None = None, helper: bool = True, systemd: bool = True) -> TreeHost:
        texts = {"/proc/self/mountinfo": f"{ROOT_LINE}\n{mounts}"}
        if unit is not None:
            texts[UNIT] = unit
        if helper:
            texts["/usr/sbin/mount.nfs"] = ""
        if systemd:
            texts["/run/systemd/system/.there"] = ""
        for path, text in texts.items():
            (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path[1:]).write_text(text, encoding="utf-8")
        return TreeHost(str(tmp_path))

    return make


def line(source: str, kind: str = "nfs4", path: str = PATH) -> str:
    return f"99 22 0:50 / {path} rw,nosuid shared:9 - {kind} {source} rw,vers=4.2,addr=192.0.2.1\n"


@pytest.mark.parametrize(("path", "unit"), [  # as systemd-escape --path --suffix=mount of systemd 252 printed them
    ("/shared/nccl-tests", "shared-nccl\\x2dtests.mount"),
    ("/srv/a_b.c/x@y+z/", "srv-a_b.c-x\\x40y\\x2bz.mount"),
    ("/.hidden//dir", "\\x2ehidden-dir.mount"),
])
def test_the_unit_is_named_as_systemd_names_it(path: str, unit: str) -> None:
    assert mount.unit_name(path) == unit


def test_nothing_is_there_so_the_unit_is_written_and_started(tree: Make) -> None:
    seen = mount.inspect_mount(tree(), SOURCE, PATH)
    assert (seen["file"], seen["write"], seen["start"]) == (UNIT, True, True)
    assert f"\nWhat={SOURCE}\nWhere={PATH}\nType=nfs\n" in seen["text"]


def test_our_own_mount_is_left_alone(tree: Make) -> None:
    seen = mount.inspect_mount(tree(line(SOURCE), mount.unit_text(SOURCE, PATH)), SOURCE, PATH)
    assert (seen["write"], seen["start"]) == (False, False)


def test_our_unit_that_is_not_mounted_is_started(tree: Make) -> None:
    seen = mount.inspect_mount(tree("", mount.unit_text(SOURCE, PATH)), SOURCE, PATH)
    assert (seen["write"], seen["start"]) == (False, True)


def test_the_sites_own_mount_of_the_same_export_is_used_as_it_is(tree: Make) -> None:
    seen = mount.inspect_mount(tree(line(SOURCE + "/"), helper=False, systemd=False), SOURCE, PATH)
    assert (seen["write"], seen["start"]) == (False, False)


@pytest.mark.parametrize(("source", "kind"), [("nfs2:/other", "nfs4"), ("/dev/sdb1", "xfs"), (SOURCE, "fuse.sshfs")])
def test_what_others_mounted_there_is_not_taken_away(tree: Make, source: str, kind: str) -> None:
    with pytest.raises(RailwrightError, match=r"does not unmount what it did not mount"):
        mount.inspect_mount(tree(line(source, kind)), SOURCE, PATH)


def test_what_lies_over_our_mount_is_not_taken_away_either(tree: Make) -> None:
    with pytest.raises(RailwrightError, match=r"^tmpfs \(tmpfs\) is mounted on"):
        mount.inspect_mount(tree(line(SOURCE) + line("tmpfs", "tmpfs"), mount.unit_text(SOURCE, PATH)), SOURCE, PATH)


def test_our_mount_moves_when_the_inventory_names_another_export(tree: Make) -> None:
    seen = mount.inspect_mount(tree(line("nfs1:/old"), mount.unit_text("nfs1:/old", PATH)), SOURCE, PATH)
    assert (seen["write"], seen["start"]) == (True, True)


def test_a_unit_of_others_is_not_overwritten(tree: Make) -> None:
    with pytest.raises(RailwrightError, match=r"was not written by railwright"):
        mount.inspect_mount(tree("", f"[Mount]\nWhat={SOURCE}\n"), SOURCE, PATH)


def test_a_mount_elsewhere_is_no_mount_here(tree: Make) -> None:
    assert mount.inspect_mount(tree(line("nfs2:/other", path=PATH + "-old") + line("nfs2:/other", path="/shared")), SOURCE, PATH)["start"]


def test_without_nfs_tools_the_package_is_named(tree: Make) -> None:
    with pytest.raises(RailwrightError, match=r"nfs-common \(Debian, Ubuntu\) or nfs-utils \(EL\)"):
        mount.inspect_mount(tree(helper=False), SOURCE, PATH)


def test_without_systemd_nothing_is_written(tree: Make) -> None:
    with pytest.raises(RailwrightError, match=r"does not run systemd"):
        mount.inspect_mount(tree(systemd=False), SOURCE, PATH)
