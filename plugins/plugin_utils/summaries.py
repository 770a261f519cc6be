# SPDX-License-Identifier: GPL-3.0-or-later
"""What plain Ansible shows of a node: a few lines for people, and its diff data, for ``--diff``. Of an answer that has passed the gate.

Bounded, masked as reports mask them, and without control characters.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, masked, masked_text
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import stack_summary

from .answers.gate import refusal
from .text import printable, printable_lines, short

Object = Mapping[str, Any]

LINES = 500  # of one node
LINE = 1000  # characters; values are cut much earlier


def plan_summary(node: str, answer: Object) -> list[str]:
    """Of rdma_state's answer: a line a change, in the order of the plan, then what could not be planned, and why."""
    changes = [f"{item['key']}: {short(item['before'])} → {short(item['after'])} ({item['disruption']})" for item in answer["plan"]]
    classes = Counter(item["disruption"] for item in answer["plan"])
    inside = ", ".join(f"{name} {number}" for name, number in sorted(classes.items())) or "nothing differs"
    problems = [f"problem: {item['area']}: {item['subject']}: {item['message']}" for item in answer.get("problems") or []]
    left = [f"left out: {item['key']}: {item['reason']}" for item in answer.get("left") or []]
    notes = [f"note: {text}" for text in answer.get("notes") or []]
    heading = f"{_count(changes, 'change')} ({inside}), {_count(problems, 'problem')}"
    return _under(node, heading, [*changes, *problems, *left, *notes])


def drift_summary(node: str, answer: Object) -> list[str]:
    """Of rdma_check's answer with mode drift: a line a finding, then what could not be judged."""
    findings = [f"{item['severity']}: {item['key']}: {_difference(item)}" for item in answer["findings"]]
    unknown = [f"unknown: {text}" for text in answer["unknown"]]
    notes = [f"note: {text}" for text in answer.get("notes") or []]
    return _under(node, f"{_count(findings, 'finding')}, {len(unknown)} unknown", [*findings, *unknown, *notes])


def _difference(finding: Object) -> str:
    by = " (by " + finding["by"] + ")" if finding["by"] else ""
    if finding["expected"] is None and finding["found"] is None:
        return str(finding["why"]) + by
    return f"expected {short(finding['expected'])}, found {short(finding['found'])}{by}"


def facts_summary(node: str, facts: Object) -> list[str]:
    """Of rdma_facts' object: what drives the node, and a line a port."""
    drivers = [f"{label}: {text}" for label, text in stack_summary(facts).items()]
    ports = [f"{hca['name']} port {port['number']}: {_port(port)}" for hca in facts["hcas"] for port in hca["ports"]]
    return _under(node, f"{system(facts)}, {_count(ports, 'RDMA port')}", [*drivers, *ports])


def with_facts_summary(module: str, node: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result of rdma_facts with its summary; the failure where its facts have another form."""
    if "rdma" not in result:
        return result
    try:
        return {**result, "summary": facts_summary(node, result["rdma"])}
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # the gate lets parts of them through in any form
        return refusal(module, f"its facts have another form ({type(error).__name__})")


def system(facts: Object) -> str:
    """The operating system and its kernel, in one line."""
    names = facts.get("os") or {}
    return f"{names.get('name') or names.get('id') or 'unknown OS'}, kernel {facts.get('kernel') or 'unknown'}"


def _port(port: Object) -> str:
    rate = f"{port['rate_gbps']:g} Gb/s" if port.get("rate_gbps") is not None else None
    interface = f"{port['netdev']} (MTU {port.get('netdev_mtu')})" if port.get("netdev") else None
    found = (port.get("state"), port.get("phys_state"), rate, port.get("link_layer"), interface)
    return ", ".join(str(item) for item in found if item is not None) or "unknown"


def _under(node: str, heading: str, lines: list[str]) -> list[str]:
    rest = [f"… and {len(lines) - LINES} more"] if len(lines) > LINES else []
    return [printable(f"{node}: {heading}")[:LINE], *(f"  {printable(masked_text(line))[:LINE]}" for line in lines[:LINES] + rest)]


def _count(items: list[str], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


HEADER = 1000  # characters
LIMIT = 100_000  # characters of one value: about as much as ansible.builtin.copy shows of a file
OTHER = "another value\n"


def diffs(rows: Iterable[tuple[Any, Any, Any]]) -> list[dict[str, str]]:
    """Of (key, before, after). What is absent is empty; two secrets, which are hidden alike, still make a diff."""
    found = []
    for key, old, new in rows:
        header, before, after = printable(key)[:HEADER], _text(old), _text(new)
        if after == before and HIDDEN in after:
            after += OTHER
        found.append({"before_header": header, "after_header": header, "before": before, "after": after})
    return found


def clean_diff(diff: Any) -> list[dict[str, str]]:
    """The diff of a module that makes its own, in the same form."""
    parts = [item for item in (diff if isinstance(diff, list) else [diff]) if isinstance(item, dict) and {"before", "after"} & item.keys()]
    return diffs((item.get("before_header") or item.get("after_header") or "", item.get("before"), item.get("after")) for item in parts)


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    whole = masked_text(value) if isinstance(value, str) else json.dumps(masked(value), indent=1, sort_keys=True, ensure_ascii=False)
    if len(whole) > LIMIT:  # two long texts that begin alike must not look alike
        digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
        whole = f"{whole[:LIMIT]}\n… ({len(whole)} characters, sha256 {digest})"
    return printable_lines(whole).removesuffix("\n") + "\n"
