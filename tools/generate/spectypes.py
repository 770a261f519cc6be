# SPDX-License-Identifier: GPL-3.0-or-later
"""``spec/keys.pyi``: the type of every key of a Spec for mypy, one overload a type. Nodes never read it."""

import textwrap

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS, Key

TYPES = {"str": "str", "int": "int", "number": "float", "bool": "bool", "dict": "Dict[str, Any]"}
# Unset by default, and given a value by validate.py's _fill_defaults.
FILLED = ("aiacc_install", "ddp_benchmark_python", "nccl_profile", "network_opensm", "qos_profile")
HEAD = """# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the key table (tools/generate); do not edit.
from typing import Any, Dict, List, Literal, Optional, overload

class Keys:
    _values: Dict[str, Any]
"""


def type_of(key: Key) -> str:
    kind = f"List[{TYPES.get(key.elements or '', 'Any')}]" if key.type == "list" else TYPES[key.type]
    return kind if key.required or key.default is not None or key.field in FILLED else f"Optional[{kind}]"


def files() -> dict[str, str]:
    by_type: dict[str, list[str]] = {}
    for key in KEYS:
        by_type.setdefault(type_of(key), []).append(key.field)
    text = HEAD
    for kind, names in sorted(by_type.items()):
        listed = ", ".join(f'"{name}"' for name in sorted(names))
        wrapped = textwrap.fill(listed, 112, initial_indent=" " * 8, subsequent_indent=" " * 8)
        text += f"    @overload\n    def __getitem__(self, key: Literal[\n{wrapped}]) -> {kind}: ...\n"
    return {"plugins/module_utils/spec/keys.pyi": text + "    @overload\n    def __getitem__(self, key: str) -> Any: ...\n"}
