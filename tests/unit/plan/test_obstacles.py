# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that cannot be replaced or removed as they lie there: a plan says so, of what it would change and of nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan, make_plan, obstacles
from ansible_collections.railwright.rdma.plugins.module_utils.plan.selection import cut_plan
from ansible_collections.railwright.rdma.plugins.module_utils.types import (
    Change,
    Identity,
    Op,
    Platform,
    remove_file,
    run,
    set_value,
    write_file,
)
from field_specs import build_spec
from file_marks import NEEDS_ROOT, marked
from rooted import RootedHost, change

WRITE, REMOVE = write_file("/etc/nccl.conf", "ours\n"), remove_file("/etc/nccl.conf")
DEBIAN = Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt")
IDENTITY = Identity("node1", DEBIAN, "6.1.0", "x86_64", "3.11", None, (), (), ())

pytestmark = NEEDS_ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("theirs\n")
    (tmp_path / "etc/link.conf").symlink_to("nccl.conf")
    return tmp_path


def said(root: Path, *ops: Op) -> list[str]:
    """What is said of these effects, as of a node's own paths."""
    return [item.message.replace(str(root), "") for item in obstacles(InspectedHost(RootedHost(root)), [change(*ops)])]


@pytest.mark.parametrize(("place", "letter", "op", "text"), [
    ("etc/nccl.conf", "i", WRITE, "/etc/nccl.conf is immutable; to allow it: chattr -i /etc/nccl.conf"),
    ("etc/nccl.conf", "a", REMOVE, "/etc/nccl.conf is append-only; to allow it: chattr -a /etc/nccl.conf"),
    ("etc/nccl.conf", "i", write_file("/etc/link.conf", "x\n"), "/etc/nccl.conf is immutable; to allow it: chattr -i /etc/nccl.conf"),
    ("etc/nccl.conf", "i", remove_file("/etc/link.conf"), None),  # the link goes, not the file
    ("etc", "i", WRITE, "/etc is immutable; to allow it: chattr -i /etc"),
    ("etc", "i", write_file("/etc/new/deep/file", "x\n"), "/etc is immutable; to allow it: chattr -i /etc"),
    ("etc", "i", remove_file("/etc/gone"), None),  # nothing to remove
    ("etc/nccl.conf", "d", WRITE, None),  # another flag: dump passes it by
    ("etc/nccl.conf", "i", set_value("/etc/nccl.conf", "1"), None),
    ("etc/nccl.conf", "i", run(("true",)), None),
])  # fmt: skip
def test_each_mark(root: Path, place: str, letter: str, op: Op, text: str | None) -> None:
    with marked(root / place, letter):
        assert said(root, op) == ([] if text is None else [text])
    assert said(root, op) == []


def test_a_place_of_its_own_that_is_read_only(root: Path) -> None:
    subprocess.run(("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", root / "etc"), check=True)
    try:
        assert said(root, write_file("/etc/new/file", "x\n")) == ["/etc is on a file system that is mounted read-only"]
    finally:
        subprocess.run(("umount", root / "etc"), check=True)


def test_what_is_no_file_has_no_flags_to_ask(root: Path) -> None:
    """A device's driver may take the question for another one."""
    os.mkfifo(root / "etc/pipe")
    assert said(root, write_file("/etc/pipe", "x\n")) == []


def test_a_captured_node_has_none(root: Path) -> None:
    with marked(root / "etc/nccl.conf"):
        assert obstacles(TreeHost(str(root)), [change(WRITE)]) == []


def test_a_plan_has_it_before_anything_is_tried(root: Path) -> None:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": []}, "node1")
    assert spec is not None
    with marked(root / "etc/nccl.conf"):
        found = make_plan(InspectedHost(RootedHost(root)), spec, ["nccl"]).problems
    assert [(item.area, item.subject, item.message.replace(str(root), "")) for item in found if "immutable" in item.message] == [
        ("nccl", "file /etc/nccl.conf", "/etc/nccl.conf is immutable; to allow it: chattr -i /etc/nccl.conf")]


def test_what_is_left_out_of_a_plan_is_no_obstacle(root: Path) -> None:
    fixed, free = change(WRITE, what="fixed"), change(write_file("/etc/free", "x\n"), what="free")
    host = RootedHost(root)

    def cut(*only: Change) -> list[str]:
        whole = Plan(IDENTITY, (fixed, free), tuple(obstacles(host, (fixed, free))), None)
        return [item.subject for item in cut_plan(host, whole, (), [item.key for item in only])[0].problems]

    with marked(root / "etc/nccl.conf"):
        assert (cut(free), cut(fixed), cut(fixed, free)) == ([], ["file /etc/nccl.conf"], ["file /etc/nccl.conf"])
