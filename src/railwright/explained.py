# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``railwright explain`` says of names, without an inventory: what a key means, what a check judges, what a wrong name may mean."""

import difflib
import re
from collections.abc import Iterable
from posixpath import normpath
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.health import BY_CHECK
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import BY_NAME as AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.types import MINOR
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import PLUGIN_VARIABLES, VARIABLES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME, Key
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import default_mode
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE, COMMANDS, SECTIONS, Check
from railwright.exitcodes import InputError

KINDS = ("host", "gpudirect", "speed", "affinity", "profile")
ALLOWED = ("host NODE, gpudirect, speed, affinity, profile, a key of the inventory, a check's code, or the name of a profile or a variable "
           "of NCCL")
OF_CONFIG = "config.<area>"
LINK = re.compile(r"\[([^][]+)\]\(([^()]+)\)")


def near(name: str, known: Iterable[str]) -> str:
    """``nearest: scnet; `` or nothing."""
    lower = {item.lower(): item for item in known}
    found = [lower[item] for item in difflib.get_close_matches(name.lower(), lower, n=3)]
    return f"nearest: {', '.join(found)}; " if found else ""


def unknown_name(name: str) -> InputError:
    known = (*KINDS, *BY_NAME, *BY_CODE, *(row.name for row in NCCL_PROFILES), *VARIABLES, *PLUGIN_VARIABLES)
    return InputError(f"{name}: is nothing that explain knows; {near(name, known)}allowed: {ALLOWED}")


def check_named(name: str) -> Check | None:
    """``config.network`` too, which the table has as ``config.<area>``."""
    return BY_CODE[OF_CONFIG] if name.removeprefix("config.") in AREAS and name.startswith("config.") else BY_CODE.get(name)


def check_document(name: str, row: Check) -> dict[str, Any]:
    health = BY_CHECK.get(name)
    command = COMMANDS.get(name) or COMMANDS.get(name.partition(".")[0])
    return {
        "check": name,
        "passes": _text(row.what),
        "else": "warn" if health is not None and health.severity == MINOR else "fail, or warn where the note says so",
        "unknown": f"where it cannot be read or measured{': check then ends 4' if row.needed else ''}; skipped where nothing expects it",
        "note": _text(row.threshold),
        "mode": f"{(default := default_mode(name, row.changed)).mode} once rdma_checks_release is {row.changed}: {default.why}",
        "expected_by": _text(row.source),
        "why": _text(row.why),
        "to_do": _text(health.todo) if health is not None else "",
        "command": command or "",
        "part_of": next(section for section, rows in SECTIONS.items() if row in rows),
    }


def _text(markdown: str) -> str:
    return LINK.sub(lambda link: f"{link[1]}: {normpath('docs/reference/' + link[2])}", markdown).replace("`", "")


def key_document(key: Key) -> dict[str, Any]:
    word = re.compile(rf"\b{key.name}\b")
    return {
        "key": key.name,
        "meaning": key.doc,
        "type": f"list of {key.elements}" if key.elements else key.type,
        "allowed": key.allowed(),
        "required": key.required,
        "default": key.default,
        "source": key.source,
        "example": key.example,
        "role": None if key.owner == "site" else key.owner,
        "area": key.owner if key.owner in AREAS else None,
        "checks": [row.check for row in BY_CODE.values() if word.search(row.source) or word.search(row.threshold)],
    }
