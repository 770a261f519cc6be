# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the counters: bounded, by name, and with the reason where nothing answers; and which ports a node is asked about."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_traffic import MLX5, MLX5_PORT, RXE, STATISTICS, dcb, tree

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import NAMES
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Measurement
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import snapshot
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import ports_of, profile_of
from field_specs import build_spec

TEST = Measurement("write_bw", "rail0 (eth1)", "mlx5_0", 1, 3, 18515, "10.0.0.2")


def test_a_snapshot_of_a_tree_written_from_mlx5s_documented_format(tmp_path: Path) -> None:
    found = snapshot(tree(tmp_path, MLX5_PORT, STATISTICS, dcb({0: 1, 3: 99}, {3: 98})), MLX5, NAMES)
    assert found["hca"] == MLX5_PORT
    eth1 = found["interfaces"]["eth1"]
    assert eth1["missing"] == {}
    expected = {name: value for name, value in STATISTICS.items() if name != "rx_packets"}
    # dcb adds the priorities that ethtool leaves out, and replaces none that it has
    assert {name: eth1["counters"][name] for name in expected} == expected
    assert eth1["counters"]["tx_prio0_pause"] == 1 and eth1["counters"]["rx_prio7_pause"] == 0
    assert "rx_packets" not in eth1["counters"]


def test_bnxts_counter_names_are_read_as_mlx5s(tmp_path: Path) -> None:
    port = {"oos_drop_count": 1, "seq_err_naks_rcvd": 2, "to_retransmits": 3, "missing_resp": 4, "rx_ecn_marked_pkts": 5, "tx_cnp_pkts": 6,
            "rx_cnp_pkts": 7}  # fmt: skip
    statistics = {"rx_pfc_ena_frames_pri3": 8, "tx_pfc_ena_frames_pri0": 9, "pfc_pri3_rx_duration_us": 10, "pfc_pri3_tx_transitions": 11}
    found = snapshot(tree(tmp_path, port, statistics), MLX5._replace(driver="bnxt_re"), NAMES)
    assert found["hca"] == {
        "out_of_sequence": 1, "packet_seq_err": 2, "local_ack_timeout_err": 3, "implied_nak_seq_err": 4, "np_ecn_marked_roce_packets": 5,
        "np_cnp_sent": 6, "rp_cnp_handled": 7,
    }  # fmt: skip
    assert found["interfaces"]["eth1"]["counters"] == {
        "rx_prio3_pause": 8, "tx_prio0_pause": 9, "rx_prio3_pause_duration": 10, "tx_prio3_pause_transition": 11
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pfc", "word"),
    [
        (None, "no dcb"),
        ("{", "not the form"),
        ("[]", "not the form"),
        ('{"requests": [1, 2], "indications": [1, 2]}', "not the form"),
        ('{"requests": [0, 0, 0, 0, 0, 0, 0, -1], "indications": [0, 0, 0, 0, 0, 0, 0, 0]}', "not the form"),
        ('{"requests": [0, 0, 0, 0, 0, 0, 0, true], "indications": [0, 0, 0, 0, 0, 0, 0, 0]}', "not the form"),
    ],
)
def test_half_an_answer_of_dcb_is_none(tmp_path: Path, pfc: str | None, word: str) -> None:
    eth1 = snapshot(tree(tmp_path, {}, STATISTICS, pfc), MLX5, NAMES)["interfaces"]["eth1"]
    assert word in eth1["missing"]["dcb"]
    assert "tx_prio0_pause" not in eth1["counters"]


@pytest.mark.parametrize(
    "line", ["rx_prio3_pause: -4", "rx_prio3_pause: 4 5", "rx_prio3_pause:4", "rx_prio9_pause: 4", "rx_prio3_pause: " + "9" * 21]
)
def test_a_line_of_another_form_is_no_counter(tmp_path: Path, line: str) -> None:
    host = tree(tmp_path, {}, {})
    Path(host.root, "cmd/ethtool_-S_eth1").write_text(f"NIC statistics:\n     {line}\n")
    eth1 = snapshot(host, MLX5, NAMES)["interfaces"]["eth1"]
    assert eth1["counters"] == {} and "no counter of pauses" in eth1["missing"]["ethtool"]


def test_a_soft_device_has_no_interface_to_ask(tmp_path: Path) -> None:
    assert snapshot(tree(tmp_path, {}, STATISTICS), RXE, NAMES)["interfaces"] == {}


@pytest.mark.skipif(shutil.which("dcb") is None, reason="no dcb here")
def test_the_real_tools_say_why_the_loopback_has_no_counters() -> None:
    found = snapshot(Host(), MLX5._replace(netdevs=("lo",)), NAMES)
    lo = found["interfaces"]["lo"]
    assert lo["counters"] == {} and set(lo["missing"]) == {"ethtool", "dcb"}
    assert lo["missing"]["dcb"].startswith("dcb pfc: ") and len(lo["missing"]["dcb"]) > len("dcb pfc: ")
    assert found["at"] > 0


def view(nics: list[dict[str, Any]]) -> dict[str, Any]:
    rail = {"hca": "mlx5_0", "port": 1, "netdev": "bond0"}
    return {"facts": {"hcas": [{"name": "mlx5_0", "driver": "mlx5_core"}], "qos": {"nics": nics}}, "rails": [rail]}


def test_a_port_is_watched_once_with_the_members_of_its_bond() -> None:
    nics = [{"hca": "mlx5_0", "port": 1, "netdev": name} for name in ("eth1", "eth2")] + [{"hca": "mlx5_0", "port": 2, "netdev": "eth9"}]
    expected = {"rail": "rail0 (eth1)", "hca": "mlx5_0", "port": 1, "driver": "mlx5_core", "netdevs": ["eth1", "eth2"]}
    assert ports_of(view(nics), [TEST, TEST._replace(name="read_lat")]) == [expected]
    assert ports_of(view([]), [TEST]) == [expected | {"netdevs": ["bond0"]}]
    assert ports_of(None, [TEST]) == [expected | {"driver": None, "netdevs": []}]


@pytest.mark.parametrize(
    ("values", "tc", "why"),
    [
        ({"fabric": "roce", "mtu": 9000}, 106, None),
        ({"fabric": "roce", "mtu": 9000, "qos_profile": "scnet-dscp34-prio4"}, 136, None),
        ({"fabric": "roce", "mtu": 9000, "qos_profile": "none"}, None, "qos_profile"),
        ({"fabric": "infiniband", "mtu": 4092}, None, "InfiniBand"),
        ({"fabric": "erdma", "mtu": 8500}, None, "eRDMA"),
    ],
)
def test_the_traffic_rides_the_class_of_the_sites_profile(values: dict[str, Any], tc: int | None, why: str | None) -> None:
    spec, findings = build_spec(values, "n1")
    assert spec is not None, findings
    profile, reason = profile_of(spec)
    assert (profile.tc if profile is not None else None) == tc
    assert reason is None if why is None else why in str(reason)
