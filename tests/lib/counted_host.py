# SPDX-License-Identifier: GPL-3.0-or-later
"""A captured node that counts what is asked of it: each file, directory, link and command, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost

KINDS = {"read_bytes": "file", "listdir": "directory", "readlink": "link", "status": "status", "which": "tool", "run": "command"}


class CountedHost(TreeHost):
    """``asked``: (kind, name) -> how often. What an answer takes of the tree itself (a recording is a file) is not counted."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: Counter[tuple[str, str]] = Counter()
        self.inside = False

    def twice(self) -> list[tuple[str, str]]:
        return sorted(item for item, times in self.asked.items() if times > 1)

    def total(self, kind: str) -> int:
        return sum(times for (each, _name), times in self.asked.items() if each == kind)


def _counted(method: str, kind: str) -> Callable[..., Any]:
    ask = getattr(TreeHost, method)

    def counted(self: CountedHost, name: Any, *arguments: Any, **named: Any) -> Any:
        if self.inside:
            return ask(self, name, *arguments, **named)
        self.asked[kind, name if isinstance(name, str) else " ".join(name)] += 1
        self.inside = True
        try:
            return ask(self, name, *arguments, **named)
        finally:
            self.inside = False

    return counted


for _method, _kind in KINDS.items():
    setattr(CountedHost, _method, _counted(_method, _kind))
