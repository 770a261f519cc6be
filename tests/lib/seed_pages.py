# SPDX-License-Identifier: GPL-3.0-or-later
"""Our pages on the five documents (docs/seeds): each item of the list has its row, and what a row names exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import yaml

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS
from railwright.cli.main import command
from seed_documents import GAP, ID, Document, Item

COLUMNS = ("line", "document", "railwright", "where", "wrong", "proven")
REFERENCE = re.compile(r"(?P<kind>role|key|verb|playbook|verdict|artifact) `(?P<name>[^`]+)`"
                       r"|page \[[^\]]+\]\((?P<path>[^)#]*)(?:#(?P<anchor>[^)]+))?\)")
TEST = re.compile(r"`(?P<path>[^`:]+)(?:::(?P<name>[^`]+))?`")
CODE = re.compile(r"`([^`]+)`")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHINESE = re.compile(r"[\u3400-\u9fff\u3000-\u303f\uff00-\uffef]")
COLLECTION = "railwright.rdma."


class Row(NamedTuple):
    """A row of a page."""

    line: str
    document: str
    railwright: str
    where: str
    wrong: str
    proven: str


class World(NamedTuple):
    """What there is to name."""

    role: frozenset[str]
    key: frozenset[str]
    verb: dict[str, frozenset[str]]  # "railwright nccl lint": its options
    playbook: frozenset[str]
    verdict: frozenset[str]
    artifact: frozenset[str]
    files: frozenset[str]


def verbs(group: Any, name: str = "railwright") -> Iterator[tuple[str, frozenset[str]]]:
    """Every verb of the application with its options."""
    yield name, frozenset(option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts))
    for word, child in getattr(group, "commands", {}).items():
        yield from verbs(child, f"{name} {word}")


def world() -> World:
    """This repository."""
    cells = re.findall(r"^\| (`[^|]+`) \|", repo.text("docs/reference/checks.md"), re.MULTILINE)
    return World(
        frozenset(name.split("/")[1] for name in repo.matching("roles/", suffix="tasks/main.yml")),
        frozenset(key.name for key in KEYS),
        dict(verbs(command())),
        frozenset(COLLECTION + PurePosixPath(name).stem for name in repo.matching("playbooks/", suffix=".yml")),
        frozenset(name for cell in cells for name in CODE.findall(cell)),
        frozenset(row.name for row in ARTIFACTS),
        # repo.files leaves the fixtures out, on purpose; no row needs one
        frozenset(repo.files()),
    )


def rows(page: str) -> list[Row]:
    """The rows of a page's tables, in order. A | of the document is written as \\|."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if cells and ID.fullmatch(cells[0]):
            found.append(Row(*(cells + [""] * len(COLUMNS))[: len(COLUMNS)]) if len(cells) <= len(COLUMNS) else Row(cells[0], *[""] * 5))
    return found


def anchors(page: str) -> list[str]:
    """What a link into a page may end with, from top to bottom."""
    heads = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads]


def quoted(row: Row) -> list[str]:
    """The document's words in a row."""
    return CODE.findall(row.document)


def faults(document: Document, page: str, there: World) -> list[str]:
    """Everything that is wrong with a page."""
    listed, written = [item.id for item in document.items], [row.line for row in rows(page)]
    found = [f"{number}: in the list, and no row on the page" for number in listed if number not in written]
    found += [f"{number}: a row, and not in the list" for number in written if number not in listed]
    if not found and listed != written:
        found.append("rows are not in the order of the document, or one is there twice")
    items = {item.id: item for item in document.items}
    for row in rows(page):
        found += [f"{row.line}: column {name} is empty" for name, cell in zip(COLUMNS, row, strict=True) if not cell.strip(" -–—.`")]
        if row.line in items:
            found += _unlike(items[row.line], row)
        found += [f"{row.line}: {fault}" for fault in (*_where(row, there), *_proven(row, there))]
    found += [f"not English: {words}" for words in CHINESE.findall(page)[:1]]
    return found + list(_blocks(page, there)) + list(_spoken(page, there))


def _unlike(item: Item, row: Row) -> Iterator[str]:
    """A text of ASCII is quoted as it stands; a Chinese one is told in English."""
    lines = [line.strip() for line in item.text.splitlines()]
    if item.text.replace(GAP, "").isascii() and quoted(row) != lines:
        yield f"{item.id}: the row says {quoted(row)}, the document {lines}"


def _where(row: Row, there: World) -> Iterator[str]:
    """References and nothing else, and each to something that exists."""
    if REFERENCE.sub("", row.where).strip(" ,"):
        yield f"where: not a reference: {REFERENCE.sub('', row.where).strip(' ,')}"
    for match in REFERENCE.finditer(row.where):
        if match["kind"]:
            if match["name"] not in getattr(there, match["kind"]):
                yield f"no such {match['kind']}: {match['name']}"
        else:
            path = _resolved(match["path"])
            if path not in there.files:
                yield f"no such page: {match['path']}"
            elif match["anchor"] and match["anchor"] not in anchors(repo.text(path)):
                yield f"{match['path']} has no heading {match['anchor']}"


def _resolved(path: str) -> str:
    parts: list[str] = ["docs", "seeds"]
    for part in path.split("/"):
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _proven(row: Row, there: World) -> Iterator[str]:
    """Test files, each with the name of a test in it where one is given; rows of bad_inventories*.yml are tests too."""
    if TEST.sub("", row.proven).strip(" ,"):
        yield f"proven by: not a test: {TEST.sub('', row.proven).strip(' ,')}"
    for match in TEST.finditer(row.proven):
        path, name = match["path"], match["name"]
        stem = PurePosixPath(path).name
        table = stem.startswith("bad_inventories") and stem.endswith(".yml")
        if path not in there.files or not (table or (stem.startswith("test_") and stem.endswith(".py"))):
            yield f"no such test file: {path}"
        elif table and (not name or name not in {case["name"] for case in yaml.safe_load(repo.text(path))}):
            yield f"{path} has no row {name}"
        elif not table and not tests(path):
            yield f"{path} has no test"
        elif not table and name and name not in tests(path):
            yield f"{path} has no test {name}"


def tests(path: str) -> set[str]:
    """The names of a file's test functions."""
    return {node.name for node in ast.walk(repo.tree(path)) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}


def _blocks(page: str, there: World) -> Iterator[str]:
    """Inventories of a page have keys that exist, plays roles that exist."""
    for language, text in BLOCK.findall(page):
        shown = yaml.safe_load(text) if language == "yaml" else None
        if isinstance(shown, dict):
            yield from (f"no such key: {name}" for name in shown if name not in there.key and not name.startswith("_"))
        for play in shown if isinstance(shown, list) else []:
            roles = [role["role"].removeprefix(COLLECTION) for role in play.get("roles", [])]
            yield from (f"no such role: {name}" for name in roles if name not in there.role)


def _spoken(page: str, there: World) -> Iterator[str]:
    """Example inventories and pages exist, and so does what the command lines say."""
    named = sorted(set(re.findall(r"\binventories/[a-z-]+", page)))
    yield from (f"no such inventory: {name}" for name in named if not any(file.startswith(f"{name}/") for file in there.files))
    linked = sorted(set(re.findall(r"\]\(([^)#:]+)[^)]*\)", page)))
    yield from (f"no such page: {path}" for path in linked if _resolved(path) not in there.files)
    yield from command_faults(page, there)


def command_faults(page: str, there: World) -> Iterator[str]:
    """Command lines of ours, in the text and in blocks: the verb exists, and so does each of its options."""
    said = re.findall(r"`(railwright [^`]+)`", page)
    said += [line.removeprefix("$ ").partition("#")[0].strip() for _language, text in BLOCK.findall(page)
             for line in text.splitlines() if line.startswith("$ railwright ")]
    for line in said:
        words = line.split()
        verb = next((" ".join(words[:end]) for end in range(len(words), 1, -1) if " ".join(words[:end]) in there.verb), None)
        if verb is None:
            yield f"no such verb: {line}"
            continue
        used = [word.partition("=")[0] for word in words if word.startswith("-")]
        yield from (f"{verb} has no option {word}" for word in used if word not in there.verb[verb])
