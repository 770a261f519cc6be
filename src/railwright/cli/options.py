# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several verbs share, spelt and explained once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


@dataclass
class Settings:
    """Switches of the whole process."""

    debug: bool = False


settings = Settings()

INVENTORY_HELP = "Inventory: a file, or the directory that `railwright init` wrote."
LIMIT_HELP = "Only these nodes: an Ansible pattern, such as node1,node2 or rack3 or 'gpu*:!gpu7'."
FORMAT_HELP = "text for people; json: one JSON document on stdout and nothing else."

Inventory = Annotated[Path, typer.Option("--inventory", "-i", metavar="PATH", help=INVENTORY_HELP, show_default=False)]
OptionalInventory = Annotated[Path | None, typer.Option("--inventory", "-i", metavar="PATH", help=INVENTORY_HELP, show_default=False)]
Limit = Annotated[str | None, typer.Option("--limit", "-l", metavar="PATTERN", help=LIMIT_HELP, show_default=False)]
OutputFormat = Annotated[Format, typer.Option("--format", "-f", help=FORMAT_HELP)]
