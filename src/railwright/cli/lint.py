# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright lint``: judge an inventory, touch no node."""

import typer

from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import bad_input, findings_document, opened
from railwright.exitcodes import ExitCode
from railwright.inventories import inventories

HELP = """Check an inventory; no node is touched.

Schema, types, unknown or misspelt variables, contradictions within and between hosts, examples left in. Each finding names \
file, key, value and what is allowed. Ends 64 when there are errors; warnings alone are 0.

\b
Example:
  railwright lint -i mycluster
"""


def command(inventory: Inventory, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
    found = opened(inventory, limit, form)
    with bad_input(inventory, form):
        from railwright.lint import judge
        from railwright.lint_examples import left_examples

        findings = sorted(judge(found) + left_examples(found), key=lambda item: (item.file, item.line or 0))
    errors = sum(finding.severity == "error" for finding in findings)
    if form is Format.JSON:
        console.print_json(findings_document(findings))
    else:
        with console.paged():
            for finding in findings:
                console.say(str(finding))
        warnings = len(findings) - errors
        counted = f"{console.count(errors, 'error')}, {console.count(warnings, 'warning')}" if findings else "no findings"
        console.note(f"{inventories(inventory)}: {counted}")
    raise typer.Exit(ExitCode.USAGE if errors else ExitCode.OK)
