# SPDX-License-Identifier: GPL-3.0-or-later
"""The NCCL settings in a text, with their lines: nccl.conf has a grammar of its own, everything else is read as a shell would.

"Shell" stands for whatever people keep settings in: export lines, .env files, mpirun -x, docker -e, srun --export, Dockerfile
ENV, Hydra's -genv, YAML of Kubernetes and compose, os.environ of a Python script. A value that only the shell knows is None.
Of nccl-tests' command lines: the sizes, which it refuses in forms that people write, and whether values are compared.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in

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


NAME = r"(?:(?:NCCL|OFI_NCCL|RCCL|HCCL)_[A-Za-z0-9_]+|LD_LIBRARY_PATH)"
CONF_NAMES = ("nccl.conf", ".nccl.conf")
BYTE_ORDER_MARK = "\ufeff"


class Grammar(StrEnum):
    CONF = "conf"
    SHELL = "shell"


class Setting(NamedTuple):
    """One variable at one place. ``value`` None: named without a value, or with one that only a shell can compute."""

    line: int
    name: str
    value: str | None
    # conf only: what of the line NCCL takes otherwise than it looks, as (severity, problem, what to write)
    slips: tuple[tuple[str, str, str], ...] = ()


def grammar_of(path: str) -> Grammar:
    return Grammar.CONF if PurePath(path).name in CONF_NAMES else Grammar.SHELL


def settings_of(text: str, grammar: Grammar) -> list[Setting]:
    """Every setting in the order of the text; of shell texts also nccl-tests' options, named -b, -e, -i and -c."""
    if grammar is Grammar.CONF:
        return list(_conf(text))
    text = text.replace("\r\n", "\n")
    options = options_of([_without_comment(line) for line in lines_in(text)])
    return sorted([*_shell(text), *(Setting(*option) for option in options)], key=lambda setting: setting.line)


def _conf(text: str) -> Iterator[Setting]:
    """NCCL splits at the first "=" and takes both sides as they are (src/misc/param.cc); # is a comment in column 0 alone."""
    marked = text.startswith(BYTE_ORDER_MARK)
    for number, line in enumerate(text.removeprefix(BYTE_ORDER_MARK).split("\n"), 1):
        if line.startswith("#") or not line.strip():
            continue
        name, equals, value = line.partition("=")
        slips: list[tuple[str, str, str]] = []
        bare = re.sub(r"^\s*export\s+", "", name).strip()
        if not equals:
            yield Setting(number, bare, None, (("error", "has no =: NCCL passes over the line", "NAME=VALUE, or # in the first column"),))
            continue
        if name.lstrip().startswith("#"):
            slip = ("error", "is no comment: # counts in the first column only", "# in the first column")
            yield Setting(number, name.strip(), None, (slip,))
            continue
        if marked and number == 1:
            problem = "the file begins with a byte order mark, which NCCL takes for a part of this name"
            slips.append(("error", problem, "the file as plain UTF-8"))
        if name != bare:
            slips.append(("error", f"sets a variable named {name!r}: nccl.conf is not shell", f"{bare}={value.strip()}"))
        slips += _value_slips(bare, value)
        yield Setting(number, bare, value.rstrip("\r"), tuple(slips))


def _value_slips(name: str, value: str) -> list[tuple[str, str, str]]:
    plain = re.split(r"\s#", value.rstrip("\r"), maxsplit=1)[0].strip().strip("\"'")
    fixed = f"{name}={plain}"
    if value.endswith("\r"):
        severity = "warning" if value.rstrip("\r") else "error"
        return [(severity, "ends in a carriage return, which NCCL before 2.30 keeps as part of the value", fixed)]
    if len(value) > 1023:
        return [("error", "is longer than the 1023 characters that NCCL keeps", "")]
    if re.search(r"\s#", value):
        return [("error", "the comment is part of the value: nccl.conf has none behind a value", fixed)]
    if value[:1] in "\"'" and value[:1]:
        return [("error", "the quotes are part of the value: nccl.conf is not shell", fixed)]
    if value != value.strip():
        return [("error", "the blanks around the value are part of it", fixed)]
    return []


_VALUE = r"""(?P<value>(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s;&|()"'`\\])*)"""
_ASSIGNMENT = re.compile(rf"(?<![\w$.{{-])(?P<name>{NAME})={_VALUE}")
_ANY_NAME = re.compile(NAME)
_EXPORT_LIST = re.compile(r"""--export=(?P<list>"[^"]*"|'[^']*'|\S+)""")
_PASSED = re.compile(rf"(?:(?<=\s)|^)(?:-x|-e|--env|-genvlist)[ =](?P<name>{NAME})(?![\w=])")
_TWO_WORDS = re.compile(rf"""^\s*ENV\s+(?P<a>{NAME})\s+(?P<av>\S.*)$|-genv\s+(?P<b>{NAME})\s+(?P<bv>"[^"]*"|'[^']*'|\S+)""")
_SCALAR = r"""(?:(?P<quoted>"[^"]*"|'[^']*')\s*(?:#.*)?$|(?P<plain>[^#]*))"""
_YAML = re.compile(rf"""^\s*(?:-\s+)?["']?(?P<name>{NAME})["']?\s*:\s+{_SCALAR}""")
_YAML_NAME = re.compile(rf"""^\s*(?:-\s+)?name:\s*["']?(?P<name>{NAME})["']?\s*$""")
_YAML_VALUE = re.compile(rf"""^\s*value:\s*{_SCALAR}""")
_PYTHON = re.compile(rf"""environ(?:\.setdefault\(|\[)\s*["'](?P<name>{NAME})["']\s*(?:\]\s*=|,)\s*(?:str\()?["']?(?P<value>[^"')\s]*)""")
_FALLBACK = re.compile(r"\$\{(?P<name>\w+):?-(?P<value>[^}]*)\}\Z")


def _shell(text: str) -> Iterator[Setting]:
    waiting: str | None = None  # the name of a Kubernetes variable whose value is on the next line
    for number, whole in enumerate(lines_in(text), 1):
        line = _without_comment(whole)
        if waiting is not None:
            value = _YAML_VALUE.match(line)
            yield Setting(number if value else number - 1, waiting, _unquoted(_scalar(value)) if value else None)
            waiting = None
            if value:
                continue
        named = _YAML_NAME.match(line)
        if named:
            waiting = named.group("name")
            continue
        yield from _in_order(line, _of_line(number, line))
    if waiting is not None:
        yield Setting(len(lines_in(text)), waiting, None)


def _in_order(line: str, found: Iterable[Setting]) -> list[Setting]:
    """As their names stand in the line."""
    places: dict[str, int] = {}
    for name in _ANY_NAME.finditer(line):
        places.setdefault(name.group(), name.start())
    return sorted(found, key=lambda setting: places.get(setting.name, 0))


def _of_line(number: int, line: str) -> Iterator[Setting]:
    exported = [found.group("list") for found in _EXPORT_LIST.finditer(line)]
    rest = _EXPORT_LIST.sub(" ", line)
    for words in exported:
        for word in words.strip("\"'").split(","):  # a comma ends a value here: sbatch(1)
            name, equals, value = word.partition("=")
            if re.fullmatch(NAME, name):
                yield Setting(number, name, _value(name, value) if equals else None)
    for found in _PYTHON.finditer(rest):
        yield Setting(number, found.group("name"), found.group("value"))
    for found in _TWO_WORDS.finditer(rest):
        name, value = (found.group("a"), found.group("av")) if found.group("a") else (found.group("b"), found.group("bv"))
        yield Setting(number, name, _value(name, value.rstrip()))
    for found in _PASSED.finditer(rest):
        yield Setting(number, found.group("name"), None)
    for found in _ASSIGNMENT.finditer(rest):
        yield Setting(number, found.group("name"), _value(found.group("name"), found.group("value")))
    mapped = _YAML.match(rest)
    if mapped:
        yield Setting(number, mapped.group("name"), _value(mapped.group("name"), _scalar(mapped)))


def _scalar(found: re.Match[str]) -> str:
    return found["quoted"] or found["plain"].rstrip()


def _value(name: str, written: str) -> str | None:
    """The value as the shell would pass it on; None where it depends on something that is not in the text."""
    value = _unquoted(written)
    fallback = _FALLBACK.match(value)
    if fallback and fallback.group("name") == name:  # export X="${X:-v}": v unless somebody else has set it
        return fallback.group("value")
    return None if not written.startswith("'") and re.search(r"\$|`", value) else value


def _unquoted(written: str) -> str:
    if len(written) > 1 and written[0] == written[-1] and written[0] in "\"'":
        return written[1:-1]
    return re.sub(r"""["'](?=[^"']*["']|$)|\\(?=.)""", "", written)


def _without_comment(line: str) -> str:
    """The line without its comment; #SBATCH and the like are directives and stay."""
    if re.match(r"\s*#(SBATCH|PBS|BSUB|\$)\b", line):
        return line
    quote = ""
    for position, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (position == 0 or line[position - 1].isspace()):
            return line[:position]
    return line
