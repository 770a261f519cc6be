# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored run as files for machines and people: report.json, report.xml (JUnit), report.md, report.html, a benchmark's plots, a search's
heat map."""

from pathlib import Path
from typing import NamedTuple

from railwright.report.cases import as_junit, cases_of
from railwright.report.markdown import as_markdown
from railwright.report.page import Picture, as_page
from railwright.report.plot import Heat, Plot, heats, plots, png, svg
from railwright.runs import Run
from railwright.writing import json_text, make_directories, write_atomic

DRAWN = {"image/svg+xml": svg, "image/png": png}
SUFFIX = {"image/svg+xml": ".svg", "image/png": ".png"}


class Written(NamedTuple):
    """Where the report lies."""

    forms: dict[str, Path]  # json, junit, markdown and html
    plots: list[Path]


def write_report(run: Run, directory: Path, *, page_alone: bool = False) -> Written:
    """Write all forms and the plots that the Markdown names."""
    make_directories(directory)
    cases, pictures = cases_of(run), plots(run)
    drawn = []
    shown: list[Picture] = []
    every: list[Plot | Heat] = [*heats(run), *pictures]
    for plot in every:
        kind = "image/png" if isinstance(plot, Heat) else "image/svg+xml"  # half a million pairs are no SVG for a page
        forms = {form: draw(plot) for form, draw in DRAWN.items() if form == kind or not page_alone}
        shown.append(Picture(plot.title, kind, forms[kind]))
        for form, content in forms.items() if not page_alone else ():
            drawn.append(directory / (plot.file + SUFFIX[form]))
            write_atomic(drawn[-1], content)
    page = as_page(run, cases, shown)
    texts = {"html": ("report.html", page)} if page_alone else {
        "json": ("report.json", json_text(run.as_dict())),
        "junit": ("report.xml", as_junit(run, cases)),
        "markdown": ("report.md", as_markdown(run, cases, pictures)),
        "html": ("report.html", page),
    }
    paths = {}
    for form, (name, text) in texts.items():
        paths[form] = directory / name
        write_atomic(paths[form], text)
    return Written(paths, drawn)
