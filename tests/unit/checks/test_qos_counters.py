# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on counters while traffic ran. Trees of both snapshots are written from the documented formats of mlx5 and rxe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures import node_traffic
from tests.fixtures.node_traffic import MLX5, MLX5_PORT, RXE, RXE_PORT, STATISTICS, between, dcb, tree

from ansible_collections.railwright.rdma.plugins.module_utils.measure import counter_verdicts
from ansible_collections.railwright.rdma.plugins.module_utils.measure.counter_verdicts import (
    LINK,
    SEQUENCE,
    Growth,
    figures,
    growth,
    judge_deltas,
    judge_traffic,
    traffic,
)
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import Watched
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

PLACE = VerdictSubject("node1", "mlx5_0", 1, "rail0 (eth1) with node2")
RAN = {"port_xmit_packets": 9000, "port_rcv_packets": 9000}
HEALTHY = {"qos.lossless": "pass", "qos.pause": "pass", "qos.storm": "pass", "qos.cnp": "skipped", "qos.ecn": "skipped"}


class Fabric:
    """The two trees of one port; a test says what grew in between."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port, self.statistics = dict(MLX5_PORT), dict(STATISTICS)  # before
        self.grow: dict[str, int] = dict(RAN)
        self.pfc: tuple[str | None, str | None] = (None, None)
        self.watched = MLX5
        self.seconds = node_traffic.SECONDS

    def verdicts(self) -> list[Verdict]:
        soft = self.watched.soft
        before = tree(self.root / "before", self.port, None if soft else self.statistics, self.pfc[0], self.watched.hca)
        port, statistics = (
            {name: value + self.grow.get(name, 0) for name, value in values.items()} for values in (self.port, self.statistics)
        )
        after = tree(self.root / "after", port, None if soft else statistics, self.pfc[1], self.watched.hca)
        found = between(before, after, self.watched, self.seconds)
        self.figures = figures(self.watched, "node2", found)
        return judge_traffic(PLACE, self.watched, "node2", (3,), found)

    def by_check(self) -> dict[str, Verdict]:
        found = self.verdicts()
        assert len({item.check for item in found}) == len(found)
        return {item.check: item for item in found}


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    return Fabric(tmp_path)


def statuses(found: dict[str, Verdict]) -> dict[str, str]:
    return {check: item.status for check, item in found.items()}


def test_old_counter_values_are_no_fault_in_mlx5s_documented_format(fabric: Fabric) -> None:
    found = fabric.by_check()
    assert statuses(found) == HEALTHY
    assert {(item.node, item.hca, item.port, item.subject) for item in found.values()} == {PLACE}
    assert found["qos.ecn"].found == "0 marked packets"


@pytest.mark.parametrize(
    ("grown", "check", "status", "words"),
    [
        ({"out_of_sequence": 5}, "qos.lossless", "warn",
         ["out_of_sequence +5", "packets from node2 are missing", "adaptive routing reorders by design; none was sent again from here"]),
        ({"out_of_sequence": 5, "packet_seq_err": 1}, "qos.lossless", "fail", ["packet_seq_err +1, out_of_sequence +5"]),
        ({"out_of_sequence": 5, "roce_adp_retrans": 1}, "qos.lossless", "fail", ["out_of_sequence +5, roce_adp_retrans +1"]),
        ({"out_of_sequence": 5, "rx_prio3_discards": 1}, "qos.lossless", "fail", ["rx_prio3_discards of eth1 +1"]),
        ({"packet_seq_err": 2}, "qos.lossless", "fail", ["packet_seq_err +2", "node2 missed packets of this node"]),
        ({"local_ack_timeout_err": 1}, "qos.lossless", "fail", ["local_ack_timeout_err +1", "node2 did not acknowledge in time"]),
        ({"roce_adp_retrans": 9}, "qos.lossless", "fail", ["roce_adp_retrans +9"]),
        ({"rx_prio3_discards": 8, "rx_discards_phy": 8}, "qos.lossless", "fail", ["rx_prio3_discards of eth1 +8", "eth1 had no buffer"]),
        ({"rx_prio0_discards": 8, "rx_discards_phy": 8}, "qos.lossless", "pass", ["none lost"]),  # a lossy priority may drop
        ({"rx_prio3_pause": 4, "tx_prio3_pause": 2}, "qos.pause", "pass", ["priority 3 received 4, sent 2"]),
        ({"tx_pause_storm_error_events": 1}, "qos.storm", "fail", ["tx_pause_storm_error_events +1", "gave up pausing"]),
        ({"tx_pause_storm_warning_events": 1}, "qos.storm", "warn", ["tx_pause_storm_warning_events +1"]),
        # 1 s in at most 5 pauses: one of them was 200 ms or longer, whatever the others were
        ({"rx_prio3_pause_duration": 1_000_000, "rx_prio3_pause_transition": 4}, "qos.storm", "fail", ["1000 ms in at most 5 pauses"]),
        ({"rx_prio3_pause_duration": 1_000_000, "rx_prio3_pause_transition": 5}, "qos.storm", "pass", ["5.00 %"]),
        ({"rx_prio3_pause_duration": 2_000_000, "rx_prio3_pause_transition": 900}, "qos.storm", "warn", ["priority 3 received 10.0 %"]),
        ({"tx_prio3_pause_duration": 2_400_000}, "qos.storm", "warn", ["priority 3 sent 12.0 %"]),
        ({"np_ecn_marked_roce_packets": 40}, "qos.cnp", "fail", ["40 marked, 0 CNPs sent", "notification point"]),
        ({"rp_cnp_ignored": 1}, "qos.cnp", "fail", ["1 ignored", "reaction point"]),
        ({"np_ecn_marked_roce_packets": 40, "np_cnp_sent": 6, "rp_cnp_handled": 5}, "qos.cnp", "pass", ["6 CNPs sent, 5 handled"]),
        ({"np_ecn_marked_roce_packets": 40, "np_cnp_sent": 6}, "qos.ecn", "skipped", ["40 marked packets"]),
    ],
)  # fmt: skip
def test_one_thing_grows_on_trees_written_from_mlx5s_documented_format(
    fabric: Fabric, grown: dict[str, int], check: str, status: str, words: list[str]
) -> None:
    fabric.grow.update(grown)
    found = fabric.by_check()
    assert found[check].status == status, found[check]
    text = f"{found[check].found}: {found[check].message}"
    assert [word for word in words if word not in text] == [], text
    others = {name for name, item in found.items() if item.status in ("fail", "warn") and name != check}
    assert others == set()
    assert {name: fabric.figures["counters"].get(name, fabric.figures["interfaces"]["eth1"].get(name)) for name in grown} == grown


@pytest.mark.parametrize(("way", "status", "word"), [("sent", "fail", "this NIC pauses"), ("received", "warn", "the switch (or the peer)")])
def test_a_pause_where_packets_may_drop_names_who_pauses_what(fabric: Fabric, way: str, status: str, word: str) -> None:
    """mlx5 shows priorities without PFC through dcb alone."""
    more = {0: 7}
    fabric.pfc = (dcb({3: 20}, {3: 50}), dcb({3: 20} | (more if way == "sent" else {}), {3: 50} | (more if way == "received" else {})))
    found = fabric.by_check()["qos.pause"]
    assert (found.status, found.expected) == (status, "pauses on priority 3 only")
    assert word in found.message and "priority 0" in found.message and "7" in str(found.found)


def test_global_pause_in_place_of_pfc_is_named(fabric: Fabric) -> None:
    fabric.statistics = {"rx_discards_phy": 0, "rx_global_pause": 5, "tx_global_pause": 5, "tx_global_pause_duration": 1}
    fabric.grow.update(tx_global_pause=3)
    found = fabric.by_check()["qos.pause"]
    assert found.status == "fail" and "all priorities (global pause)" in found.message


@pytest.mark.parametrize("check", ["qos.pause", "qos.storm"])
def test_pfc_off_is_not_a_fabric_without_pauses(fabric: Fabric, check: str) -> None:
    """The counters of a priority are there only while PFC is on for it."""
    fabric.statistics = {name: value for name, value in STATISTICS.items() if "prio3_pause" not in name}
    found = fabric.by_check()[check]
    assert (found.status, found.found) == ("unknown", None)
    assert "priority 3" in found.message


def test_without_ethtool_no_interface_counter_passes_and_a_reason_is_given(tmp_path: Path) -> None:
    before, after = (tree(tmp_path / name, MLX5_PORT | ran, None) for name, ran in (("before", {}), ("after", RAN)))
    found = {item.check: item for item in judge_traffic(PLACE, MLX5, "node2", (3,), between(before, after))}
    assert statuses(found) == HEALTHY | {"qos.pause": "unknown", "qos.storm": "unknown"}
    assert all("no ethtool on this node" in found[check].message for check in ("qos.lossless", "qos.pause", "qos.storm"))


def test_discards_of_nobody_knows_which_priority_are_a_warning(fabric: Fabric) -> None:
    fabric.statistics = {name: value for name, value in STATISTICS.items() if not name.endswith("_discards")}
    fabric.grow.update(rx_discards_phy=2)
    found = fabric.by_check()["qos.lossless"]
    assert (found.status, found.found) == ("warn", "rx_discards_phy of eth1 +2")


@pytest.mark.parametrize("without", [SEQUENCE + counter_verdicts.RETRANSMITTED, counter_verdicts.CONGESTION])
def test_a_driver_without_counters_passes_nothing(fabric: Fabric, without: tuple[str, ...]) -> None:
    fabric.port = {name: value for name, value in MLX5_PORT.items() if name not in without}
    found = statuses(fabric.by_check())
    concerned = ["qos.cnp", "qos.ecn"] if counter_verdicts.MARKED in without else ["qos.lossless"]
    assert [found[check] for check in concerned] == ["unknown"] * len(concerned)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("out_of_sequence", "qos.lossless"),
        ("rx_prio3_pause", "qos.pause"),
        ("rx_prio3_pause_duration", "qos.storm"),
        ("np_cnp_sent", "qos.cnp"),
        ("np_ecn_marked_roce_packets", "qos.ecn"),
    ],
)
def test_a_counter_that_ran_backwards_is_said_and_passes_nothing(fabric: Fabric, name: str, check: str) -> None:
    fabric.grow[name] = -1
    found = fabric.by_check()[check]
    assert found.status == "unknown"
    assert "ran backwards" in found.message and name in found.message
    assert fabric.figures["backwards"] == [name]
    assert name not in fabric.figures["counters"] and name not in fabric.figures["interfaces"]["eth1"]


@pytest.mark.parametrize(
    ("lacks", "marked", "status"), [("rp_cnp_ignored", 0, "skipped"), ("rp_cnp_ignored", 4, "unknown"), ("np_cnp_sent", 4, "unknown")]
)
def test_a_driver_that_does_not_count_cnps_passes_none(fabric: Fabric, lacks: str, marked: int, status: str) -> None:
    fabric.port = {name: value for name, value in MLX5_PORT.items() if name != lacks}
    fabric.grow.update(np_ecn_marked_roce_packets=marked, np_cnp_sent=marked)
    assert fabric.by_check()["qos.cnp"].status == status


def test_without_the_time_no_share_of_it_passes(fabric: Fabric) -> None:
    fabric.seconds = 0.0
    assert fabric.by_check()["qos.storm"].status == "unknown"


def test_without_traffic_nothing_was_proven(fabric: Fabric) -> None:
    fabric.grow.clear()
    found = fabric.by_check()["qos.lossless"]
    assert found.status == "unknown" and "no packet went over the port" in found.message


def test_soft_roce_judges_only_sequence_errors_by_rxe_hw_counters(fabric: Fabric) -> None:
    fabric.watched, fabric.port = RXE, dict(RXE_PORT)
    fabric.grow = {"sent_pkts": 100, "rcvd_pkts": 90}
    others = {"qos.pause": "skipped", "qos.storm": "skipped", "qos.cnp": "skipped", "qos.ecn": "skipped"}
    assert statuses(fabric.by_check()) == {"qos.lossless": "pass"} | others
    fabric.grow["out_of_seq_request"] = 3
    found = fabric.by_check()
    assert statuses(found) == {"qos.lossless": "warn"} | others
    assert found["qos.lossless"].found == "out_of_seq_request +3"
    assert "packets from node2 are missing" in found["qos.lossless"].message
    assert fabric.figures["interfaces"] == {}


def test_the_members_of_a_bond_are_judged_each(tmp_path: Path) -> None:
    before, after = (tree(tmp_path / name, MLX5_PORT | ran, STATISTICS) for name, ran in (("before", {}), ("after", RAN)))
    text = node_traffic.ethtool(STATISTICS)
    for host, extra in ((before, 0), (after, 1)):
        Path(host.root, "cmd/ethtool_-S_eth2").write_text(text.replace("error_events: 1", f"error_events: {1 + extra}"))
    bond = MLX5._replace(netdevs=("eth1", "eth2"))
    found = judge_traffic(PLACE, bond, "node2", (3,), between(before, after, bond))
    storms = {item.subject: item.status for item in found if item.check == "qos.storm"}
    assert storms == {"rail0 (eth1) with node2, member eth1": "pass", "rail0 (eth1) with node2, member eth2": "fail"}


def test_one_fault_is_one_verdict() -> None:
    """Lost packets are qos.lossless where a profile promises a lossless fabric, and port.errors elsewhere."""
    before, after = {"packet_seq_err": 1, "link_downed": 0}, {"packet_seq_err": 2, "link_downed": 0}
    assert judge_deltas(PLACE, before, after, LINK)[0].status == "pass"
    assert judge_deltas(PLACE, before, after)[0].status == "fail"


def test_an_order_that_nobody_can_tell_from_a_loss_is_said(fabric: Fabric) -> None:
    fabric.port = {name: value for name, value in MLX5_PORT.items() if name != "packet_seq_err"}
    fabric.grow.update(out_of_sequence=5)
    found = fabric.by_check()["qos.lossless"]
    assert (found.status, "of what grows with a loss, packet_seq_err could not be read" in found.message) == ("warn", True)


VALUES = st.one_of(st.integers(-(2**70), 2**70), st.none(), st.booleans(), st.text(max_size=3))
JUDGED = [*counter_verdicts.NAMES, *STATISTICS, "tx_global_pause", "rx_global_pause_duration"]
COUNTERS = st.dictionaries(st.sampled_from(JUDGED), VALUES)


@given(before=st.one_of(COUNTERS, VALUES), after=COUNTERS)
def test_growth_is_never_negative_and_every_number_is_accounted_for(before: Any, after: dict[str, Any]) -> None:
    found = growth(before, after)
    assert all(many >= 0 for many in found.by.values())
    old = before if isinstance(before, dict) else {}
    numbers = {name for name in old if all(type(values.get(name)) is int and values[name] >= 0 for values in (old, after))}
    assert set(found.by) | set(found.backwards) == numbers and not set(found.by) & set(found.backwards)


@given(hca=st.tuples(COUNTERS, COUNTERS), interface=st.tuples(COUNTERS, COUNTERS), soft=st.booleans(), at=VALUES)
def test_whatever_is_read_gives_verdicts_that_fail_only_for_growth(
    hca: tuple[dict[str, Any], ...], interface: tuple[dict[str, Any], ...], soft: bool, at: Any
) -> None:
    before = {"at": at, "hca": hca[0], "interfaces": {"eth1": {"counters": interface[0], "missing": {}}}}
    after = {"at": 5000.0, "hca": hca[1], "interfaces": {} if soft else {"eth1": {"counters": interface[1], "missing": {}}}}
    port = Watched("rail0 (eth1)", "rxe0", 1, "rdma_rxe", ()) if soft else MLX5
    found = traffic(json.loads(json.dumps(before)), after)
    verdicts = judge_traffic(PLACE, port, "node2", (3,), found)
    assert {item.check for item in verdicts} == set(HEALTHY)
    grown = {name for part in (found.hca, *found.interfaces.values()) for name, many in part.by.items() if many}
    assert grown or not [item for item in verdicts if item.status in ("fail", "warn")]
    readable = set(found.hca.by).union(*(part.by for part in found.interfaces.values()))
    assert readable or not [item for item in verdicts if item.status == "pass"]
    assert json.dumps(figures(port, "node2", found))


def test_nothing_grown_is_no_growth() -> None:
    assert growth({}, {}) == Growth({}, ())
