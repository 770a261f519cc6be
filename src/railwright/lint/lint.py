# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory to its findings: build every host's Spec, judge the site, find the lines, fold equal ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec, validate_site
from railwright.inventory import GROUP, Inventory, load
from railwright.inventory_index import unread
from railwright.lint.finding import LintFinding
from railwright.lint.upgrade import unknown_hosts


def lint(path: Path, limit: str | None = None) -> list[LintFinding]:
    """Every finding, in the order of files and lines. Raises InputError when the inventory cannot be read at all."""
    return judge(load(path, limit))


def judge(inventory: Inventory) -> list[LintFinding]:
    """The findings of an inventory that is read already."""
    return judge_with_specs(inventory)[0]


def judge_with_specs(inventory: Inventory) -> tuple[list[LintFinding], dict[str, Spec]]:
    """The same, and the Spec of each host that has no error of its own."""
    specs, findings = build_specs(inventory)
    findings += validate_site(specs) + unknown_hosts(inventory, specs)
    return fold(inventory, findings) + _structure(inventory), specs


def build_specs(inventory: Inventory) -> tuple[dict[str, Spec], list[Finding]]:
    """The Spec of each host that has no error, and all findings."""
    specs: dict[str, Spec] = {}
    findings: list[Finding] = []
    for host, values in inventory.hosts.items():
        spec, found = build_spec(values, host)
        findings += found
        if spec is not None:
            specs[host] = spec
    return specs, findings


def fold(inventory: Inventory, findings: Iterable[Finding]) -> list[LintFinding]:
    """One line for the same finding at the same place, however many hosts share it."""
    folded: dict[tuple[str, int | None, str, str, str, str], tuple[Finding, list[str]]] = {}
    for finding in findings:
        file, line = _place(inventory, finding)
        value = json.dumps(finding.value, default=str, sort_keys=True)
        identity = (file, line, finding.key, value, finding.message, finding.severity)
        hosts = folded.setdefault(identity, (finding, []))[1]
        if finding.host is not None and finding.host not in hosts:
            hosts.append(finding.host)
    result = [
        LintFinding(
            file,
            line,
            tuple(hosts),
            finding.key,
            finding.value,
            finding.message,
            finding.allowed,
            finding.severity,
            everywhere=len(hosts) == len(inventory.hosts),
        )
        for (file, line, *_rest), (finding, hosts) in folded.items()
    ]
    return sorted(result, key=lambda item: (item.file, item.line or 0))


def _place(inventory: Inventory, finding: Finding) -> tuple[str, int | None]:
    """File and line of what the finding is about; the option of the command line that said it."""
    option = inventory.options.get(re.split(r"[.\[]", finding.key)[0])
    if option is not None:
        return option, None
    origin = inventory.origin(finding.host, finding.key) if finding.host is not None else None
    return (str(origin.file), origin.line) if origin is not None else (str(inventory.path), None)


def _structure(inventory: Inventory) -> list[LintFinding]:
    """What is written where nothing reads it. Warnings: inventories that lie side by side share their group_vars."""
    known_hosts = {host for hosts in inventory.groups.values() for host in hosts}
    found = [
        LintFinding(str(path), None, (), path.name, None, message, "the name of a group or host of the inventory", "warning")
        for path, message in unread(inventory.index, set(inventory.groups), known_hosts)
    ]
    outside = [host for host in inventory.groups.get("opensm", ()) if host not in inventory.groups.get(GROUP, ())]
    if outside:
        message = f"{', '.join(outside)}: in group opensm but not in group {GROUP}, so no subnet manager is set up there"
        found.append(LintFinding(str(inventory.path), None, tuple(outside), "opensm", None, message, f"hosts of group {GROUP}", "warning"))
    return found
