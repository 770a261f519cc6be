# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that are well-formed and would hurt, by tables/hurtful.yml. Pure."""

import re
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped

from ..tables.rows import read_table, rows
from .findings import Findings
from .values import as_int


class Hurtful(NamedTuple):
    """What is refused of these keys, variables of Ansible or sysctls: a text whose beginning matches, or a number out of bounds."""

    names: tuple[str, ...]
    why: str
    allowed: str
    refused: str | None = None
    least: int = 0
    most: int = 0
    severity: str = "error"
    shown: bool = True  # whether the value may stand in a message: ssh's arguments may hold a password


HURTFUL = rows(Hurtful, read_table("hurtful"))
_BY_NAME = grouped((name, row) for row in HURTFUL for name in row.names)
REACH = frozenset(name for name in _BY_NAME if name.startswith("ansible_"))


def hurtful(name: str, value: Any) -> Hurtful | None:
    """Return the first row that a value breaks."""
    for row in _BY_NAME.get(name, ()):
        number = as_int(value)
        if re.match(row.refused, str(value)) if row.refused else number is None or not row.least <= number <= row.most:
            return row
    return None


def check_hurtful(path: str, name: str, value: Any, findings: Findings) -> None:
    """Judge each text of a list by itself; of a command, its program."""
    if isinstance(value, list):
        for at, item in enumerate(value[:1] if name.endswith("_command") else value):
            check_hurtful(f"{path}[{at}]", name, item, findings)
    elif (row := hurtful(name, value)) is not None:
        findings.add(row.severity, path, value, row.why, row.allowed)
