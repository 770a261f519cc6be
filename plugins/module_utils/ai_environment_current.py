# SPDX-License-Identifier: GPL-3.0-or-later
"""The link ``current`` below ai_environment_path: which environment the inventory asks for, by its own name."""

from typing import Optional

from .host.host import Host

CURRENT = "current"


def current(host: Host, path: str) -> Optional[str]:
    """The directory that the link leads to, by its own name: a process that has it keeps it when the link goes over to another one."""
    target = host.readlink("%s/%s" % (path.rstrip("/"), CURRENT))
    return "%s/%s" % (path.rstrip("/"), target) if target and "/" not in target else None


def steady(host: Host, python: str) -> str:
    """The path of a Python without the link ``current`` in it: who imports late would get half of another environment."""
    path, middle, tail = python.partition("/%s/" % CURRENT)
    directory = current(host, path) if middle else None
    return python if directory is None else "%s/%s" % (directory, tail)
