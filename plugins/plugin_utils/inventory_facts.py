# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts named like an inventory key of ours. Nodes send facts, and where Ansible injects them they outrank the inventory.

Our actions never read injected facts: each runs in a process of its own, which calls remove_facts first. The variables of the task
itself are older than that, so a fact that changes one of our keys there is refused by name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.vars import manager

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of

from .answers.form import shortened
from .spec.schema import ROLE_KEYS, SITE_PREFIX

OWN = (SITE_PREFIX, "__", *(f"{role}_" for role in ROLE_KEYS))  # every key of the inventory, extra variables, and what our tasks register
SHOWN = 4
MISSING = object()
Injection = Callable[[Mapping[str, Any]], Mapping[str, Any]]
INJECTED: Injection = manager.clean_facts  # an ansible-core without it fails here: a hidden injection would be worse


def remove_facts() -> None:
    """Stop the injection of facts into variables, for this process. ``ansible_facts`` stays.

    Each ansible-core injects what clean_facts returns. The setting INJECT_FACTS_AS_VARS is read in three ways: up to 2.19 from
    ansible.constants, in 2.20 from the configuration, and since 2.21 once, when Ansible is imported.
    """
    manager.clean_facts = only_local


def only_local(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one fact that Ansible makes a variable even without injection."""
    return {"ansible_local": facts.get("ansible_local", {})}


def without_facts(variables: Mapping[str, Any]) -> str | None:
    """Stop injection. Return why the task's variables cannot be trusted; None if no fact changes one of our keys."""
    names = suspects(variables)
    manager.clean_facts = INJECTED  # an earlier item of a loop has stopped it in this process
    mixed = raw_variables(variables) if names else {}
    remove_facts()
    inventory = raw_variables(variables) if names else {}
    changed = [name for name in names if mixed.get(name, MISSING) != inventory.get(name, MISSING)]
    if not changed:
        return None
    listed = first_of([shortened(name) for name in changed], SHOWN)
    return (f"{listed}: came as a fact of the node; allowed: only the inventory sets this. Nothing was done. Clear the fact cache "
            "(meta: clear_facts), and find out what on the node, or which playbook before this one, set it")


def suspects(variables: Mapping[str, Any]) -> list[str]:
    """Names of ours among the facts. Ansible takes ansible_ off there, so that ansible_rdma_mtu shows as rdma_mtu too."""
    facts = variables.get("ansible_facts")
    return sorted(str(name) for name in facts if str(name).startswith(OWN)) if isinstance(facts, Mapping) else []


def raw_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the task's host: untemplated, and without those of the play."""
    found: dict[str, Any] = variables["hostvars"].raw_get(variables["inventory_hostname"])
    return found
