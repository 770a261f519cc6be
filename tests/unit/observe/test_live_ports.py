# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports by the files of their drivers: one name for what all of them count, and unknown where a file does not tell."""

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.live_ports import Ports


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text + "\n", encoding="ascii")


def port(root: Path, hca: str = "mlx5_0", counters: dict[str, str] | None = None, state: str = "4: ACTIVE") -> str:
    base = f"sys/class/infiniband/{hca}/ports/1"
    write(root, f"sys/class/infiniband/{hca}/node_guid", "b8ce:f603:00ab:cdef")
    for name, text in {"state": state, "rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet", **(counters or {})}.items():
        write(root, f"{base}/{name}", text)
    (root / f"sys/class/infiniband/{hca}").mkdir(exist_ok=True)
    return base


def read(root: Path) -> list[dict[str, Any]]:
    return Ports(TreeHost(str(root)), None).read()


MLX5 = {
    "counters/port_xmit_data": "1000", "counters/port_rcv_data": "500", "counters/port_xmit_packets": "7", "counters/port_rcv_packets": "6",
    "counters/port_xmit_wait": "9", "hw_counters/packet_seq_err": "1", "hw_counters/implied_nak_seq_err": "2",
    "hw_counters/local_ack_timeout_err": "3", "hw_counters/out_of_sequence": "4", "hw_counters/np_cnp_sent": "5",
    "hw_counters/rp_cnp_handled": "8",
}


def test_mlx5(tmp_path: Path) -> None:
    port(tmp_path, counters=MLX5)
    assert read(tmp_path) == [{
        "hca": "mlx5_0", "port": 1, "netdev": None, "rail": None, "state": "ACTIVE", "rate": 400, "out_bytes": 4000, "in_bytes": 2000,
        "out_packets": 7, "in_packets": 6, "waits": 9, "retransmissions": 6, "out_of_sequence": 4, "cnp_out": 5, "cnp_in": 8,
        "pauses_out": None, "pauses_in": None,
    }]  # fmt: skip


@pytest.mark.parametrize(("counters", "wanted"), [
    ({"hw_counters/hw_tx_bytes_cnt": "12", "hw_counters/hw_rx_packets_cnt": "3"}, {"out_bytes": 12, "in_packets": 3}),  # erdma
    ({"hw_counters/tx_bytes": "40", "hw_counters/tx_cnp_pkts": "2", "hw_counters/to_retransmits": "1"},
     {"out_bytes": 40, "cnp_out": 2, "retransmissions": 1}),  # bnxt_re
    ({"hw_counters/sent_pkts": "4", "hw_counters/completer_retry_err": "2", "hw_counters/out_of_seq_request": "1"},
     {"out_packets": 4, "retransmissions": 2, "out_of_sequence": 1}),  # rxe
    ({**MLX5, "hw_counters/packet_seq_err": "N/A (no PMA)"}, {"retransmissions": None, "out_of_sequence": 4}),
    ({"counters/port_xmit_data": ""}, {"out_bytes": None}),
])  # fmt: skip
def test_names_of_drivers(tmp_path: Path, counters: dict[str, str], wanted: dict[str, int | None]) -> None:
    port(tmp_path, "hca0", counters)
    found = read(tmp_path)[0]
    assert {name: found[name] for name in wanted} == wanted


def test_a_port_is_ours_once_it_was_active_and_stays_so(tmp_path: Path) -> None:
    base = port(tmp_path)
    port(tmp_path, "mlx5_1", state="1: DOWN")
    ports = Ports(TreeHost(str(tmp_path)), None)
    assert [each["hca"] for each in ports.read()] == ["mlx5_0"]
    write(tmp_path, f"{base}/state", "1: DOWN")
    assert [(each["hca"], each["state"]) for each in ports.read()] == [("mlx5_0", "DOWN")]
    port(tmp_path, "mlx5_2")
    assert [each["hca"] for each in ports.read()] == ["mlx5_0", "mlx5_2"]


def test_the_interface_of_soft_roce_counts_for_it(nodes: Path) -> None:
    found = read(nodes / "rxe")[0]
    assert (found["hca"], found["netdev"], found["out_packets"]) == ("rxe0", "eth1", 42)
    assert found["out_bytes"] is None, "this tree has no statistics of eth1"
