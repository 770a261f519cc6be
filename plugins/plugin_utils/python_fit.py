# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python an ansible-core can use on nodes, and how a node without Python gets one."""

from __future__ import annotations

import shlex

from .node_probe import Python

# ansible-core -> the oldest and the newest Python 3 on nodes. Source: "ansible-core support matrix" of docs.ansible.com.
CORE_PYTHONS: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {
    (2, 16): ((3, 6), (3, 12)),
    (2, 17): ((3, 7), (3, 12)),
    (2, 18): ((3, 8), (3, 13)),
    (2, 19): ((3, 8), (3, 13)),
}
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
    series = [f"{major}.{minor}" for (major, minor), (low, high) in CORE_PYTHONS.items() if low <= python.version[:2] <= high]
    advice = "No supported ansible-core works with it:"
    if series:
        advice = f"ansible-core {' or '.join(series)} works with it: use that on the controller, or"
    return (
        f"{python} is too old: this controller's ansible-core {core} needs {words(oldest)} to {words(newest)} on nodes. {advice} "
        "install a newer Python on the node (preflight_python_package) and name it in ansible_python_interpreter"
    )


def too_new(python: Python, core: str) -> str | None:
    """A Python that came after this ansible-core usually works, but nobody tested it."""
    _oldest, newest = CORE_PYTHONS.get(core_series(core), CORE_PYTHONS[max(CORE_PYTHONS)])
    if python.version[:2] <= newest:
        return None
    return f"{python} is newer than {words(newest)}, the newest that ansible-core {core} was tested with on nodes"


def bootstrap_argv(package_manager: str, package: str) -> list[list[str]]:
    """The commands that install Python, in order; empty for a package manager that is not known."""
    commands = [list(command) for command in INSTALL.get(package_manager, [])]
    if commands:
        commands[-1].append(package)
    return commands


def command_line(commands: list[list[str]]) -> str:
    """The same as one line for ansible.builtin.raw, which knows no list."""
    return " && ".join(shlex.join(command) for command in commands)


def words(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
