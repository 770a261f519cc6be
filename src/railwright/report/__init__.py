# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored run as files for machines and people: report.json, report.xml (JUnit), report.md."""

from __future__ import annotations

import json
from pathlib import Path

from railwright.report.cases import cases_of
from railwright.report.junit import as_junit
from railwright.report.markdown import as_markdown
from railwright.runs import Run, write_atomic

__all__ = ["write_report"]


def write_report(run: Run, directory: Path) -> dict[str, Path]:
    """Write all three forms and return their paths by format."""
    directory.mkdir(parents=True, exist_ok=True)
    cases = cases_of(run)
    texts = {
        "json": ("report.json", json.dumps(run.as_dict(), indent=2) + "\n"),
        "junit": ("report.xml", as_junit(run, cases)),
        "markdown": ("report.md", as_markdown(run, cases)),
    }
    paths = {}
    for form, (name, text) in texts.items():
        paths[form] = directory / name
        write_atomic(paths[form], text)
    return paths
