# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is reachable and sick is failed with one line, the same by every verb and by both transports: real sshds and file systems.

A home that hangs is a FUSE file system whose server answers nothing, as NFS does whose server is gone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ssh_states import EVERYWHERE, inventory
from ssh_world import World, address

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an sshd a mount namespace of its own"), pytest.mark.slow,
]
ROOM = "/var/opt"  # not below /tmp, which is full on one of them
SECONDS = 30
MINUTES = 10 * 60
USER = "rwhome"
FULL = "mount -t tmpfs -o {} tmpfs {}"
# An ext4 that has given up at an error since; its own switch for one is in /sys.
GAVE_UP = """truncate -s 16M $ROOM/image; mkfs.ext4 -q $ROOM/image; mount -o loop,errors=remount-ro $ROOM/image /var/lib
echo 1 >/sys/fs/ext4/$(basename $(findmnt -no SOURCE /var/lib))/trigger_fs_error"""
HANGS = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)  # with its sshd
device = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
assert libc.mount(b"hangs", sys.argv[1].encode(), b"fuse", 0, options.encode()) == 0, os.strerror(ctypes.get_errno())
signal.pause()
"""
# Of each node: what is done to it, who logs in, and what is said of it.
NODES = {
    "gave-up": (GAVE_UP, "root", r"/var/lib is mounted read-only since 20\S+Z \(kernel: EXT4-fs error \(device loop\d+\): trigger.*\)"),
    "fixed": ("mount -o remount,bind,ro /etc", "root", r"/etc is mounted read-only"),
    "full": (FULL.format("size=1m", "/var/lib") + "; head -c 1M /dev/zero >/var/lib/filler || true", "root",
             r"/var/lib is full \(0 of 1 MiB free\)"),
    "inodes": (FULL.format("nr_inodes=1", "/var/lib"), "root", r"/var/lib is full \(0 of 1 inodes free\)"),
    "temporary": (FULL.format("size=1m", "/tmp") + "; head -c 1M /dev/zero >/tmp/filler || true", "root",
                  r"/tmp is full \(0 of 1 MiB free\)"),
    "home": ("", USER, re.escape(wire.SILENT % SECONDS)),
}
WAYS = [*((verb, transport) for verb in ("drift", "plan", "validate") for transport in ("auto", "ansible")), ("apply", "ansible")]


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir=ROOM))
    directory.chmod(0o755)
    try:
        with World(directory) as world:
            home = directory / f"home-{USER}"
            home.mkdir()
            hangs = f"{sys.executable} -c {shlex.quote(HANGS)} {home} & sleep 1"
            for number, (setup, _user, _text) in enumerate(NODES.values(), 1):
                lines = [f"echo '{USER}:x:4712:4712::{home}:/bin/sh' >>/etc/passwd", f"echo '{USER}:*:19000::::::' >>/etc/shadow"]
                first = EVERYWHERE.format(shlex.quote(str(directory / "home-of-root")))
                world.serve([address(number)], places=["/etc"], setup="\n".join([first, *lines, setup or hangs]), known=True)
            world.wait(address(number) for number in range(1, len(NODES) + 1))
            inventory(world, {name: {"ansible_host": address(number), "ansible_user": user, "ansible_become": False, "rdma_rails": []}
                              for number, (name, (_setup, user, _text)) in enumerate(NODES.items(), 1)})
            yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def told(site: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """By verb and transport what is said of each node."""
    found = {}
    for verb, transport in WAYS:
        options = ["--yes"] if verb == "apply" else ["--transport", transport]
        argv = [sys.executable, "-m", "railwright", verb, "-i", str(site / "hosts.yml"), "--format", "json", *options]
        environment = {**os.environ, "XDG_STATE_HOME": str(site / transport), "ANSIBLE_FORKS": "10", wire.LIMIT_VARIABLE: str(SECONDS)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=MINUTES, check=False)
        assert "Traceback" not in done.stderr
        found[verb, transport] = json.loads(done.stdout)["nodes"]
    return found


@pytest.mark.parametrize(("verb", "transport"), WAYS)
@pytest.mark.parametrize("node", NODES)
def test_one_line_by_every_verb(told: dict[tuple[str, str], dict[str, Any]], node: str, verb: str, transport: str) -> None:
    said = told[verb, transport][node]
    assert (said["status"], bool(re.fullmatch(NODES[node][2], said["message"]))) == ("failed", True), said


@pytest.mark.parametrize("node", NODES)
def test_it_is_the_same_line(told: dict[tuple[str, str], dict[str, Any]], node: str) -> None:
    assert len({nodes[node]["message"] for nodes in told.values()}) == 1
