# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters while traffic ran, in the report: figures by rail, "-" for what nothing tells, and no way out of a cell."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.report.test_report import HOSTILE, run

from railwright.documents import traffic_document
from railwright.report.cases import cases_of
from railwright.report.markdown import as_markdown
from railwright.report.network import HEADER, rows


def port(**more: Any) -> dict[str, Any]:
    base = {"node": "n1", "rail": "rail0 (eth1)", "hca": "mlx5_0", "port": 1, "peer": "n2", "seconds": 20.0, "backwards": []}
    counters = {"out_of_sequence": 0, "packet_seq_err": 3, "np_ecn_marked_roce_packets": 7, "np_cnp_sent": 5}
    counters |= {"rp_cnp_handled": 0, "rp_cnp_ignored": 1}
    eth1 = {"rx_discards_phy": 0, "rx_prio3_pause": 40, "rx_prio3_pause_duration": 80_000, "tx_prio3_pause": 0, "tx_prio0_pause": 2}
    return {**base, "counters": counters, "interfaces": {"eth1": eth1}, **more}


def row(item: dict[str, Any]) -> dict[str, str]:
    (found,) = rows([item])
    return dict(zip(HEADER, found, strict=True))


def test_a_rail_has_its_figures() -> None:
    assert row(port(backwards=["np_cnp_sent"])) == {
        "Node": "n1", "Rail": "rail0 (eth1)", "HCA": "mlx5_0/1", "With": "n2", "Seconds": "20.0",
        "Lost": "packet_seq_err +3", "Discarded": "0", "Pauses sent": "priority 0: 2",
        "Pauses received": "priority 3: 40 (0.40 % of the time)",
        "ECN marks": "7", "CNPs sent / handled / ignored": "5 / 0 / 1", "Ran backwards": "np_cnp_sent",
    }  # fmt: skip


def test_what_nothing_tells_is_not_zero() -> None:
    found = row(port(counters={"out_of_seq_request": 0, "rcvd_seq_err": 0}, interfaces={}))
    assert (found["Lost"], found["Discarded"], found["Pauses sent"], found["ECN marks"]) == ("0", "-", "-", "-")
    assert found["CNPs sent / handled / ignored"] == "- / - / -"


def test_members_of_a_bond_are_named() -> None:
    found = row(port(interfaces={"eth2": {"tx_prio3_pause": 1}, "eth1": {"tx_prio3_pause": 0}}))
    assert found["Pauses sent"] == "eth1: 0; eth2: priority 3: 1"


def test_the_markdown_has_a_table_and_a_run_without_figures_none() -> None:
    one = run(traffic=[port(), port(node="n0", peer=HOSTILE[4], rail=HOSTILE[1])])
    text = as_markdown(one, cases_of(one))
    section = text.partition("## Counters while traffic ran\n\n")[2].splitlines()
    assert len([line for line in section if line.startswith("|")]) == 4
    assert section[2].startswith("| n0 |") and "a\\|b\\|c" in section[2]
    assert json.loads(json.dumps(one.as_dict()))["traffic"][0]["interfaces"]["eth1"]["rx_prio3_pause"] == 40
    assert "Counters while" not in as_markdown(run(), cases_of(run()))


def test_a_cut_document_still_gives_a_row() -> None:
    cut = {"rail": "r", "hca": "h", "seconds": float("nan"), "interfaces": 7, "counters": {"np_cnp_sent": 1e300}}
    (kept,) = traffic_document([cut], "n1")
    assert row(kept)["Seconds"] == "-" and row(kept)["HCA"] == "h/None"


def test_each_rail_has_its_figure_alone_and_with_all_others() -> None:
    base = {"node": "n1", "hca": "mlx5_0", "port": 1, "subject": "rail0 (eth1) to n2", "expected": 384.0, "message": ""}
    both = [{**base, "check": check, "status": status, "found": found}
            for check, status, found in (("perftest.write_bw", "pass", 391.2), ("perftest.together", "fail", 196.0))]
    one = run(verdicts=[*both, {**both[0], "node": "n0", "hca": HOSTILE[1]}])
    section = as_markdown(one, cases_of(one)).partition("## Bandwidth of rails\n\n")[2].splitlines()
    assert section[0] == "| Node | Rail | HCA | Gb/s alone | at least | Gb/s with all rails | at least |"
    assert section[2].startswith("| n0 |") and section[2].endswith("| 391.20 | 384.00 | - | - |")
    assert section[3] == "| n1 | rail0 (eth1) to n2 | mlx5\\_0/1 | 391.20 | 384.00 | 196.00 | 384.00 |"
    assert [item["found"] for item in one.as_dict()["verdicts"]] == [391.2, 196.0, 391.2]
    assert "Bandwidth of rails" not in as_markdown(run(verdicts=both[:1]), [])
