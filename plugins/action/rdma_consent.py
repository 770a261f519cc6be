# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side gate between a plan and everything that changes a node; and which part of a node's drift becomes a plan."""

from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import WORDS
from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTION_MEANING, MINOR, SEVERITIES, needs_consent
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import KNOWN_AREAS, Scope, choose_fixes, complaint, judge
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import names, result_of

SHOWN = 3  # nodes named before the rest is counted
Result = dict[str, Any]


class ActionModule(StepAction):
    """The node's answers come as data and stay data: they are compared and handed on, never templated."""

    _requires_connection = False
    argument_spec: ClassVar[Result] = {
        "mode": {"type": "str", "choices": ["refuse", "choose", "judge", "guard"], "default": "refuse"},
        "consent_needed": {"type": "bool", "default": True},
        "registered": {"type": "str"},
        **{name: {"type": "dict", "default": {}} for name in ("plan", "drift", "before", "earlier", "error")},
        "areas": {"type": "list", "elements": "str", "default": []},
        "severity": {"type": "str", "choices": list(SEVERITIES), "default": MINOR},
        "began": {"type": "str"},
    }

    def answer(self, result: Result, variables: Result, options: Result) -> Result:
        result["changed"] = False
        if options["mode"] == "guard":
            return result | guard(variables, options["began"])
        consent = self._templar.template(variables.get("rdma_consent", []))
        return result | (refuse if options["mode"] == "refuse" else remediate)(variables, options, consent)


def refuse(variables: Result, options: Result, consent: list[str]) -> Result:
    """Fail the host on problems and, if asked, on missing consent."""
    plan = options["plan"]
    if "plan" not in plan:
        raise AnsibleActionFail("rdma_consent got no plan: register the result of railwright.rdma.rdma_state and pass it")
    refused = [change for change in plan["plan"] if needs_consent(change["disruption"], consent)]
    problems = [f"{item['area']}: {item['subject']}: {item['message']}" for item in plan.get("problems", [])]
    mixed = mixed_modes(variables, options["registered"]) if options["registered"] is not None else None
    if problems or mixed is not None:
        return {"refused": refused, "failed": True, "msg": "; ".join(problems + ([mixed] if mixed is not None else []))}
    if refused and options["consent_needed"]:
        return {"refused": refused, "failed": True, "msg": refusal_text(refused)}
    return {"refused": refused}


def refusal_text(refused: list[dict[str, Any]]) -> str:
    """One line for every class: what it means, which changes need it, and how to give it."""
    classes = sorted({change["disruption"] for change in refused})
    needs = "; ".join(
        f"{name} ({DISRUPTION_MEANING[name]}): " + ", ".join(change["what"] for change in refused if change["disruption"] == name)
        for name in classes
    )
    wanted = ", ".join(classes)
    return f"refused without consent; nothing was changed. Needed: {needs}. To allow it, add {wanted} to rdma_consent in the inventory."


def remediate(variables: Result, options: Result, consent: list[str]) -> Result:
    """Modes choose and judge."""
    unknown = [name for name in options["areas"] if name not in KNOWN_AREAS]
    if unknown:
        raise AnsibleActionFail(f"areas: {unknown[0]}: no such area; allowed: {', '.join(KNOWN_AREAS)}")
    scope = Scope(tuple(options["areas"]), options["severity"], tuple(consent))
    earlier = options["earlier"].get("remediation") or {}
    if options["mode"] == "choose":
        return {"remediation": {**choose_fixes(options["drift"], scope, earlier, options["plan"]), "consent": consent}}
    error = failure_text(options["error"])
    document = judge(options["before"], options["drift"], scope, earlier, error)
    failure = {"failed": True, "msg": complaint(document, error, waiting(variables, options["began"]))}
    return {"remediation": {**document, "consent": consent}, **({} if document["clean"] else failure)}


def guard(variables: Result, began: str | None) -> Result:
    """Ansible goes on with the next batch when it has lost a node: to it that is no failure."""
    active = variables.get("ansible_play_hosts", [])
    lost = [name for name in variables.get("ansible_play_hosts_all", []) if name not in active]
    found: Result = {"lost": lost}
    if lost:
        found["warnings"] = [f"lost: {', '.join(lost)}. Not touched: {', '.join(waiting(variables, began)) or 'none'}"]
    return found


def waiting(variables: Result, began: str | None) -> list[str]:
    """The nodes of the play whose batch has not come yet: those that have not registered ``began``."""
    hosts = variables.get("hostvars", {})
    return [name for name in variables.get("ansible_play_hosts_all", []) if began is not None and began not in hosts[name]]


def failure_text(failed: Result) -> str:
    """What a failed task said; of a loop, what its items said."""
    if not failed:
        return ""
    rows = failed.get("results")
    items = [item for item in rows if isinstance(item, dict) and item.get("failed")] if isinstance(rows, list) else []
    said = [str(item.get("msg") or "").strip() for item in (items or [failed])]
    return "; ".join(dict.fromkeys(text for text in said if text)) or "a task failed and gave no reason"


def mixed_modes(task_vars: dict[str, Any], registered: str) -> str | None:
    """Why no node may be changed; None where all agree. ``registered``: under which name every node has its plan.

    Every plan says what its node will talk (``erdma``: mode and letter); what the inventory alone shows is lint's to say.
    """
    camps: dict[str, list[str]] = {}
    for node in names(task_vars, "ansible_play_hosts_all"):
        letter = planned_letter(result_of(task_vars, node, registered))
        if letter is not None:
            camps.setdefault(letter, []).append(node)
    if len(camps) < 2:
        return None
    parts = sorted(camps.items(), key=lambda item: (-len(item[1]), item[0]))
    return ("erdma: erdma_mode: nodes in different modes cannot talk RDMA to each other, and these would be: "
            f"{'; '.join(f'{WORDS[letter]} on {first_of(nodes, SHOWN)}' for letter, nodes in parts)}. Nothing was changed on any of them; "
            "set one erdma_mode for all (compat and ofed are one on the wire), and erdma_driver: leave on none that runs in another")


def planned_letter(plan: dict[str, Any] | None) -> str | None:
    """A node's own words, and nothing but a letter that we know."""
    found = (plan or {}).get("erdma")
    letter = found.get("letter") if isinstance(found, dict) else None
    return letter if isinstance(letter, str) and letter in WORDS else None
