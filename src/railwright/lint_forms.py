# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of lint for code hosting: SARIF 2.1.0 (OASIS), which GitHub, GitLab and editors read, and GitHub's workflow commands. Pure."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from railwright import __version__
from railwright.lint import LintFinding
from railwright.project import ADDRESSES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def _text(finding: LintFinding) -> str:
    said = finding.as_dict()
    hosts = f" ({', '.join(said['hosts'])})" if said["hosts"] else ""
    value = "" if said["value"] is None else f": {said['value']!r}"
    return f"{said['key']}{value}{hosts}: {said['message']}" + (f"; allowed: {said['allowed']}" if said["allowed"] else "")


def _rule(key: str) -> str:
    return re.split(r"[.\[]", key)[0] or "inventory"


def _file(name: str) -> str:
    """Below the working directory, as hosting services know it; another place as it is."""
    path = os.path.relpath(name)
    return name if path.startswith("..") else Path(path).as_posix()


def sarif(findings: Sequence[LintFinding]) -> dict[str, Any]:
    results = [{
        "ruleId": _rule(finding.key), "level": "error" if finding.severity == "error" else "warning", "message": {"text": _text(finding)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": _file(finding.file)}, "region": {"startLine": max(finding.line or 1, 1)}}}],
    } for finding in findings]  # fmt: skip
    rules = [{"id": name} for name in sorted({_rule(finding.key) for finding in findings})]
    home = {"informationUri": ADDRESSES["Homepage"]} if "Homepage" in ADDRESSES else {}
    driver = {"name": "railwright", "version": __version__, "rules": rules, **home}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def github(findings: Iterable[LintFinding]) -> list[str]:
    """A line each: ``::error file=…,line=…::text``. What would end a property or the line is escaped, as GitHub's toolkit does."""
    return [f"::{finding.severity} file={_escaped(_file(finding.file), ':,')},line={max(finding.line or 1, 1)}::{_escaped(_text(finding))}"
            for finding in findings]  # fmt: skip


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)
