# SPDX-License-Identifier: GPL-3.0-or-later
"""The five documents that railwright grew from: the list of what is in them, held against the documents and against our pages.

The list is tests/fixtures/seeds: for each document its items (every command, setting, output, piece of code, configuration file and
instruction) by line, and what only inspects like one, with the reason. An item's id is its line, or its first and last line, with a letter
where a line has several: 38, 81-82, 133c. Its text stands there as in the document; … leaves out what lies between, on one line.

The documents are other people's and not in this repository; `tools/check-seeds DIRECTORY` holds the list against them.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml

LISTS = Path(__file__).resolve().parents[1] / "fixtures" / "seeds"
KINDS = ("command", "setting", "output", "code", "configuration", "instruction", "claim")
ID = re.compile(r"(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?(?P<letter>[a-z]?)")
GAP = "…"


class Item(NamedTuple):
    """One thing that a document says to type, set or expect."""

    id: str
    kind: str
    text: str

    @property
    def place(self) -> tuple[int, int, str]:
        """First line, last line, letter."""
        match = ID.fullmatch(self.id)
        if match is None:
            raise ValueError(f"{self.id}: an id is a line or two, and a letter: 38, 81-82, 133c")
        return int(match["first"]), int(match["last"] or match["first"]), match["letter"]


class Nothing(NamedTuple):
    """What looks like an item on a line (its whole rest where text is empty), and why it is none."""

    line: int
    text: str
    why: str


class Document(NamedTuple):
    """A document, its page of ours, and what is in it."""

    name: str
    file: str
    page: str
    items: tuple[Item, ...]
    nothing: tuple[Nothing, ...]


def read(path: Path) -> Document:
    """One list."""
    raw: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    items = tuple(Item(str(row["id"]), row["kind"], row["text"].rstrip("\n")) for row in raw["items"])
    nothing = tuple(Nothing(line, row.get("text", ""), row["why"]) for row in raw["nothing"] for line in row["lines"])
    return Document(raw["document"], raw["file"], raw["page"], items, nothing)


def documents(lists: Path = LISTS) -> list[Document]:
    """All lists."""
    return [read(path) for path in sorted(lists.glob("*.yml"))]


def faults_of_list(document: Document) -> list[str]:
    """What is wrong with a list by itself: ids in order and once, letters without a gap, known kinds, a reason for everything left out."""
    found = [f"{item.id}: {item.kind} is no kind: {', '.join(KINDS)}" for item in document.items if item.kind not in KINDS]
    found += [f"{item.id}: no text" for item in document.items if not item.text.strip(f" {GAP}\n")]
    found += [f"line {row.line}: left out without a reason" for row in document.nothing if len(row.why.split()) < 2]
    places = [item.place for item in document.items]
    found += [f"{item.id}: ends before it begins" for item in document.items if item.place[0] > item.place[1]]
    for before, after in zip([(0, 0, ""), *places], places, strict=False):
        expected = chr(ord(before[2]) + 1) if before[2] and after[:2] == before[:2] else None
        if after[:2] == before[:2] and after[2] != expected:
            found.append(f"{after[0]}{after[2]}: follows {before[0]}{before[2]}: letters go a, b, c …, each once")
        if after[:2] != before[:2] and (after[0] <= before[1] or after[2] not in ("", "a")):
            found.append(f"{after[0]}{after[2]}: out of order")
    return found + [
        f"{item.id}: {len(item.text.splitlines())} lines of text for {item.place[1] - item.place[0] + 1} lines"
        for item in document.items if len(item.text.splitlines()) != item.place[1] - item.place[0] + 1
    ]


# What looks like something to type, to set or to see. Ours is text between Chinese letters, so that boundaries are those of ASCII words.
WORD = r"(?<![A-Za-z0-9_./-])(?:%s)(?![A-Za-z0-9_-])"
COMMANDS = (
    "sudo|apt|apt-get|apt-key|yum|dnf|rpm|dpkg|wget|curl|git|cd|make|cmake|gcc|nvcc|insmod|modprobe|rmmod|lsmod|bash|sh|source|conda|pip3?|"
    "python3?|docker|podman|mpirun|mpiexec|ssh|ssh-keygen|scp|cat|echo|tee|vim?|nano|export|numactl|torchrun|nvidia-smi|grep|mkdir|chmod|cp|mv|"
    "ip|ethtool|mlnx_qos|ibdev2netdev|ibstat|ibstatus|ibv_devices|ibv_devinfo|ibping|iblinkinfo|ibdiagnet|perfquery|opensm|lspci|"
    "ib_(?:read|write|send)_(?:bw|lat)|[a-z_]+_perf|systemctl|service|reboot|mount|setpci|sysctl|ulimit|FROM|RUN|COPY|EXPOSE|CMD|ENV"
)
PATTERNS = {
    "command": re.compile(WORD % COMMANDS),
    "assignment": re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s?[<>]?=\s?\S"),
    "name of a variable": re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*_[A-Z0-9_]+"),
    "option": re.compile(r"(?<![A-Za-z0-9_-])--?[A-Za-z][A-Za-z0-9_-]*"),
    "path": re.compile(r"(?<![A-Za-z0-9:/.])(?:~|\.{1,2})?/[A-Za-z0-9._-]+"),
    "file": re.compile(r"[A-Za-z0-9_-]+\.(?:sh|py|txt|repo|rpm|deb|conf|so|list|ya?ml|ko|pub|run|tgz)(?![A-Za-z0-9])"),
    "address": re.compile(r"https?://|(?<![0-9.])(?:\d{1,3}|X)(?:\.(?:\d{1,3}|[xX])){3}(?![0-9.])"),
    "code": re.compile(r"^\s*(?:import|from|def|return|for|if|class|with)\s+[A-Za-z_]|(?<![A-Za-z0-9_.])[a-z_]{2,}[A-Za-z0-9_.]*\("
                       r"|(?<![A-Za-z0-9_])[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+"),
    "configuration": re.compile(r"\[[a-z]+\]|^\s*[A-Za-z][A-Za-z .'-]*:\s*[!-~]"),
    "device": re.compile(r"(?<![A-Za-z0-9_])(?:mlx5|erdma|eth|ib|uverbs|cuda)(?:_|:)?[0-9X](?![A-Za-z])"),
    "log": re.compile(r"NCCL (?:INFO|WARN)|(?<![A-Za-z])via [A-Z]|(?:[0-9.]+%?\s+){2,}[0-9]|^\s*[A-Z]{2} '"),
    "prompt or comment": re.compile(r"^\s*[$#>]|:wq"),
    "version": re.compile(r"(?<![A-Za-z0-9])[A-Za-z]+[ -]?v?\d+\.[0-9x]"),
    "instruction": re.compile("安装|启用|开启|打开|确保|务必|检查|确认|选中|避免|必须|关闭|禁用|升级|重启|加载|远程连接|登录|"
                              "创建|新建|添加|拷贝|替换|绑定|开放|暴露|共享|设置为|指向"),
}


def cut(line: str, text: str, start: int) -> tuple[int, int] | None:
    """Where a text stands on a line, from a column on; the parts around … in their order."""
    first = end = -1
    cursor = start
    for part in text.split(GAP):
        at = line.find(part.strip(), cursor)
        if at < 0:
            return None
        first = at if first < 0 else first
        end = cursor = at + len(part.strip())
    return first, end


def looks_like(rest: str) -> list[str]:
    """What a text looks like, with the words that make it so."""
    found = [(name, match.group().strip()) for name, pattern in PATTERNS.items() for match in pattern.finditer(rest)]
    return [f"{name} {words!r}" for name, words in found]


class Rests:
    """The lines of a document, from which everything that the list knows is taken; what is left is asked for what it looks like."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.taken: list[list[tuple[int, int]]] = [[] for _ in lines]

    def take(self, number: int, text: str, *, after_others: bool = True) -> bool:
        """Take a text off its line: an item stands behind the one before it."""
        if not 1 <= number <= len(self.lines):
            return False
        spans = self.taken[number - 1]
        start = max((end for _begin, end in spans), default=0) if after_others else 0
        span = cut(self.lines[number - 1], text, start)
        while span is not None and not after_others and any(span[0] < end and begin < span[1] for begin, end in spans):
            span = cut(self.lines[number - 1], text, span[0] + 1)
        if span is None:
            return False
        spans.append(span)
        return True

    def left(self, number: int) -> list[str]:
        """What the rest of a line looks like: each piece between what was taken, and what on the whole line was taken in part only."""
        line, found, cursor = self.lines[number - 1], [], 0
        spans = sorted(self.taken[number - 1])
        for begin, end in [*spans, (len(line), len(line))]:
            found += looks_like(line[cursor:begin])
            cursor = end
        taken = {at for begin, end in spans for at in range(begin, end)}
        free = {at for at, letter in enumerate(line) if letter not in " \t\\"} - taken
        for name, pattern in PATTERNS.items():
            for match in pattern.finditer(line):
                inside = set(range(*match.span()))
                if inside & free and inside & taken:
                    found.append(f"{name} {match.group().strip()!r}, in part")
        return found


def faults_against(document: Document, lines: Sequence[str]) -> list[str]:
    """Where list and document disagree: a text that is not on its line, and a line with something that the list does not know."""
    rests, found = Rests(lines), []
    for item in document.items:
        first, last, _letter = item.place
        for number, text in zip(range(first, last + 1), item.text.splitlines(), strict=False):
            if not rests.take(number, text):
                found.append(f"{item.id}: not on line {number}, or not behind the item before it: {text}")
    for row in document.nothing:
        if not 1 <= row.line <= len(lines):
            found.append(f"line {row.line}: left out, and the document has {len(lines)}")
        elif row.text and not rests.take(row.line, row.text, after_others=False):
            found.append(f"line {row.line}: left out, and not there: {row.text}")
        elif row.text and not looks_like(row.text):
            found.append(f"line {row.line}: left out without need: {row.text}")
    whole = {row.line for row in document.nothing if not row.text}
    found += [f"line {number}: left out without need" for number in sorted(whole) if number <= len(lines) and not rests.left(number)]
    return found + [
        f"line {number}: not in the list: {'; '.join(rests.left(number))}"
        for number in range(1, len(lines) + 1) if number not in whole and rests.left(number)
    ]


def faults_in(directory: Path, lists: Path = LISTS) -> Iterator[tuple[Document, list[str]]]:
    """Every list with its faults, by itself and against the document in a directory."""
    for document in documents(lists):
        names = [path for path in sorted(directory.iterdir()) if path.is_file() and fnmatchcase(path.name, document.file)]
        if len(names) != 1:
            yield document, [f"{len(names)} files are called {document.file}"]
            continue
        lines = names[0].read_text(encoding="utf-8").replace("\xa0", " ").splitlines()
        yield document, [*faults_of_list(document), *faults_against(document, lines)]
