# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what passes on each base tree, passes.yml: ``python -m tests.faults.passes`` adds codes to it and never takes one out.

A line is a code and the trees that it passes on, for check and for validate; "all but" where that is shorter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from .inventories import INVENTORIES, settle, spec_of
from .judging import Verdicts, by_check, by_inventory
from .trees import TREES

RECORD = Path(__file__).with_name("passes.yml")
HEAD = "# SPDX-License-Identifier: GPL-3.0-or-later\n# Codes that pass on the base trees, and may not stop passing: see passes.py.\n"
ALL, BUT = "all", "all but "
Passes = dict[str, dict[str, set[str]]]  # verb: code: trees


def base_tree(directory: Path, name: str) -> Path:
    """A healthy tree; one with an inventory as its apply left it."""
    root = TREES[name](directory)
    return settle(root, name) if name in INVENTORIES else root


def passing(verdicts: Verdicts) -> set[str]:
    """Codes that pass, and have no other status than skipped beside it."""
    return {item["check"] for item in verdicts if item["status"] == "pass"} - {
        item["check"] for item in verdicts if item["status"] not in ("pass", "skipped")}


def trees_of(verb: str) -> list[str]:
    return list(TREES if verb == "check" else INVENTORIES)


def read() -> Passes:
    document = yaml.safe_load(RECORD.read_text()) if RECORD.exists() else {"check": {}, "validate": {}}
    return {verb: {code: trees_in(text, trees_of(verb)) for code, text in codes.items()} for verb, codes in document.items()}


def trees_in(text: str, trees: Iterable[str]) -> set[str]:
    if text == ALL or text.startswith(BUT):
        return set(trees) - set(text.removeprefix(BUT).split(", "))
    return set(text.split(", "))


def text_of(own: set[str], trees: list[str]) -> str:
    lacking = [tree for tree in trees if tree not in own]
    if not lacking:
        return ALL
    return BUT + ", ".join(lacking) if len(lacking) < len(own) else ", ".join(tree for tree in trees if tree in own)


def write(found: Passes) -> None:
    known, text = read(), HEAD
    for verb, codes in found.items():
        text += f"{verb}:\n"
        merged = {code: codes.get(code, set()) | known.get(verb, {}).get(code, set()) for code in {*codes, *known.get(verb, {})}}
        text += "".join(f"  {code}: {text_of(merged[code], trees_of(verb))}\n" for code in sorted(merged))
    RECORD.write_text(text)


def by_code(found: Mapping[str, Verdicts]) -> dict[str, set[str]]:
    codes: dict[str, set[str]] = {}
    for tree, verdicts in found.items():
        for code in passing(verdicts):
            codes.setdefault(code, set()).add(tree)
    return codes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        roots = {}
        for name in TREES:
            (Path(place) / name).mkdir()
            roots[name] = base_tree(Path(place) / name, name)
        write({"check": by_code({name: by_check(root)["verdicts"] for name, root in roots.items()}),
               "validate": by_code({name: by_inventory(roots[name], spec_of(name)).verdicts for name in INVENTORIES})})
