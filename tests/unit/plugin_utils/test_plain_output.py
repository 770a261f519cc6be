# SPDX-License-Identifier: GPL-3.0-or-later
"""What plain Ansible shows of an answer: the diff's data and the summary, bounded, masked and without control characters."""

import json
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import (
    LIMIT,
    LINES,
    clean_diff,
    diffs,
    drift_summary,
    facts_summary,
    plan_summary,
)
from node_trees import FACTS

KEY = "network: MTU of rail0 (eth1)"
CHANGE = {"key": KEY, "before": 1500, "after": 9000, "disruption": "link"}
FINDING = {"key": KEY, "expected": 9000, "found": 1500, "severity": "major", "why": "jumbo frames", "by": "root on the console"}


def test_a_diff_has_the_key_and_both_values() -> None:
    assert diffs([(KEY, 1500, 9000)]) == [{"before_header": KEY, "after_header": KEY, "before": "1500\n", "after": "9000\n"}]


@pytest.mark.parametrize(("value", "text"), [
    (None, ""), ("", ""), ("a\nb\n", "a\nb\n"), ("a", "a\n"), ([1, "x"], '[\n 1,\n "x"\n]\n'), (False, "false\n"),
    ("\x1b[2Jgone\r\x07", "\\u001b[2Jgone\\r\\u0007\n"), ("HF_TOKEN=hf_x\nok\n", "HF_TOKEN=(hidden)\nok\n"),
    ({"password": "x", "user": "y"}, '{\n "password": "(hidden)",\n "user": "y"\n}\n'),
])  # fmt: skip
def test_a_value_in_a_diff_is_plain_text_without_secrets(value: Any, text: str) -> None:
    assert diffs([(KEY, value, "other")])[0]["before"] == text


def test_two_hidden_values_still_make_a_diff() -> None:
    [diff] = diffs([(KEY, "(hidden)", "(hidden)")])
    assert (diff["before"], diff["after"]) == ("(hidden)\n", "(hidden)\nanother value\n")


def test_long_values_that_begin_alike_are_cut_and_differ() -> None:
    [diff] = diffs([("k\n+fake", "a" * LIMIT + "b", "a" * LIMIT + "c")])
    assert len(diff["before"]) < LIMIT + 200
    assert diff["before"] != diff["after"]
    assert diff["before_header"] == "k\\n+fake"


def test_a_modules_own_diff_is_cleaned_and_what_is_none_is_left_out() -> None:
    own = {"before_header": "/etc/x", "before": "\x1b]0;t\x07", "after": {"mode": "0644"}}
    assert clean_diff(own) == [{"before_header": "/etc/x", "after_header": "/etc/x", "before": "\\u001b]0;t\\u0007\n",
                                "after": '{\n "mode": "0644"\n}\n'}]
    assert clean_diff(["x", None, {"prepared": "\x1b[2J"}]) == []


def test_the_summary_of_a_plan_has_a_line_for_each_thing() -> None:
    answer = {"plan": [CHANGE], "problems": [{"area": "network", "subject": "rail1", "message": "no device"}], "notes": ["a container"],
              "left": [{"key": "sysctl: x", "reason": "needs consent to link"}]}
    assert plan_summary("n1", answer) == [
        "n1: 1 change (link 1), 1 problem", f"  {KEY}: 1500 → 9000 (link)", "  problem: network: rail1: no device",
        "  left out: sysctl: x: needs consent to link", "  note: a container",
    ]  # fmt: skip
    assert plan_summary("n1", {"plan": [], "problems": []}) == ["n1: 0 changes (nothing differs), 0 problems"]


def test_the_summary_of_a_drift_says_expected_found_by_whom_and_unknown() -> None:
    dead = {**FINDING, "key": "problem: disk", "expected": None, "found": None, "severity": "critical", "by": ""}
    assert drift_summary("n1", {"findings": [FINDING, dead], "unknown": ["port.rate: cannot be read"], "notes": []}) == [
        "n1: 2 findings, 1 unknown", f"  major: {KEY}: expected 9000, found 1500 (by root on the console)",
        "  critical: problem: disk: jumbo frames", "  unknown: port.rate: cannot be read",
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(FACTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_summary_of_facts_names_every_port_of_a_captured_node(path: Any) -> None:
    facts = json.loads(path.read_text())
    lines = facts_summary("n1", facts)
    assert lines[0].startswith("n1: ")
    for hca in facts["hcas"]:
        assert sum(line.startswith(f"  {hca['name']} port ") for line in lines) == len(hca["ports"])


def test_a_summary_is_bounded_and_each_entry_one_line() -> None:
    odd = {**CHANGE, "key": "x: \x1b[2J\nn2: 0 changes", "after": "y" * 5000}
    lines = plan_summary("n1", {"plan": [odd] * (LINES + 7), "problems": []})
    assert (len(lines), lines[-1]) == (LINES + 2, "  … and 7 more")
    assert all(line.isprintable() and len(line) < 1100 for line in lines)
