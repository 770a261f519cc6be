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
from .spec.opened import UNFILLED, VAULTED, Opened, Sources, unfilled
from .spec.schema import BY_NAME
from .spec.validate import build_spec

NODE_CODE = {"digest": code_digest()}  # here: Ansible imports us once and forks for every host


def host_spec(templar: Any, task_vars: dict[str, Any]) -> Spec:
    """The Spec of the current host. Raises AnsibleActionFail listing every error of its variables."""
    host = str(task_vars.get("inventory_hostname", ""))
    # Of a variable that is not ours the name alone counts: it may be a misspelt key of ours.
    sources, opened = Sources(task_vars, cache(is_encrypted), _from_vaults(templar, host, task_vars)), Opened()
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
        return json.loads(json.dumps(templar.template(raw), default=_vaulted))
    except (AnsibleError, *UNFILLED) as error:
        if secret:  # the message may hold a part of the value
            raise AnsibleActionFail(f"{name}: {unfilled(error)}") from None
        allowed = "; allowed: plain YAML values" if isinstance(error, TypeError) else ""
        raise AnsibleActionFail(f"{name}: {error}{allowed}") from error


def _from_vaults(templar: Any, host: str, variables: dict[str, Any]) -> set[str]:
    """The variables that stand so in a file in a vault as a whole, as far as Ansible remembers the file; 2.19 marks their values, too."""
    files: dict[str, Any] = getattr(getattr(templar, "_loader", None), "_FILE_CACHE", {})
    near = [path for path in map(str, files) if "/host_vars/" not in path or f"/host_vars/{host}" in path]
    return {name for path in near if isinstance(files[path], dict) and is_encrypted(path)
            for name, value in files[path].items() if name in variables and variables[name] == value}


def _vaulted(value: Any) -> str:
    """ansible-core 2.16 keeps a vaulted scalar as an object until it is read as text."""
    if type(value).__name__ not in VAULTED:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return str(value)
