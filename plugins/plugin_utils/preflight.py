# SPDX-License-Identifier: GPL-3.0-or-later
"""What the probe of a node (node_probe.py) means for it: the answer of rdma_preflight, whoever carried the probe there."""

from typing import Any, NamedTuple

from ansible.release import __version__ as core_version

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import AREA, preflight_problems, preflight_warnings
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import PRESENT, Problem, as_dicts, change_as_dict

from .node_disk import told_fault
from .node_probe import ProbeError, Python, bootstrap_argv, choose_python, command_line, evidence_of, fit, identity_of, parse_probe, too_new

NO_PYTHON = "the node has no Python: what else differs can be planned once apply has brought it"


class Told(NamedTuple):
    """What came of the probe's command; ``sent`` and ``received`` by the controller's clock, in seconds since the epoch."""

    stdout: str
    rc: int | None
    stderr: str
    sent: float
    received: float


def judged_probe(spec: Spec, node: str, told: Told, explicit: str | None) -> dict[str, Any]:
    """The keys of rdma_preflight's result. ``explicit``: the inventory's own interpreter."""
    try:
        probe = parse_probe(told.stdout)
    except ProbeError as error:
        return {"failed": True, "msg": f"{error}; exit {told.rc}: {told.stderr.strip()[-500:]}"}
    fault = told_fault(probe.sections["disks"])
    if fault is not None:
        return {"failed": True, "msg": fault}
    python = choose_python(probe.pythons, core_version, explicit)
    identity = identity_of(probe, node, python)
    evidence = evidence_of(probe, told.sent, told.received)
    commands = [] if python else bootstrap_argv(identity.platform.package_manager, spec["preflight_python_package"])
    problems = preflight_problems(spec, identity, evidence) + python_problems(python, explicit, commands)
    warnings = [f"{item.subject}: {item.message}" for item in preflight_warnings(spec, identity, evidence)]
    if python and (note := too_new(python, core_version)):
        warnings.append(note)
    result: dict[str, Any] = {
        "changed": False, "python_missing": python is None, "python": str(python) if python else None,
        "interpreter": python.path if python else None, "bootstrap_argv": commands, "bootstrap_command": command_line(commands),
        "platform": dict(identity.platform._asdict()), "kernel": identity.kernel,
        "problems": as_dicts(problems), "warnings": warnings,
    }
    if python is None and not problems:
        # Python is the one change that is planned without Python.
        change = package_change("packages", spec["preflight_python_package"], None, PRESENT, "every module needs Python", "ansible-core")
        result.update(plan=[change_as_dict(change)], notes=[NO_PYTHON])
    if problems:
        result.update(failed=True, msg="; ".join(f"{item.subject}: {item.message}" for item in problems))
    return result


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
