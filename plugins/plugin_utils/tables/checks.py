# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that a verdict can be of, by ``tables/checks.yml``. Nodes get of it the commands alone, and those only with the one file."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.health import BY_CHECK
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.needed import NEEDED

from .rows import read_table, rows


class Check(NamedTuple):
    """``what``: holds where it passes. ``source``: the inventory's key that expects it, or who says so. ``threshold``: when it counts, and
    what else to know. ``command``: shows more; '': that of its family. ``why``: it matters, of health; the rest is in health.py.
    ``needed``: `check` ends 4 where it is unknown. ``against``: what a value is held against: inventory, table, peers, cluster.
    ``changed``: the release in which its judgement last changed. ``seen``: the real part that it passed on; '': none yet."""

    check: str
    what: str
    source: str
    threshold: str = ""
    command: str = ""
    why: str = ""
    needed: bool = False
    against: tuple[str, ...] = ("table",)
    changed: str = ""
    seen: str = ""


_TABLE = read_table("checks")
FAMILIES: dict[str, str] = _TABLE["families"]
OTHERS: str = _TABLE["others"]
AGAINST: dict[str, list[str]] = _TABLE["against"]
RELEASED: str = _TABLE["released"]
CHANGED: dict[str, str] = _TABLE["changed"]
SEEN: dict[str, str] = {code: row["part"] for row in _TABLE["seen"] for code in row["checks"]}


def _row(section: str, row: dict[str, str]) -> dict[str, object]:
    code = row["check"]
    what = {"what": BY_CHECK[code].what} if section == "health" else {}
    against = [kind for kind, names in AGAINST.items() if any(fnmatchcase(code, name) for name in names)]
    return {**what, **row, "needed": code in NEEDED, "against": tuple(against) or ("table",), "changed": CHANGED.get(code, RELEASED),
            "seen": SEEN.get(code, "")}


SECTIONS: dict[str, tuple[Check, ...]] = {
    name: rows(Check, [_row(name, row) for row in given]) for name, given in _TABLE["sections"].items()
}
BY_CODE = {row.check: row for section in SECTIONS.values() for row in section}
# By code, by family, and of all others '': what module_utils/checks/check_report.py asks.
COMMANDS = {"": OTHERS, **FAMILIES, **{row.check: row.command for row in BY_CODE.values() if row.command}}
