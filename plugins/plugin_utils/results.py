# SPDX-License-Identifier: GPL-3.0-or-later
"""Registered results of other hosts, as plain data, for the action plugins that look across hosts."""

import json
from typing import Any

from ansible.errors import AnsibleActionFail


def result_of(task_vars: dict[str, Any], host: str, name: str) -> dict[str, Any] | None:
    """What ``host`` registered under ``name``; None when it never ran, was skipped, failed or was not reached."""
    value = variable_of(task_vars, host, name)
    if not isinstance(value, dict) or value.get("failed") or value.get("unreachable") or value.get("skipped"):
        return None
    return value


def variable_of(task_vars: dict[str, Any], host: str, name: str) -> Any:
    """A variable of another host without Ansible's own string and container types; None when it is not set."""
    hostvars = task_vars.get("hostvars", {})
    if host not in hostvars or name not in hostvars[host]:
        return None
    return json.loads(json.dumps(hostvars[host][name], default=str))


def part_of(task_vars: dict[str, Any], host: str, name: str, part: str) -> dict[str, Any]:
    """``part`` of what ``host`` registered under ``name``, without which a step cannot begin."""
    found = (result_of(task_vars, host, name) or {}).get(part)
    if not isinstance(found, dict):
        raise AnsibleActionFail(f"{name} holds no result with {part}: run the steps of the role in their order")
    return found


BATCH = "__upgrade_together"


def judged_together(task_vars: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(all nodes, those of them that are still in the play): of the play, or of the batch of it that the role upgrade names.

    A play with ``serial`` has no other way to say that a batch is meant, and not the play in pieces.
    """
    batch = names(task_vars, BATCH)
    everybody, alive = (names(task_vars, key) for key in ("ansible_play_hosts_all", "ansible_play_hosts"))
    return (batch, [name for name in alive if name in batch]) if batch else (everybody, alive)


def names(task_vars: dict[str, Any], key: str) -> list[str]:
    """A list of host names among the magic variables (``ansible_play_hosts_all``)."""
    return [str(item) for item in task_vars.get(key, [])]
