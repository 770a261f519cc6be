# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright init``: write a commented inventory to start from."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.options import Format, OutputFormat, option
from railwright.exitcodes import InputError

HELP = """Write a commented inventory that `lint` accepts.

\b
Example:
  railwright init mycluster --fabric roce
"""


class Fabric(StrEnum):
    ROCE = "roce"
    INFINIBAND = "infiniband"
    ERDMA = "erdma"


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it.", show_default=False)],
    fabric: Annotated[Fabric, option("--fabric", help="The kind of fabric: roce, infiniband or erdma.")],
    form: OutputFormat = Format.TEXT,
) -> None:
    from railwright.init import InitError, write_inventory

    try:
        written = write_inventory(directory, fabric.value)
    except InitError as error:
        raise InputError(str(error)) from error
    if form is Format.JSON:
        console.print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        console.say(str(path))
    console.note(f"Edit these files, then: railwright lint -i {shlex.quote(str(directory))}")
