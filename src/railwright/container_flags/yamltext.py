# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML by its library: what a value is, is never a matter of how we wrote it."""

from __future__ import annotations

from typing import Any

import yaml

BETWEEN = "---\n"
WIDE = 1000  # a command line stays on its line


class _Dumper(yaml.SafeDumper):
    """Without anchors: they say that two values are the same one, which helps no reader."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def dump(*documents: Any) -> str:
    """Several documents with the line between them that YAML has for it, and none before the first."""
    texts = [yaml.dump(item, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=WIDE) for item in documents]
    return BETWEEN.join(texts)
