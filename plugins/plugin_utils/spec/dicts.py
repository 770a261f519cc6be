# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that hold a mapping of the operator's own names: sysctls and package versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .findings import Findings
from .schema import PACKAGE
from .values import MISSING, type_name

SYSCTL = r"[a-z0-9_]+([./][A-Za-z0-9_{}@:-]+)+"
# One line, printable: the value becomes part of a file that systemd-sysctl reads.
SYSCTL_VALUE = r"[\x20-\x7e]+"
VERSION = r"[A-Za-z0-9][A-Za-z0-9.+:~_-]*"


def check_sysctls(sysctls: Mapping[Any, Any], findings: Findings) -> Any:
    """``host_tuning_sysctls`` with text values (None: leave the catalogue's row out), or MISSING."""
    checked: dict[str, Any] = {}
    good = True
    for name, value in sysctls.items():
        path = f"host_tuning_sysctls.{name}"
        if not isinstance(name, str) or not re.fullmatch(SYSCTL, name) or ".." in name or "//" in name:
            findings.error(path, value, "is not the name of a sysctl", "a name like net.ipv4.tcp_mtu_probing")
            good = False
        elif value is None:
            checked[name] = None
        elif isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(SYSCTL_VALUE, str(value)):
            findings.error(path, value, f"must be an integer or one line of text, not {type_name(value)}",
                           "an integer, text, or null to leave it alone")
            good = False
        else:
            checked[name] = str(value)
    return checked if good else MISSING


def check_pins(pins: Mapping[Any, Any], findings: Findings) -> Any:
    """``rdma_stack_pins`` as {package: version}, or MISSING."""
    good = True
    for name, value in pins.items():
        path = f"rdma_stack_pins.{name}"
        if not isinstance(name, str) or not re.fullmatch(PACKAGE, name):
            findings.error(path, value, "is not the name of a package", "a package name")
        elif isinstance(value, (int, float)):
            findings.error(path, value, "was read as a number by YAML; put quotes around the version", "a version in quotes, like '44.0-2'")
        elif not isinstance(value, str) or not re.fullmatch(VERSION, value):
            findings.error(path, value, "is not the version of a package", "a version as the package manager prints it, like '44.0-2'")
        else:
            continue
        good = False
    return dict(pins) if good else MISSING
