# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright VERB`` on a scenario's inventory, as an operator calls it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from agreed import agreed
from playbook import BIN, ROOT, RUN_SECONDS, SETTINGS

CHAPTERS = ("lint", "plan", "apply", "apply again", "plan again")


class Verb(NamedTuple):
    """One call: its exit code, the document that it printed, and what it said beside it."""

    code: int
    document: Any
    said: str

    def changes(self) -> dict[str, list[str]]:
        """By node, the keys of its changes."""
        return {name: [str(change["key"]) for change in node["changes"]] for name, node in self.document["nodes"].items()}


def but_examples(lint: Verb) -> list[Any]:
    """What lint found beside the MACs of init's templates, which are the containers' own, and the containers' login, which is root."""
    return [item for item in lint.document["findings"] if "is the example" not in item["message"] and item["key"] != "ansible_user"]


def verb(inventory: Path, name: str, *more: str) -> Verb:
    argv = (str(BIN / "railwright"), name, "-i", str(inventory), "--format", "json", *agreed((name, *more)), *more)
    env = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=SETTINGS["ANSIBLE_COLLECTIONS_PATH"])
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, env=env, timeout=RUN_SECONDS)
    return Verb(done.returncode, json.loads(done.stdout or "null"), done.stderr)


def site(inventory: Path) -> dict[str, Verb]:
    """The life of a site: judged, planned, made so, and found to be so."""
    return {chapter: verb(inventory, chapter.partition(" ")[0]) for chapter in CHAPTERS}
