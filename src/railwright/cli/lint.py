# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright lint``: judge an inventory, touch no node."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit
from railwright.cli.session import bad_input, findings_document, opened
from railwright.exitcodes import ExitCode
from railwright.inventories import inventories

HELP = """Check an inventory; no node is touched.

Schema, types, unknown or misspelt variables, contradictions within and between hosts, examples left in. Each finding names \
file, key, value and what is allowed. Ends 64 when there are errors; warnings alone are 0.

\b
Examples:
  railwright lint -i mycluster
  railwright lint -i mycluster --format sarif > lint.sarif
"""


class LintFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


FORM_HELP = "text for people; json: one document; sarif: one that code hosting and editors read; github: its workflow commands."
Form = Annotated[LintFormat, typer.Option("--format", "-f", metavar="FORM", help=FORM_HELP)]


def command(inventory: Inventory, limit: Limit = None, form: Form = LintFormat.TEXT) -> None:
    unread = Format.JSON if form is LintFormat.JSON else Format.TEXT
    found = opened(inventory, limit, unread)
    with bad_input(inventory, unread):
        from railwright.job_user import root_logins
        from railwright.lint import judge_with_specs
        from railwright.lint_ages import aged_tables
        from railwright.lint_examples import left_examples
        from railwright.lint_forms import github, sarif

        findings, specs = judge_with_specs(found)
        findings = sorted(findings + left_examples(found) + root_logins(found, specs) + aged_tables(found, dt.datetime.now(dt.UTC).date()),
                          key=lambda item: (item.file, item.line or 0))
    errors = sum(finding.severity == "error" for finding in findings)
    if form is LintFormat.JSON:
        console.print_json(findings_document(findings))
    elif form is LintFormat.SARIF:
        console.print_json(sarif(findings))
    elif form is LintFormat.GITHUB:
        for line in github(findings):
            console.say(line)
    else:
        with console.paged():
            for finding in findings:
                console.say(str(finding))
        warnings = len(findings) - errors
        counted = f"{console.count(errors, 'error')}, {console.count(warnings, 'warning')}" if findings else "no findings"
        console.note(f"{inventories(inventory)}: {counted}")
    raise typer.Exit(ExitCode.USAGE if errors else ExitCode.OK)
