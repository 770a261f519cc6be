# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several verbs share, spelt and explained once."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli.completing import of_area, of_limit


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def option(*names: str, **more: Any) -> Any:
    """An option without a default that --help could show."""
    return typer.Option(*names, show_default=False, **more)


class Transport(StrEnum):
    AUTO = "auto"
    ANSIBLE = "ansible"


@dataclass
class Settings:
    debug: bool = False
    one_line: bool = False


settings = Settings()

INVENTORY_HELP = "Inventory: a file, or the directory that `railwright init` wrote. Of several, the later lies over the earlier."
LIMIT_HELP = "Only these nodes: an Ansible pattern (rack3:!gpu7), a host list ('gpu[001-016]'), slurm:job=ID, slurm:reservation=NAME or \
slurm:state=STATE."
FORMAT_HELP = "text for people; json: one JSON document on stdout and nothing else."

Inventory = Annotated[list[Path], option("--inventory", "-i", metavar="PATH", help=INVENTORY_HELP)]
OptionalInventory = Annotated[list[Path] | None, option("--inventory", "-i", metavar="PATH", help=INVENTORY_HELP)]
Limit = Annotated[str | None, option("--limit", "-l", metavar="PATTERN", help=LIMIT_HELP, autocompletion=of_limit)]
OutputFormat = Annotated[Format, typer.Option("--format", "-f", metavar="text|json", help=FORMAT_HELP)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is changed unless this is given.")]
AREA_HELP = "Only this area (network, nccl, hca …); may be given several times."
Areas = Annotated[list[str] | None, option("--area", metavar="AREA", help=AREA_HELP, autocompletion=of_area)]
TRANSPORT_HELP = "auto: over ssh connections of our own, and by Ansible where it alone can reach a node; ansible: by Ansible."
TransportOption = Annotated[Transport, typer.Option("--transport", metavar="auto|ansible", help=TRANSPORT_HELP)]
