# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode of a check on a node: off (not judged), observe (shown, nothing acts by it), enforce (it may refuse jobs and drain). Pure.

The controller resolves the modes of a host (plugin_utils/tables/check_modes.py) and ``apply`` leaves them with the agent. A code that the
node's list of enforced codes does not have is observed: a new check acts on nothing until somebody says so.
"""

import re
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..types import Verdict

OFF, OBSERVE, ENFORCE = "off", "observe", "enforce"
MODES = (OFF, OBSERVE, ENFORCE)
ALL = "all"  # of a hold: every code
_BETWEEN = re.compile(r"[ (),]+")

Entry = Mapping[str, Any]  # of rdma_checks: mode, and reason, until, subjects


class CheckModes(NamedTuple):
    """``enforced``: codes that act where no entry applies. ``entries``: of rdma_checks, by code."""

    enforced: Collection[str] = ()
    entries: Mapping[str, Entry] = {}

    def of(self, code: str, subject: str) -> str:
        """Return the mode of a check for one part."""
        entry = self.entries.get(code)
        if entry is not None and names(entry.get("subjects") or (), subject):
            return str(entry["mode"])
        return ENFORCE if code in self.enforced else OBSERVE


def names(subjects: Sequence[str], subject: str) -> bool:
    """Return whether an entry is about this part: all parts, its whole name, or one word of it (an HCA, an interface, an address)."""
    return not subjects or subject in subjects or not set(_BETWEEN.split(subject)).isdisjoint(subjects)


def switched_off(verdicts: Sequence[Verdict], entries: Mapping[str, Entry]) -> List[Verdict]:
    """Replace each verdict of a check that is off by ``skipped`` with the reason; the others stay."""
    return [_skipped(item, entries[item.check]) if is_off(item.check, item.subject, entries) else item for item in verdicts]


def is_off(code: str, subject: str, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(code)
    return entry is not None and entry["mode"] == OFF and names(entry.get("subjects") or (), subject)


def _skipped(item: Verdict, entry: Entry) -> Verdict:
    return item._replace(status="skipped", message="off until %s by rdma_checks: %s" % (entry["until"], entry["reason"]))


def held_codes(text: str) -> Tuple[str, ...]:
    """Return the codes that the text of a hold file names, one a line; ``("all",)`` for a file that names none, or anything else."""
    lines = [line.strip() for line in text.split("\n")]
    codes = [line for line in lines if line and not line.startswith("#")]
    return tuple(dict.fromkeys(codes)) if codes and all(is_code(code) for code in codes) else (ALL,)


def is_code(word: str) -> bool:
    """Return whether a word has the form of a check's code."""
    return re.match(r"[a-z_]{1,32}\.[a-z0-9_]{1,48}\Z", word) is not None


def is_held(code: str, held: Collection[str]) -> bool:
    return ALL in held or code in held


def modes_from(kept: Any) -> CheckModes:
    """Return the modes that ``apply`` left in the agent's settings."""
    found: Dict[str, Any] = kept or {}
    return CheckModes(frozenset(found.get("enforced") or ()), found.get("entries") or {})
