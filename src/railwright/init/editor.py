# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON schema of the inventory for editors: each key with its meaning on hover, its type, and what is allowed; a misspelt key is marked.

It is draft 7, which yaml-language-server reads. A template or a vaulted text stands for any value, so `railwright lint` stays the judge.
"""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.rails import FORMS, RAIL_KEYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS, SITE_PREFIX, Key

FILE = ".railwright.schema.json"  # Ansible reads no hidden file of an inventory's directory
TYPES = {"str": "string", "int": "integer", "number": "number", "bool": "boolean", "list": "array", "dict": "object"}
RAIL = {"type": "object", "additionalProperties": False, "properties": {name: {"title": name} for name in RAIL_KEYS} | {
    "match": {"title": "match", "additionalProperties": False, "properties": {
        kind: {"title": kind, "description": form} for kind, form in FORMS.items()}}}}  # fmt: skip
TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%|^\$ANSIBLE_VAULT;"}


def modeline(depth: int) -> str:
    """The first line of a file that lies so many directories below the schema."""
    return f"# yaml-language-server: $schema={'../' * depth}{FILE}\n"


def inventory_schema() -> dict[str, Any]:
    """For hosts.yml and for files of variables alike: groups within groups, hosts, and variables in each of them."""
    inner = {"type": ["object", "null"], "properties": {
        "hosts": _named({"$ref": "#/definitions/vars"}), "vars": {"$ref": "#/definitions/vars"},
        "children": _named({"$ref": "#/definitions/group"})}}  # fmt: skip
    own = {"type": ["object", "null"], "properties": {key.name: _of(key) for key in KEYS}, "additionalProperties": False,
           "patternProperties": {f"^(?!{SITE_PREFIX})": {}}}  # fmt: skip
    return {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "railwright's inventory",
        "definitions": {"vars": own, "group": inner},
        "if": {"required": ["all"]}, "then": {"properties": {"all": {"$ref": "#/definitions/group"}}},
        "else": {"$ref": "#/definitions/vars"},
    }  # fmt: skip


def _named(each: dict[str, Any]) -> dict[str, Any]:
    return {"type": ["object", "null"], "additionalProperties": each}


def _of(key: Key) -> dict[str, Any]:
    default = key.default if isinstance(key.default, str) else json.dumps(key.default)
    text = f"{key.doc}\n\nAllowed: {key.allowed()}." + ("" if key.default is None else f" Default: {default}.") + f"\n\n{key.source}"
    # Where YAML reads digits as a number, text may be one.
    value: dict[str, Any] = {"type": ["string", "integer"] if key.type == "str" and not key.choices else TYPES[key.type]}
    rules = {name: rule for name, rule in (("enum", list(key.choices)), ("pattern", key.pattern), ("minimum", key.minimum),
                                           ("maximum", key.maximum)) if rule not in (None, [])}  # fmt: skip
    if key.type == "list":
        each = RAIL if key.name == "rdma_rails" else {"type": TYPES[key.elements], **rules} if key.elements else rules
        value["items"] = _any_of(key, each, TEMPLATE)
    else:
        value |= rules
    quoted = [{"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}] if key.type in ("int", "number") else []
    unset = [{"type": "null"}] if key.default is None and not key.required else []
    return {"title": key.name, "description": text, **_any_of(key, value, TEMPLATE, *quoted, *unset)}


def _any_of(key: Key, *parts: dict[str, Any]) -> dict[str, Any]:
    """Each has a title of its own, or an editor shows all of them on hover. A fault reads as with lint."""
    said = f"{key.name}: allowed: {key.allowed()}"
    return {"anyOf": [{"title": key.name + f" ({number})" * (number > 1), **part, "errorMessage": said, "patternErrorMessage": said}
                      for number, part in enumerate(parts, 1)]}  # fmt: skip
