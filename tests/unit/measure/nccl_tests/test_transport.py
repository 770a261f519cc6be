# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way the data went: log lines as NCCL 2.30.7's source formats them, written from it."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import judge, network, parse_log, summary, way_of

USING = "node1:12:34 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_10:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
NETWORK = "node1:12:34 [0] NCCL INFO Using network IB\n"


def line(via: str, host: str = "node1", ranks: str = "0[0] -> 8[0]", way: str = "send") -> str:
    return f"{host}:12:34 [0] NCCL INFO Channel 00/0 : {ranks} [{way}] via {via}\n"


@pytest.mark.parametrize(("via", "kind", "name", "device", "gdr"), [
    ("NET/IB/0/GDRDMA", "NET", "IB", 0, True),
    ("NET/IB/1", "NET", "IB", 1, False),
    ("NET/IB/0/GDRDMA(PCI)", "NET", "IB", 0, True),
    ("NET/IB/3(5)/GDRDMA/Shared", "NET", "IB", 3, True),
    ("NET/Socket/0", "NET", "Socket", 0, False),
    ("NET/AWS Libfabric/0/GDRDMA", "NET", "AWS Libfabric", 0, True),
    ("NET/IBext_v8/2/GDRDMA", "NET", "IBext_v8", 2, True),
    ("P2P/CUMEM/read", "P2P", None, None, False),
    ("SHM/direct/direct", "SHM", None, None, False),
])
def test_one_connection(via: str, kind: str, name: str | None, device: int | None, gdr: bool) -> None:
    (channel,) = parse_log(line(via))["channels"]
    assert (channel.kind, channel.network, channel.device, channel.gdr) == (kind, name, device, gdr)
    assert (channel.host, channel.source, channel.target, channel.way) == ("node1", 0, 8, "send")


def test_bus_ids_of_older_versions_and_no_device_number() -> None:
    text = "node1:1:2 NCCL INFO Channel 00 : 0[1b000] -> 1[3d000] via P2P/IPC\n"
    assert [way_of(channel) for channel in parse_log(text)["channels"]] == ["P2P"]


def test_hcas_of_each_rank_by_name() -> None:
    text = USING + USING.replace("node1", "node2").replace("mlx5_0", "mlx5_7") + line("NET/IB/1/GDRDMA") + line(
        "NET/IB/0/GDRDMA", "node2", way="receive") + line("SHM/direct", ranks="0[0] -> 1[1]").replace("[send] ", "")
    found = summary(parse_log(NETWORK + text))
    assert found == {"networks": ["IB"], "connections": {"NET/IB/GDRDMA": 2, "SHM": 1},
                     "hcas": {0: ["node1 mlx5_10:1"], 8: ["node2 mlx5_7:1"]}}


@pytest.mark.parametrize(("text", "gdr", "status", "words"), [
    (NETWORK + line("NET/IB/0/GDRDMA"), True, "pass", "1 connections, all NET/IB/GDRDMA"),
    (NETWORK + line("NET/IB/0"), True, "fail", "through host memory"),
    (NETWORK + line("NET/IB/0"), False, "pass", "all NET/IB"),
    (line("NET/IB/0/GDRDMA") + line("NET/IB/1"), True, "fail", "1 of 2 connections"),
    (line("NET/IB/0/GDRDMA") + line("NET/Socket/0"), True, "fail", "went over Socket"),
    ("node1:1:2 [0] NCCL INFO Using network Socket\n", True, "fail", "went over Socket"),
    ("node1:1:2 [0] NCCL INFO NET/IB : No device found.\n", True, "fail", "no RDMA device"),
    (line("NET/Mystery/0/GDRDMA"), True, "unknown", "does not know"),
    (NETWORK + line("P2P/CUMEM"), True, "unknown", "no network connection"),
    ("", True, "unknown", "no network connection"),
])
def test_the_verdict(text: str, gdr: bool, status: str, words: str) -> None:
    found, _seen, message = judge(parse_log(text), "roce", gdr=gdr)
    assert found == status
    assert words in message


@pytest.mark.parametrize("which", ["HCA 0 'mlx5_0'", "GPU 0[0] / HCA 0 'mlx5_0' (no module or not supported by GPU)"])
def test_gpudirect_that_nccl_disabled_is_named(which: str) -> None:
    text = f"node1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for {which}\n" + line("NET/IB/0")
    assert judge(parse_log(text), "infiniband")[2].endswith("NCCL disabled it for mlx5_0")


def test_names_of_plugins() -> None:
    assert [network(name).rdma for name in ("IB", "IBext", "IBext_v10", "Socket", "AWS Libfabric", "Libfabric", "AIACC")] == [
        True, True, True, False, True, True, None]
