# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of nccl-tests in a text: the sizes, which it refuses in forms that people write, and whether values are compared.

A size is a number and at most one of K, M, G behind it (src/common.cu, parsesize): of what follows one letter is looked at, so ``512MB`` is
512 MiB and ``1B`` is refused, since 2.10.0 ("invalid size specified for 'minbytes'"). Older versions passed over the letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

PROGRAM = re.compile(
    r"(?<![\w.-])(?:all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|gather|scatter|sendrecv|hypercube)_perf(?=[\s\"'\\]|$)")
MOST_WORDS, LONGEST = 200, 8192  # of one command, and characters of its first line: none has more
SIZES = {"-b": "minbytes", "-e": "maxbytes", "-i": "stepbytes"}
_LONG = {**{f"--{long}": short for short, long in SIZES.items()}, "--check": "-c"}
_OPTION = re.compile(r"(?P<long>--[a-z_]+)(?:=(?P<joined>\S+))?\Z|(?P<short>-[beic])(?P<value>\S*)\Z")
_ENDS = re.compile(r"[|;&)]|[0-9]?[<>]")
_SIZE = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*(?P<unit>\S?)")
_COMPUTED = re.compile(r"[$`{]")


def options_of(lines: list[str]) -> Iterator[tuple[int, str, str | None]]:
    """(line, option, value) of every size and of -c, behind each program's name up to the end of its command; comments are out already.

    None: the value is computed by the shell.
    """
    for number, line in enumerate(lines, 1):
        for program in PROGRAM.finditer(line):
            yield from _options(list(islice(_words(lines, number, program.end()), MOST_WORDS)))


def _words(lines: list[str], number: int, start: int) -> Iterator[tuple[int, str]]:
    """The command's words with their lines; a backslash at the end of a line carries on."""
    rest = lines[number - 1][start : start + LONGEST]
    while True:
        carries_on = rest.rstrip().endswith("\\")
        for word in rest.rstrip().removesuffix("\\").split():
            if _ENDS.match(word):
                return
            yield number, word.rstrip(";|&)").strip("\"',")
            if word[-1] in ";|&)":
                return
        if not carries_on or number >= len(lines):
            return
        rest, number = lines[number], number + 1


def _options(words: list[tuple[int, str]]) -> Iterator[tuple[int, str, str | None]]:
    for at, (line, word) in enumerate(words):
        found = _OPTION.match(word)
        name = _LONG.get(found.group("long"), "") if found and found.group("long") else found.group("short") if found else ""
        if not found or not name:
            continue
        value = found.group("joined") or found.group("value")
        if not value:
            value = words[at + 1][1] if at + 1 < len(words) else ""
        if value:
            yield line, name, None if _COMPUTED.search(value) else value


def judge_option(name: str, value: str) -> tuple[str, str, str] | None:
    """(severity, message, replacement) of an option's value, None: sound, or no option of nccl-tests."""
    if name == "-c":
        return None if value != "0" else (
            "warning", "no value is compared: such a run shows speed, never that data arrived whole", "-c 1, or leave it out")
    found = _SIZE.match(value)
    if name not in SIZES or (found is not None and found.group("unit").lower() in ("", "k", "m", "g")):
        return None
    number = re.match(r"\d+", value)
    message = (f"{value!r} is refused: nccl-tests takes digits and one of K, M, G; since 2.10.0 it ends with "
               f"\"invalid size specified for '{SIZES[name]}'\"")
    return "error", message, f"{name} {number.group() if number else 8}"
