# SPDX-License-Identifier: GPL-3.0-or-later
"""An author of files: what the controller reads that somebody else wrote and hands over: captured trees, recordings, logs, exports.

Each verb is the real one, on real files. docs/security.md has a row for each choice; what has its test elsewhere is named there.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hostile.timed import in_time

import repo
from node_trees import NODES
from railwright.cli import console
from railwright.cli.main import run
from railwright.runs import Run, runs_directory, save_run

MARK = "root-only-7Qm2x9"
EVIL = "\x1b]0;x\x07\x1b[2J\x9b1m\x00\b\u202e\u2028\u2029\x85\v\f\x1c\r[  1.0] NVRM: Xid (PCI:0000:27:00): 79\r"
VERBS = (
    ("check", "--all"), ("check", "-f", "json"), ("check", "-f", "junit"), ("check", "-f", "prometheus"), ("facts",),
    ("facts", "-f", "json"), ("explain", "gpudirect"), ("explain", "speed"), ("explain", "affinity"), ("container", "flags"),
)  # fmt: skip
DOCUMENTED = {0, 1, 3, 4, 64}
MEMORY = 1 << 30


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """As ``in_time``, with MEMORY bytes of address space more than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        with in_time(seconds):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def printed(capsys: pytest.CaptureFixture[str], *argv: str, seconds: int = 60) -> str:
    """What a verb prints: one of its exit codes, no traceback, and nothing that a terminal obeys."""
    console.out.cache_clear()  # they hold the streams of the test before
    console.err.cache_clear()
    with bounded(seconds):
        code = run(list(argv))
    out, err = capsys.readouterr()
    assert code in DOCUMENTED, (argv, code, err[-2000:])
    assert "Traceback" not in err
    assert not {letter for letter in out + err if not letter.isprintable()} - {"\n"}
    assert MARK not in out + err
    return out


Spoil = Callable[[Path, Path], None]


def files(tree: Path) -> list[Path]:
    return [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]


def outside(tree: Path, beyond: Path) -> None:
    """Each file is a link out of the tree, absolute or by .., to one that only the operator can read; and so are directories."""
    for number, path in enumerate(files(tree)):
        path.unlink()
        path.symlink_to(beyond / "secret" if number % 2 else os.path.relpath(beyond / "secret", path.parent))
    for path in [path for path in tree.iterdir() if path.is_dir()][::2]:
        shutil.rmtree(path)
        path.symlink_to(beyond)


def loops(tree: Path, beyond: Path) -> None:
    for number, path in enumerate(files(tree)):
        path.unlink()
        path.symlink_to((".", path.name, f"../{path.parent.name}", "/", "/sys/class/..", "/proc/self/root")[number % 6])


def huge(tree: Path, beyond: Path) -> None:
    """A terabyte of nothing in every fourth file."""
    for path in files(tree)[::4]:
        with path.open("r+b") as stream:
            stream.truncate(1 << 40)


def names(tree: Path, beyond: Path) -> None:
    """Names that are no UTF-8, that a terminal obeys, and many."""
    for place in ("sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices", "etc/modprobe.d", "cmd", "proc", "etc/netplan"):
        (tree / place).mkdir(parents=True, exist_ok=True)
        for name in (b"\xff\xfe", b"\x1b[2J", b"a\nb", "\u202ex".encode(), b"0000:00:00.0", b"x" * 255, b"..x", b"-rf"):
            (tree / place / os.fsdecode(name) / "device").mkdir(parents=True, exist_ok=True)
        for number in range(300):
            (tree / place / f"x{number}").touch()


def deep(tree: Path, beyond: Path) -> None:
    """More levels than a path has room for, and more than Python has calls."""
    before = Path.cwd()
    os.chdir(tree / "sys/class/net")
    try:
        for _level in range(1100):
            Path("net").mkdir()
            os.chdir("net")
    finally:
        os.chdir(before)


def controls(tree: Path, beyond: Path) -> None:
    """In each line of each file and recording, and as exit codes."""
    for path in files(tree):
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join(line + EVIL.encode() for line in lines))
        if path.parent.name == "cmd" and not path.name.endswith(".rc"):
            path.with_name(path.name + ".rc").write_text("99999\n" + EVIL)


def longest(tree: Path, beyond: Path) -> None:
    """Digits, words and brackets without an end."""
    for number, path in enumerate(files(tree)):
        path.write_bytes((b"9" * 200_000, b"[" * 200_000, b"a " * 100_000, b'{"a":' * 40_000, b"\n" * 200_000, b"= " * 100_000)[number % 6])


SPOILT: dict[str, Spoil] = {each.__name__: each for each in (outside, loops, huge, names, deep, controls, longest)}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(NODES / "hgx-skew", tmp_path / "tree", symlinks=True))
    subprocess.run(("rm", "-rf", "--", tmp_path / "tree"), check=True)  # pytest's own removal is recursive, and some are deep


@pytest.fixture
def beyond(tmp_path: Path) -> Path:
    """A directory beside the tree with something that is not the author's to see."""
    path = tmp_path / "beyond"
    path.mkdir()
    for name in ("secret", "os-release", "hostname", "version"):
        (path / name).write_text(f"NAME={MARK}\nID={MARK}\n{MARK}\n")
    return path


@pytest.mark.parametrize("kind", SPOILT)
def test_a_captured_tree(kind: str, tree: Path, beyond: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SPOILT[kind](tree, beyond)
    for verb in VERBS:
        printed(capsys, *verb, "--sysroot", str(tree))


IN_OPEN, IN_NONBLOCK = 0x20, 0x800  # sys/inotify.h


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO], ids=["character", "block", "fifo"])
def test_a_device_in_a_captured_tree_is_not_even_opened(kind: int, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """tar makes the devices of an archive when root unpacks it, and they are this machine's: what opens /dev/watchdog and closes it again
    restarts the machine a minute later."""
    libc = ctypes.CDLL(None, use_errno=True)
    special = tree / "special"
    os.mknod(special, kind | 0o666, os.makedev(1, 3 if kind == stat.S_IFCHR else 99))
    watched = libc.inotify_init1(IN_NONBLOCK)
    assert libc.inotify_add_watch(watched, bytes(special), IN_OPEN) > 0
    for path in files(tree):
        path.unlink()
        os.link(special, path)
    for verb in VERBS:
        printed(capsys, *verb, "--sysroot", str(tree))
    with pytest.raises(BlockingIOError):
        os.read(watched, 4096)
    os.close(watched)


# Files that a verb names.


def control_text(path: Path) -> None:
    lines = "NCCL_DEBUG=INFO\n", "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n", '{"PORT": {}}\n', "interface 1\n"
    path.write_text(EVIL.join(lines))


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


HANDED: dict[str, Callable[[Path], object]] = {
    "none": lambda path: None, "directory": Path.mkdir, "zeros": lambda path: path.symlink_to("/dev/zero"), "terabyte": sparse,
    "loop": lambda path: path.symlink_to(path), "bytes": lambda path: path.write_bytes(bytes(range(256)) * 1000), "controls": control_text,
    "digits": lambda path: path.write_text("9" * 1_000_000), "brackets": lambda path: path.write_text("[" * 1_000_000),
    "numbers": lambda path: path.write_text('{"nodes": {"n": %s}, "at": 1e999}\n' % ("9" * 5000)), "empty": Path.touch,
    "keys": lambda path: path.write_text(json.dumps({EVIL + str(number): EVIL for number in range(2000)})),
}  # fmt: skip
SITE = str(repo.ROOT / "inventories" / "roce")
TAKES_FILES = {
    "nccl log": ("nccl", "log", "FILE"), "nccl lint": ("nccl", "lint", "FILE"), "top": ("top", "--replay", "FILE"),
    "top json": ("top", "--replay", "FILE", "-f", "json"), "apply": ("apply", "FILE", "--yes"),
    "sonic": ("switch", "check", "-i", SITE, "--os", "sonic", "FILE"), "eos": ("switch", "check", "-i", SITE, "--os", "eos", "FILE"),
    "pauses": ("switch", "pauses", "-i", SITE, "--switch", "leaf1=sonic:FILE:FILE"),
    "hosts": ("switch", "pauses", "-i", SITE, "--switch", "leaf1=sonic:/dev/null:/dev/null", "--hosts", "FILE"),
    "release": ("upgrade", "-i", SITE, "--to", "FILE", "--dry-run"),
}  # fmt: skip


@pytest.mark.parametrize("verb", TAKES_FILES)
def test_a_file_that_is_handed_over(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for kind, make in HANDED.items():
        file = tmp_path / kind
        make(file)
        printed(capsys, *(word.replace("FILE", str(file)) for word in TAKES_FILES[verb]))


@pytest.mark.parametrize("kind", [kind for kind in HANDED if kind != "keys"])
def test_what_nccls_ras_is_said_to_have_printed(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No node is asked: what is no JSON object ends it before."""
    HANDED[kind](tmp_path / "ras")
    printed(capsys, "diagnose", "-i", SITE, "--process", "x", "--ras", str(tmp_path / "ras"))


# Stored runs: those of another controller, copied.

ID = "20260101T000000Z-bench-1a2b3c4d"


def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    verdict = {"check": "port.rate", "node": "n1", "hca": "mlx5_0", "port": 1, "subject": "x", "status": "fail", "expected": 400,
               "found": 200, "message": "x", "why": "", "rail": None}
    nodes = {"n1": {"status": "ok", "message": ""}}
    return save_run(Run(ID, "bench", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0", nodes=nodes, verdicts=[verdict])) / "run.json"


@pytest.mark.parametrize("elsewhere", ["../../../elsewhere", "ABSOLUTE"])
def test_a_record_does_not_say_where_its_report_is_written(
    elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record's own id was the directory."""
    record = stored(tmp_path, monkeypatch)
    place = tmp_path / "elsewhere"
    place.mkdir()
    record.write_text(json.dumps({**json.loads(record.read_text()), "id": str(place) if elsewhere == "ABSOLUTE" else elsewhere}))
    printed(capsys, "report", "--run", ID)
    assert list(place.iterdir()) == []
    assert (runs_directory() / ID / "report.json").exists()
