# SPDX-License-Identifier: GPL-3.0-or-later
"""One QEMU: what it is started with, and whose pid is believed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from railwright.lab import Hardware, LabError, machine, net
from railwright.lab.image import Image
from railwright.lab.state import LabState

from .conftest import make_state

pytestmark = pytest.mark.usefixtures("no_programs")


def values(argv: list[str], option: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def test_argv_of_one_of_two(state: LabState, image: Image) -> None:
    argv = machine.argv(state, state.nodes[0], image)
    user, fabric = values(argv, "-netdev")
    assert user == "user,id=management,ipv6=off,hostfwd=tcp:127.0.0.1:2201-:22"
    sock = state.socket_dir
    assert fabric == f"dgram,id=rail0,local.type=unix,local.path={sock}/node1.rail0,remote.type=unix,remote.path={sock}/node2.rail0"
    assert values(argv, "-device")[:2] == [
        "virtio-net-pci,netdev=management,mac=52:54:00:4d:00:01",
        "virtio-net-pci,netdev=rail0,mac=52:54:00:4d:01:01",
    ]
    assert "-no-reboot" not in argv, "a reboot in the guest must come back"
    assert "-loadvm" not in argv
    assert "-daemonize" in argv


def test_nothing_leaves_the_machine(tmp_path: Path, image: Image) -> None:
    for nodes in (1, 2, 3):
        state = make_state(tmp_path, nodes)
        text = " ".join(" ".join(machine.argv(state, node, image)) for node in state.nodes)
        assert "mcast" not in text
        assert text.count("hostfwd=tcp:127.0.0.1:") == text.count("hostfwd=")


def test_two_ends_of_a_wire_are_each_others(state: LabState, image: Image) -> None:
    ends = [
        dict(part.partition("=")[::2] for part in values(machine.argv(state, node, image), "-netdev")[1].split(",")) for node in state.nodes
    ]
    assert ends[0]["local.path"] == ends[1]["remote.path"]
    assert ends[1]["local.path"] == ends[0]["remote.path"]


def test_a_rail_is_a_wire_of_its_own(tmp_path: Path, image: Image) -> None:
    state = make_state(tmp_path, rails=3)
    wires = values(machine.argv(state, state.nodes[0], image), "-netdev")[1:]
    assert len(set(wires)) == 3


def test_more_than_two_nodes_use_taps(tmp_path: Path, image: Image) -> None:
    state = make_state(tmp_path, nodes=3, rails=2)
    assert values(machine.argv(state, state.nodes[2], image), "-netdev")[1:] == ["tap,id=rail0,fd=10", "tap,id=rail1,fd=11"]


def test_a_single_node_has_a_fabric_nic_too(tmp_path: Path, image: Image) -> None:
    state = make_state(tmp_path, nodes=1)
    assert values(machine.argv(state, state.nodes[0], image), "-netdev")[1] == "hubport,id=rail0,hubid=1"


def test_loadvm_comes_last(state: LabState, image: Image) -> None:
    assert machine.argv(state, state.nodes[0], image, "bare")[-2:] == ["-loadvm", "bare"]


def test_a_machine_that_boots_itself_gets_no_kernel(state: LabState, image: Image) -> None:
    assert values(machine.argv(state, state.nodes[0], image), "-kernel") == [str(image.kernel)]
    argv = machine.argv(replace(state, offset=2**20), state.nodes[0], image)
    assert not {"-kernel", "-initrd", "-append"} & set(argv)


def test_pci_express_puts_every_nic_behind_a_port_of_its_own(state: LabState, image: Image) -> None:
    argv = machine.argv(replace(state, hardware=Hardware(pcie=True, iommu=True)), state.nodes[0], image)
    assert values(argv, "-machine") == ["q35"]
    assert values(argv, "-device")[:5] == [
        "intel-iommu",
        "pcie-root-port,id=port0,chassis=1",
        "virtio-net-pci,netdev=management,mac=52:54:00:4d:00:01,bus=port0",
        "pcie-root-port,id=port1,chassis=2",
        "virtio-net-pci,netdev=rail0,mac=52:54:00:4d:01:01,bus=port1",
    ]


@pytest.mark.parametrize(("accel", "model"), [("tcg", "max,la57=off"), ("kvm", "host")])
def test_bare_metal_admits_no_hypervisor(state: LabState, image: Image, accel: str, model: str) -> None:
    ordinary = replace(state, accel=accel)
    assert values(machine.argv(ordinary, state.nodes[0], image), "-cpu") == [model]
    argv = machine.argv(replace(ordinary, hardware=Hardware(bare_metal=True)), state.nodes[0], image)
    assert values(argv, "-cpu") == [f"{model},-hypervisor"]
    assert not [text for text in values(argv, "-smbios") if "QEMU" in text]
    assert len(values(argv, "-smbios")) == 3


def test_commas_in_paths_are_doubled(tmp_path: Path, image: Image) -> None:
    state = make_state(tmp_path / "a,b")
    argv = machine.argv(state, state.nodes[0], image)
    assert all("a,,b" in value for value in [*values(argv, "-drive"), *values(argv, "-qmp"), values(argv, "-netdev")[1]])


def fake_proc(tmp_path: Path, pid: int, *words: str) -> Path:
    proc = tmp_path / "proc"
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in words))
    return proc


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (("/usr/bin/qemu-system-x86_64", "-pidfile", "/lab/node1/qemu.pid"), True),
        (("/usr/bin/qemu-system-x86_64", "-pidfile", "/other/node1/qemu.pid"), False),
        (("/usr/bin/qemu-system-x86_64", "-pidfile", "/lab/node1/qemu.pid.old"), False),
        (("/usr/bin/vim", "/lab/node1/qemu.pid"), False),
        (("",), False),
    ],
)
def test_whose_pid(tmp_path: Path, words: tuple[str, ...], ours: bool) -> None:
    proc = fake_proc(tmp_path, 77, *words)
    assert machine.is_ours(77, "/lab/node1/qemu.pid", proc) is ours


def test_a_pid_that_is_gone_is_not_ours(tmp_path: Path) -> None:
    assert not machine.is_ours(77, "/lab/node1/qemu.pid", tmp_path)


def test_a_recycled_pid_is_left_alone(state: LabState) -> None:
    file = machine.pid_file(state, state.nodes[0])
    file.parent.mkdir(parents=True)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        file.write_text(f"{stranger.pid}\n")
        assert machine.pid(state, state.nodes[0]) is None
        machine.stop(state, state.nodes[0], grace=0)
        machine.end_strays(state.paths)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("text", ["", "abc", "12 34"])
def test_a_damaged_pid_file_means_not_running(state: LabState, text: str) -> None:
    file = machine.pid_file(state, state.nodes[0])
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert machine.pid(state, state.nodes[0]) is None


def test_snapshot_names_come_from_the_table(state: LabState, monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "Snapshot list:\n"
        "ID        TAG               VM SIZE                DATE     VM CLOCK     ICOUNT\n"
        "1         bare              302 MiB 2026-11-21 00:02:00 00:00:40.000          0\n"
        "2         provisioned       410 MiB 2026-11-21 00:05:00 00:03:10.000          0\n"
    )
    monkeypatch.setattr("railwright.lab.tools.run_tool", lambda *_args, **_options: table)
    assert machine.snapshots(state, state.nodes[0]) == set()
    disk = state.paths.node("node1") / "disk.qcow2"
    disk.parent.mkdir(parents=True)
    disk.touch()
    assert machine.snapshots(state, state.nodes[0]) == {"bare", "provisioned"}


@pytest.mark.parametrize(("nodes", "rails", "word"), [(0, 1, "nodes"), (33, 1, "nodes"), (2, 0, "rails"), (2, 9, "rails")])
def test_sizes_that_do_not_fit(nodes: int, rails: int, word: str) -> None:
    with pytest.raises(LabError, match=word):
        net.check_size(nodes, rails)


def test_a_wide_lab_needs_root_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    net.check_size(2, 8)
    with pytest.raises(LabError, match="run as root, or use --nodes 2"):
        net.check_size(3, 1)
