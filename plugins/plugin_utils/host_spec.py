# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's Ansible variables to its Spec, on the controller, for every action plugin.

One function, so that a drift run which loads no role sees the same values as a full
run: the defaults come from the schema, the host's variables lie above them.
"""

import json
from functools import cache
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of

from .cluster_addresses import cluster_addresses
from .controller_files import is_encrypted
from .node_code import code_digest
from .spec.nobody import agent_derived
from .spec.opened import Opened, Sources, unfilled
from .spec.schema import BY_NAME
from .spec.validate import build_spec

NODE_CODE = {"digest": code_digest()}  # here: Ansible imports us once and forks for every host


def host_spec(templar: Any, task_vars: dict[str, Any]) -> Spec:
    """The Spec of the current host. Raises AnsibleActionFail listing every error of its variables."""
    host = str(task_vars.get("inventory_hostname", ""))
    # Of a variable that is not ours the name alone counts: it may be a misspelt key of ours.
    sources, opened = Sources(task_vars, cache(is_encrypted)), Opened()
    values: dict[str, Any] = dict.fromkeys(map(str, task_vars))
    for name in filter(BY_NAME.__contains__, task_vars):
        secret = sources.named(name)
        values[name] = _value(templar, name, task_vars[name], secret=secret)
        if secret:
            groups = task_vars.get("groups", {})
            opened.add(name, sources.texts(name, values[name]), [*groups, *groups.get("all", [])])
    values["group_names"] = list(task_vars.get("group_names", []))
    spec, findings = build_spec(values, host)
    errors = [opened.shown(item) for item in errors_of(findings)]
    if spec is None or errors:
        lines = "; ".join(f"{item.key}: {item.value!r}: {item.message}; allowed: {item.allowed}" for item in errors)
        raise AnsibleActionFail(f"the inventory is not valid for {host}; nothing was changed: {lines}")
    return Spec({
        **spec.as_dict(), "firewall_derived": cluster_addresses(task_vars), "code_derived": NODE_CODE, "agent_derived": agent_derived(spec),
    })


def _value(templar: Any, name: str, raw: Any, *, secret: bool) -> Any:
    """The templated value as plain JSON types (Ansible's own string and dict types would leak into messages)."""
    try:
        return json.loads(json.dumps(templar.template(raw)))
    except AnsibleError as error:
        if secret:  # Ansible's words may hold a part of the value; of a missing variable they hold its name
            raise AnsibleActionFail(f"{name}: {unfilled(error)}") from None
        raise AnsibleActionFail(f"{name}: {error}") from error
    except TypeError as error:
        raise AnsibleActionFail(f"{name}: {error}; allowed: plain YAML values") from error
