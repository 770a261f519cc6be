# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges an inventory with no node touched: every finding with file, line, key, value and what is allowed, for all hosts that share it."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import SpecBuilder, validate_site
from railwright.inventory import GROUP, Inventory, load_inventory, uncollected
from railwright.inventory_index import unread

SHOWN_VALUE = 60  # characters of a value in a line; JSON output has all of it
SHOWN_HOSTS = 3


@dataclass(frozen=True)
class LintFinding:
    """What is wrong, where, on which hosts. ``everywhere``: on all managed hosts."""

    file: str
    line: int | None  # None: nothing is written anywhere (a missing key), or the file has no lines we know
    hosts: tuple[str, ...]
    key: str
    value: Any
    message: str
    allowed: str
    severity: str  # error or warning
    everywhere: bool = True

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        warning = "warning: " if self.severity == "warning" else ""
        value = "" if self.value is None else f"{shorten(self.value)}: "
        more = len(self.hosts) - SHOWN_HOSTS
        shown = ", ".join(self.hosts[:SHOWN_HOSTS]) + (f" and {more} more" if more > 0 else "")
        hosts = "" if self.everywhere or not self.hosts else f" ({shown})"
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{where}: {warning}{self.key}: {value}{self.message}{hosts}{allowed}"

    def as_dict(self) -> dict[str, Any]:
        value = self.value if self.value is None or isinstance(self.value, (str, int, float, bool, list, dict)) else str(self.value)
        return {
            "file": self.file, "line": self.line, "hosts": list(self.hosts), "key": self.key, "value": value, "message": self.message,
            "allowed": self.allowed, "severity": self.severity,
        }  # fmt: skip


def shorten(value: Any) -> str:
    """A value on one line: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 3] + "..."


CONTROLLER = "localhost"


def unknown_hosts(inventory: Inventory, specs: Mapping[str, Spec]) -> list[Finding]:
    """A canary that is none would let the whole cluster go without one."""
    found = []
    managed = tuple(inventory.groups.get(GROUP, ()))
    everybody = tuple(inventory.groups.get("all", ()))
    known, present = frozenset(managed), frozenset(everybody)
    for host, spec in specs.items():
        for index, name in enumerate(spec["upgrade_canary"]):
            if name not in known:
                said = f"is no host of group {GROUP}{did_you_mean(name, managed)}"
                found.append(Finding(host, f"upgrade_canary[{index}]", name, said, f"hosts of group {GROUP}", "error"))
        asked = spec["upgrade_scheduler_host"]
        if spec["upgrade_scheduler"] != "none" and asked != CONTROLLER and asked not in present:
            said = f"is no host of the inventory{did_you_mean(asked, everybody)}"
            found.append(Finding(host, "upgrade_scheduler_host", asked, said, "a host of the inventory, or localhost", "error"))
    return found


def lint(path: Path, limit: str | None = None) -> list[LintFinding]:
    """Every finding, in the order of files and lines. Raises InputError when the inventory cannot be read at all."""
    return judge(load_inventory(path, limit))


def judge(inventory: Inventory) -> list[LintFinding]:
    """The findings of an inventory that is read already."""
    return judge_with_specs(inventory)[0]


def judge_with_specs(inventory: Inventory) -> tuple[list[LintFinding], dict[str, Spec]]:
    """The same, and the Spec of each host that has no error of its own."""
    with uncollected():
        specs, findings = build_specs(inventory)
        findings += validate_site(specs) + unknown_hosts(inventory, specs)
        return fold(inventory, findings) + _structure(inventory), specs


def build_specs(inventory: Inventory) -> tuple[dict[str, Spec], list[Finding]]:
    """The Spec of each host that has no error, and all findings."""
    specs: dict[str, Spec] = {}
    findings: list[Finding] = []
    builder = SpecBuilder()
    for host, values in inventory.hosts.items():
        spec, found = builder.build(values.base, values.own, host)
        findings += found
        if spec is not None:
            specs[host] = spec
    return specs, findings


def fold(inventory: Inventory, findings: Iterable[Finding]) -> list[LintFinding]:
    """One line for the same finding at the same place, however many hosts share it."""
    folded: dict[tuple[str, int | None, str, str, str, str], tuple[Finding, dict[str, None]]] = {}
    for finding in findings:
        file, line = _place(inventory, finding)
        value = json.dumps(finding.value, default=str, sort_keys=True)
        identity = (file, line, finding.key, value, finding.message, finding.severity)
        hosts = folded.setdefault(identity, (finding, {}))[1]
        if finding.host is not None:
            hosts[finding.host] = None
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
    managed = frozenset(inventory.groups.get(GROUP, ()))
    outside = [host for host in inventory.groups.get("opensm", ()) if host not in managed]
    if outside:
        message = f"{', '.join(outside)}: in group opensm but not in group {GROUP}, so no subnet manager is set up there"
        found.append(LintFinding(str(inventory.path), None, tuple(outside), "opensm", None, message, f"hosts of group {GROUP}", "warning"))
    return found


__all__ = ("LintFinding", "judge", "lint")
