# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight of a node that may not have Python: one shell round trip, and what its answer means, whoever carried it there.

The script is fixed text; the only thing that is put into it is the inventory's own
ansible_python_interpreter, as a quoted argument. The operating system's text comes
last, so that nothing a node says about itself can pass for another section.
"""

import shlex
from typing import Any, NamedTuple

from ansible.release import __version__ as core_version

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits, lines_in, whole
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import platform_of
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import (
    AREA,
    MOUNTS,
    Evidence,
    preflight_problems,
    preflight_warnings,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import PRESENT, Identity, Problem, as_dicts, change_as_dict

from . import node_disk
from .node_disk import told_fault

MARK = "#railwright:"
LIMIT = 64 * 1024  # characters of an answer; a login may print some before it
SECTIONS = ("uid", "kernel", "arch", "clock", "synchronised", "init", "free", "disks", "python", "os")
# Where ansible-core itself looks (INTERPRETER_PYTHON_FALLBACK), and EL 8's own.
INTERPRETERS = " ".join(("python3", *(f"python3.{minor}" for minor in range(15, 5, -1)), "/usr/libexec/platform-python"))
SCRIPT = f"""
LC_ALL=C; PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin; export LC_ALL PATH
echo '{MARK}uid'; id -u
echo '{MARK}kernel'; uname -r
echo '{MARK}arch'; uname -m
echo '{MARK}clock'; date +%s
echo '{MARK}synchronised'; timedatectl show -p NTPSynchronized --value 2>/dev/null
echo '{MARK}init'; cat /proc/1/comm 2>/dev/null
echo '{MARK}free'; df -Pk {" ".join(MOUNTS)} 2>/dev/null
echo '{MARK}disks'
{node_disk.SCRIPT}
echo '{MARK}python'
for name in "$@" {INTERPRETERS}; do
  full=$(command -v "$name" 2>/dev/null) || continue
  version=$("$full" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) && echo "$version $full"
done
echo '{MARK}os'; cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
echo '{MARK}end'
""".strip()
# The oldest and newest Python that an ansible-core supports on nodes: https://docs.ansible.com/ansible-core/devel/reference_appendices/
# release_and_maintenance.html#ansible-core-support-matrix. A newer ansible-core is taken for the last row.
CORE_PYTHONS: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {
    (2, 16): ((3, 6), (3, 12)),
    (2, 17): ((3, 7), (3, 12)),
    (2, 18): ((3, 8), (3, 13)),
    (2, 19): ((3, 8), (3, 13)),
    (2, 20): ((3, 9), (3, 14)),
    (2, 21): ((3, 9), (3, 14)),
    (2, 22): ((3, 9), (3, 15)),
}
UNTESTED = ((2, 17), (2, 18))  # they install, and no test runs on them: not what to advise
# How a node without Python gets one.
WAIT = "DPkg::Lock::Timeout=300"  # a fresh cloud node runs apt by itself at first boot
INSTALL: dict[str, list[list[str]]] = {
    "apt": [
        ["apt-get", "-q", "-o", WAIT, "update"],
        ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "--no-install-recommends", "-o", WAIT, "install"],
    ],
    "dnf": [["dnf", "-q", "-y", "install"]],
    "yum": [["yum", "-q", "-y", "install"]],
    "zypper": [["zypper", "--non-interactive", "--quiet", "install"]],
}


class ProbeError(Exception):
    """The node's answer is not one."""


class Python(NamedTuple):
    """One interpreter of a node."""

    path: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"Python {'.'.join(map(str, self.version))} ({self.path})"


class Probe(NamedTuple):
    """What a node said, one text for each section."""

    sections: dict[str, str]

    def line(self, name: str) -> str:
        return self.sections.get(name, "").strip().partition("\n")[0].strip()

    def number(self, name: str) -> int | None:
        return whole(self.line(name), 0)

    @property
    def pythons(self) -> list[Python]:
        """Interpreters that run, the one that the inventory names first."""
        found = []
        for row in lines_in(self.sections.get("python", "")):
            version, _blank, path = row.partition(" ")
            if path and all(map(is_digits, version.split("."))):
                found.append(Python(path, tuple(map(int, version.split(".")))))
        return found

    @property
    def free_mb(self) -> dict[str, int]:
        """MiB by mount point, from the lines that `df -Pk / /var` prints in that order after its header."""
        rows = [row.split() for row in lines_in(self.sections.get("free", ""))[1:]]
        return {mount: int(row[3]) // 1024 for mount, row in zip(MOUNTS, rows, strict=False) if len(row) >= 6 and is_digits(row[3])}


def probe_command(interpreter: str | None) -> str:
    """The command line for a login shell of any kind: sh runs the fixed text."""
    arguments = ["/bin/sh", "-c", SCRIPT, "railwright-probe"]
    return shlex.join(arguments + ([interpreter] if interpreter else []))


def parse_probe(text: str) -> Probe:
    """Take an answer apart. What a login prints before the first mark is ignored."""
    if len(text) > LIMIT:
        raise ProbeError(f"the node answered {len(text)} characters; the probe prints at most {LIMIT}")
    sections: dict[str, str] = {}
    current = ""
    expected = list(SECTIONS)
    for row in lines_in(text.replace("\r", "")):
        if expected and row == MARK + expected[0]:
            current = expected.pop(0)
            sections[current] = ""
        elif row == MARK + "end" and not expected:
            return Probe(sections)
        elif current:
            sections[current] += row + "\n"
    raise ProbeError(f"the node answered nothing that the probe prints: {text.strip()[:200]!r}")


def identity_of(probe: Probe, hostname: str, python: Python | None) -> Identity:
    """As much of an identity as a preflight judges; interfaces and HCAs are looked for later, by Python."""
    return Identity(
        hostname=hostname,
        platform=platform_of(probe.sections["os"]),
        kernel=probe.line("kernel"),
        arch=probe.line("arch"),
        python=".".join(map(str, python.version)) if python else "",
        virtual=None,
        nics=(),
        hcas=(),
        capabilities=("systemd",) if probe.line("init") == "systemd" else (),
    )


def evidence_of(probe: Probe, sent: float, received: float) -> Evidence:
    synchronised = {"yes": True, "no": False}.get(probe.line("synchronised"))
    return Evidence(probe.number("uid"), probe.free_mb, probe.number("clock"), sent, received, synchronised)


def core_series(version: str) -> tuple[int, int]:
    """``2.19.4`` and ``2.19.0b1`` are (2, 19)."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def choose_python(pythons: list[Python], core: str, explicit: str | None) -> Python | None:
    """The interpreter that a run will use: the inventory's, else the first that fits, else the newest."""
    if explicit:
        return next((python for python in pythons if explicit in (python.path, python.path.rpartition("/")[2])), None)
    fitting = [python for python in pythons if fit(python, core) is None]
    return fitting[0] if fitting else max(pythons, key=lambda python: python.version, default=None)


def fit(python: Python, core: str) -> str | None:
    """Why this ansible-core cannot use an interpreter, and which one can; None when it can."""
    oldest, newest = CORE_PYTHONS.get(core_series(core), CORE_PYTHONS[max(CORE_PYTHONS)])
    if python.version[:2] >= oldest:
        return None
    fitting = [row for row, (low, high) in CORE_PYTHONS.items() if low <= python.version[:2] <= high and row not in UNTESTED]
    advice = "No supported ansible-core works with it:"
    if fitting:
        advice = f"ansible-core {' or '.join(map(version_text, fitting))} works with it: use that on the controller, or"
    return (
        f"{python} is too old: this controller's ansible-core {core} needs {version_text(oldest)} to {version_text(newest)} on nodes. "
        f"{advice} install a newer Python on the node (preflight_python_package) and name it in ansible_python_interpreter"
    )


def too_new(python: Python, core: str) -> str | None:
    """A Python that came after this ansible-core usually works, but nobody tested it."""
    _oldest, newest = CORE_PYTHONS.get(core_series(core), CORE_PYTHONS[max(CORE_PYTHONS)])
    if python.version[:2] <= newest:
        return None
    return f"{python} is newer than {version_text(newest)}, the newest that ansible-core {core} was tested with on nodes"


def bootstrap_argv(package_manager: str, package: str) -> list[list[str]]:
    """The commands that install Python, in order; empty for a package manager that is not known."""
    commands = [list(command) for command in INSTALL.get(package_manager, [])]
    if commands:
        commands[-1].append(package)
    return commands


def command_line(commands: list[list[str]]) -> str:
    """The same as one line for ansible.builtin.raw, which knows no list."""
    return " && ".join(shlex.join(command) for command in commands)


def version_text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


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
