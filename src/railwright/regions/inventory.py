# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the inventory for another Ansible: as they are written, what was in a vault as it is read."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from ansible import template
from ansible.errors import AnsibleError
from ansible.utils.unsafe_proxy import AnsibleUnsafe

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import TEMPLATE, VAULTED
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import plain


class Unsafe(str):
    """A text in which Ansible fills in nothing."""

    __slots__ = ()


def exported(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a host for another Ansible: templates as they are written, what was in a vault as it is read. A vault that no password
    opens is left out: a play that needs it says so."""
    found = {}
    for name, value in values.items():
        with suppress(AnsibleError, ReferenceError):
            found[name] = _exported(value)
    return found


def _exported(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {plain(key): _exported(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exported(item) for item in value]
    vaulted = type(value).__name__ in VAULTED  # Ansible fills in nothing there
    if not isinstance(value, str) and not vaulted:
        return value if value is None or isinstance(value, (bool, int, float, date)) else str(value)
    text = str(value) if vaulted else str.__str__(value)
    return Unsafe(text) if TEMPLATE.search(text) and (vaulted or not trusted(value)) else text


def trusted(value: Any) -> bool:
    """Whether Ansible would fill in a template here: ansible-core 2.19 marks what it may, older ones what they may not."""
    marked = getattr(template, "is_trusted_as_template", None)
    return bool(marked(value)) if marked is not None else not isinstance(value, AnsibleUnsafe)


def yaml_text(value: Any) -> str:
    """YAML in JSON's form, with ``!unsafe`` where it is meant."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_text(key)}: {yaml_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_text, value)) + "]"
    if isinstance(value, str):
        shown = "".join(char if " " <= char <= "~" and char not in '"\\' else f"\\U{ord(char):08X}" for char in value)
        return f'!unsafe "{shown}"' if isinstance(value, Unsafe) else f'"{shown}"'
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
    return value.isoformat() if isinstance(value, date) else json.dumps(value)
