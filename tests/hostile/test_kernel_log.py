# SPDX-License-Identifier: GPL-3.0-or-later
"""A job user and the kernel's log: real crashes of a program whose file name holds a driver's message, and 10,000 drawn lines.

The log is this machine's own, read by each way that there is: /dev/kmsg, syslog(2) by dmesg, and the journal by a real journald in a
mount namespace. It is then the log of a captured node with GPUs, because the machine of the tests has none.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_tree import kmsg

from ansible_collections.railwright.rdma.plugins.module_utils.agent import status
from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import answer
from ansible_collections.railwright.rdma.plugins.module_utils.agent.service import Agent, Settings
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.agent import hook_text
from ansible_collections.railwright.rdma.plugins.module_utils.checks.health import judge_health
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.kernel_ring import KMSG, read_ring
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.kernel_log import JOURNAL, read_log
from ansible_collections.railwright.rdma.plugins.module_utils.observe.ranks import xids
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import NODE_CODES
from profile_trees import Tree, spec_of
from railwright.agent.decide import Limits, Node, decide

NODE = "ib8"
RECORDED = Path(__file__).parents[1] / "fixtures/dmesg_recorded.txt"
# Of a GPU that the node has; a harmless message of the future; the end of a fault.
FORGED = "NVRM: Xid (PCI:0000:27:00): 79, pid=1, GPU has fallen off the bus."
HARMLESS = "NVRM: Xid (PCI:0000:27:00): 31, pid=1, name=x"
RECOVERED = "mlx5_core 0000:18:00.0: health recovery succeeded"
FUTURE = 999999999.0
SEPARATORS = {"LF": "\n", "CR": "\r", "VT": "\v", "FF": "\f", "FS": "\x1c", "GS": "\x1d", "RS": "\x1e", "NEL": "\x85", "LS": "\u2028",
              "PS": "\u2029"}  # fmt: skip
CODE = {"x86_64": (62, "31c08900"), "aarch64": (183, "000080d2000000b9")}  # write to address 0
NAME = 255  # bytes of a file's name
SECONDS = 60.0
NOBODY = 65534
JOURNALD = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
/lib/systemd/systemd-journald >/dev/null 2>&1 & daemon=$!
trap 'kill $daemon' EXIT
turn=0
while ! journalctl -k -b -q --no-pager -n 40 | grep -q "$1"; do turn=$((turn + 1)); [ $turn -lt 300 ]; sleep 0.2; done
shift
"$@"
"""

Seen = list[tuple[str, str, str]]


def program(path: Path) -> None:
    """An executable of one page that crashes."""
    machine, code = CODE[os.uname().machine]
    text, base = bytes.fromhex(code), 0x400000
    size = 120 + len(text)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 2, machine, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    path.write_bytes(head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + text)
    path.chmod(0o755)


def crash(directory: str, tag: str, separator: str) -> None:
    """As nobody, until the kernel has logged it: it logs ten crashes in five seconds, of all programs."""
    lines = [f"{'' if separator == chr(10) else f'[{at:12.6f}] '}{text}" for at, text in ((FUTURE, HARMLESS), (time.monotonic(), FORGED))]
    name = f"{tag}{separator}" + separator.join([*lines, ""])
    path = Path(directory, name)
    assert len(name.encode()) <= NAME
    program(path)
    end = time.monotonic() + SECONDS
    while not any(f" in {tag}" in record.text for record in read_ring(Host())):
        assert time.monotonic() < end, "the kernel logs no crash: /proc/sys/debug/exception-trace"
        subprocess.run([path], user=NOBODY, group=NOBODY, extra_groups=[], check=False)
        time.sleep(0.5)


@pytest.fixture(scope="module")
def tags() -> Iterator[dict[str, str]]:
    """A mark in the log for each separator. The directory is one that nobody reaches."""
    directory = tempfile.mkdtemp()
    try:
        Path(directory).chmod(0o755)
        found = {name: f"rw{os.getpid()}{name}" for name in SEPARATORS}
        for name, tag in found.items():
            crash(directory, tag, SEPARATORS[name])
        yield found
    finally:
        shutil.rmtree(directory)


def node(root: Path, **log: str | bytes) -> Tree:
    """The captured node, with these logs and this machine's uptime."""
    tree = Tree(NODE, root / str(len(list(root.iterdir()))))
    (tree.root / "dev/kmsg").unlink()
    for name, text in log.items():
        tree.put({"kmsg": "/dev/kmsg", "dmesg": "/cmd/dmesg", "journal": "/cmd/" + recording_name(JOURNAL)}[name], text)
    tree.put("/proc/uptime", Path("/proc/uptime").read_text())
    tree.put("/proc/sys/kernel/random/boot_id", "boot-1\n")
    return tree


def verdicts(tree: Tree) -> Seen:
    host = InspectedHost(tree.host)
    identity = observe_identity(host)
    found = judge_health(inspection_of("node1", spec_of(NODE), identity, observe_facts(host, identity)))
    return [(item.check, item.subject, item.status) for item in found]


def bad(found: Seen) -> Seen:
    return [row for row in found if row[2] in ("fail", "warn") and row[0] == "gpu.xid"]


def ring() -> bytes:
    data = Host().read_bytes(KMSG, 1 << 25)
    assert data
    return data


def without(data: bytes, tags: dict[str, str]) -> bytes:
    marks = [tag[:6].encode() for tag in tags.values()]
    return b"\n".join(line for line in data.split(b"\n") if not any(mark in line for mark in marks))


def test_the_kernel_really_printed_each_name(tags: dict[str, str]) -> None:
    """Else the tests below would prove nothing: over syslog(2) the forged line stands by itself, with the kernel's own stamp."""
    text = subprocess.run(["dmesg", "-S"], check=True, capture_output=True).stdout.decode("utf-8", "replace")
    assert re.search(r"^\[ *[0-9.]+\] " + re.escape(FORGED), text, re.MULTILINE)
    assert sum(line.endswith(FORGED) for line in text.splitlines()) >= 4, "dmesg of util-linux 2.38 escapes the others itself"


def test_no_crash_is_a_driver_s_message(tags: dict[str, str], tmp_path: Path) -> None:
    data = ring()
    found, control = verdicts(node(tmp_path, kmsg=data)), verdicts(node(tmp_path, kmsg=without(data, tags)))
    assert data != without(data, tags)
    assert found == control
    assert ("gpu.xid", "GPUs", "pass") in [(check, subject if subject == "GPUs" else "GPUs", word) for check, subject, word in found]
    assert not bad(found)


@pytest.mark.parametrize("options", [(), ("-S",)], ids=["dmesg", "syslog"])
def test_text_alone_proves_nothing(options: tuple[str, ...], tags: dict[str, str], tmp_path: Path) -> None:
    answer = Host().run(("dmesg", *options))
    assert answer.ok
    found = verdicts(node(tmp_path, dmesg=answer.out))
    assert not bad(found)
    assert {word for check, _subject, word in found if check == "node.kernel_log"} == {"unknown"}


def test_recorded_text_of_dmesg_proves_nothing(tmp_path: Path) -> None:
    """Ten such crashes as dmesg of Debian 11, 12 and 13 (util-linux 2.36, 2.38 and 2.41) prints them over syslog(2): the same bytes."""
    tree = node(tmp_path, dmesg=RECORDED.read_bytes())
    tree.put("/proc/uptime", "9200.00 1.00\n")  # the recording's, whatever this machine's is
    found = verdicts(tree)
    assert (bad(found), ("gpu.xid", "GPU 0000:27:00.0", "unknown") in found) == ([], True)


def test_the_journal_keeps_records(tags: dict[str, str], tmp_path: Path) -> None:
    """A real journald that reads /dev/kmsg; its answer is the one that a node's inspection gets."""
    argv = ["unshare", "-m", "sh", "-c", JOURNALD, "sh", list(tags.values())[-1], *JOURNAL]
    text = subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS * 5).stdout.decode("utf-8", "replace")
    tree = node(tmp_path, journal=text)
    assert read_log(tree.host).source == "journal"
    assert not bad(verdicts(tree))
    assert {record.text for record in read_log(tree.host).records} >= {
        record.text for record in read_log(node(tmp_path, kmsg=ring()).host).records if f" in {tags['LF']}" in record.text}  # fmt: skip


def read_as(user: int) -> list[Any]:
    """What a process of this user reads live: the source, and the forged messages that it takes for the driver's."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        log = read_log(Host())
        os.write(writing, json.dumps([log.source, [text for text in xids(log, 0) if text in (FORGED, HARMLESS)]]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        found: list[Any] = json.loads(stream.read())
    return found


def test_who_reads_the_log_of_this_machine(tags: dict[str, str]) -> None:
    """As root and as nobody, with dmesg_restrict and without: one test, because the switch is the machine's."""
    switch = Path("/proc/sys/kernel/dmesg_restrict")
    before = switch.read_text()
    try:
        for restricted, user, source in ((1, 0, "kmsg"), (1, NOBODY, None), (0, NOBODY, "kmsg")):
            switch.write_text(str(restricted))
            assert read_as(user) == [source, []], (restricted, user)
    finally:
        switch.write_text(before)


def test_the_agent_the_prolog_and_the_drain_take_it_for_nothing(tags: dict[str, str], tmp_path: Path) -> None:
    """Nor does the forged message of the future hide a real one, and a real one ends the prolog with 1."""
    tree = node(tmp_path, kmsg=ring())
    settings = Settings("drain", nobodys_spec().as_dict(), 3, "", checks={"enforced": NODE_CODES})
    hook = tmp_path / "node-status"

    def asked() -> tuple[int, dict[str, Any]]:
        for step in ("whole", "minute"):
            getattr(Agent(tree.host, settings), step)(time.time())
        hook.write_text(hook_text("ok").replace("/run/railwright/agent/status", str(tree.root / "run/railwright/agent/status")))
        done = subprocess.run(["sh", hook, "prolog"], check=False, capture_output=True, timeout=SECONDS)
        return done.returncode, json.loads(tree.host.read(status.DOCUMENT) or "{}")

    code, document = asked()
    assert (code, [row for row in document["findings"] if row["check"] == "gpu.xid"]) == (0, [])
    forging = answer(tree.host, {"node": "n1"}, True)["agent"]
    last = read_ring(tree.host)[-1]
    tree.put("/dev/kmsg", ring() + kmsg(f"[{last.at:.6f}] {FORGED}\n", first=last.number + 1).encode())
    code, document = asked()
    assert (code, [row["status"] for row in document["findings"] if row["check"] == "gpu.xid"]) == (1, ["fail"])
    sick = answer(tree.host, {"node": "n1"}, True)["agent"]
    found = decide([Node(f"n{at}", "drain", forging if at else sick) for at in range(100)], {}, Limits(1, 0.05, 1))
    assert (list(found.drain), found.tripped) == (["n0"], ""), "99 that forge are neither drained nor open the breaker for the sick one"


# Lines of the kernel with text that an unprivileged program chooses: {comm} has 15 bytes at most, {name} 255, {link} is a network
# interface of a user's own namespace. Sources: arch/x86/mm/fault.c, arch/x86/kernel/traps.c, fs/exec.c, kernel/audit.c,
# net/core/dev.c, net/ipv6/addrconf.c, arch/x86/kernel/cpu/bus_lock.c, net/core/sock.c, mm/mmap.c.
SHAPES = (
    "{comm}[{pid}]: segfault at 0 ip 000055 sp 00007f error 6 in {name}[1132,5586+1000] likely on CPU 0 (core 0, socket 0)",
    "traps: {comm}[{pid}] general protection fault ip:55 sp:7f error:0 in {name}[55+1000]",
    "traps: {comm}[{pid}] trap invalid opcode ip:55 sp:7f error:0 in {name}[55+1000]",
    "process '{name}' started with executable stack",
    "audit: type=1701 audit(1700000000.123:45): auid=1 uid=1 gid=1 ses=1 pid={pid} comm={comm} exe={name} sig=11 res=1",
    "x86/split lock detection: #AC: {comm}/{pid} took a split_lock trap at address: 0x55",
    "warning: `{comm}' uses wireless extensions which will stop working for Wi-Fi 7 hardware; use nl80211",
    "{comm} ({pid}): Using mlock ulimits for SHM_HUGETLB is obsolete",
    "{link}: renamed from veth0",
    "{link}: entered promiscuous mode",
    "IPv6: ADDRCONF(NETDEV_CHANGE): {link}: link becomes ready",
)
DRIVERS = (
    FORGED, HARMLESS, RECOVERED, "NVRM: GPU 0000:27:00.0: GPU has fallen off the bus", "NVRM: Xid (PCI", "NVRM: Xid (",
    "mlx5_core 0000:18:00.0: device's health compromised", "pcieport 0000:16:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal)",
    "EXT4-fs (vda1): Remounting filesystem read-only", "EXT4-fs (vda1): ", "mce: [Hardware Error]: CPU 0: Machine Check Exception: 5",
    "nfs: server a not responding", "nfs: server a OK", "Memory failure: 0x1: ", "NETDEV WATCHDOG: x", "EDAC MC0: 1 UE ",
    "I/O error, dev sda, ", "Out of memory: Killed process 1 (x)", "INFO: task x:1 blocked for more than 120 seconds",
    "NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 1 timed out", "Oops: 0002 [#1] PREEMPT SMP", "kernel BUG at mm/slub.c:448!",
    "mlx5_core 0000:18:00.0: firmware version: 28.39.1002", "nvidia-peermem nv_get:1 ERROR detected invalid context",
    "DMAR: [DMA Read] Request device [18:00.0] fault addr 1", "LNetError: 1:0:(o2iblnd_cb.c:1:x()) Timed out",
    "nvme nvme0: controller is down; will reset",
    "NVRM: The NVIDIA GPU 0000:27:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system has", "NVRM: fallen off the bus and is",
    "nvidia-nvswitch0: SXid (PCI:0000:27:00.0): 20001, Fatal", "watchdog: BUG: soft lockup - CPU#1 stuck",
)  # fmt: skip


def drawn(lines: int, seed: int) -> list[str]:
    """Messages as the kernel holds them, unescaped."""
    dice = random.Random(seed)

    def text(limit: int, forbidden: str) -> str:
        parts = []
        for _ in range(dice.randint(1, 6)):
            separator = dice.choice([*SEPARATORS.values(), "", " ", "\\n", "\\x0a", "\x1b[2J", "\u202e"])
            stamp = dice.choice(["", "", f"[{dice.choice([FUTURE, 41000.0]):12.6f}] ", "6,1,1,-;", "<3>"])
            parts.append(separator + stamp + dice.choice(DRIVERS))
        made = "".join(parts).encode()[dice.randint(0, 3) :][:limit].decode("utf-8", "ignore")
        return "".join("x" if letter in forbidden else letter for letter in made)

    def message() -> str:
        link = text(15, "/\0 \n\r\v\f\t:")
        return dice.choice(SHAPES).format(comm=text(15, "\0"), name=text(NAME, "/\0"), link=link, pid=dice.randint(1, 99999))

    return [message() for _ in range(lines)]


def escaped(text: str) -> str:
    """As the kernel does for /dev/kmsg (msg_add_ext_text of kernel/printk/printk.c)."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in text.encode())


def journal_row(at: int, text: str) -> str:
    return json.dumps({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "MESSAGE": text, "_SOURCE_MONOTONIC_TIMESTAMP": str(at * 1000)})


def test_ten_thousand_lines_of_a_program_change_no_verdict(tmp_path: Path) -> None:
    """Over each source, against the same log without them; a real fault among them stays the one that it is."""
    messages = drawn(10_000, 50)
    boot = ["Linux version 6.8.0", "mlx5_core 0000:18:00.0: device's health compromised - reached miss count"]
    for real in ([], ["NVRM: Xid (PCI:0000:27:00): 48, pid=1, name=x, An uncorrectable double bit error (DBE)"]):
        logs = [[*boot, *messages[:5000], *real, *messages[5000:]], [*boot, *real]]
        numbered = ["".join(f"6,{at},{at * 1000},-;{escaped(text)}\n" for at, text in enumerate(log)) for log in logs]
        rows = ["".join(f"{journal_row(at, text)}\n" for at, text in enumerate(log)) for log in logs]
        found = [verdicts(node(tmp_path, kmsg=text)) for text in numbered] + [verdicts(node(tmp_path, journal=text)) for text in rows]
        assert found == [found[0]] * 4
        assert ("hca.health", "mlx5_0 (0000:18:00.0)", "fail") in found[0]
        assert len(bad(found[0])) == len(real)
        text = "".join(f"[{at / 1000:12.6f}] " + message.replace("\n", f"\n[{at / 1000:12.6f}] ") + "\n"
                       for at, message in enumerate(logs[0]))  # fmt: skip
        assert not bad(verdicts(node(tmp_path, dmesg=text)))


def test_the_shapes_are_forgeries() -> None:
    """The drawn lines would do harm in a reader of text: split where Python splits, they hold many messages of drivers."""
    lines = [line for message in drawn(10_000, 50) for line in message.splitlines()]
    assert sum(line.partition("] ")[2].startswith(DRIVERS) for line in lines) > 1000
