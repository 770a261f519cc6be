# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright report``: a stored run as JSON, JUnit XML, Markdown and an HTML page; which runs are stored, and how two
differ."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from railwright.cli import console
from railwright.cli.completing import of_run
from railwright.cli.options import Format, OptionalInventory, option
from railwright.exitcodes import ExitCode, InputError

if TYPE_CHECKING:
    from railwright.inventories import Given
    from railwright.runs import Run

HELP = """Write the last plan, apply, validate, bench or isolate run as report.json, report.xml (JUnit), report.md and report.html, the \
plots of a bench run and the heat map of an isolate run as SVG and PNG; print the paths. report.html is one file that needs no network.

\b
Examples:
  railwright report -o out/
  railwright report -i mycluster --format html -o out/
  railwright report --list
  railwright report --compare 20260101T120000Z-validate-1a2b3c4d 20260102T120000Z-validate-5e6f7a8b
  railwright report --run 20260101T120000Z-validate-1a2b3c4d --format json
"""


class ReportFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"


Output = Annotated[Path | None, option("--output", "-o", metavar="DIR", help="Where to write. Default: beside the stored run.")]
RunId = Annotated[str | None, option("--run", metavar="ID", help="Which stored run. Default: the newest.", autocompletion=of_run)]
List = Annotated[bool, typer.Option("--list", help="Write nothing: print the stored runs, the newest first.")]
COMPARE_HELP = "Write nothing: print what is worse and what better in run B than in A, and how busbw moved; end 1 where anything is worse."
Compare = Annotated[tuple[str, str] | None, typer.Option("--compare", metavar="A B", help=COMPARE_HELP, autocompletion=of_run)]
FORM_HELP = "text and json: what is printed, of all forms; html: write the page alone."
Form = Annotated[ReportFormat, option("--format", "-f", metavar="FORM", help=FORM_HELP)]
SHOWN = 50  # runs of a list
WAYS = {"worse": "fail", "better": "pass", "other": "warn"}  # each in the colour of a result


def command(
    inventory: OptionalInventory = None, run: RunId = None, listed: List = False, compare: Compare = None, output: Output = None,
    form: Form = ReportFormat.TEXT,
) -> None:  # fmt: skip
    from railwright.report.files import write_report
    from railwright.runs import load_run, runs_directory

    if run is not None and (listed or inventory is not None):
        raise InputError("--run names one run; allowed with it: -o, --format")
    if compare is not None:
        if (output, run, inventory, listed) != (None, None, None, False):
            raise InputError("--compare names two runs; allowed with it: --format")
        _compare(*compare, form)
    if listed:
        _list(inventory, form)
        return
    chosen = load_run(run) if inventory is None else _newest(inventory)
    directory = output if output is not None else runs_directory() / chosen.id
    written = write_report(chosen, directory, page_alone=form is ReportFormat.HTML)
    if form is ReportFormat.JSON:
        forms = {name: str(path) for name, path in written.forms.items()}
        console.print_json({"run": chosen.id} | forms | {"plots": [str(path) for path in written.plots]})
        return
    console.note(f"{chosen.verb} of {chosen.started}, exit code {chosen.exit_code}: {chosen.id}")
    for path in (*written.forms.values(), *written.plots):
        console.say(str(path))


def _newest(inventory: "Given") -> "Run":
    """Of this inventory. Raises InputError where none is stored."""
    from railwright.inventories import inventories
    from railwright.runs import of_inventory

    found = next(of_inventory(inventory), None)
    if found is None:
        raise InputError(f"no run of {inventories(inventory)} is stored yet; allowed: those of railwright report --list")
    return found


def _list(inventory: "Given | None", form: ReportFormat) -> None:
    from itertools import islice

    from railwright.runs import of_inventory

    names = ("id", "verb", "started", "exit_code", "inventory")
    rows = [{name: getattr(run, name) for name in names} for run in islice(of_inventory(inventory), SHOWN)]
    if form is ReportFormat.JSON:
        console.print_json({"runs": rows})
        return
    console.table(("run", "exit code", "inventory"), [(row["id"], str(row["exit_code"]), row["inventory"]) for row in rows])


def _compare(one: str, other: str, form: ReportFormat) -> NoReturn:
    from railwright.report.compare import moved, speeds
    from railwright.runs import load_run

    before, after = load_run(one), load_run(other)
    if before.verb != after.verb:
        raise InputError(f"--compare {one} {other}: {before.verb} and {after.verb} judge other things; allowed: two runs of one verb")
    rows, figures = moved(before, after), speeds(before, after)
    code = ExitCode.FAILED if any(row.way == "worse" for row in rows) else ExitCode.OK

    def show() -> None:
        if rows:
            cells = [(console.styled(row.way, WAYS[row.way]), *row[1:]) for row in rows]
            console.table(("", "node", "check", "what", "before", "after", "message"), cells)
        else:
            console.say("no result differs")
        if figures:
            console.table(("busbw", "before", "after", "change"), [
                (figure.what, *("-" if value is None else f"{value:.2f}" for value in (figure.before, figure.after)),
                 "-" if figure.percent is None else f"{figure.percent:+.1f} %") for figure in figures])

    document = {"before": one, "after": other, "changes": [row._asdict() for row in rows],
                "busbw": [figure._asdict() for figure in figures], "exit_code": int(code)}  # fmt: skip
    console.answer(Format.JSON if form is ReportFormat.JSON else Format.TEXT, document, show)
    raise typer.Exit(code)
