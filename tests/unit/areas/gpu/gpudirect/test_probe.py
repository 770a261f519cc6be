# SPDX-License-Identifier: GPL-3.0-or-later
"""The dma-buf probes: the answers of HCAs and CUDA, the children on this machine, and the peer memory module on disk."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe import gpudirect as dmabuf_probe
from ansible_collections.railwright.rdma.plugins.module_utils.observe.boot import kernel_options
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpudirect import observe_build

KERNEL = "6.8.0-85-generic"
CLIENT = "ib_register_peer_memory_client"


class Answering(Host):
    """A live node whose children say this."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.asked: list[tuple[tuple[str, ...], float]] = []

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        self.asked.append((tuple(argv), timeout))
        return self.result


def test_every_answer_of_an_hca_has_one_meaning() -> None:
    lines = ["hca a EBADF", "hca b EOPNOTSUPP", "hca c EPROTONOSUPPORT", "hca d errno-22", "hca e open-failed-13", "hca f accepted"]
    answers = dmabuf_probe.ask_hcas(Answering(Result(0, "\n".join(lines) + "\n", "")))
    assert answers.found == {"a": True, "b": False, "c": False, "d": None, "e": None, "f": None}
    assert answers.raw["d"] == "errno-22"
    assert answers.error is None


def test_what_was_said_before_a_child_hung_still_counts() -> None:
    answers = dmabuf_probe.ask_hcas(Answering(Result(124, "hca mlx5_0 EBADF\n", "python3: no answer in 20 s")))
    assert answers.found == {"mlx5_0": True}
    assert answers.error == "python3: no answer in 20 s"


def test_a_child_that_breaks_answers_nothing() -> None:
    text = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'ctypes'\n"
    answers = dmabuf_probe.ask_hcas(Answering(Result(1, "", text)))
    assert answers.found == {}
    assert answers.error == "ModuleNotFoundError: No module named 'ctypes'"


def test_cuda_answers_by_pci_address() -> None:
    answers = dmabuf_probe.ask_cuda(Answering(Result(0, "gpu 0000:1B:00.0 1\ngpu 00000000:3B:00.0 0\ngpu 0000:5B:00.0 7\n", "")))
    assert answers.found == {"0000:1b:00.0": True, "0000:3b:00.0": False, "0000:5b:00.0": None}


@pytest.mark.parametrize("line", ["hca ../../etc EBADF", "hca mlx5_0", "gpu mlx5_0 EBADF", "EBADF", "hca \x1b[31m EBADF"])
def test_lines_of_another_form_are_no_answer(line: str) -> None:
    assert dmabuf_probe.ask_hcas(Answering(Result(0, line + "\n", ""))).found == {}


def test_the_children_are_bounded_and_isolated() -> None:
    host = Answering(Result(0, "", ""))
    dmabuf_probe.ask_hcas(host)
    dmabuf_probe.ask_cuda(host)
    for argv, timeout in host.asked:
        assert argv[:3] == (sys.executable, "-I", "-c")
        assert 0 < timeout <= 60


@pytest.mark.parametrize("script", [dmabuf_probe.VERBS, dmabuf_probe.CUDA])
def test_the_scripts_run_here_for_real(script: str) -> None:
    """Whatever this machine has: an answer, or a line that says why there is none; never a traceback."""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.split()[0] in ("hca", "gpu", "error") for line in done.stdout.splitlines())


def test_this_machine_is_asked_for_real() -> None:
    """Without an RDMA device nobody may answer; with one, the answer is a real one."""
    answers = dmabuf_probe.ask_hcas(Host())
    directory = Path("/sys/class/infiniband")
    devices = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    assert set(answers.found) <= devices
    if not devices:
        assert answers.found == {}


def test_a_captured_tree_answers_from_its_recording(tmp_path: Path) -> None:
    assert dmabuf_probe.ask_hcas(TreeHost(str(tmp_path))).error == "not recorded"
    recording = tmp_path / "cmd" / "railwright-probe-verbs"
    recording.parent.mkdir()
    recording.write_text("hca mlx5_0 EBADF\n")
    assert dmabuf_probe.ask_hcas(TreeHost(str(tmp_path))).found == {"mlx5_0": True}


class Module(TreeHost):
    """A node with a peer memory module; modprobe and modinfo say this of it."""

    def __init__(self, root: Path, dump: str, depends: str | None = None) -> None:
        super().__init__(str(root))
        self.dump, self.depends = dump, depends

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        file = f"/lib/modules/{KERNEL}/updates/dkms/nvidia-peermem.ko.zst"
        if tuple(argv) == ("modprobe", "--dump-modversions", file):
            return Result(0, self.dump, "")
        if tuple(argv) == ("modinfo", "-F", "depends", file) and self.depends is not None:
            return Result(0, self.depends + "\n", "")
        return Result(1, "", "")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    index = tmp_path / "lib/modules" / KERNEL / "modules.dep"
    index.parent.mkdir(parents=True)
    index.write_text("updates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst\n")
    return tmp_path


def symbols(root: Path, place: str, crc: str = "0x7d5b1b8e") -> None:
    path = root / place.lstrip("/") / "Module.symvers"
    path.parent.mkdir(parents=True)
    path.write_text(f"0x5a6b7c8d\tib_register_client\tib_core\tEXPORT_SYMBOL\t\n{crc}\t{CLIENT}\tib_core\tEXPORT_SYMBOL\t\n")


PLACES = [
    f"/usr/src/ofa_kernel/x86_64/{KERNEL}",
    f"/usr/src/ofa_kernel/{KERNEL}",
    "/usr/src/ofa_kernel/default",
    f"/var/lib/dkms/mlnx-ofed-kernel/25.10/{KERNEL}/x86_64/module",
    "/var/lib/dkms/mlnx-ofed-kernel/25.10/build",
]
DUMP = "0x2719b8a4\tmodule_layout\n"


@pytest.mark.parametrize("place", PLACES)
def test_the_module_fits_the_stack_wherever_its_checksums_lie(node: Path, place: str) -> None:
    symbols(node, place)
    found = observe_build(Module(node, f"{DUMP}0x7d5b1b8e\t{CLIENT}\n"), KERNEL)
    assert found is not None
    assert (found["state"], found["stack_symbols"]) == ("fits", f"{place}/Module.symvers")


@pytest.mark.parametrize(
    ("dump", "depends", "state"),
    [
        (DUMP, None, "without_client"),
        (f"{DUMP}0x11111111\t{CLIENT}\n", None, "other_stack"),
        (f"{DUMP}0x000000007d5b1b8e\t{CLIENT}\n", None, "fits"),  # a kernel prints 64 bits where the other file has 32
        (f"{DUMP}0x7d5b1b8e\t{CLIENT}_other\n", None, "without_client"),
        ("", "nvidia,ib_core", "unknown"),  # no checksums in this kernel, but it imports
        ("", "nvidia", "without_client"),
        ("", None, "unknown"),
    ],
)
def test_the_order_in_which_it_was_built(node: Path, dump: str, depends: str | None, state: str) -> None:
    symbols(node, PLACES[0])
    found = observe_build(Module(node, dump, depends), KERNEL)
    assert found is not None
    assert found["state"] == state


def test_without_the_stack_s_checksums_nothing_is_claimed(node: Path) -> None:
    found = observe_build(Module(node, f"{DUMP}0x7d5b1b8e\t{CLIENT}\n"), KERNEL)
    assert found is not None
    assert (found["state"], found["imports_client"]) == ("unknown", True)
    assert observe_build(Module(node, ""), "6.1.0-other") is None


def test_kernel_options_from_the_kernel_itself(tmp_path: Path) -> None:
    """/proc/config.gz, where neither /boot nor the modules' directory has the configuration."""
    host = TreeHost(str(tmp_path))
    assert kernel_options(host, KERNEL, ("CONFIG_A",)) == {"CONFIG_A": None}
    packer = zlib.compressobj(wbits=31)
    path = tmp_path / "proc" / "config.gz"
    path.parent.mkdir()
    path.write_bytes(packer.compress(b"CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n") + packer.flush())
    assert kernel_options(host, KERNEL, ("CONFIG_A", "CONFIG_B", "CONFIG_C")) == {"CONFIG_A": "y", "CONFIG_B": "m", "CONFIG_C": "n"}
    path.write_bytes(b"no gzip")
    assert kernel_options(host, KERNEL, ("CONFIG_A",)) == {"CONFIG_A": None}
