# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others for fuzzers: real samples, changed, and a node that answers everything with one text.

A change is drawn as numbers, so that a failing one shrinks: where in the sample, how much of it, and what comes there.
"""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result, TreeHost

HUGE = "1" * 5000
# What parsers stumble over: digits that are none, numbers that nothing holds, ends of lines that only Python knows, halves of pairs.
FRAGMENTS = (
    "", " ", "\n", "\t", "\r", "\r\n", "\x00", "\x1b[31m", "\x1c", "\x85", "\u2028", "\ufeff", "\ufffd", "\ud800", "²", "٣", "0", "-1",
    "1e999", "inf", "nan", "NaN", "Infinity", "0x", "0x" + "f" * 40, HUGE, "-" + HUGE, "18446744073709551616", "99999999999999999999",
    "1.5", "--5", '"', "'", "\\", "\\x", "[", "]", "{", "}", "[" * 200, "(", ")", "<", ">", "/", "//", "..", "../..", ":", "::", "=", "==",
    ",", ",,", ";", "|", "#", "%", "%s", "%(x)s", "{0}", "{{ 1 }}", "$(", "*", "?", "+", "a", "A" * 300, "ä", "null", "true", "-", "_", "@",
    "!", "&", "~", "2038-01-19 03:14:08", "9999-99-99 99:99:99", "0000:00:00.0", "fe80::1", "999.999.999.999", "10.0.0.1/999",
)  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**400, -(10**400), 2**64, float("inf"), float("nan"), "", "²", "x", HUGE, "\ud800", "a/../b", "\n", [],
    [None],    [[]], [0], ["x"], {}, {"a": 1}, {"": None}, [{}], [{"a": []}], json.loads("[" * 60 + "]" * 60), ["x"] * 300,
)  # fmt: skip

# Of each type that JSON has one or two, and a value that is gone.
TYPES = [JUNK.index(value) for value in (None, -1, 1.5, "", "x", [], [0], ["x"], {}, {"a": 1}, [{}], [[]])] + [1, len(JUNK)]


class Change(NamedTuple):
    """``at``: where, from 0 to 1; ``length``: characters that go; ``kind``: what else happens there."""

    kind: int
    at: float
    length: int
    text: str


def changed(sample: str, changes: Sequence[Change]) -> str:
    """The sample with every change made, one after the other."""
    text = sample
    for change in changes:
        at = int(change.at * len(text))
        end = min(len(text), at + change.length)
        if change.kind == 0:  # something else
            text = text[:at] + change.text + text[end:]
        elif change.kind == 1:  # the same again
            text = text[:end] + text[at:end] * 3 + text[end:]
        elif change.kind == 2:  # cut off
            text = text[:at]
        elif change.kind == 3:  # a line elsewhere
            lines = text.split("\n")
            line = lines.pop(int(change.at * (len(lines) - 1)))
            lines.insert(change.length % (len(lines) + 1), line)
            text = "\n".join(lines)
        else:  # a word in place of one
            words = text.split(" ")
            words[int(change.at * (len(words) - 1))] = change.text
            text = " ".join(words)
    return text


changes = st.lists(
    st.builds(Change, st.integers(0, 4), st.floats(0, 1), st.integers(0, 12), st.sampled_from(FRAGMENTS) | st.text(max_size=6)), max_size=4
)
anything = st.text(max_size=40) | st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)


def texts(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """A sample with some changes; now and then something else altogether. What a node writes has been decoded: no half pair is left."""
    made = st.builds(changed, st.sampled_from(list(samples)), changes) | anything
    return made.map(lambda text: text.encode("utf-8", "replace").decode("utf-8"))


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def replaced(document: object, edits: Sequence[tuple[int, int]]) -> object:
    """The document with other values at some of its places; the last junk but one takes the place away."""
    root = [copy.deepcopy(document)]
    for place, junk in edits:
        places = _places(root[0], (0,))
        *path, last = places[place % len(places)]
        holder: Any = root
        for step in path:
            holder = holder[step]
        if junk < len(JUNK):
            holder[last] = copy.deepcopy(JUNK[junk])
        elif isinstance(holder, dict):
            del holder[last]
        elif len(holder) > 1 or holder is not root:
            holder.pop(last)
    return root[0]


def of_other_types(sample: str) -> Iterator[str]:
    """The document with each of its values, one at a time, of each other type, and gone."""
    document = json.loads(sample)
    for place in range(len(_places(document, (0,)))):
        for junk in TYPES:
            yield json.dumps(replaced(document, [(place, junk)]))


def documents(samples: Sequence[object]) -> st.SearchStrategy[str]:
    """JSON with wrong types, numbers that nothing holds and keys that are gone; also JSON that is damaged as a text."""
    edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, len(JUNK) + 3)), max_size=4)
    made = st.builds(replaced, st.sampled_from(list(samples)), edits).map(json.dumps)
    return st.one_of(made, made, texts([json.dumps(sample) for sample in samples]))


class Telling(Host):
    """A node that answers everything with one text: every file, every command, the words of it as every directory."""

    def __init__(self, text: str, code: int = 0) -> None:
        self.text, self.code = text, code
        words = (word for word in re.split("[\0/ \t\n]+", text) if word not in ("", ".", ".."))
        self.words = sorted({word[:255] for word in words})[:12]

    def path(self, path: str) -> str:
        raise OSError(f"{path} is nobody's")

    def read_bytes(self, path: str, limit: int = 1 << 22) -> bytes:
        return self.text.encode("utf-8", "replace")[:limit]

    def listdir(self, path: str) -> list[str]:
        return self.words

    def exists(self, path: str) -> bool:
        return True

    def readlink(self, path: str) -> str:
        return self.text[:4096]

    def which(self, tool: str) -> str:
        return "/usr/bin/" + tool

    def mode(self, path: str) -> int:
        return 0o644

    def mtime(self, path: str) -> float:
        return 1.0

    def size(self, path: str) -> int:
        return len(self.text)

    def free_bytes(self, path: str) -> int:
        return 1 << 40

    def owner(self, path: str) -> tuple[str, int, int]:
        return "root", 0, 0

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        return Result(self.code, self.text, self.text)

    def exchange(self, *_given: object) -> list[bytes]:
        return [self.text.encode("utf-8", "replace")[:2048]]

    def spawn(self, *_given: object) -> int:
        raise OSError("nothing is started here")


class Edited(TreeHost):
    """A captured node, of which one file (or recording) says something else."""

    def __init__(self, root: Path, name: str, edits: Sequence[Change]) -> None:
        super().__init__(str(root))
        self.name, self.edits = str(Path(self.root) / name), edits

    def read_bytes(self, path: str, limit: int = 1 << 22) -> bytes | None:
        data = super().read_bytes(path, limit)
        try:
            mine = data is not None and self.path(path) == self.name
        except (OSError, ValueError):
            mine = False
        if data is None or not mine:
            return data
        return changed(data.decode("utf-8", "replace"), self.edits).encode("utf-8", "replace")[:limit]
