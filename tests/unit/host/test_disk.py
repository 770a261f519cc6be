# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that takes nothing more: real file systems below a directory that stands for a node."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.node_tree import kmsg

from ansible_collections.railwright.rdma.plugins.module_utils.host import disk
from ansible_collections.railwright.rdma.plugins.module_utils.host.disk import refusing_disk
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_disk import COMMAND, told_fault
from module_double import Module
from rooted import RootedHost

FULL_OF_BLOCKS = "/var/lib is full (0 of 1 MiB free)"
FULL_OF_FILES = "/var is full (0 of 1 inodes free)"
READ_ONLY = "/etc is mounted read-only"
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts file systems")
ROOT = "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw"
LOG = kmsg("""[    1.432961] EXT4-fs (vda1): mounted filesystem r/w with ordered data mode.
[    2.000000] EXT4-fs error (device vdb): ext4_lookup:1: another disk's
[   60.500000] EXT4-fs error (device vda1): ext4_journal_check_start:83: comm systemd: Detected aborted journal
[   60.600000] EXT4-fs (vda1): Remounting filesystem read-only
[   70.000000] EXT4-fs error (device vda1): what it found later
[   80.000000] EXT4-fs (vdb): Remounting filesystem read-only
""")
CAUSE = "EXT4-fs error (device vda1): ext4_journal_check_start:83: comm systemd: Detected aborted journal"
SINCE = f" since 2026-01-01T00:01:00Z (kernel: {CAUSE})"
BOOT = "btime 1767225600"


def told(*lines: str) -> str:
    """What the script prints of a healthy node, and these lines, of which the first of a kind counts."""
    sizes = [f"place {place}\nsize {place} 4096 1000 500 400 100 50" for place in disk.PLACES]
    root = [] if any(" / / " in line for line in lines) else ["mount " + ROOT]
    return "\n".join([*lines, "user 0", *sizes, *root, "device 254:1 ../../devices/virtio1/block/vda/vda1", BOOT])


def mount(place: Path, options: str) -> None:
    place.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", place), check=True)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where a test mounts; each mount is gone afterwards."""
    yield tmp_path
    for place in ("etc", "var/lib", "var"):
        subprocess.run(("umount", tmp_path / place), check=False, capture_output=True)


@NEEDS_ROOT
@pytest.mark.parametrize(("place", "options", "text"), [
    ("etc", "ro", READ_ONLY), ("var/lib", "size=1m", FULL_OF_BLOCKS), ("var", "nr_inodes=1", FULL_OF_FILES), ("var/lib", "size=2m", None)])
def test_each_disk(root: Path, place: str, options: str, text: str | None) -> None:
    mount(root / place, options)
    if "size" in options:
        (root / place / "filler").write_bytes(b"x" * 1024 * 1024)
    assert refusing_disk(RootedHost(root)) == text
    assert refusing_disk(TreeHost(str(root))) is None


@NEEDS_ROOT
def test_a_service_in_a_sandbox_is_on_no_sick_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ProtectSystem=strict: all is read-only to an unprivileged service, and nothing to the node."""
    mount(root / "etc", "rw")
    subprocess.run(("mount", "-o", "remount,bind,ro", root / "etc"), check=True)
    host = RootedHost(root)
    assert refusing_disk(host, ("/etc",)) == READ_ONLY
    assert host.obstacle("/etc/x") == f"{root}/etc is on a file system that is mounted read-only"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refusing_disk(host, ("/etc",)) is None
    assert host.obstacle("/etc/x") is None


@NEEDS_ROOT
def test_a_module_says_it_instead_of_its_answer(root: Path) -> None:
    """What became of an apply is said whatever the disk, and of a host that is no node its disk is not asked."""
    mount(root / "etc", "ro")
    host = RootedHost(root)
    assert Module({"mode": "plan"}).call(lambda *_given: {"plan": []}, host, "role") == {"failed": True, "msg": f"role: {READ_ONLY}"}
    assert Module({"mode": "outcome"}).call(lambda *_given: {"confirm": {}}, host) == {"changed": False, "confirm": {}}


@pytest.fixture
def sick(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An ext4 of its own that gives up at its first error, and its device."""
    image, place = tmp_path / "image", tmp_path / "node"
    place.mkdir()
    subprocess.run(("truncate", "-s", "16M", image), check=True)
    subprocess.run(("mkfs.ext4", "-q", image), check=True)
    if subprocess.run(("mount", "-o", "loop,errors=remount-ro", image, place), check=False).returncode:
        # A container may have none; test_sick_nodes.py, which needs one too, then fails.
        pytest.skip("this machine has no loop device to mount")
    try:
        device = subprocess.run(("findmnt", "-no", "SOURCE", place), check=True, capture_output=True, text=True).stdout.strip()
        yield place, device.rpartition("/")[2]
    finally:
        subprocess.run(("umount", place), check=True)


@NEEDS_ROOT
def test_a_disk_whose_error_made_the_kernel_give_it_up(sick: tuple[Path, str]) -> None:
    """A real ext4, and its own switch for an error. Neither statvfs nor its mount flag need say so (Linux 6.18)."""
    place, device = sick
    for name in ("etc", "var/lib", "tmp", "var/tmp", "proc/self", "dev"):
        (place / name).mkdir(parents=True)
    os.mknod(place / "dev/kmsg", stat.S_IFCHR | 0o644, os.makedev(1, 11))
    line = next(line for line in Path(disk.MOUNTS).read_text().splitlines() if f" {place} " in line)
    (place / "proc/self/mountinfo").write_text(line.replace(str(place), "/") + "\n")
    (place / "proc/stat").write_text(BOOT + "\n")
    assert refusing_disk(RootedHost(place)) is None
    Path("/sys/fs/ext4", device, "trigger_fs_error").write_text("1")
    said = refusing_disk(RootedHost(place))
    assert said is not None
    assert re.fullmatch(rf"/ is mounted read-only since 2026-\S+Z \(kernel: EXT4-fs error \(device {device}\): .*\)", said), said


@pytest.mark.parametrize(("lines", "text"), [
    ((), None),
    (("mount 27 1 254:1 / / ro,relatime - ext4 /dev/root rw", LOG), "/ is mounted read-only" + SINCE),
    (("mount 27 1 254:1 / / rw,relatime - ext4 /dev/root ro", "[kernel's log is another's]"), "/ is mounted read-only"),
    (("fault /etc Read-only file system", LOG), "/ is mounted read-only" + SINCE),
    (("fault /tmp Input/output error", LOG), "/ takes no writes (I/O error)" + SINCE),
    (("fault /tmp Permission denied",), None),  # who asked may not open it
    (("mount 9 27 0:5 / /tmp ro - tmpfs tmpfs rw", LOG), "/tmp is mounted read-only"),
    (("user 1000", "mount 9 27 0:5 / /tmp ro - tmpfs tmpfs rw"), None),  # perhaps a sandbox of its own
    (("user 1000", "mount 9 27 0:5 / /tmp rw - tmpfs tmpfs ro"), "/tmp is mounted read-only"),
    (("mount 9 27 0:5 / /etc ro - tmpfs tmpfs rw", "mount 10 27 254:1 / /etc rw - ext4 /dev/root rw"), None),  # the upper one counts
    (("size /tmp 4096 256 0 0 0 0", "mount 9 27 0:5 / /tmp rw - tmpfs tmpfs rw"), "/tmp is full (0 of 1 MiB free)"),
    (("size /etc 4096 1000 500 400 100 0",), "/ is full (0 of 100 inodes free)"),
    (("size /etc 4096 1000 500 0 100 50",), None),  # root may use what is reserved
    (("user 1000", "size /etc 4096 1000 500 0 100 50"), "/ is full (0 of 3 MiB free)"),
    (("size /etc many",), "the file system of /etc gives no answer"),
    (("size /etc 4096 1000 500 400 100 " + "9" * 5000,), "the file system of /etc gives no answer"),
])  # fmt: skip
def test_what_a_shell_tells_is_judged_alike(lines: tuple[str, ...], text: str | None) -> None:
    assert told_fault(told(*lines)) == text


@pytest.mark.parametrize(("kind", "errors", "asked"), [
    ("ext4", "0\n", 0), ("ext4", "1\n", 1),
    ("ext4", "", 1), ("xfs", "", 1), ("tmpfs", "", 0)])  # fmt: skip
def test_only_what_may_have_given_up_is_asked_to_sync(tmp_path: Path, kind: str, errors: str, asked: int) -> None:
    """A sync waits for whoever writes much on a healthy disk."""
    for path, text in (("proc/self/mountinfo", ROOT.replace("ext4", kind)), ("sys/fs/ext4/root/errors_count", errors), ("etc/x", "")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    synced: list[str] = []

    class Counting(RootedHost):
        def sync_fault(self, path: str) -> int | None:
            return synced.append(path)

    assert refusing_disk(Counting(tmp_path), ["/etc"]) is None
    assert len(synced) == asked


def test_a_node_that_told_nothing_is_left_to_its_modules() -> None:
    assert told_fault("") is None


def test_a_real_shell_tells_of_this_machine() -> None:
    """The same judgement as by Python, whatever it is."""
    done = subprocess.run(shlex.split(COMMAND), capture_output=True, text=True, check=False)
    assert "place /etc\nsize /etc " in done.stdout
    assert told_fault(done.stdout) == refusing_disk(Host())
