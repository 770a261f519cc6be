# SPDX-License-Identifier: GPL-3.0-or-later
"""What check, validate and drift say of a tree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from ansible_collections.railwright.rdma.plugins.module_utils.checks.area_verdicts import SETTLED
from ansible_collections.railwright.rdma.plugins.module_utils.entry import check
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cluster import judge_cluster
from railwright.cli.check import of_tree, report

from .inventories import NOW

Verdicts = list[dict[str, Any]]


class Answers(NamedTuple):
    """``areas``: of each check that validate gave, the areas of its verdicts."""

    verdicts: Verdicts
    findings: dict[str, str]  # of drift: area by key
    unknown: list[str]
    areas: dict[str, set[str]]


def by_check(root: Path) -> dict[str, Any]:
    """The document that ``railwright check --sysroot`` makes of a tree."""
    return report(*of_tree(root))


def by_inventory(root: Path, spec: Spec) -> Answers:
    """Validate and drift, which read the node once."""
    host = TreeHost(str(root))
    judged = check.judged_node(host, "node", spec, None, NOW)
    with mock.patch.object(check, "judged_node", return_value=judged):
        verdicts = check.check_node(host, "node", spec)["verdicts"]
        drift = check.observe_drift(host, "node", spec)
    areas: dict[str, set[str]] = {}
    for area, item in judged.verdicts:
        areas.setdefault(item.check, set()).add(area)
    return Answers(verdicts, {finding["key"]: finding["area"] for finding in drift["findings"]}, drift["unknown"], areas)


def view(root: Path, spec: Spec) -> str:
    """What the controller gets of a node, as JSON."""
    return json.dumps(check.check_node(TreeHost(str(root)), "node", spec, None, NOW))


def of_three(base: str, odd: str) -> Verdicts:
    """Verdicts over three nodes: two of the base tree with GUIDs and addresses of their own, and an odd one."""
    nodes = {f"node{number}": json.loads(own_identity(base, number)) for number in (2, 4)}
    return [item._asdict() for item in judge_cluster({**nodes, "odd": json.loads(odd)}, ())]


def own_identity(text: str, number: int) -> str:
    own = number * 10 + 1  # the last part of each address, which is 11 in the trees
    for before, after in ((r"b8ce:f603:", f"b8ce:f60{number}:"), (r"\.11\b", f".{own}"), (r":(00)?11\b", rf":\g<1>{own}"),
                          (r"(:ffff:[0-9a-f]{4}:[0-9a-f]{2})0b\b", rf"\g<1>{own:02x}"), (r"(0216:3eff:fe11:2)2", rf"\g<1>{number + 4}")):
        text = re.sub(before, after, text)
    return text


def drift_has(code: str, answers: Answers, before: Answers) -> bool:
    """Whether drift names the check, or a change of the area that puts it right, which the base tree may need as well."""
    areas = answers.areas.get(code, {code.partition(".")[2]})
    settled = {area for area in areas if (area, code) in SETTLED or code.startswith("config.")}
    new = {key: area for key, area in answers.findings.items() if key not in before.findings}
    return any(key.startswith(f"{code}: ") for key in new) or any(area in settled for area in answers.findings.values())


def lines(verdicts: Verdicts, *statuses: str) -> list[str]:
    return [f"{item['status']} {item['check']} {item['subject']}: {item['message']}" for item in verdicts if item["status"] in statuses]


def said(verdicts: Verdicts, code: str, status: str, word: str) -> bool:
    return any((item["check"], item["status"]) == (code, status) and word in f"{item['subject']}: {item['message']}" for item in verdicts)
