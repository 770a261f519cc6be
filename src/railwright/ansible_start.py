# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible reads its configuration while it is imported: what is wrong there is bad input, in one line."""

from __future__ import annotations

import importlib

from ansible.errors import AnsibleError

from railwright.exitcodes import InputError


def check_configuration() -> None:
    """Import what reads ansible.cfg and ANSIBLE_*. Raises InputError: a broken file, a wrong value, a home that cannot be written."""
    try:
        importlib.import_module("ansible.constants")
    except AnsibleError as error:
        text = " ".join(str(error).split())
        hint = "; allowed: a HOME that can be written" if "Unable to create local" in text else ""
        raise InputError(f"Ansible's configuration: {text}{hint}") from error
