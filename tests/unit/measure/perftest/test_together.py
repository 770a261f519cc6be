# SPDX-License-Identifier: GPL-3.0-or-later
"""All rails of a node at once: real processes, what is said of a rail that is slow only then, and what the facts show it to share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.measure.perftest.test_node import OPTIONS, PORT, Node, bandwidth, ended, free_port, host

from ansible_collections.railwright.rdma.plugins.module_utils.entry.measure import answer
from ansible_collections.railwright.rdma.plugins.module_utils.measure import perftest_node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import (
    TOGETHER,
    Limit,
    Measurement,
    Options,
    arguments,
    judge_figure,
    plan_tests,
)
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import NOTHING_SHARED, shared_by

__all__ = ["bandwidth", "host"]
FLOOR = Limit(90, "0.96 of rdma_expect.rate_gbps 100 at active MTU 4096")


@pytest.fixture
def rails(bandwidth: Measurement) -> list[Measurement]:
    return [bandwidth._replace(name=TOGETHER, rail=f"rail{at}", hca=f"mlx5_{at}", tcp_port=free_port()) for at in range(3)]


def test_all_rails_are_measured_at_once(host: Node, rails: list[Measurement]) -> None:
    """A client that waits for the other two to have begun would wait for ever if they came after it."""
    tool = Path(str(host.which("ib_write_bw")))
    gate = f"""
import os, time
if sys.argv[-1] == "127.0.0.1":
    open({host.root!r} + "/begun-%d" % port, "w").close()
    while len([name for name in os.listdir({host.root!r}) if name.startswith("begun-")]) < 3:
        time.sleep(0.02)
"""
    text = tool.read_text()
    tool.write_text(text.replace('if "--help"', gate + 'if "--help"', 1))
    verdicts, ports = perftest_node.start(host, "node2", "node1", rails, [PORT], OPTIONS)
    assert (verdicts, sorted(ports)) == ([], sorted(test.tcp_port for test in rails))
    found = perftest_node.run_clients(host, "node1", "node2", rails, ports, OPTIONS, [FLOOR] * 3)
    assert [(item.check, item.status, item.found, item.hca) for item in found] == [
        ("perftest.together", "pass", 96.42, f"mlx5_{at}") for at in range(3)]
    assert not list(Path(host.root, "run/railwright").glob("client-*"))


def test_one_that_goes_on_is_ended_and_the_others_count(host: Node, rails: list[Measurement]) -> None:
    tool = Path(str(host.which("ib_write_bw")))
    text = tool.read_text()
    tool.write_text(text.replace('if "--help"', 'import time\nif "mlx5_1" in sys.argv and sys.argv[-1] == "127.0.0.1": time.sleep(60)\n'
                                                'if "--help"', 1))
    _verdicts, ports = perftest_node.start(host, "node2", "node1", rails, [PORT], OPTIONS)
    began = time.monotonic()
    found = perftest_node.run_clients(host, "node1", "node2", rails, ports, OPTIONS._replace(timeout=3), [FLOOR] * 3)
    assert time.monotonic() - began < 40
    assert [(item.status, item.found) for item in found] == [("pass", 96.42), ("fail", None), ("pass", 96.42)]
    assert "no end in time" in found[1].message
    recorded = perftest_node.read_record(host)["servers"]
    assert len(recorded) == 6, "clients are recorded as servers are, so that a stop after a lost connection ends them"
    assert ended(recorded[4]["pid"])
    perftest_node.stop_servers(host)
    assert host.listdir("/run/railwright") == []


def test_a_stop_ends_clients_of_a_killed_run(host: Node, rails: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Path(str(host.which("ib_write_bw")))
    tool.write_text("#!/bin/sh\nexec sleep 60\n")

    class Killed(Exception):
        pass

    def killed(_seconds: float) -> None:
        raise Killed

    monkeypatch.setattr(perftest_node.Host, "signal_group", lambda *_given: None)  # killed: nobody ends what it has started
    monkeypatch.setattr(perftest_node.time, "sleep", killed)
    with pytest.raises(Killed):
        perftest_node.run_clients(host, "node1", "node2", rails[:1], [rails[0].tcp_port], OPTIONS, [FLOOR])
    monkeypatch.undo()
    (client,) = perftest_node.read_record(host)["servers"]
    assert perftest_node.stop_servers(host) == 1
    assert ended(client["pid"])


@pytest.mark.parametrize("missing", ["server", "tool"])
def test_a_rail_that_cannot_run_is_told_and_the_others_run(host: Node, rails: list[Measurement], missing: str) -> None:
    _verdicts, ports = perftest_node.start(host, "node2", "node1", rails[:2], [PORT], OPTIONS)
    if missing == "tool":
        Path(host.root, "bin/ib_write_bw").unlink()
    found = perftest_node.run_clients(host, "node1", "node2", rails, ports, OPTIONS, [FLOOR] * 3)
    statuses = {item.hca: item.status for item in found}
    assert statuses["mlx5_2"] == "unknown"
    assert {statuses["mlx5_0"], statuses["mlx5_1"]} == {"pass" if missing == "server" else "fail"}


def test_the_module_takes_what_the_controller_sends(host: Node, rails: list[Measurement]) -> None:
    request = {"mode": "run", "node": "node1", "peer": "node2", "tests": as_dicts(rails[:1]), "open_ports": [], "limits": as_dicts([FLOOR]),
               "options": OPTIONS._asdict()}
    assert [item["status"] for item in answer(host, request, False)["verdicts"]] == ["unknown"]


@pytest.mark.parametrize("hca", ["../../etc", "a b"])
def test_a_device_name_never_becomes_a_path(host: Node, rails: list[Measurement], hca: str) -> None:
    with pytest.raises(Exception, match="no name of an RDMA device"):
        perftest_node.run_clients(host, "n1", "n2", [rails[0]._replace(hca=hca)], [rails[0].tcp_port], OPTIONS, [FLOOR])


def together(found: float | None, **more: Any) -> Any:
    test = Measurement(TOGETHER, "rail0 (eth1)", "mlx5_0", 1, 3, 18515, "10.0.0.2", gpu=more.pop("gpu", None))
    return judge_figure("n1", "n2", test, FLOOR._replace(**more), found, "no end in time")


def test_good_alone_and_slow_together_names_the_switch() -> None:
    item = together(48.2, alone=97.5, shared="on n1 it shares the PCIe switch 0000:11:00.0 with mlx5_1")
    assert (item.check, item.status, item.expected, item.found) == ("perftest.together", "fail", 90, 48.2)
    assert item.message == ("ib_write_bw average in Gb/s is 48.2, below 90 (0.96 of rdma_expect.rate_gbps 100 at active MTU 4096; "
                            "all rails at once; alone it had 97.5 Gb/s; on n1 it shares the PCIe switch 0000:11:00.0 with mlx5_1)")
    assert NOTHING_SHARED in together(48.2, alone=97.5, shared=NOTHING_SHARED).message


def test_a_rail_that_is_slow_alone_blames_no_switch() -> None:
    text = together(48.2, alone=50.0, shared="on n1 it shares").message
    assert "alone it had 50 Gb/s, which is too little too" in text and "shares" not in text
    assert "alone it had no figure" in together(48.2, alone=None, shared="on n1 it shares").message
    assert "shares" not in together(95.0, alone=97.0, shared="on n1 it shares").message


@pytest.mark.parametrize(("found", "limit", "status"), [
    (None, {}, "fail"), (95.0, {"value": None}, "skipped"), (95.0, {"value": None, "unknown": True}, "unknown"), (90.0, {}, "pass"),
])
def test_verdicts_of_all_rails_at_once(found: float | None, limit: dict[str, Any], status: str) -> None:
    assert together(found, alone=97.5, **limit).status == status


def test_the_memory_is_said() -> None:
    text = together(95.0, alone=97.0, gpu=3).message
    assert "95 from GPU memory" in text and "alone it had 97 Gb/s from host memory" in text


def test_the_command_has_the_gpu_and_a_port_of_its_own() -> None:
    view = [{"name": f"rail{at}", "label": f"rail{at}", "address": f"10.0.{at}.1", "hca": f"mlx5_{at}", "port": 1, "gid_index": 3,
             "gid_needed": True} for at in range(2)]  # fmt: skip
    one_by_one, all_at_once = plan_tests(view, view, 18515)[0], plan_tests(view, view, 18515, names=(TOGETHER,))[0]
    assert len({test.tcp_port for test in one_by_one + all_at_once}) == 8
    words = arguments(all_at_once[1]._replace(gpu=5, dmabuf=True), Options(10, 1000, 1 << 20, 2, 60), "ib_write_bw")
    assert {"--use_cuda=5", "--use_cuda_dmabuf", "--report_gbits", "mlx5_1"} <= set(words)
    assert "--use_cuda_dmabuf" not in arguments(all_at_once[1]._replace(gpu=5), Options(10, 1000, 1 << 20, 2, 60), "ib_write_bw")


def facts(**paths: Any) -> dict[str, Any]:
    return {"facts": {"hcas": [{"name": name, "link": {"path": path}} for name, path in paths.items()]}}


def test_the_lowest_bridge_in_common_is_named() -> None:
    view = facts(mlx5_0=["p0", "s0", "s1", "root"], mlx5_1=["p1", "s0", "s1", "root"], mlx5_2=["p2", "s2", "s1", "root"],
                 mlx5_3=["p3", "other"])  # fmt: skip
    hcas = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert shared_by("n1", view, "mlx5_0", hcas) == "on n1 it shares the PCIe switch s0 with mlx5_1"
    assert shared_by("n1", view, "mlx5_2", hcas) == "on n1 it shares the PCIe switch s1 with mlx5_0, mlx5_1"
    assert shared_by("n1", view, "mlx5_3", hcas) == ""
    assert shared_by("n1", view, "mlx5_0", ["mlx5_0", "mlx5_3"]) == "", "a rail that was not measured takes nothing"
    assert shared_by("n1", facts(a=["p0", "root"], b=["p0", "root"]), "a", ["a", "b"]) == "on n1 it shares the slot at PCIe port p0 with b"


@pytest.mark.parametrize("view", [{}, {"facts": None}, facts(a=None, b=[]), {"facts": {"hcas": [{"name": "a"}, {"name": "b", "link": 7}]}}])
def test_facts_that_show_nothing_blame_nothing(view: dict[str, Any]) -> None:
    assert shared_by("n1", view, "a", ["a", "b"]) == ""
