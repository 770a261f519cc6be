# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that bear the name of an inventory key of ours. Nodes send facts, and where Ansible injects them they outrank the inventory.

Our actions never see them: each runs in a process of its own, in which the variables of every host come without injected facts from
then on. The variables of the task itself were made before; so a fact that changes one of ours there is refused by name.
"""

from collections.abc import Mapping
from typing import Any

from ansible import constants

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of

from .answers.form import shortened
from .spec.schema import ROLE_KEYS, SITE_PREFIX

OWN = (SITE_PREFIX, "__", *(f"{role}_" for role in ROLE_KEYS))  # every key of the inventory, extra variables, and what our tasks register
SHOWN = 4
MISSING = object()


def without_facts(variables: Mapping[str, Any]) -> str | None:
    """Switch injection off for this process. Why the task's variables cannot be trusted; None where no fact changes one of ours."""
    injected, constants.INJECT_FACTS_AS_VARS = constants.INJECT_FACTS_AS_VARS, False
    names = suspects(variables) if injected else []
    if not names:
        return None
    inventory = raw_variables(variables)
    constants.INJECT_FACTS_AS_VARS = True
    mixed = raw_variables(variables)
    constants.INJECT_FACTS_AS_VARS = False
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
    """Of the task's host, neither templated nor with those of the play."""
    found: dict[str, Any] = variables["hostvars"].raw_get(variables["inventory_hostname"])
    return found
