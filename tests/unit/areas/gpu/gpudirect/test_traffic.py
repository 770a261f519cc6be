# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof by traffic: which GPU with which HCA, real processes in place of perftest, and unproven where it cannot reach GPU memory."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import rail_views
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure import gdr, perftest_node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.gdr_pairs import Pair, near_pairs
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Limit, Options
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import listening
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Verdict
from railwright.cli.session import verdict_codes
from railwright.exitcodes import ExitCode

OPTIONS = Options(1, 1000, 65536, 2, 10)
PAIR = Pair("0000:1b:00.0", 3, "mlx5_0", 1, 3, "rail0 (eth1)", None)
HELP = "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
HELP_DMABUF = HELP + "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n"


@pytest.mark.parametrize(
    ("text", "path", "lacking"),
    [
        ("", "nvidia_peermem", "it is built without CUDA"),
        ("      --use_rocm=<rocm device id>\n", "dmabuf", "it is built without CUDA"),
        (HELP, "nvidia_peermem", None),
        (HELP, "dmabuf", "it is built with CUDA but without DMA-BUF"),
        (HELP_DMABUF, "dmabuf", None),
    ],
)
def test_what_this_perftest_can_is_read_in_its_own_help(text: str, path: str, lacking: str | None) -> None:
    assert gdr.missing_in(text, path) == lacking


# The stand-in listens as ib_write_bw does, and prints its table; what it was called with goes to a file.
PERFTEST = """#!{python}
import os, socket, sys, time
words = sys.argv[1:]
if "--help" in words:
    print({help!r})
    sys.exit(0)
with open({log!r}, "a") as log:
    log.write(os.environ.get("CUDA_DEVICE_ORDER", "") + " " + " ".join(words) + "\\n")
port = int(words[words.index("-p") + 1])
{body}
"""
WORKS = """
if words[-1] == "127.0.0.1":
    socket.create_connection(("127.0.0.1", port)).close()
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536      1000           391.20             384.12               0.73")
else:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(1)
    server.accept()
    time.sleep(30)
"""
REFUSED = """
if words[-1] == "127.0.0.1":
    sys.stderr.write("Couldn't allocate MR\\n failed to create mr\\n")
    sys.exit(1)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen(1)
time.sleep(30)
"""
DEAD = """
sys.stderr.write("Couldn't init GPU context: 100\\n")
sys.exit(1)
"""


class Machine(Host):
    """This machine, with a stand-in for perftest and a directory of its own for what is under /run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tool: str | None = str(root / "ib_write_bw")
        with socket.socket() as free:  # other tests of this machine may run beside this one
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    def path(self, path: str) -> str:
        return str(self.root / path.lstrip("/")) if path.startswith(perftest_node.RUN_DIR) else path

    def which(self, tool: str) -> str | None:
        return self.tool if tool == "ib_write_bw" else None

    def perftest(self, body: str, text: str = HELP_DMABUF) -> None:
        path = self.root / "ib_write_bw"
        path.write_text(PERFTEST.format(python=os.sys.executable, help=text, log=str(self.root / "calls"), body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()

    def measure(self, path: str = "dmabuf", minimum: float | None = None, pairs: tuple[Pair, ...] = (PAIR,)) -> list[Verdict]:
        return gdr.measure(self, "node1", path, pairs, OPTIONS, self.port, [Limit(minimum, "the inventory")] * len(pairs))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_figure_is_the_proof(machine: Machine) -> None:
    machine.perftest(WORKS)
    [verdict] = machine.measure()
    assert (verdict.check, verdict.status, verdict.found) == ("gpudirect.traffic", "pass", 384.12)
    assert (verdict.hca, verdict.port, verdict.subject) == ("mlx5_0", 1, "GPU 0000:1b:00.0 and rail0 (eth1)")
    server, client = machine.calls
    assert server.startswith(f"PCI_BUS_ID -d mlx5_0 -i 1 -p {machine.port} ")
    assert "-x 3" in server
    assert client == server + " 127.0.0.1"
    assert "--use_cuda=3 --use_cuda_dmabuf" in server


def test_peermem_is_measured_without_dma_buf(machine: Machine) -> None:
    machine.perftest(WORKS, HELP)
    [verdict] = machine.measure("nvidia_peermem")
    assert verdict.status == "pass"
    assert "--use_cuda=3" in machine.calls[0]
    assert "dmabuf" not in machine.calls[0]


@pytest.mark.parametrize(("minimum", "status"), [(380.0, "pass"), (384.12, "pass"), (385.0, "fail")])
def test_the_minimum_is_the_inventory_s(machine: Machine, minimum: float, status: str) -> None:
    machine.perftest(WORKS)
    [verdict] = machine.measure(minimum=minimum)
    assert (verdict.status, verdict.expected, verdict.found) == (status, minimum, 384.12)


def test_an_expectation_that_cannot_be_told_is_no_pass(machine: Machine) -> None:
    machine.perftest(WORKS)
    [verdict] = gdr.measure(machine, "node1", "dmabuf", (PAIR,), OPTIONS, machine.port, [Limit(None, "no MTU", unknown=True)])
    assert (verdict.status, verdict.found) == ("unknown", 384.12)
    assert verdict.message == "384.12 Gb/s from GPU memory; no MTU"


def test_the_server_is_ended_and_leaves_nothing(machine: Machine) -> None:
    machine.perftest(WORKS)
    before = listening(machine)
    machine.measure()
    deadline = time.monotonic() + 60
    while machine.port in listening(machine):
        assert time.monotonic() < deadline, "the server still listens"
        time.sleep(0.05)
    assert machine.port not in before
    assert list((machine.root / "run" / "railwright").iterdir()) == []


def test_memory_that_cannot_be_registered_is_the_failure_that_it_is(machine: Machine) -> None:
    machine.perftest(REFUSED)
    [verdict] = machine.measure()
    assert (verdict.status, verdict.found) == ("fail", None)
    assert "Couldn't allocate MR" in verdict.message


def test_a_server_that_dies_is_not_waited_for(machine: Machine) -> None:
    machine.perftest(DEAD)
    started = time.monotonic()
    [verdict] = machine.measure()
    assert time.monotonic() - started < 25
    assert verdict.status == "fail"
    assert "the server did not come up: Couldn't init GPU context: 100" in verdict.message


@pytest.mark.parametrize(("text", "words"), [("", "built without CUDA"), (HELP, "without DMA-BUF")])
def test_what_cannot_be_shown_is_unproven_and_never_a_pass(machine: Machine, text: str, words: str) -> None:
    machine.perftest(WORKS, text)
    verdicts = machine.measure(pairs=(PAIR, PAIR._replace(hca="mlx5_1")))
    assert [(verdict.hca, verdict.status) for verdict in verdicts] == [("mlx5_0", "unproven"), ("mlx5_1", "unproven")]
    assert words in verdicts[0].message
    assert not (machine.root / "calls").exists()  # nothing was started


def test_without_perftest_it_is_unproven_too(machine: Machine) -> None:
    machine.tool = None
    [verdict] = machine.measure()
    assert verdict.status == "unproven"
    assert "not installed" in verdict.message


def test_a_name_that_is_no_device_never_becomes_a_command() -> None:
    with pytest.raises(Exception, match="is no name of an RDMA device"):
        perftest_node.command(Host(), gdr.loopback_test(PAIR._replace(hca="../x"), "dmabuf", 18515), OPTIONS, "ib_write_bw")


def test_it_runs_where_the_hca_is() -> None:
    class Numa(Host):
        def which(self, tool: str) -> str | None:
            return "/usr/bin/" + tool

    def words_of(numa_node: int) -> list[str]:
        return perftest_node.command(Numa(), gdr.loopback_test(PAIR._replace(numa_node=numa_node), "dmabuf", 18515), OPTIONS, "ib_write_bw")

    words = words_of(1)
    assert words[:5] == ["env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "numactl", "-N", "1"]
    assert "numactl" not in words_of(-1)


def doca8(nodes: Path, make_spec: Callable[..., Any]) -> list[Pair]:
    host = TreeHost(str(nodes / "doca8"))
    identity = observe_identity(host)
    facts = observe_facts(host, identity)
    rails = [{"name": f"rail{i}", "match": {"mac": f"b8:ce:f6:00:30:{i:02x}"}, "address": f"10.10.{i}.11/24"} for i in range(8)]
    return near_pairs(host, identity, facts, rail_views(inspection_of("node", make_spec(rails=rails), identity, facts)))


def test_every_gpu_with_the_hca_below_the_same_switch(nodes: Path, make_spec: Callable[..., Any]) -> None:
    """doca8: eight PCIe switches with one HCA and one H200 each."""
    pairs = doca8(nodes, make_spec)
    assert [pair.hca for pair in pairs] == [f"mlx5_{i}" for i in range(8)]
    assert [pair.number for pair in pairs] == list(range(8))
    assert all(int(pair.gpu[5:7], 16) == 0x14 + 0x18 * i for i, pair in enumerate(pairs))
    assert [pair.numa_node for pair in pairs] == [0] * 4 + [1] * 4
    assert [pair.gid_index for pair in pairs] == [3] * 8


class Flat(Host):
    """A virtual machine: everything directly below one root."""

    def readlink(self, path: str) -> str | None:
        return "../../../devices/pci0000:00/" + path.rsplit("/", 1)[-1]


def rail(name: str, hca: str, gid_index: int | None = 3, *, gid_needed: bool = True) -> dict[str, Any]:
    return {"label": name, "hca": hca, "port": 1, "gid_index": gid_index, "gid_needed": gid_needed}


def flat_pairs(gpus: int, hcas: int, rails: list[dict[str, Any]] | None = None) -> list[tuple[int, str]]:
    class Identity:
        pass

    identity: Any = Identity()
    identity.gpus = tuple(Gpu(f"0000:00:0{i + 1}.0", "0x2330", -1) for i in range(gpus))
    facts = {"hcas": [{"name": f"mlx5_{i}", "pci_address": f"0000:00:1{i}.0", "numa_node": -1} for i in range(hcas)]}
    wanted = rails if rails is not None else [rail(f"rail{i}", f"mlx5_{i}") for i in range(hcas)]
    return [(pair.number, pair.hca) for pair in near_pairs(Flat(), identity, facts, wanted)]


def test_where_all_are_equally_near_every_gpu_and_every_hca_is_in_one_pair() -> None:
    assert flat_pairs(2, 2) == [(0, "mlx5_0"), (1, "mlx5_1")]
    assert flat_pairs(1, 2) == [(0, "mlx5_0"), (0, "mlx5_1")]
    assert sorted(flat_pairs(3, 1)) == [(0, "mlx5_0"), (1, "mlx5_0"), (2, "mlx5_0")]
    assert flat_pairs(0, 2) == flat_pairs(2, 0) == []


def test_a_rail_that_cannot_be_measured_over_is_left_out() -> None:
    rails = [rail("rail0", "mlx5_0", None), rail("rail1", "gone"), rail("rail2", "mlx5_1", None, gid_needed=False)]
    assert flat_pairs(1, 2, rails) == [(0, "mlx5_1")]
    iwarp = {**rail("rail0", "mlx5_0", None, gid_needed=False), "rdma_cm": True}
    assert flat_pairs(1, 1, [iwarp]) == []


def test_unproven_does_not_fail_a_run() -> None:
    assert verdict_codes([{"status": "unproven"}]) == []
    assert verdict_codes([{"status": "fail"}]) == [ExitCode.FAILED]
