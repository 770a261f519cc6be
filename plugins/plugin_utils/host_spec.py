# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's Ansible variables to its Spec, on the controller, for every action plugin.

One function, so that a drift run which loads no role sees the same values as a full
run: the defaults come from the schema, the host's variables lie above them.
"""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of

from .cluster_addresses import cluster_addresses
from .spec.schema import ROLE_KEYS, known_keys
from .spec.validate import build_spec


def host_spec(templar: Any, task_vars: dict[str, Any]) -> Spec:
    """The Spec of the current host. Raises AnsibleActionFail listing every error of its variables."""
    host = str(task_vars.get("inventory_hostname", ""))
    values = {name: _value(templar, name, task_vars[name]) for name in relevant_names(task_vars)}
    values["group_names"] = list(task_vars.get("group_names", []))
    spec, findings = build_spec(values, host)
    errors = errors_of(findings)
    if spec is None or errors:
        lines = "; ".join(f"{item.key}: {item.value!r}: {item.message}; allowed: {item.allowed}" for item in errors)
        raise AnsibleActionFail(f"the inventory is not valid for {host}; nothing was changed: {lines}")
    return Spec({**spec.as_dict(), "firewall_derived": cluster_addresses(task_vars)})


def relevant_names(task_vars: dict[str, Any]) -> list[str]:
    """Our keys, and every name that begins like a role of ours: a misspelt one must not pass in silence."""
    known = known_keys()
    prefixes = tuple(f"{role}_" for role in ROLE_KEYS)
    return sorted(name for name in task_vars if name in known or name.startswith(prefixes))


def _value(templar: Any, name: str, raw: Any) -> Any:
    """The templated value as plain JSON types (Ansible's own string and dict types would leak into messages)."""
    try:
        return json.loads(json.dumps(templar.template(raw)))
    except AnsibleError as error:
        raise AnsibleActionFail(f"{name}: {error}") from error
    except TypeError as error:
        raise AnsibleActionFail(f"{name}: {error}; allowed: plain YAML values") from error
