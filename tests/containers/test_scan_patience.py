# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of ssh that are waited out: each ends within its bound (ssh_faults.py has the quick ones' nodes too)."""

from __future__ import annotations

from pathlib import Path

from tests.integration.test_scan_faults import nodes_of

from ssh_faults import faults, patient

EXPECTED = {
    "mute": ("unreachable", "no answer", "firewall"),
    "banner-trickles": ("unreachable", "no answer", "firewall"),
    "very-slow": ("ok", "", ""),
    "good": ("ok", "", ""),
}


def test_who_says_nothing_is_given_up(tmp_path: Path) -> None:
    with faults(tmp_path) as found:
        patient(found)
        nodes = nodes_of(found, tmp_path)
    assert {name: node["status"] for name, node in nodes.items()} == {name: status for name, (status, *_words) in EXPECTED.items()}
    for name, (_status, *words) in EXPECTED.items():
        assert [word for word in words if word not in nodes[name]["message"]] == [], nodes[name]["message"]
