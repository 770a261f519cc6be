# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored run as files for machines and people: report.json, report.xml (JUnit), report.md, a benchmark's plots, a search's heat map."""

from pathlib import Path
from typing import NamedTuple

from railwright.report.cases import as_junit, cases_of
from railwright.report.markdown import as_markdown
from railwright.report.plot import Heat, Plot, heats, plots, png, svg
from railwright.runs import Run
from railwright.writing import json_text, make_directories, write_atomic


class Written(NamedTuple):
    """Where the report lies."""

    forms: dict[str, Path]  # json, junit and markdown
    plots: list[Path]


def write_report(run: Run, directory: Path) -> Written:
    """Write all three forms and the plots that the Markdown names."""
    make_directories(directory)
    cases, pictures = cases_of(run), plots(run)
    drawn = []
    every: list[Plot | Heat] = [*pictures, *heats(run)]
    for plot in every:
        for suffix, content in ((".svg", svg(plot)), (".png", png(plot))):
            drawn.append(directory / (plot.file + suffix))
            write_atomic(drawn[-1], content)
    texts = {
        "json": ("report.json", json_text(run.as_dict())),
        "junit": ("report.xml", as_junit(run, cases)),
        "markdown": ("report.md", as_markdown(run, cases, pictures)),
    }
    paths = {}
    for form, (name, text) in texts.items():
        paths[form] = directory / name
        write_atomic(paths[form], text)
    return Written(paths, drawn)
