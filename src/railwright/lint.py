# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges an inventory with no node touched: every finding with file, line, key, value and what is allowed, for all hosts that share it."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_address
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import TEMPLATE, WAYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import SpecBuilder, validate_site
from railwright.inventories import Given
from railwright.inventory import GROUP, Inventory, Untemplated, load_inventory, uncollected
from railwright.inventory_index import Definition, Origin, is_host_name, unread
from railwright.inventory_yaml import same_value
from railwright.lint_reach import configuration, reach_findings, wrong_names

SHOWN_VALUE = 60  # characters of a value in a line; JSON output has all of it
SHOWN_HOSTS = 3


class LintFinding(NamedTuple):
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
        hosts = "" if self.everywhere or not self.hosts else f" ({first_of(self.hosts, SHOWN_HOSTS)})"
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
NO_NAME = "is no name of a host", "letters, digits, and . _ - behind the first, or an IP address", "error"


def unknown_hosts(inventory: Inventory, specs: Mapping[str, Spec]) -> list[Finding]:
    """Hosts and groups that a key names: a canary that is none would let the whole cluster go without one."""
    found = []
    managed = tuple(inventory.groups.get(GROUP, ()))
    everybody = tuple(inventory.groups.get("all", ()))
    known, present = frozenset(managed), frozenset(everybody)
    regions: dict[str, tuple[str, Spec]] = {}
    for host, spec in specs.items():
        for index, name in enumerate(spec["upgrade_canary"]):
            if name not in known:
                said = f"is no host of group {GROUP}{did_you_mean(name, managed)}"
                found.append(Finding(host, f"upgrade_canary[{index}]", name, said, f"hosts of group {GROUP}", "error"))
        for index, name in enumerate(spec["leaves"]):
            if known.isdisjoint(inventory.groups.get(name, ())):
                said = f"is no group{did_you_mean(name, tuple(inventory.groups))}"
                said = "has no host of group rdma" if name in inventory.groups else said
                found.append(Finding(host, f"rdma_leaves[{index}]", name, said, "groups of the inventory, each with nodes", "error"))
        found += region_findings(host, spec, known, everybody, regions)
        found += reached_by_worker(host, spec, inventory.hosts[host], specs, known)
        asked = spec["nccl_tests_slurm_host"]
        if asked is not None and asked not in known:
            said = f"is no host of group {GROUP}, so no run has it{did_you_mean(asked, managed)}"
            found.append(Finding(host, "nccl_tests_slurm_host", asked, said, f"a host of group {GROUP}, or unset", "error"))
        asked = spec["upgrade_scheduler_host"]
        if spec["upgrade_scheduler"] != "none" and asked != CONTROLLER and asked not in present:
            said = f"is no host of the inventory{did_you_mean(asked, everybody)}"
            found.append(Finding(host, "upgrade_scheduler_host", asked, said, "a host of the inventory, or localhost", "error"))
    return found


OF_REGION = ("region_worker", "region_asks_scheduler", "region_python", "region_patience")


def region_findings(
    host: str, spec: Spec, managed: Collection[str], everybody: Sequence[str], regions: dict[str, tuple[str, Spec]]
) -> list[Finding]:  # fmt: skip
    """Of one host: a region has one worker, which is no node. ``regions``: the first host of each that was seen."""
    if spec["region"] is None:
        return []
    first, other = regions.setdefault(spec["region"], (host, spec))
    found = [Finding(host, f"rdma_{key}", spec[key], f"is {other[key]} on {first}, of the same region", "one value for a region", "error")
             for key in OF_REGION if spec[key] != other[key]]  # fmt: skip
    worker = spec["region_worker"]
    said = "" if worker in everybody else f"is no host of the inventory{did_you_mean(str(worker), tuple(everybody))}"
    said = f"is a node of group {GROUP}, and restarts as one" if worker in managed else said
    said = "is missing, and rdma_region is set" if worker is None else said
    if said:
        found.append(Finding(host, "rdma_region_worker", worker, said, f"a host of the inventory outside of group {GROUP}", "error"))
    return found


def reached_by_worker(
    host: str, spec: Spec, values: Mapping[str, Any], specs: Mapping[str, Spec], managed: Collection[str]
) -> list[Finding]:  # fmt: skip
    """What means another machine on a worker than on the controller."""
    found: list[Finding] = []
    if spec["region"] is None:
        return found
    if values.get("ansible_connection") not in (None, *BY_SSH):
        said = "is the worker itself, or a way that starts there"
        found.append(Finding(host, "ansible_connection", values["ansible_connection"], said, "ssh for a node of a region", "error"))
    asked = spec["upgrade_scheduler_host"]
    elsewhere = asked in managed and (asked not in specs or specs[asked]["region"] != spec["region"])
    if spec["upgrade_scheduler"] != "none" and (elsewhere or (asked == CONTROLLER and spec["region_asks_scheduler"])):
        said = "is no node of this region" if elsewhere else "is the worker for a node of a region, not the controller"
        found.append(Finding(host, "upgrade_scheduler_host", asked, said, "a host that the region's worker reaches by ssh", "error"))
    return found


NO_ADDRESS = (  # of what an address looks like that is none
    (re.compile(r"[^:]*:[0-9]+|\[[^\]]*\]:[0-9]+"), "has a port in it", "the address; the port is ansible_port"),
    (re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,3}"), "is no IPv4 address", "four numbers from 0 to 255, or a name"),
)
NAMED = re.compile(r"\{\{ *inventory_hostname(_short)? *\}\}")
OTHER_WAYS = frozenset(WAYS) - {"ansible_host"}
BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")


def ways(inventory: Inventory) -> tuple[dict[str, str], list[Finding]]:
    """The address that each host is reached at over ssh, and hosts that are one machine by it: each change would be made twice."""
    found: dict[tuple[str, str, Any], str] = {}
    reach: dict[str, str] = {}
    twice: list[Finding] = []
    shared: dict[int, tuple[str | None, str]] = {}  # of the groups of a host: the same of those that say no more than their address
    for host, values in inventory.hosts.items():
        own, same = values.own, id(values.base)
        if same not in shared:
            shared[same] = _way([values.base.get(name) for name in WAYS])
        address, rest = shared[same]
        if OTHER_WAYS.isdisjoint(own) and "{" not in rest:
            address = own.get("ansible_host") or address
        else:
            address, rest = _way([values.get(name) for name in WAYS])
        address = _named(host, str(address or host))
        if "{" in address or "{" in rest:
            address, rest = _way(_filled(inventory, host, [values.get(name) for name in WAYS]))
            address = str(address or host)
        if "{" in address or not rest:
            continue
        reach[host] = address
        if (wrong := no_address(address)) is not None:
            twice.append(Finding(host, "ansible_host", address, *wrong, "error"))
        first = found.setdefault((address.lower(), rest, values.get("rdma_region")), host)  # behind another worker it is another machine
        if first != host:
            key = next((name for name in ("ansible_host", "ansible_ssh_host", "ansible_port") if values.get(name)), "ansible_host")
            said = f"is the address and port of {first} too: both would be one machine"
            twice.append(Finding(host, key, address, said, "an address or port of its own for each host", "error"))
    return reach, twice


def no_address(text: str) -> tuple[str, str] | None:
    """What is wrong with it, and what is allowed; None of an address or a name."""
    return None if is_address(text) else next((row[1:] for row in NO_ADDRESS if row[0].fullmatch(text)), None)


def _way(said: list[Any]) -> tuple[Any, str]:
    """Of these variables the address, and all else that leads to a host as one text; empty where no ssh does."""
    address, port, connection, old_address, old_port, *more = said
    return address or old_address, f"{port or old_port or 22} {more}" if connection in (None, *BY_SSH) else ""


def _named(host: str, text: str) -> str:
    """With templates that name nothing but the host filled in, which is quickly done."""
    return NAMED.sub(lambda found: host.partition(".")[0] if found[1] else host, text) if "{" in text else text


def _filled(inventory: Inventory, host: str, way: list[Any]) -> list[Any]:
    """All others are Ansible's to fill in. One that cannot be stays."""
    filled = [_named(host, part) if isinstance(part, str) else part for part in way]
    if any(isinstance(part, str) and TEMPLATE.search(part) for part in filled):
        told = inventory.connection.get(host, {})
        filled = ["{" if isinstance(part := told.get(name), Untemplated) else part for name in WAYS]
    return filled


def lint(path: Given, limit: str | None = None) -> list[LintFinding]:
    """Every finding, in the order of files and lines. Raises InputError when the inventory cannot be read at all."""
    return judge(load_inventory(path, limit))


def judge(inventory: Inventory) -> list[LintFinding]:
    """The findings of an inventory that is read already."""
    return judge_with_specs(inventory)[0]


def judge_with_specs(inventory: Inventory) -> tuple[list[LintFinding], dict[str, Spec]]:
    """The same, and the Spec of each host that has no error of its own."""
    with uncollected():
        specs, findings = build_specs(inventory)
        reach, twice = ways(inventory)
        findings += validate_site(specs, reach) + unknown_hosts(inventory, specs) + twice
        asked = {str(spec[key]) for spec in specs.values() for key in ("upgrade_scheduler_host", "region_worker")}
        findings += reach_findings(inventory, reach, asked & set(inventory.groups.get("all", ())))
        return fold(inventory, findings) + _structure(inventory) + shadows(inventory), specs


def build_specs(inventory: Inventory, only: Iterable[str] | None = None) -> tuple[dict[str, Spec], list[Finding]]:
    """The Spec of each host (``only``: of these) that has no error, and all findings."""
    specs: dict[str, Spec] = {}
    findings: list[Finding] = []
    builder = SpecBuilder()
    for host in inventory.hosts if only is None else only:
        values = inventory.hosts[host]
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
        shown = inventory.opened.shown(finding)
        value = json.dumps(shown.value, default=str, sort_keys=True)
        identity = (file, line, shown.key, value, shown.message, shown.severity)
        hosts = folded.setdefault(identity, (shown, {}))[1]
        if finding.host is not None:
            hosts[finding.host] = None
    result = [
        LintFinding(file, line, tuple(hosts), *finding[1:], everywhere=len(hosts) == len(inventory.hosts))  # all but the one host
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
        LintFinding(str(path), None, (), path.name, None, message, allowed, "warning")
        for path, message, allowed in unread(inventory.index, set(inventory.groups), known_hosts)
    ]
    names = [(host, *NO_NAME) for host in inventory.hosts if not is_host_name(host)]
    for host, message, allowed, severity in (*names, *wrong_names(inventory)):
        named = inventory.index.names.get(host)
        origin = inventory.index.place(named) if named is not None else None
        file, line = (str(origin.file), origin.line) if origin is not None else (str(inventory.path), None)
        found.append(LintFinding(file, line, (host,), "host", host, message, allowed, severity))
    found += [LintFinding(place, None, (), key, None, row.why, row.allowed, row.severity) for place, key, row in configuration()]
    managed = frozenset(inventory.groups.get(GROUP, ()))
    outside = [host for host in inventory.groups.get("opensm", ()) if host not in managed]
    if outside:
        message = f"{', '.join(outside)}: in group opensm but not in group {GROUP}, so no subnet manager is set up there"
        found.append(LintFinding(str(inventory.path), None, tuple(outside), "opensm", None, message, f"hosts of group {GROUP}", "warning"))
    return found + _not_managed(inventory, managed)


def _not_managed(inventory: Inventory, managed: frozenset[str]) -> list[LintFinding]:
    """Rails of a group or host of which nothing is in group rdma: left out by a slip, they would be left out in silence."""
    found: dict[str, Origin] = {}
    everybody = frozenset(inventory.groups.get("all", ()))
    for store in (inventory.index.inline, inventory.index.files):
        for (kind, name), said in store.items():
            hosts = inventory.groups.get(name, ()) if kind == "group" else (name,) if name in everybody else ()
            if "rdma_rails" in said and hosts and managed.isdisjoint(hosts):
                found.update(dict.fromkeys(hosts, inventory.index.place(said["rdma_rails"][-1])))
    if not found:
        return []
    at, message = next(iter(found.values())), f"of hosts outside of group {GROUP}: nothing is set up there"
    return [LintFinding(str(at.file), at.line, tuple(found), "rdma_rails", None, message, f"hosts in group {GROUP}", "warning", False)]


Lost = dict[tuple[str, Origin, Origin, str], dict[str, None]]  # key, the place that loses, that wins, and whose it is: the hosts


def shadows(inventory: Inventory) -> list[LintFinding]:
    """Values that are written and never in force, because another place says something else: warnings, by file and line of both.

    A group below another may say otherwise; the same group in a file of its own, a group beside it, or one above it in a file may not
    without being asked. ``ansible_group_priority`` is asking.
    """
    index = inventory.index
    hosts = grouped((groups, host) for host, groups in inventory.membership.items())
    lost: Lost = {}
    for key, loser, winner, host in _repeated(inventory):
        lost.setdefault((key, index.place(loser), index.place(winner), ""), {})[host] = None
    for groups, names in hosts.items():
        for key, loser, winner, where in _shadowed_groups(inventory, groups):
            free = [name for name in names if not any(key in store.get(("host", name), ()) for store in (index.inline, index.files))]
            if free:
                lost.setdefault((key, index.place(loser), index.place(winner), where), {}).update(dict.fromkeys(free))
    found = []
    for (key, at, by, where), shadowed in lost.items():
        if key in BY_NAME or key in WAYS:
            said, allowed = f"is shadowed by {by.file}:{by.line}{where}, which says something else", "one value in one place"
            everywhere = len(shadowed) == len(inventory.hosts)
            found.append(LintFinding(str(at.file), at.line, tuple(shadowed), key, None, said, allowed, "warning", everywhere))
    return sorted(found, key=lambda item: (item.file, item.line or 0))


def _repeated(inventory: Inventory) -> Iterator[tuple[str, Definition, Definition, str]]:
    """Of one group or host: key, what loses, what wins, a host that it is for."""
    index = inventory.index
    for store in (index.inline, index.files):
        for (kind, name), said in store.items():
            before = index.inline.get((kind, name), {}) if kind == "host" and store is index.files else {}
            rows = [(key, *pair) for key, places in said.items() if before or len(places) > 1
                    for pair in pairwise([*before.get(key, ())[-1:], *places])]
            members = () if not rows else inventory.groups.get(name, ()) if kind == "group" else (name,)
            differ = [row for row in rows if not same_value(row[1].node, row[2].node)]
            yield from ((*row, host) for row in differ for host in members if host in inventory.hosts)


def _shadowed_groups(inventory: Inventory, groups: tuple[str, ...]) -> Iterator[tuple[str, Definition, Definition, str]]:
    """Of what these groups say of one host, in rising precedence: key, what loses, what wins, whose that is."""
    stores = (inventory.index.inline, inventory.index.files)
    for key in {key: None for store in stores for group in groups for key in store.get(("group", group), ())}:
        rows: dict[tuple[bool, str], Definition] = {}
        for (_kind, group), said in inventory.index.places("", groups, key):
            in_file = said in stores[1].get(("group", group), {}).get(key, ())
            rows.pop((in_file, group), None)
            rows[in_file, group] = said
        (by_file, winner), wins = rows.popitem()
        priority, above = inventory.lineage[winner]
        for (in_file, group), said in rows.items():
            asked = in_file == by_file and inventory.lineage[group][0] != priority
            if group not in above and not asked and not same_value(said.node, wins.node):
                yield key, said, wins, f" of group {winner}" if group != winner else ""


__all__ = ("LintFinding", "judge", "lint")
