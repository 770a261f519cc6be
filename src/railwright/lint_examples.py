# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples that were left in an inventory: addresses and names kept for documentation, and those of `railwright init`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from railwright.inventory import Inventory
from railwright.lint import LintFinding, fold

EXAMPLES = (
    (re.compile(r"(?<![0-9.])(?:192\.0\.2|198\.51\.100|203\.0\.113)\.[0-9]{1,3}(?![0-9.])"), "is of a range kept for examples (RFC 5737)"),
    (re.compile(r"(?<![0-9a-f:])2001:0?db8:", re.IGNORECASE), "is of a range kept for examples (RFC 3849)"),
    (re.compile(r"(?<![a-z0-9-])example\.(?:com|net|org)(?![a-z0-9-])", re.IGNORECASE), "has a name kept for examples (RFC 2606)"),
    (re.compile(r"02:00:00:00:0[12]:0[01]|0200:00(?:03:0000|ff:fe00):0100"), "is the example that `railwright init` writes"),
)
KEYS = BY_NAME.keys() | {"ansible_host", "ansible_ssh_host"}
Row = tuple[str, str, str, str]  # the variable, the path of a text in it, the text, what is said of it


def left_examples(inventory: Inventory) -> list[LintFinding]:
    """Warnings, by file and line."""
    shared: dict[int, list[Row]] = {}
    found = []
    for host, values in inventory.hosts.items():
        if id(values.base) not in shared:
            shared[id(values.base)] = list(_rows({key: values.base[key] for key in KEYS & values.base.keys()}))
        own = _rows({"host": host, **{key: values.own[key] for key in KEYS & values.own.keys()}})
        for _key, path, text, said in [*own, *(row for row in shared[id(values.base)] if row[0] not in values.own)]:
            found.append(Finding(host, path, text, said, "one of yours", "warning"))
    return fold(inventory, found)


def _rows(variables: Mapping[str, Any]) -> Iterator[Row]:
    for key, value in variables.items():
        for path, text in _texts(key, value):
            yield from ((key, path, text, said) for pattern, said in EXAMPLES if pattern.search(text))


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(f"{path}[{index}]", item)
