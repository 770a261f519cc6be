# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as yamllint and ansible-lint want it: indented lists, lines of at most 140, the keys in the order given."""

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, *args: Any, **kwargs: Any) -> None:
        """Lists stand deeper than their key: whatever PyYAML asks for, never indentless."""
        flow = args[0] if args else kwargs.get("flow", False)
        super().increase_indent(flow, indentless=False)


def dump(value: Any) -> str:
    """Block style."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=130, allow_unicode=True, default_flow_style=False))
