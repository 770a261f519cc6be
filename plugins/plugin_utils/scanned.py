# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that a scan has brought before the playbook began: the command line leaves them in a private directory of that run.

They have passed the gate. A node without one is asked by the task itself, as ever.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

VARIABLE = "__railwright_scanned"  # an extra variable: the directory


def keep_answer(directory: Path, node: str, answer: Mapping[str, Any]) -> None:
    _file(directory, node).write_text(json.dumps(answer), encoding="utf-8")


def kept_answer(variables: Mapping[str, Any], variable: str = VARIABLE, *, once: bool = True) -> dict[str, Any] | None:
    """Of the task's host. A scan's is used ``once``: who asks again means the node as it is then."""
    directory = variables.get(variable)
    if directory is None:
        return None
    file = _file(Path(str(directory)), str(variables["inventory_hostname"]))
    try:
        text = file.read_text(encoding="utf-8")
        if once:
            file.unlink()
    except OSError:
        return None
    return dict(json.loads(text))


def kept_texts(directory: Path, nodes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """For another machine: the name and the text of each of these nodes' files."""
    for file in (_file(directory, node) for node in nodes):
        if file.exists():
            yield file.name, file.read_text(encoding="utf-8")


def _file(directory: Path, node: str) -> Path:
    """A node's name may hold what a path must not."""
    return directory / hashlib.sha256(node.encode("utf-8", "surrogatepass")).hexdigest()
