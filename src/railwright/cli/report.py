# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright report``: a stored run as JSON, JUnit XML, Markdown and an HTML page; which runs are stored."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railwright.cli import console
from railwright.cli.options import OptionalInventory, option
from railwright.exitcodes import InputError

if TYPE_CHECKING:
    from railwright.inventories import Given

HELP = """Write the last plan, apply, validate, bench or isolate run as report.json, report.xml (JUnit), report.md and report.html, the \
plots of a bench run and the heat map of an isolate run as SVG and PNG; print the paths. report.html is one file that needs no network.

\b
Examples:
  railwright report -o out/
  railwright report -i mycluster --format html -o out/
  railwright report --list
  railwright report --run 20260101T120000Z-validate-1a2b3c4d --format json
"""


class ReportFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"


Output = Annotated[Path | None, option("--output", "-o", metavar="DIR", help="Where to write. Default: beside the stored run.")]
RunId = Annotated[str | None, option("--run", metavar="ID", help="Which stored run. Default: the newest.")]
List = Annotated[bool, typer.Option("--list", help="Write nothing: print the stored runs, the newest first.")]
Form = Annotated[ReportFormat, option("--format", help="text and json: what is printed, of all forms; html: write the page alone.")]
SHOWN = 50  # runs of a list


def command(
    output: Output = None, run: RunId = None, inventory: OptionalInventory = None, form: Form = ReportFormat.TEXT, *, listed: List = False,
) -> None:  # fmt: skip
    from railwright.report.files import write_report
    from railwright.runs import load_run, runs_directory

    if run is not None and (listed or inventory is not None):
        raise InputError("--run names one run; allowed with it: -o, --format")
    if listed:
        _list(inventory, form)
        return
    chosen = load_run(run or _newest(inventory))
    directory = output if output is not None else runs_directory() / chosen.id
    written = write_report(chosen, directory, page_alone=form is ReportFormat.HTML)
    if form is ReportFormat.JSON:
        forms = {name: str(path) for name, path in written.forms.items()}
        console.print_json({"run": chosen.id} | forms | {"plots": [str(path) for path in written.plots]})
        return
    console.note(f"{chosen.verb} of {chosen.started}, exit code {chosen.exit_code}: {chosen.id}")
    for path in (*written.forms.values(), *written.plots):
        console.say(str(path))


def _newest(inventory: "Given | None") -> str | None:
    """Of this inventory, or of any. Raises InputError where none is stored."""
    from railwright.inventories import inventories
    from railwright.runs import of_inventory

    if inventory is None:
        return None
    found = next(of_inventory(inventory), None)
    if found is None:
        raise InputError(f"no run of {inventories(inventory)} is stored yet; allowed: those of railwright report --list")
    return found.id


def _list(inventory: "Given | None", form: ReportFormat) -> None:
    from itertools import islice

    from railwright.runs import of_inventory

    names = ("id", "verb", "started", "exit_code", "inventory")
    rows = [{name: getattr(run, name) for name in names} for run in islice(of_inventory(inventory), SHOWN)]
    if form is ReportFormat.JSON:
        console.print_json({"runs": rows})
        return
    console.table(("run", "exit code", "inventory"), [(row["id"], str(row["exit_code"]), row["inventory"]) for row in rows])
