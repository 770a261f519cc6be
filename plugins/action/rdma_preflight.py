# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the preflight: one shell round trip, judged here, with no need for Python on the node."""

import time
from typing import Any

from ansible.release import __version__ as core_version

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import AREA, preflight_problems, preflight_warnings
from ansible_collections.railwright.rdma.plugins.module_utils.types import PRESENT, Change, Problem, as_dicts, change_as_dict
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_probe import (
    ProbeError,
    Python,
    bootstrap_argv,
    choose_python,
    command_line,
    evidence_of,
    fit,
    identity_of,
    parse_probe,
    probe_command,
    too_new,
)

NO_PYTHON = "the node has no Python: what else differs can be planned once apply has brought it"


class ActionModule(NodeAction):
    """Fails the host with everything that is wrong with it; a missing Python is no failure but a fact."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        variables = task_vars or {}
        spec = host_spec(self._templar, variables)  # a wrong inventory fails here, before the node is contacted
        explicit = explicit_interpreter(self._templar.template(variables.get("ansible_python_interpreter")))
        sent = time.time()
        answer = self._low_level_execute_command(probe_command(explicit))
        received = time.time()
        try:
            probe = parse_probe(answer["stdout"])
        except ProbeError as error:
            result.update(failed=True, msg=f"{error}; exit {answer['rc']}: {answer['stderr'].strip()[-500:]}")
            return result
        python = choose_python(probe.pythons, core_version, explicit)
        identity = identity_of(probe, str(variables.get("inventory_hostname", "")), python)
        evidence = evidence_of(probe, sent, received)
        commands = [] if python else bootstrap_argv(identity.platform.package_manager, spec["preflight_python_package"])
        problems = preflight_problems(spec, identity, evidence) + python_problems(python, explicit, commands)
        warnings = [f"{item.subject}: {item.message}" for item in preflight_warnings(spec, identity, evidence)]
        if python and (note := too_new(python, core_version)):
            warnings.append(note)
        result.update(
            changed=False,
            python_missing=python is None,
            python=str(python) if python else None,
            bootstrap_argv=commands,
            bootstrap_command=command_line(commands),
            platform=dict(identity.platform._asdict()),
            kernel=identity.kernel,
            problems=as_dicts(problems),
            warnings=warnings,
        )
        if python is None and not problems:
            result.update(plan=[change_as_dict(bootstrap_change(spec["preflight_python_package"]))], notes=[NO_PYTHON])
        if problems:
            result.update(failed=True, msg="; ".join(f"{item.subject}: {item.message}" for item in problems))
        return result


def bootstrap_change(package: str) -> Change:
    """Python is the one change that is planned without Python."""
    return package_change("packages", package, None, PRESENT, "every module needs Python", "ansible-core")


def explicit_interpreter(value: Any) -> str | None:
    """The inventory's interpreter; None where ansible-core discovers one (auto, auto_silent, auto_legacy …)."""
    text = "" if value is None else str(value).strip()
    return None if not text or text.startswith("auto") else text


def python_problems(python: Python | None, explicit: str | None, commands: list[list[str]]) -> list[Problem]:
    if python is not None:
        reason = fit(python, core_version)
        return [Problem(AREA, "Python", reason)] if reason else []
    # A package brings python3 into PATH; an interpreter of the operator's own making it does not.
    if explicit and explicit.rpartition("/")[2] != "python3":
        return [Problem(AREA, "Python", f"ansible_python_interpreter is {explicit}, which does not run on this node")]
    if not commands:
        return [Problem(AREA, "Python", "is not installed, and this system's package manager is not one that is known here")]
    return []
