# SPDX-License-Identifier: GPL-3.0-or-later
"""The one gate that every answer of a node passes before anything else sees it. Pure; knows nothing of Ansible.

A node's root can answer what he likes. What passes is what the module's documentation names, in the form that forms.py gives it; all
else is dropped: facts, hosts and groups for the inventory, statistics, what the module was told. A wrong form is a failure of that node.
"""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import OPEN, SHOWN, hidden
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in

from .form import DATA, Choice, Misfit, fitted, plain, shortened
from .forms import FORMS

NAMESPACE = "railwright.rdma."
MESSAGE_LIMIT = 16 * 1024  # characters
OUTPUT_LIMIT = 64 * 1024  # of what a module or a command printed: the end of it
LINES_LIMIT = 100  # warnings
SHELL_FOUND_NOTHING = 127  # sh's status for a program that is not there
NO_PYTHON = ("the node has no Python that can be used: `railwright apply` installs one, or ansible_python_interpreter names one "
             "(docs/guide.md)")
# What any module may say beside its own keys.
TEXTS = ("msg", "skip_reason")
STREAMS = ("stdout", "stderr", "module_stdout", "module_stderr")
FLAGS = ("changed", "failed", "skipped", "rolled_back", "explains")
# What Ansible takes from any answer: variables, hosts and groups of the inventory, statistics, that a node is away.
DANGEROUS = {"ansible_facts", "add_host", "add_group", "ansible_stats", "include", "include_args", "unreachable"}

# Modules of Ansible's own that our plays run, and what is taken from their answers.
BUILTIN: dict[str, dict[str, Any]] = {
    "ansible.builtin.apt": {},
    "ansible.builtin.command": {},
    "ansible.builtin.copy": {"diff?": DATA},
    # Its action asks the node which dnf there is, and keeps that as a fact for the next task.
    "ansible.builtin.dnf": {"failures?": [str], "ansible_facts?": {"pkg_mgr?": Choice("dnf", "dnf4", "dnf5", "yum")}},
    "ansible.builtin.file": {"diff?": DATA},
    "ansible.builtin.get_url": {},
    "ansible.builtin.raw": {},
    "ansible.builtin.reboot": {"rebooted?": bool},
    "ansible.builtin.slurp": {"content": str},
    "ansible.builtin.stat": {"stat": {"exists": bool}},
    "ansible.builtin.systemd_service": {},
    "ansible.builtin.unarchive": {},
    "ansible.builtin.wait_for_connection": {},
}


def form_of(module: str, mode: str | None) -> dict[str, Any]:
    """The keys of an answer of this module in this mode. KeyError for a module that nobody gave a form."""
    if module in BUILTIN:
        return BUILTIN[module]
    forms = FORMS[module.removeprefix(NAMESPACE)]
    return dict(forms.get(mode or "", forms.get("", {})))


def passed(module: str, mode: str | None, answer: Any, *, may_skip: bool = False) -> dict[str, Any]:
    """What of ``answer`` goes on; of one that does not fit a failure, in one line.

    ``may_skip``: whether the module may say that it was skipped, as in check mode.
    """
    if not isinstance(answer, dict) or not all(isinstance(key, str) for key in answer):
        return refusal(module, str(Misfit("an object", "something else")))
    try:
        form = form_of(module, mode)
        strange = sorted(name for name in DANGEROUS & answer.keys() if f"{name}?" not in form)
        if strange:
            return refusal(module, f"it holds {strange[0]}, which would change the play of all nodes; allowed: what the module documents")
        found = common(answer)
        if found.get("skipped") and not may_skip and module not in BUILTIN:  # apt and command skip what is done already
            return refusal(module, "skipped is true; allowed: false, as this is no check mode")
        if found.get("failed") or found.get("skipped"):  # it may hold the keys, and need not
            form = {key if key.endswith("?") else f"{key}?": part for key, part in form.items()}
        found = {**found, **fitted(form, answer)}
        shown = (*SHOWN, *STREAMS, "warnings")
        return {name: hidden(value, OPEN) if name in shown else value for name, value in found.items()}
    except Misfit as misfit:
        return refusal(module, str(misfit))


def refusal(module: str, why: str) -> dict[str, Any]:
    name = module.removeprefix(NAMESPACE)
    line = f"the node's answer is none of {name}: {why}. The node is broken, or somebody lies there"
    return {"failed": True, "changed": False, "msg": line}


def unanswered(module: str, rc: Any, output: Any, errors: Any, *, no_python: bool = False) -> dict[str, Any]:
    """The failure of a module that printed no answer: what its node said instead, in one line. Whoever carried the module there."""
    found = [line.strip() for stream in (errors, output) for line in lines_in(cut(stream, OUTPUT_LIMIT, ending=True))[-1:]]
    lines = [line for line in found if line and not line.startswith("#railwright ")]
    said = f": {shortened(lines[0], 300)}" if lines else ""
    if no_python or (rc == SHELL_FOUND_NOTHING and "python" in said):
        return {"failed": True, "changed": False, "msg": NO_PYTHON}
    if rc == SHELL_FOUND_NOTHING:
        return {"failed": True, "changed": False, "msg": f"a program is missing on the node{said}"}
    return refusal(module, f"it is none at all{said}")


def common(given: dict[str, Any]) -> dict[str, Any]:
    """What any module may say. Texts are cut and not refused: of a crash they say more than a refusal would."""
    found: dict[str, Any] = {flag: fitted({flag: bool}, given)[flag] for flag in FLAGS if flag in given}
    for name, limit in [*((name, MESSAGE_LIMIT) for name in TEXTS), *((name, OUTPUT_LIMIT) for name in STREAMS)]:
        if given.get(name) is not None:
            found[name] = cut(given[name], limit, ending=name in STREAMS)
    if isinstance(given.get("rc"), int) and not isinstance(given["rc"], bool):
        found["rc"] = fitted({"rc": int}, given)["rc"]
    warnings = given.get("warnings")
    if isinstance(warnings, list) and warnings:
        found["warnings"] = [cut(item, MESSAGE_LIMIT) for item in warnings[:LINES_LIMIT]]
    return found


def cut(value: Any, limit: int, *, ending: bool = False) -> str:
    """A text of at most ``limit`` characters."""
    parts = value if isinstance(value, list | tuple) else [value]  # ansible.builtin.dnf's message is a row of texts at times
    text = hidden(" ".join(item if isinstance(item, str) else "(no text)" for item in parts[:LINES_LIMIT]))  # before a half of it is left
    return plain(text[-limit:] if ending else text[:limit])
