# SPDX-License-Identifier: GPL-3.0-or-later
"""Every regular expression of the product, how it is used, and texts that make a bad one slow.

A pattern is found where a module, a class or a table of it holds it, and where the source gives one to a function of ``re``. It is
tried the way it is used: ``match`` begins once, ``search`` begins at every letter.
"""

import ast
import builtins
import importlib
import re
import re._constants as sre
import re._parser as parser
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import repo

COLLECTION = "ansible_collections.railwright.rdma."
# What a method of a pattern does with a text, as the trial repeats it. Whatever may go on behind a match is tried to the end.
ONCE = ("match", "fullmatch", "search")
METHODS = (*ONCE, "finditer", "findall", "sub", "subn", "split")
LONG = 64  # a repeat that may go on this far is as good as endless
GENERIC = (
    " ", "\t", "\n", " \n", "0", "a", "A", "_", "-", "a=", "a b ", '"', "'", "\"'", ",", "a,", "[", "]", "[]", "[a", "(", "{", "/", "a/",
    ".", "1.", ":", "a:", "a: ", "\\", "#", "a\n", "a=1\n", "1 ", "0x", "<", "%", "\x00", "²", "\x1b[",
)  # fmt: skip
SAMPLES = " \t\n0a1fAZ_-.:/,=\"'[](){}<>#%@+!;\\\x00\x1b²e"
ENDINGS = ("\x00", "", "\n", "!")


class Found(NamedTuple):
    """A pattern, where it was found, and the methods that it is used with; none: they could not be told."""

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def dotted(name: str) -> str:
    """The module of a file: plugins/module_utils/host/host.py -> ansible_collections.….host."""
    parts = name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return parts if name.startswith("src/") else COLLECTION + parts


@cache
def modules() -> dict[str, ModuleType]:
    """Every module of the product by its file; what starts a program when it is imported is left out, and holds no pattern."""
    names = [name for name in repo.python("plugins/", "src/railwright/") if not name.endswith("/__main__.py")]
    return {name: importlib.import_module(dotted(name)) for name in names}


def held(value: object, place: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns in a value: itself, in containers and in rows of tables."""
    if isinstance(value, re.Pattern):
        yield place, value
    elif depth < 6 and isinstance(value, Mapping):
        for key, item in value.items():
            yield from held(key, place, depth + 1)
            yield from held(item, place, depth + 1)
    elif depth < 6 and isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from held(item, place, depth + 1)
    elif depth < 6 and (isinstance(value, type) or hasattr(value, "__dataclass_fields__")) and type(value).__module__ != "re":
        own = value.__module__ if isinstance(value, type) else type(value).__module__
        if own.startswith(("railwright", COLLECTION)):
            for name, item in list(vars(value).items()) if hasattr(value, "__dict__") else []:
                yield from held(item, f"{place}.{name}", depth + 1)


class _Word(str):
    """What stands for a local value, of which the source does not tell what it is."""

    __slots__ = ()

    def __getattr__(self, _name: str) -> "_Word":
        return _Word("word")

    def replace(self, *_given: object) -> "_Word":  # type: ignore[override] - it stays one, whatever is replaced
        return self


class _Names(dict[str, Any]):
    """The names of a module."""

    def __missing__(self, key: str) -> Any:
        return getattr(builtins, key, _Word("word"))


def given(name: str, module: ModuleType, unread: list[str]) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """(place, pattern, function) of every pattern that a file gives to a function of re."""
    for node in ast.walk(repo.tree(name)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)):
            continue
        if node.func.value.id != "re" or node.func.attr not in (*METHODS, "compile"):
            continue
        place = f"{name}:{node.lineno}"
        others = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "flags")]
        flags = [item for item in others if ast.unparse(item).startswith("re.")]
        try:
            names = _Names(vars(module))
            text = _value(node.args[0], names)
            value = sum((_value(item, names) for item in flags), 0)
            pattern = None if isinstance(text, _Word) else text if isinstance(text, re.Pattern) else re.compile(text, value)
        except (TypeError, KeyError, IndexError, re.error):
            pattern = None
        if pattern is None:
            unread.append(f"{name}: {ast.unparse(node.args[0])}")
        else:
            yield place, pattern, node.func.attr


def _value(node: ast.expr, names: _Names) -> Any:
    return eval(compile(ast.Expression(node), "source", "eval"), {}, names)  # noqa: S307 - the source is our own


def used(name: str, module: ModuleType) -> Iterator[tuple[re.Pattern[Any], str]]:
    """(pattern, method) wherever a file names a pattern; the method "" where it hands it on."""
    inner = set()
    for node in ast.walk(repo.tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            value = _named(node.value, module)
            inner.add(id(node.value))
            if isinstance(value, re.Pattern):
                yield value, node.attr
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inner:
            value = _named(node, module)
            if isinstance(value, re.Pattern):
                yield value, ""


def loose(name: str, module: ModuleType) -> set[str]:
    """The methods that a file calls on patterns which it does not name: of a table's row, of an argument."""
    nodes = [node for node in ast.walk(repo.tree(name)) if isinstance(node, ast.Attribute) and node.attr in (*ONCE, "finditer", "findall")]
    return {node.attr for node in nodes if not isinstance(_named(node.value, module), re.Pattern | ModuleType)}


def _named(node: ast.AST, module: ModuleType) -> object:
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute) and node.attr == "pattern":  # its text goes into another one, which is found itself
        return None
    return getattr(_named(node.value, module), node.attr, None) if isinstance(node, ast.Attribute) else None


@cache
def found() -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """Every pattern once, and what is given to a function of ``re`` in a form that the source does not tell."""
    places: dict[re.Pattern[Any], str] = {}
    methods: dict[re.Pattern[Any], set[str]] = {}
    guessed: dict[re.Pattern[Any], set[str]] = {}
    unread: list[str] = []
    for name, module in modules().items():
        anonymous = loose(name, module)
        for attribute, value in list(vars(module).items()):
            for place, pattern in held(value, f"{name} {attribute}"):
                places.setdefault(pattern, place)
                guessed.setdefault(pattern, set()).update(anonymous)
        for place, pattern, function in given(name, module, unread):
            places.setdefault(pattern, place)
            methods.setdefault(pattern, set()).add(function)
            guessed.setdefault(pattern, set()).update(anonymous)
        for pattern, method in used(name, module):
            methods.setdefault(pattern, set()).add(method)
    for pattern, known in methods.items():
        if "" in known or known == {"compile"}:
            known.update(guessed.get(pattern, ()))
    rows = [(place, pattern, (methods.get(pattern) or guessed.get(pattern, set())) - {"", "compile"}) for pattern, place in places.items()]
    return tuple(Found(place, pattern, tuple(sorted(known))) for place, pattern, known in rows), tuple(sorted(set(unread)))


def trial(item: Found) -> Callable[[Any], object]:
    """The pattern on a text, as the product uses it; as often as it matches where the use is not known."""
    if item.methods and set(item.methods) <= set(ONCE):
        calls = [getattr(item.pattern, method) for method in item.methods]
        return lambda text: [call(text) for call in calls]

    def every(text: Any) -> None:
        for _match in item.pattern.finditer(text):
            pass

    return every


# --- texts that hurt -------------------------------------------------------------------------------------------------------------------


class Repeat(NamedTuple):
    """An endless repeat of a pattern: a text that leads up to it, texts that it goes on with, and letters that it does not take."""

    before: str
    bodies: tuple[str, ...]
    stops: tuple[str, ...]


def _tree(pattern: re.Pattern[Any]) -> Iterable[Any]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return list(parser.parse(text, pattern.flags))


def _repeats(nodes: list[Any], before: str) -> Iterator[Repeat]:
    """Every endless repeat of a pattern."""
    for operator, argument in nodes:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, body = argument
            if most == sre.MAXREPEAT or most >= LONG:
                yield Repeat(before + _sample(list(body), 0) * min(least, 70), tuple(_bodies(list(body))), tuple(_stops(list(body))))
            yield from _repeats(list(body), before)
        elif operator is sre.BRANCH:
            for branch in argument[1]:
                yield from _repeats(list(branch), before)
        elif operator is sre.SUBPATTERN:
            yield from _repeats(list(argument[3]), before)
        elif operator in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _repeats(list(argument[1]), before)
        before += _sample([(operator, argument)], 1)


def _bodies(nodes: list[Any]) -> list[str]:
    """What a repeat goes on with: letters that its class takes, or its body once, short and long."""
    if len(nodes) == 1:
        letters = [letter for letter in SAMPLES if _takes(nodes[0], letter)]
        if letters:
            return letters
    return list(dict.fromkeys(text for more in (0, 1, 2) if (text := _sample(nodes, more))))


def _stops(nodes: list[Any]) -> Iterator[str]:
    """The letters that a negated class excludes, of those that one writes."""
    for operator, argument in nodes[:1]:
        if operator is sre.IN and argument[0][0] is sre.NEGATE:
            yield from (letter for letter in SAMPLES if not letter.isspace() and not _takes((operator, argument), letter))


def _beginnings(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Every beginning of a text that the pattern matches."""
    nodes = list(_tree(pattern))
    for end in range(1, len(nodes) + 1):
        yield _sample(nodes[:end], 0)
        yield _sample(nodes[:end], 1)


def _asserted(nodes: Iterable[Any]) -> Iterator[str]:
    """What the looks ahead of a pattern look for: found at the end, they send a search through the whole text at every beginning."""
    for operator, argument in nodes:
        if operator in (sre.ASSERT, sre.ASSERT_NOT):
            yield from (_sample(list(argument[1]), more) for more in (0, 1))
        elif operator is sre.SUBPATTERN:
            yield from _asserted(argument[3])


def _sample(nodes: list[Any], more: int) -> str:
    """A text that the nodes match; ``more``: so often beyond what they need at least."""
    made = ""
    for operator, argument in nodes:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            made += _sample(list(argument[2]), more) * min(argument[0] + more, argument[1], argument[0] or 1, 70)
        elif operator is sre.SUBPATTERN:
            made += _sample(list(argument[3]), more)
        elif operator is sre.BRANCH:
            made += _sample(list(argument[1][more % len(argument[1])]), more)
        elif operator in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            made += next((letter for letter in _likely(operator, argument) if _takes((operator, argument), letter)), "?")
    return made


def _likely(operator: Any, argument: Any) -> Iterable[str]:
    if operator is sre.LITERAL:
        return (chr(argument),)
    if operator is sre.IN and argument[0][0] is sre.LITERAL:
        return (chr(argument[0][1]),)
    return "a0x1 " + SAMPLES + "".join(map(chr, range(33, 127)))


def _takes(node: Any, letter: str) -> bool:
    operator, argument = node
    if operator is sre.LITERAL:
        return argument == ord(letter)
    if operator is sre.NOT_LITERAL:
        return argument != ord(letter)
    if operator is sre.ANY:
        return letter != "\n"
    if operator is not sre.IN:
        return False
    negated = argument[0][0] is sre.NEGATE
    return any(_in(item, letter) for item in argument[negated:]) is not negated


_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _in(item: Any, letter: str) -> bool:
    operator, argument = item
    if operator is sre.LITERAL:
        return bool(argument == ord(letter))
    if operator is sre.RANGE:
        return bool(argument[0] <= ord(letter) <= argument[1])
    return re.match(_CATEGORIES[argument], letter) is not None


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """(beginning, what is repeated, ending), each once."""
    seen = set()
    for before, body, ending in _attacks(pattern):
        if (before, body, ending) not in seen and body:
            seen.add((before, body, ending))
            yield before, body, ending


def _attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    for item in _repeats(list(_tree(pattern)), ""):
        for body in item.bodies:
            for ending in (*ENDINGS, *(stop + "!" for stop in item.stops)):
                yield item.before, body, ending
        longer = [item.before + body for body in item.bodies[:3]]
        for body in (item.before, *longer, *(body + "\n" for body in longer[:2])):
            yield "", body, "\x00"
            yield "", body, ""
    for ending in _asserted(_tree(pattern)):
        for body in _beginnings(pattern):
            yield "", body, ending
    for body in (*_beginnings(pattern), *GENERIC):
        yield "", body, "\x00"
        yield "", body, ""


def attack(pattern: re.Pattern[Any], parts: tuple[str, str, str], size: int) -> Any:
    """The text of about this many letters; bytes for a pattern of bytes."""
    before, body, ending = parts
    text = before + body * (size // len(body)) + ending
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


MANY = 20  # digits: more than 64 bits hold, and far less than the 4,300 at which int() raises
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def endless_digits(pattern: re.Pattern[Any]) -> bool:
    """Whether a group of the pattern may hold more digits in a row than ``int`` takes."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return _endless(parser.parse(text), in_group=False)


def _endless(items: Any, *, in_group: bool) -> bool:
    for kind, value in items:
        if kind in _REPEATS:
            _least, most, repeated = value
            if (in_group and most > MANY and all(_is_digit(*item) for item in repeated)) or _endless(repeated, in_group=in_group):
                return True
        elif kind is sre.SUBPATTERN:
            if _endless(value[3], in_group=in_group or value[0] is not None):
                return True
        elif kind is sre.BRANCH and any(_endless(branch, in_group=in_group) for branch in value[1]):
            return True
    return False


def _is_digit(kind: Any, value: Any) -> bool:
    """Whether one item of a pattern takes nothing but digits."""
    if kind is sre.IN or kind in _REPEATS:
        return all(_is_digit(*item) for item in (value if kind is sre.IN else value[2]))
    if kind is sre.RANGE:
        return bool(ord("0") <= value[0] and value[1] <= ord("9"))
    if kind is sre.CATEGORY:
        return bool(value is sre.CATEGORY_DIGIT)
    return bool(kind is sre.LITERAL and chr(value).isdigit())
