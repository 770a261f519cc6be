# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_packages module: the dry run before the package step, and the explanation after one that failed."""

import re
from typing import Any, Dict, List, Sequence, Tuple

from ..errors import RailwrightError
from ..host.host import Host
from ..observe.dkms import ADDED, INSTALLED, dkms_builds, make_log_tail
from ..observe.identity import observe_identity
from ..observe.package_locks import wait_for_locks
from ..plan.packages.dry_run import STATE as UNSIGNED
from ..plan.packages.dry_run import DryRun, check_keys, check_unsigned, make_case, one_line, overlay
from ..plan.packages.dry_run_apt import AptProver
from ..plan.packages.dry_run_dnf import DnfProver
from ..spec.model import Spec

PROVERS = {"apt": AptProver, "dnf": DnfProver}
LOG_LINES = 20
# Of a package manager's long answer, the lines that say what was wrong; what dpkg says of its error stands indented below it.
_TELLING = re.compile(
    r"^(?:E: .*|Error: .*|Failed .*|dpkg: error .*(?:\n .*)?|.*GPG.*|.*[Dd]epsolve.*|.*conflicts with.*|.*No package.*)$", re.MULTILINE)
# apt's word for any failure of dpkg, which has said by then what it was.
_ANY_FAILURE = "E: Sub-process "


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    if params["mode"] == "failed":
        # `explains`: reports show these words in place of those of the task that failed.
        return {"failed": True, "msg": explain_failure(host, params["failure"]), "explains": True}
    steps, later = parted(params["packages"]["steps"], params["after_file"])
    if dry or (params["after_file"] and not steps):
        return {"steps": steps, "later": bool(later), "resolved": []}
    try:
        dry_run = dry_run_steps(host, Spec(params["spec"]), steps, download=params["download"])
    except OSError as error:
        raise RailwrightError("the package step cannot be proved: %s: %s; nothing was changed" % (
            error.filename, error.strerror)) from error
    return {"steps": list(dry_run.steps), "later": bool(later), "resolved": list(dry_run.resolved)}


def parted(steps: Sequence[Dict[str, Any]], after_file: bool) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """What can be proved now, and what only when a package file is installed that brings a repository of its own."""
    last = max((index for index, step in enumerate(steps) if step["state"] == "file"), default=len(steps) - 1) + 1
    now, later = list(steps[:last]), list(steps[last:])
    return (later, []) if after_file else (now, later)


def dry_run_steps(host: Host, spec: Spec, steps: Sequence[Dict[str, Any]], *, download: bool = True) -> DryRun:
    """Raises RailwrightError with one line when the steps cannot be carried out."""
    case = make_case(host, spec, steps)._replace(download=download)
    check_keys(case)
    check_unsigned(host, spec, case.identity.platform.package_manager, case.names(UNSIGNED))
    prover = PROVERS.get(case.identity.platform.package_manager)
    if prover is None:
        return DryRun(tuple(dict(step) for step in steps), ())
    wait_for_locks(host, case.identity.platform.package_manager, spec["rdma_stack_lock_wait_s"])
    with overlay(host) as root:
        return prover(host, case, root).dry_run()


def explain_failure(host: Host, text: str) -> str:
    """One line about a package task that failed, and the end of make.log where a DKMS build is what broke."""
    telling = list(dict.fromkeys(one_line(found) for found in _TELLING.findall(text)))
    telling.sort(key=lambda found: found.startswith(_ANY_FAILURE))
    line = one_line("; ".join(telling[:4]) or text or "no message", 600)
    message = "the package step failed: %s. Packages may be half changed: inspect it with a new plan" % line
    return "\n".join([message] + broken_builds(host))


def broken_builds(host: Host) -> List[str]:
    """Of every module that DKMS knows and has not installed for the running kernel, the end of the log of its last build."""
    kernel = observe_identity(host, None).kernel
    builds = dkms_builds(host)
    done = [(build.module, build.version) for build in builds if build.kernel == kernel and build.state == INSTALLED]
    found: List[str] = []
    for build in builds:
        if (build.module, build.version) in done or build.state not in (ADDED, "broken", "built"):
            continue
        tail = make_log_tail(host, build.module, build.version, LOG_LINES)
        if tail is not None and not any(text.startswith("DKMS could not build %s %s " % (build.module, build.version)) for text in found):
            found.append("DKMS could not build %s %s for %s; the end of its make.log:\n%s" % (build.module, build.version, kernel, tail))
    return found
