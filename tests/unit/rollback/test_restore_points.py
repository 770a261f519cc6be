# SPDX-License-Identifier: GPL-3.0-or-later
"""What a journal keeps for a rollback that comes later: its number, how each effect left things, its class; and what is pruned."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, remove_file, run, set_value, write_file
from rooted import RootedHost

ROOT = "var/lib/railwright/restore"


def document(root: Path, name: str = "r1") -> dict[str, Any]:
    return dict(json.loads((root / ROOT / name / "journal.json").read_text()))


def test_an_entry_says_how_its_effect_left_things(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/value").write_text("1\n")
    host = RootedHost(tmp_path)
    log = journal.Journal(host, "r1")
    ops = (write_file("/etc/file", "new\n"), set_value("/etc/value", "2"), remove_file("/etc/file"), run(("true",), (("true",),)))
    apply.carry_out(host, [Change("network", "MTU of rail0 (eth1)", 1, 2, "link", "", "", ops)], log)
    log.close(journal.APPLIED)
    entries = document(tmp_path)["entries"]
    assert [entry.get("left") for entry in entries] == [hashlib.sha256(b"new\n").hexdigest(), "2", None, None]
    assert entries[1]["wrote"] == "2"
    assert {entry["disruption"] for entry in entries} == {"link"}


def test_the_boot_and_what_waits_for_one_are_kept(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
    log = journal.Journal(RootedHost(tmp_path), "r1")
    log.reboots = ("pci_tuning: kernel arguments",)
    log.close(journal.APPLIED)
    assert (document(tmp_path)["boot"], document(tmp_path)["reboots"]) == ("boot-1", ["pci_tuning: kernel arguments"])


def test_numbers_rise_whatever_the_clock_says(tmp_path: Path) -> None:
    host = RootedHost(tmp_path)
    for name, when in (("first", 5000), ("second", 1000), ("third", 3000)):
        journal.Journal(host, name).close(journal.APPLIED)
        os.utime(tmp_path / ROOT / name / "journal.json", (when, when))
    assert [(point.name, point.number) for point in journal.points(host)] == [("first", 1), ("second", 2), ("third", 3)]


def test_restore_points_without_numbers_come_first_by_their_time(tmp_path: Path) -> None:
    host = RootedHost(tmp_path)
    for name, when in (("b", 1000), ("a", 2000)):
        path = tmp_path / ROOT / name / "journal.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"version": 1, "run": name, "state": "applied", "entries": []}))
        os.utime(path, (when, when))
    journal.Journal(host, "new").close(journal.APPLIED)
    assert [point.name for point in journal.points(host)] == ["b", "a", "new"]


def test_the_parts_of_a_run_are_known_by_its_name(tmp_path: Path) -> None:
    host = RootedHost(tmp_path)
    for _number in range(3):
        journal.Journal(host, "20260101T000000Z-apply").close(journal.APPLIED)
    journal.Journal(host, "2026.11").close(journal.APPLIED)
    found = [(point.name, point.base) for point in journal.points(host)]
    run = "20260101T000000Z-apply"
    assert found == [(run, run), (run + ".2", run), (run + ".3", run), ("2026.11", "2026.11")]


def test_pruning_counts_runs_and_takes_a_run_whole(tmp_path: Path) -> None:
    host = RootedHost(tmp_path)
    for number in range(journal.KEEP + 2):
        state = journal.INTERRUPTED if number == 0 else journal.APPLIED
        for part, name in enumerate((f"run-{number:02d}", f"run-{number:02d}.2")):
            place = tmp_path / ROOT / name
            place.mkdir(parents=True)
            (place / "journal.json").write_text(json.dumps({"number": 2 * number + part + 1, "state": state, "entries": []}))
            (place / journal.PACKAGES).write_text("{}")
    journal.prune(host)
    runs = {point.base for point in journal.points(host)}
    assert runs == {"run-00", *(f"run-{number:02d}" for number in range(2, journal.KEEP + 2))}, "the interrupted one is still needed"
    assert not (tmp_path / ROOT / "run-01.2").exists()
