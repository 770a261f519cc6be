# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright report``: the last run as JSON, JUnit XML and Markdown."""

from pathlib import Path
from typing import Annotated

from railwright.cli import console
from railwright.cli.options import Format, OutputFormat, option

HELP = """Write the last plan, apply, validate, bench or isolate run as report.json, report.xml (JUnit) and report.md, the plots of a \
bench run and the heat map of an isolate run as SVG and PNG; print the paths.

\b
Examples:
  railwright report -o out/
  railwright report --run 20260101T120000Z-validate-1a2b3c4d --format json
"""

Output = Annotated[Path | None, option("--output", "-o", metavar="DIR", help="Where to write. Default: beside the stored run.")]
RunId = Annotated[str | None, option("--run", metavar="ID", help="Which stored run. Default: the newest.")]


def command(output: Output = None, run: RunId = None, form: OutputFormat = Format.TEXT) -> None:
    from railwright.report.files import write_report
    from railwright.runs import load_run, runs_directory

    chosen = load_run(run)
    directory = output if output is not None else runs_directory() / chosen.id
    written = write_report(chosen, directory)
    if form is Format.JSON:
        forms = {name: str(path) for name, path in written.forms.items()}
        console.print_json({"run": chosen.id} | forms | {"plots": [str(path) for path in written.plots]})
        return
    console.note(f"{chosen.verb} of {chosen.started}, exit code {chosen.exit_code}: {chosen.id}")
    for path in (*written.forms.values(), *written.plots):
        console.say(str(path))
