# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches over a simulated fabric as the documents of their records: what the journal had on the disk, read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.lib.simulated_fabric import Fabric, Fault, Noise

from railwright.isolate.journal import create, reopen
from railwright.isolate.model import Fleet, Options
from railwright.isolate.solve import Search, isolate_document
from railwright.runs import Run


def searched_document(fleet: Fleet, faults: Sequence[Fault] = (), noise: Noise | None = None, seed: int = 7) -> dict[str, Any]:
    fabric, options = Fabric(fleet, faults, seed, noise or Noise()), Options(seed=seed)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "journal"
        journal = create(path, fleet, options)
        outcome = Search(fleet, fabric, journal, options, lambda _text: None, fabric.clock).run()
        journal.close()
        read, _options = reopen(path, fleet)
        read.close()
        return isolate_document(fleet, read.done, outcome)


def run_of(document: dict[str, Any] | None) -> Run:
    nodes = {name: {"status": "ok", "message": ""} for name in (document or {}).get("nodes", ())}
    return Run("20260101T000000Z-isolate", "isolate", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0", finished="f", nodes=nodes,
               isolate=document)
