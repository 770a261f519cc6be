# SPDX-License-Identifier: GPL-3.0-or-later
"""What each verb asks of a node, and which results its playbook would have had: the same tasks, the same gate, the same judgement."""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed, unanswered
from ansible_collections.railwright.rdma.plugins.plugin_utils.consent import judged_plan
from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import Told, judged_probe
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import with_facts_summary
from railwright.scan.dialogue import Heard

Result = dict[str, Any]


class Step(NamedTuple):
    """A task of the playbook, as the run's events name it."""

    task: str
    action: str
    result: Result


class Asked(NamedTuple):
    """One node's question and what came of it. ``interpreter``: the inventory's own."""

    node: str
    spec: Spec
    interpreter: str | None
    sent: float
    received: float
    heard: Heard


class Question(NamedTuple):
    """``task`` and ``probe_task`` are the playbook's names. ``given``: the module's parameters for a node, less the Spec."""

    module: str
    task: str
    given: Callable[[str, Spec], Result]
    steps: Callable[["Question", Asked], list[Step]]
    probe_task: str = ""


def module_step(question: Question, asked: Asked) -> list[Step]:
    """The one task of most playbooks."""
    mode = question.given(asked.node, asked.spec).get("mode")
    return [Step(question.task, question.module, answer_of(NAMESPACE + question.module, mode, asked.heard))]


def answer_of(name: str, mode: str | None, heard: Heard) -> Result:
    """What the gate lets through of a module's answer."""
    printed, errors = (stream.decode("utf-8", "replace") for stream in (heard.answer or heard.output, heard.errors))
    if heard.answer is not None:
        with contextlib.suppress(UnreadableText):
            return passed(name, mode, read_json(printed, wire.BYTES))
    return unanswered(name, heard.status, printed, errors, no_python=heard.no_python)


def facts_step(question: Question, asked: Asked) -> list[Step]:
    step = module_step(question, asked)[0]
    return [step._replace(result=with_facts_summary(NAMESPACE + question.module, asked.node, step.result))]


def plan_steps(question: Question, asked: Asked) -> list[Step]:
    """The probe is judged first; a node that fails there was not planned, whatever it answered."""
    heard = asked.heard
    told = Told(heard.before.decode("utf-8", "replace"), heard.status, heard.errors.decode("utf-8", "replace"), asked.sent, asked.received)
    first = judged_probe(asked.spec, asked.node, told, asked.interpreter)
    steps = [Step(question.probe_task, "rdma_preflight", first)]
    if first.get("failed") or first["python_missing"]:
        return steps
    steps += module_step(question, asked)
    plan = steps[-1].result
    if not plan.get("failed"):
        judged = judged_plan(plan, asked.spec.consent, None, consent_needed=False)
        steps.append(Step("Report what cannot be planned", "rdma_consent", judged))
    return steps


def check_given(mode: str) -> Callable[[str, Spec], Result]:
    return lambda node, _spec: {"mode": mode, "node": node, "now": time.time()}


def state_given(mode: str) -> Callable[[str, Spec], Result]:
    return lambda _node, spec: {"mode": mode, "image": spec["containers_image"], "now": time.time()}


def plan_question(areas: list[str]) -> Question:
    """``areas``: those that are planned; [] for all."""
    plan = QUESTIONS["plan"]
    return plan._replace(given=lambda node, spec: {**plan.given(node, spec), **({"areas": areas} if areas else {})})


def container_question(image: str | None, first_addresses: list[str]) -> Question:
    """``first_addresses``: of the job's first node, as the inventory says them."""

    def steps(question: Question, asked: Asked) -> list[Step]:
        found = module_step(question, asked)
        if first_addresses and isinstance(found[0].result.get("container"), dict):
            found[0].result["container"]["first_addresses"] = first_addresses
        return found

    def given(node: str, spec: Spec) -> Result:
        return {**state_given("container")(node, spec), **({"image": image} if image else {})}

    return Question("rdma_state", "Inspect what a container needs", given, steps)


QUESTIONS: Mapping[str, Question] = {
    "drift": Question("rdma_check", "Look for drift", check_given("drift"), module_step),
    "validate": Question("rdma_check", "Judge every node by itself", check_given("verdicts"), module_step),
    "facts": Question("rdma_facts", "Observe the node", lambda _node, _spec: {}, facts_step),
    "plan": Question("rdma_state", "Plan every area", state_given("plan"), plan_steps, "Inspect the node before Python"),
    "explain": Question("rdma_state", "Inspect what decides", state_given("explain"), module_step),
}  # fmt: skip
