# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are no key of ours: misspelt ones are named, other people's are left alone."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from .findings import Findings, did_you_mean
from .schema import BY_NAME, ROLE_KEYS, ROLES, SITE_KEYS, known_keys

# Ansible's own names, molecule's, and private ones. ``__role_x`` is how a role names what it registers;
# ``railwright_*`` are extra variables of our own playbooks.
NOT_OURS = ("ansible_*", "discovered_interpreter_*", "molecule_*", "inventory_*", "railwright_*", "_*")
MAGIC = frozenset((
    "environment", "gather_subset", "group_names", "groups", "hostvars", "module_setup", "omit", "play_hosts", "playbook_dir",
    "role_name", "role_names", "role_path", "role_uuid", "vars",
))


def is_foreign(name: str, globs: Sequence[str]) -> bool:
    """Whether a variable is Ansible's, molecule's, private, or declared as another collection's."""
    return name in MAGIC or any(fnmatch.fnmatchcase(name, glob) for glob in NOT_OURS + tuple(globs))


def role_of(name: str) -> str:
    """The role whose name a variable starts with, or '' (the longest wins). Keys of the site have none, whatever they start with."""
    if name in SITE_KEYS:
        return ""
    return max((role for role in ROLES if name.startswith(role + "_")), key=len, default="")


def check_unknown(values: Mapping[str, Any], globs: Sequence[str], findings: Findings) -> None:
    """A finding for every variable that nobody knows. Values are not shown: they may be secrets of somebody else."""
    for name in sorted(values):
        if name in BY_NAME or is_foreign(name, globs):
            continue
        role = role_of(name)
        hint = did_you_mean(name, ROLE_KEYS[role]) or did_you_mean(name, known_keys()) if role else did_you_mean(name, known_keys())
        message = f"role {role} has no variable of this name" if role else "is no known key"
        allowed = ", ".join(ROLE_KEYS[role]) if role else "a key of the reference, or a glob in foreign_variables that covers it"
        findings.error(name, None, message + hint, allowed)


def check_globs(globs: Sequence[str], findings: Findings) -> None:
    """A glob that covers one of our own keys would hide every misspelling of it."""
    for index, glob in enumerate(globs):
        covered = [key for key in known_keys() if fnmatch.fnmatchcase(key, glob)]
        if covered:
            findings.error(f"foreign_variables[{index}]", glob,
                           f"covers railwright's own key {covered[0]}, so a misspelt key would pass in silence",
                           "a glob that covers the other collection's variables only")
