# SPDX-License-Identifier: GPL-3.0-or-later
"""The key rdma_checks: the mode of each check that a site, a group or a host sets."""

import re
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import MODES, OFF

from ..tables.check_modes import CONFIG, observed
from ..tables.checks import BY_CODE
from .findings import MISSING, Findings, did_you_mean

CHECKS = "rdma_checks"
FIELDS = ("mode", "reason", "until", "by", "subjects")
DAY = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
FORM = "off, observe, enforce, or {mode, reason, until: YYYY-MM-DD, by, subjects: [TEXT]}"
AREAS = "ansible_collections.railwright.rdma.plugins.module_utils.plan.areas"
LENGTH, MOST, SHOWN = 200, 64, 4
SOON_S = 7 * 86400.0


def mode_entry(path: str, code: Any, value: Any, findings: Findings) -> Any:
    """Return {mode, reason, until, by, subjects} of one entry; the last four '' or [] where they are not given."""
    if not is_code(code):
        hint = did_you_mean(str(code), tuple(BY_CODE))
        return findings.error(path, value, f"{code} is no check{hint}", "a code of docs/reference/checks.md")
    given = {"mode": value} if isinstance(value, str) else value
    if given is False:  # YAML 1.1 reads off as false
        given = {"mode": OFF}
    if not isinstance(given, dict) or (wrong := sorted(map(str, set(given) - set(FIELDS)))):
        return findings.error(path, value, f"has {wrong[0]}" if isinstance(given, dict) else "is no mode", FORM)
    mode = OFF if given.get("mode") is False else given.get("mode")
    if mode not in MODES:
        return findings.error(path, value, "has no mode" if mode is None else f"{mode} is no mode", FORM)
    texts = {name: given.get(name, "") for name in ("reason", "until", "by")}
    if bad := next((name for name, text in texts.items() if not _is_line(text, given=name in given)), None):
        return findings.error(f"{path}.{bad}", texts[bad], "is no line of text", f"at most {LENGTH} printable characters, in quotes")
    subjects = given.get("subjects", [])
    if not isinstance(subjects, list) or len(subjects) > MOST or not all(_is_line(text, given=True) for text in subjects):
        return findings.error(f"{path}.subjects", subjects, "is no list of parts", f"at most {MOST} names of verdicts, like [mlx5_3]")
    return _judged(path, {"mode": mode, **texts, "subjects": subjects}, findings)


def entries_of(checks: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the valid entries of rdma_checks in their final form; lint and preflight refuse the others."""
    found = {str(code): mode_entry(CHECKS, code, value, Findings(None)) for code, value in checks.items()}
    return {code: entry for code, entry in found.items() if entry is not MISSING}


def _judged(path: str, entry: dict[str, Any], findings: Findings) -> Any:
    until, mode = entry["until"], entry["mode"]
    if mode == OFF and not (entry["reason"] and until):
        return findings.error(path, mode, "off needs a reason and a day on which it ends", "{mode: 'off', reason: TEXT, until: YYYY-MM-DD}")
    if until and not DAY.fullmatch(until):
        return findings.error(f"{path}.until", until, "is no day", "YYYY-MM-DD, in quotes")
    if until and until < _day():
        return findings.error(f"{path}.until", until, "the entry has expired", "another day, or no such entry")
    if until and until < _day(SOON_S):
        findings.warning(f"{path}.until", until, "the entry ends soon; after that day it is an error", "another day, or no such entry")
    return entry


def warn_observed(values: Mapping[str, Any], _rails: object, findings: Findings) -> None:
    """Name the checks that act on nothing although the node's mode is drain."""
    if values.get("agent_mode") != "drain":
        return
    for why, codes in observed(values.get("checks_release"), values.get("checks") or {}).items():
        findings.warning("agent_mode", "drain", f"{len(codes)} checks drain nothing, because {why}: {first_of(codes, SHOWN)}",
                         "rdma_checks: {CODE: enforce}, after railwright agent trial")


def _day(later_s: float = 0.0) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + later_s))


def is_code(code: Any) -> bool:
    """Return whether a check has this code: of the table, or config.AREA."""
    if not isinstance(code, str) or not code.startswith(CONFIG):
        return code in BY_CODE and "<" not in str(code)
    areas = import_module(AREAS).AREAS  # a fifth of lint's time, so only for such an entry
    return code.removeprefix(CONFIG) in {area.name for area in areas}


def _is_line(text: Any, *, given: bool) -> bool:
    return isinstance(text, str) and len(text) <= LENGTH and text.isprintable() and (bool(text) or not given)
