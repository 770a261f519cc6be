# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers and clients as real processes; stand-ins for the perftest tools, which need an RDMA device.

The stand-ins listen and connect on 127.0.0.1 and print a table; everything else (timeout,
sessions, /proc, signals, the record) is real.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure import perftest_node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import COUNTERS, judge_deltas, watched
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import run_directory
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Limit, Measurement, Options
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import listening
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import Watched, hca_counters

TOOL = """#!{python}
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1]) if "-p" in sys.argv else 0
if "--help" in sys.argv:
    print("no options of note")
elif sys.argv[-1] == "127.0.0.1":
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        sys.exit("Couldn't connect to 127.0.0.1:%d" % port)
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536      11000            0.00               96.42               0.183907")
elif "-d" in sys.argv and "dead" in sys.argv:
    sys.exit("IB device dead not found")
else:
    listener = socket.create_server(("127.0.0.1", port))
    listener.accept()
"""
OPTIONS = Options(1, 10, 65536, 1, 20)
PORT = Watched("rail0 (eth1)", "mlx5_0", 1, "mlx5_core", ())
LOSSLESS = (3,)
THRESHOLDS = [Limit(90, "validate_min_bandwidth_gbps")]


class Node(Host):
    """This machine, with its own /run/railwright, /sys and tools."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def path(self, path: str) -> str:
        return self.root + path if path.startswith(("/run/", "/sys/")) else path

    def which(self, tool: str) -> str | None:
        full = f"{self.root}/bin/{tool}"
        return full if os.access(full, os.X_OK) else None


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "bin").mkdir()
    for name in ("ib_write_bw", "ib_read_lat"):
        tool = tmp_path / "bin" / name
        tool.write_text(TOOL.format(python=sys.executable))
        tool.chmod(0o755)
    counters = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters"
    counters.mkdir(parents=True)
    (counters / "symbol_error").write_text("5\n")
    (counters / "link_downed").write_text("N/A (no PMA)\n")
    node = Node(tmp_path)
    yield node
    perftest_node.stop_servers(node)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def bandwidth(host: Node) -> Measurement:
    return Measurement("write_bw", "rail0 (eth1)", "mlx5_0", 1, 3, free_port(), "127.0.0.1")


def ended(pid: int) -> bool:
    for _attempt in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_server_client_stop(host: Node, bandwidth: Measurement) -> None:
    verdicts, ports = perftest_node.start(host, "node2", "node1", [bandwidth], [PORT], OPTIONS)
    assert (verdicts, ports) == ([], [bandwidth.tcp_port])
    pid = perftest_node.read_record(host)["servers"][0]["pid"]
    assert os.getsid(pid) == pid != os.getsid(0)
    measured = perftest_node.run_clients(host, "node1", "node2", [bandwidth], ports, OPTIONS, THRESHOLDS)
    assert [(item.check, item.status, item.found, item.expected, item.subject) for item in measured] == [
        ("perftest.write_bw", "pass", 96.42, 90, "rail0 (eth1) to node2")
    ]
    stopped, _ended, _traffic = perftest_node.stop(host, "node2", "node1", [PORT], (), "InfiniBand")
    assert ended(pid)
    assert [(item.check, item.status) for item in stopped] == [
        ("port.errors", "pass"), ("port.discards", "skipped"), ("qos.lossless", "skipped")
    ]
    assert {item.subject for item in stopped} == {"rail0 (eth1) with node1"}  # one round's verdict must not replace another's
    assert host.listdir("/run/railwright") == []


def test_a_server_of_rdma_cm_is_in_no_table_of_proc(host: Node, bandwidth: Measurement, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is alive after a while counts; one that has ended by then does not, and says why."""
    monkeypatch.setattr(perftest_node, "CM_SETTLE_S", 0.5)
    monkeypatch.setattr(perftest_node, "listening", lambda _host: [])
    test = bandwidth._replace(rdma_cm=True, gid_index=None)
    verdicts, ports = perftest_node.start(host, "node2", "node1", [test], [PORT], OPTIONS)
    assert (verdicts, ports) == ([], [test.tcp_port])
    assert "-R" in perftest_node.read_record(host)["servers"][0]["argv"]
    perftest_node.stop_servers(host)
    tool = Path(str(host.which("ib_write_bw")))
    tool.write_text("#!/bin/sh\necho Unable to listen >&2\nexit 1\n")
    verdicts, ports = perftest_node.start(host, "node2", "node1", [test], [PORT], OPTIONS)
    assert ports == []
    assert [(item.check, item.status) for item in verdicts] == [("perftest.server", "fail")]


def test_growing_counters_fail_at_the_stop(host: Node, bandwidth: Measurement) -> None:
    perftest_node.start(host, "node2", "node1", [], [PORT], OPTIONS)
    Path(host.root, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error").write_text("9\n")
    stopped, _ended, _traffic = perftest_node.stop(host, "node2", "node1", [PORT], (), "InfiniBand")
    assert [(item.status, item.found, item.hca, item.port) for item in stopped if item.check == "port.errors"] == [
        ("fail", "symbol_error +4", "mlx5_0", 1)
    ]


@pytest.mark.parametrize(("limit", "status"), [
    (Limit(97, "validate_min_bandwidth_gbps"), "fail"), (Limit(None, "no threshold in the inventory"), "skipped"),
    (Limit(None, "the active MTU cannot be read", unknown=True), "unknown"),
])
def test_without_a_threshold_a_figure_is_reported_and_never_passes(
    host: Node, bandwidth: Measurement, limit: Limit, status: str
) -> None:
    _verdicts, ports = perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)
    verdict = perftest_node.run_clients(host, "node1", "node2", [bandwidth], ports, OPTIONS, [limit])[0]
    assert (verdict.status, verdict.found) == (status, 96.42)
    assert verdict.message.endswith(f"({limit.source})")


def test_stop_ends_an_unclaimed_server_and_a_second_stop_is_harmless(host: Node, bandwidth: Measurement) -> None:
    perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)
    pid = perftest_node.read_record(host)["servers"][0]["pid"]
    assert perftest_node.stop_servers(host) == 1
    assert ended(pid)
    assert bandwidth.tcp_port not in listening(host)
    assert perftest_node.stop_servers(host) == 0


def test_a_server_ends_by_itself(host: Node, bandwidth: Measurement, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perftest_node, "life_time", lambda tests, options: 1)
    perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)
    pid = perftest_node.read_record(host)["servers"][0]["pid"]
    time.sleep(1)
    assert ended(pid)


@pytest.mark.parametrize("forge", ["argv", "started", "nothing"])
def test_stop_hits_no_foreign_process(host: Node, forge: str) -> None:
    """A record whose pid now belongs to somebody else; with nothing forged the same process is ended, so the test can fail."""
    argv = ["sleep", "60"]
    foreign = subprocess.Popen(argv, start_new_session=True)
    try:
        # The kernel tells that it was started a moment before it has its words.
        while b"60" not in Path(f"/proc/{foreign.pid}/cmdline").read_bytes():
            time.sleep(0.01)
        server = {"pid": foreign.pid, "started": perftest_node.start_time(host, foreign.pid), "argv": argv}
        if forge == "argv":
            server["argv"] = ["timeout", "60", "ib_write_bw", "-p", "1"]
        elif forge == "started":
            server["started"] = "1"
        host.write(perftest_node.RECORD, json.dumps({"servers": [server]}))
        assert perftest_node.stop_servers(host) == (1 if forge == "nothing" else 0)
        time.sleep(0.05)
        assert (foreign.poll() is None) is (forge != "nothing")
    finally:
        foreign.kill()
        foreign.wait()


@pytest.mark.parametrize(
    "record",
    [
        "",
        "no json",
        "[]",
        '{"servers": [{"pid": 1}]}',
        '{"servers": [{"pid": 0, "started": "x", "argv": []}]}',
        '{"servers": [{"pid": -1, "started": "1", "argv": ["a"]}]}',
    ],
)
def test_a_broken_record_ends_nothing(host: Node, record: str) -> None:
    host.write(perftest_node.RECORD, record)
    assert perftest_node.stop_servers(host) == 0


def test_a_port_in_use_is_named_and_no_server_started(host: Node, bandwidth: Measurement) -> None:
    with socket.create_server(("127.0.0.1", bandwidth.tcp_port)):
        verdicts, ports = perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)
    assert ports == []
    assert [(item.check, item.status) for item in verdicts] == [("perftest.server", "fail")]
    assert f"TCP port {bandwidth.tcp_port} is in use" in verdicts[0].message


def test_a_server_that_dies_says_why(host: Node, bandwidth: Measurement) -> None:
    verdicts, ports = perftest_node.start(host, "node2", "node1", [bandwidth._replace(hca="dead")], [], OPTIONS)
    assert ports == [] and "IB device dead not found" in verdicts[0].message


def test_a_missing_tool_is_a_failure_on_both_ends(host: Node, bandwidth: Measurement) -> None:
    Path(host.root, "bin/ib_write_bw").unlink()
    assert "not installed" in perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)[0][0].message
    verdict = perftest_node.run_clients(host, "node1", "node2", [bandwidth], [bandwidth.tcp_port], OPTIONS, THRESHOLDS)[0]
    assert verdict.status == "fail" and "not installed" in verdict.message


def test_a_client_that_cannot_connect_names_the_server(host: Node, bandwidth: Measurement) -> None:
    verdict = perftest_node.run_clients(host, "node1", "node2", [bandwidth], [bandwidth.tcp_port], OPTIONS, [Limit(None, "")])[0]
    assert (verdict.status, verdict.found) == ("fail", None)
    assert "Couldn't connect" in verdict.message and "node2 (127.0.0.1)" in verdict.message


def test_no_server_means_not_run(host: Node, bandwidth: Measurement) -> None:
    verdict = perftest_node.run_clients(host, "node1", "node2", [bandwidth], [], OPTIONS, THRESHOLDS)[0]
    assert verdict.status == "unknown" and "node2" in verdict.message


def test_a_new_start_ends_the_servers_of_a_killed_run(host: Node, bandwidth: Measurement) -> None:
    perftest_node.start(host, "node2", "node1", [bandwidth], [], OPTIONS)
    old = perftest_node.read_record(host)["servers"][0]["pid"]
    perftest_node.start(host, "node2", "node1", [bandwidth._replace(tcp_port=free_port())], [], OPTIONS)
    assert ended(old)


@pytest.mark.parametrize("address", ["--out_json_file=/etc/passwd", "-h", "", "node1"])
def test_an_address_is_never_an_option(host: Node, bandwidth: Measurement, address: str) -> None:
    """The client gets it from the server's node; it is the last word of the client's command line."""
    with pytest.raises(RailwrightError, match="does not appear to be an IPv4 or IPv6 address"):
        perftest_node.run_clients(host, "node1", "node2", [bandwidth._replace(address=address)], [bandwidth.tcp_port], OPTIONS, THRESHOLDS)


@pytest.mark.parametrize("name", ["../../etc", "a/b", ".", "", "a b", "x" * 65])
def test_a_device_name_never_becomes_a_path(host: Node, bandwidth: Measurement, name: str) -> None:
    with pytest.raises(RailwrightError, match="no name of an RDMA device"):
        perftest_node.start(host, "node2", "node1", [bandwidth._replace(hca=name)], [], OPTIONS)
    for port in (PORT._replace(hca=name), PORT._replace(netdevs=(name,))):
        with pytest.raises(RailwrightError, match="no name of an RDMA device"):
            perftest_node.start(host, "node2", "node1", [], [port], OPTIONS)
        with pytest.raises(RailwrightError, match="no name of an RDMA device"):
            perftest_node.stop(host, "node2", "node1", [port], LOSSLESS)


def test_signals_reach_the_whole_group(host: Node, tmp_path: Path) -> None:
    log = "/run/log"
    (tmp_path / "run").mkdir(exist_ok=True)
    pid = host.spawn(["sh", "-c", "sleep 60 & echo $!; wait"], log)
    for _attempt in range(100):
        if child := (tmp_path / "run/log").read_text().strip():
            break
        time.sleep(0.02)
    host.signal_group(pid, signal.SIGTERM)
    assert ended(pid) and ended(int(child))


def test_a_counter_that_refuses_to_tell_is_not_the_same_as_none(host: Node) -> None:
    assert hca_counters(host, "mlx5_0", 1, COUNTERS) == {"symbol_error": 5, "link_downed": None}
    assert hca_counters(host, "mlx5_0", 2, COUNTERS) == {}


def test_lost_packets_are_judged_over_the_time_between_start_and_stop(host: Node) -> None:
    """With a QoS profile lost packets are qos.lossless's, and port.errors has the rest."""
    counters = Path(host.root, "sys/class/infiniband/mlx5_0/ports/1/hw_counters")
    counters.mkdir()
    (counters / "packet_seq_err").write_text("4\n")
    perftest_node.start(host, "node2", "node1", [], [PORT], OPTIONS)
    time.sleep(0.2)
    (counters / "packet_seq_err").write_text("6\n")
    verdicts, _ended, traffic = perftest_node.stop(host, "node2", "node1", [PORT], LOSSLESS)
    found = {item.check: item for item in verdicts}
    lost = found["qos.lossless"]
    assert (found["port.errors"].status, lost.status, lost.found) == ("pass", "fail", "packet_seq_err +2")
    assert lost.subject == "rail0 (eth1) with node1"
    assert [(item["rail"], item["peer"], item["counters"]) for item in traffic] == [("rail0 (eth1)", "node1", {"packet_seq_err": 2})]
    assert 0.2 <= traffic[0]["seconds"] < 60


@pytest.mark.parametrize("baseline", ['{"counters": []}', '{"counters": {"mlx5_0/1": {"hca": 7}}}', '{"counters": {"mlx5_0/1": 7}}', "{}"])
def test_without_a_baseline_it_is_unknown(host: Node, baseline: str) -> None:
    host.write(perftest_node.RECORD, baseline)
    (found,), ended, traffic = perftest_node.stop(host, "node2", "node1", [PORT], LOSSLESS)
    assert (found.check, found.status, ended, traffic) == ("port.errors", "unknown", 0, [])


ASKED = {"ports": [PORT._asdict()], "lossless": list(LOSSLESS), "why_not": None}


def test_a_benchmarks_counters_are_judged_as_validates(host: Node) -> None:
    counters = Path(host.root, "sys/class/infiniband/mlx5_0/ports/1/hw_counters")
    counters.mkdir()
    (counters / "packet_seq_err").write_text("4\n")
    run_directory.keep_counters(host, "r1", watched(ASKED["ports"]))
    (counters / "packet_seq_err").write_text("6\n")
    (counters.parent / "counters/symbol_error").write_text("9\n")
    found = run_directory.judge_counters(host, "r1", "node1", ASKED)
    assert {item["check"]: (item["status"], item["found"]) for item in found["counters"]} == {
        "port.errors": ("fail", "symbol_error +4"), "port.discards": ("skipped", None), "qos.lossless": ("fail", "packet_seq_err +2"),
        "qos.cnp": ("unknown", None), "qos.ecn": ("unknown", None)}
    assert {(item["node"], item["subject"]) for item in found["counters"]} == {("node1", "rail0 (eth1) with the other nodes")}
    assert [item["peer"] for item in found["traffic"]] == ["the other nodes"]
    run_directory.remove(host, "r1")
    assert [item["status"] for item in run_directory.judge_counters(host, "r1", "node1", ASKED)["counters"]] == ["unknown"]


def test_a_port_that_nothing_went_over_proves_nothing() -> None:
    before = {"symbol_error": 5, "port_xmit_packets": 7, "port_rcv_packets": 7}
    where = perftest_node.VerdictSubject("node1", "mlx5_0", 1, "rail0")
    assert judge_deltas(where, before, before)[0].status == "unknown"
    assert judge_deltas(where, before, {**before, "port_xmit_packets": 8})[0].status == "pass"
    assert judge_deltas(where, before, {**before, "symbol_error": 6})[0].status == "fail"


def test_samples_are_told_as_they_are(host: Node, bandwidth: Measurement) -> None:
    """Each on a server of its own; what has no server is no figure, and says why."""
    more = bandwidth._replace(tcp_port=free_port())
    _verdicts, ports = perftest_node.start(host, "node2", "node1", [bandwidth, more], [PORT], OPTIONS)
    other = bandwidth._replace(tcp_port=free_port())
    found = perftest_node.sample_clients(host, "node2", [bandwidth, more, other], ports, OPTIONS)
    assert found == [
        {"figure": 96.42, "why": "", "hung": False}, {"figure": 96.42, "why": "", "hung": False},
        {"figure": None, "why": "no server on node2", "hung": False},
    ]  # fmt: skip


GIVES_UP = "echo ' Completion with error at client'; echo ' Failed status 12: wr_id 0 syndrom 0x81'; exit 1"


@pytest.mark.parametrize("says", ["sleep 9", GIVES_UP])
def test_a_client_that_moves_nothing_hung(host: Node, bandwidth: Measurement, says: str) -> None:
    tool = Path(str(host.which("ib_write_bw")))
    tool.write_text(f'#!/bin/sh\ncase "$*" in --help) exit 0;; esac\n{says}\n')
    found = perftest_node.sample_clients(host, "node2", [bandwidth], [bandwidth.tcp_port], OPTIONS._replace(timeout=2))
    assert [(item["figure"], item["hung"]) for item in found] == [(None, True)]


def test_a_client_that_cannot_connect_did_not_hang(host: Node, bandwidth: Measurement) -> None:
    found = perftest_node.sample_clients(host, "node2", [bandwidth], [bandwidth.tcp_port], OPTIONS)
    assert [(item["figure"], item["hung"]) for item in found] == [(None, False)]
    assert "Couldn't connect" in found[0]["why"]
