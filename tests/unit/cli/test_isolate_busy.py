# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a search leaves out for their jobs: by the word of a scheduler as it comes through the documents of events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railwright.cli import isolate
from railwright.documents import drain_document

SAID = {"scheduler": "slurm", "node": "gpu-1", "state": "available", "jobs": [], "holders": [], "reason": None, "by": None, "message": None}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"empty": True}, {}),
        ({"empty": False, "holders": ["job 7 of eve (RUNNING)"]}, {"n1": "jobs run there: job 7 of eve (RUNNING)"}),
        ({"empty": False}, {"n1": "jobs run there: (unnamed)"}),
    ],
)
def test_only_a_node_with_jobs_is_left_out(said: dict[str, Any], found: dict[str, str]) -> None:
    drain = drain_document({"drain": {**SAID, **said}})
    session: Any = SimpleNamespace(run=lambda *_call: SimpleNamespace(hosts={"n1": SimpleNamespace(drain=drain, message="")}))
    judged: Any = SimpleNamespace(specs={"n1": {"upgrade_scheduler": "slurm"}}, inventory=SimpleNamespace(hosts={"n1": {}}))
    assert isolate.at_work(session, judged, ()) == found
