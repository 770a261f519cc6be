# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that cannot be replaced or removed as they lie there: a plan says so, of what it would change and of nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.units import (
    Unit,
    mask_of,
    observe_daemon,
    observe_unit,
    plan_daemon,
    plan_unit,
)
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan, cut_plan, make_plan, obstacles
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


def test_what_is_no_file_is_said(root: Path) -> None:
    """And not asked for its flags: a device's driver may take the question for another one."""
    os.mkfifo(root / "etc/pipe")
    assert said(root, write_file("/etc/pipe", "x\n")) == said(root, remove_file("/etc/pipe")) == ["/etc/pipe is not a regular file"]


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


UNIT = Unit("railwright-x.service", "# Managed by railwright\n[Service]\n", "multi-user.target", running=False)
DAEMON = "nvidia-persistenced.service"
ETC, RUN, VENDOR = "etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system"


def own_unit(root: Path) -> tuple[list[str], list[str]]:
    """What differs of a unit of ours, and what forbids it."""
    host = InspectedHost(RootedHost(root))
    changes = plan_unit("test", UNIT, observe_unit(host, UNIT), "why", "source")
    return [item.what for item in changes], [item.message.replace(str(root), "") for item in obstacles(host, changes)]


def daemon(root: Path) -> tuple[list[str], list[str]]:
    host = InspectedHost(RootedHost(root))
    changes = plan_daemon("test", observe_daemon(host, DAEMON)._replace(active=True), "why", "source")
    return [item.what for item in changes], [f"{item.subject} {item.message}".replace(str(root), "") for item in obstacles(host, changes)]


def put(path: Path, text: str | None = None, to: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to) if text is None else path.write_text(text)


@pytest.fixture
def units(root: Path) -> Path:
    """One unit of ours and one of a package's, both as they should be."""
    for name, place, text in ((UNIT.name, ETC, UNIT.content), (DAEMON, VENDOR, "[Service]\n")):
        put(root / place / name, text)
        put(root / ETC / "multi-user.target.wants" / name, to=f"/{place}/{name}")
    assert (own_unit(root), daemon(root)) == (([], []), ([], []))
    return root


def test_a_unit_that_a_preset_disabled(units: Path) -> None:
    """It took the links away; apply makes them again."""
    for name in (UNIT.name, DAEMON):
        (units / ETC / "multi-user.target.wants" / name).unlink()
    assert (own_unit(units), daemon(units)) == ((["unit railwright-x.service enabled"], []), ([f"unit {DAEMON} enabled"], []))


def test_a_dependency_that_is_masked(units: Path) -> None:
    for name in (UNIT.name, DAEMON):
        link = units / ETC / "multi-user.target.wants" / name
        link.unlink()
        put(link, to="/dev/null")
    assert (own_unit(units)[0], daemon(units)[0]) == (["unit railwright-x.service enabled"], [f"unit {DAEMON} enabled"])


def test_a_unit_file_of_ours_that_was_replaced_by_a_link_to_dev_null(units: Path) -> None:
    """To write through that link would replace /dev/null itself."""
    path = f"/{ETC}/{UNIT.name}"
    (units / path[1:]).unlink()
    put(units / path[1:], to="/dev/null")
    assert own_unit(units) == (["file " + path], [f"{path} leads to /dev/null, which masks it; to allow it: rm {path}"])
    with pytest.raises(OSError, match="is not a regular file"):
        RootedHost(units).write(path, UNIT.content)
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(("place", "text", "said"), [
    (ETC, None, f"/{ETC}/{DAEMON} leads to /dev/null or is empty), so it can never start; systemctl unmask {DAEMON}"),
    (ETC, "", f"/{ETC}/{DAEMON} leads to /dev/null or is empty), so it can never start; systemctl unmask {DAEMON}"),
    (RUN, None, f"/{RUN}/{DAEMON} leads to /dev/null or is empty), so it can never start; systemctl unmask --runtime {DAEMON}")])
def test_a_daemon_that_is_masked(units: Path, place: str, text: str | None, said: str) -> None:
    put(units / place / DAEMON, text, "/dev/null")
    assert daemon(units) == ([f"unit {DAEMON} enabled"], [f"unit {DAEMON} is masked ({said}"])


def test_a_unit_of_etc_hides_a_mask_below_run(units: Path) -> None:
    put(units / RUN / UNIT.name, to="/dev/null")
    assert own_unit(units) == ([], [])
    assert mask_of(RootedHost(units), UNIT.name) is None


def test_a_template_that_is_masked_masks_its_instances(units: Path) -> None:
    put(units / ETC / "railwright-qos@.service", to="/dev/null")
    assert mask_of(RootedHost(units), "railwright-qos@eth1.service") == f"/{ETC}/railwright-qos@.service"
