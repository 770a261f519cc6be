# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate on whole answers: what real code says of the captured trees passes as it is, what changes a play does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.hostile.honest import ANSWERS

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node, observe_drift
from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access
from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain
from ansible_collections.railwright.rdma.plugins.module_utils.entry.state import plan_result
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import DANGEROUS, MESSAGE_LIMIT, OUTPUT_LIMIT, passed
from field_specs import build_spec
from node_trees import NODES

TREES = sorted(path.name for path in NODES.iterdir() if path.is_dir())
NAMESPACE = "railwright.rdma."


def own(module: str, mode: str | None, answer: dict[str, Any]) -> dict[str, Any]:
    return passed(NAMESPACE + module, mode, json.loads(json.dumps({"changed": False, **answer})))


@pytest.mark.parametrize("tree", TREES)
def test_what_our_code_says_of_a_node_passes_whole(tree: str) -> None:
    host = TreeHost(str(NODES / tree))
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "198.18.0.1/24"}]
    spec, _findings = build_spec({"fabric": "erdma" if "erdma" in tree else "roce", "mtu": 8500, "rails": rails}, "n1")
    assert spec is not None
    plan = make_plan(host, spec, None, None, None)
    whole = {**plan_result(plan, spec), "left": [], "erdma": None, "drivers": {}, "remaining": [], "restore_point": ""}
    for module, mode, answer in (
        ("rdma_facts", None, {"rdma": observe_facts(host)}),
        ("rdma_check", "verdicts", check_node(host, "n1", spec)),
        ("rdma_check", "drift", observe_drift(host, "n1", spec)),
        ("rdma_state", "plan", whole),
        ("rdma_state", "explain", {"explanation": explain(host, None)}),
        ("rdma_state", "container", {"container": inspect_container_access(host, spec)}),
    ):
        sent = json.loads(json.dumps({"changed": False, **answer}))
        assert own(module, mode, answer) == sent, module


@pytest.mark.parametrize("key", [key for key in ANSWERS if key.startswith("rdma_")])
def test_honest_answers_of_the_hostile_suite_pass_whole(key: str) -> None:
    module, _colon, mode = key.partition(":")
    answer = json.loads(json.dumps(ANSWERS[key]))
    assert passed(NAMESPACE + module, None if mode in ("", "*") else mode, answer) == answer


@pytest.mark.parametrize("name", sorted(DANGEROUS))
def test_what_ansible_would_take_for_the_play_is_refused_by_name(name: str) -> None:
    found = own("rdma_check", "drift", {**ANSWERS["rdma_check:drift"], name: {"x": 1}})
    assert found["failed"]
    assert f"it holds {name}, which would change the play of all nodes" in found["msg"]


def test_what_a_module_was_told_does_not_come_back() -> None:
    answer = {"invocation": {"module_args": {"spec": {"a": "secret"}}}, "exception": "secret", "stdout_lines": ["secret"]}
    assert "secret" not in json.dumps(own("rdma_check", "drift", {**ANSWERS["rdma_check:drift"], **answer}))


def test_a_failure_keeps_its_words_and_needs_no_keys() -> None:
    found = own("rdma_state", "plan", {"failed": True, "msg": "no", "rc": 1, "module_stderr": "Traceback", "problems": []})
    assert found == {"changed": False, "failed": True, "msg": "no", "rc": 1, "module_stderr": "Traceback", "problems": []}


def test_a_failure_with_a_form_that_is_none_is_a_failure_all_the_same() -> None:
    found = own("rdma_state", "plan", {"failed": True, "msg": "no", "problems": 5})
    assert found["failed"]
    assert "problems is the number 5; allowed: a list" in found["msg"]


def test_only_check_mode_skips() -> None:
    answer = {"changed": False, "skipped": True}
    assert passed(NAMESPACE + "rdma_bench", "nccl_tests.start", answer, may_skip=True) == answer
    assert passed(NAMESPACE + "rdma_bench", "nccl_tests.start", answer)["failed"]


def test_long_messages_lose_their_end_and_long_outputs_their_beginning() -> None:
    said = {"failed": True, "msg": "a" * 2 * MESSAGE_LIMIT + "z", "module_stdout": "b" * 2 * OUTPUT_LIMIT + "z"}
    found = own("rdma_check", "drift", said)
    assert (len(found["msg"]), found["msg"][-1]) == (MESSAGE_LIMIT, "a")
    assert (len(found["module_stdout"]), found["module_stdout"][-1]) == (OUTPUT_LIMIT, "z")


@pytest.mark.parametrize("answer", [None, [], "x", 5, {1: 2}])
def test_what_is_no_object_is_no_answer(answer: Any) -> None:
    assert passed(NAMESPACE + "rdma_facts", None, answer)["failed"]


def test_of_ansibles_own_modules_only_what_is_needed_is_taken() -> None:
    answer = {"changed": True, "dest": "/x", "gid": 0, "state": "file", "diff": {"before": "", "after": "x"}}
    assert passed("ansible.builtin.copy", None, answer) == {"changed": True, "diff": {"before": "", "after": "x"}}
    facts = {"changed": True, "ansible_facts": {"pkg_mgr": "dnf5", "aiacc_archive": "/x"}}
    assert passed("ansible.builtin.dnf", None, facts) == {"changed": True, "ansible_facts": {"pkg_mgr": "dnf5"}}
