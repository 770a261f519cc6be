# SPDX-License-Identifier: GPL-3.0-or-later
"""The IPoIB interface has its transport mode, and the MTU that the mode allows."""

from __future__ import annotations

import json
from typing import Any

WANTED = {"node1": ("connected", 65520), "node2": ("datagram", 4092)}


def test_mode_and_mtu_hold_now(host: Any, node: str) -> None:
    mode = host.file("/sys/class/net/ib0/mode").content_string.strip()
    mtu = json.loads(host.check_output("ip -j link show dev ib0"))[0]["mtu"]
    assert (mode, mtu) == WANTED[node]


def test_the_mode_comes_before_the_mtu_that_it_bounds(applied: Any, node: str) -> None:
    answers = [item["answer"] for item in applied.of("rdma_state", node)]
    plan = [change["what"] for answer in answers for change in answer["plan"] if change["area"] == "ipoib"]
    assert plan == [*(["mode of rail0 (ib0)"] if node == "node1" else []), "MTU of rail0 (ib0)"]


def test_the_management_interface_is_as_it_was(host: Any) -> None:
    assert json.loads(host.check_output("ip -j link show dev eth0"))[0]["mtu"] == 1500
