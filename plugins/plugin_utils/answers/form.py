# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms of data from outside: which types, which names, how long, how deep. Pure; knows nothing of Ansible.

A form is written as Python: ``str``, ``int``, ``float``, ``bool`` and ``None``; ``[form]`` for a list, ``(form, form)`` for one of so many;
``{"name": form, "other?": form}`` for an object with these names, of which ``other`` may be missing, and whose further names are dropped;
``Map(form)`` for an object with any names; ``Either(form, form)``; ``Text``, ``Choice`` and ``Whole``; ``DATA`` for any JSON.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

TEXT_LIMIT = 4 * 1024 * 1024  # characters of one text: a log that is cut to a length of its own, a configuration file
NAME_LIMIT = 4096  # characters of a name in an object
VALUES_LIMIT = 500_000  # values in one answer; the facts of the largest tree in the tests have 9,000
DEPTH_LIMIT = 40
SHARED_LENGTH = 256  # characters: of longer texts few are equal
INTEGER_LIMIT = 1 << 64  # the kernel's counters have 64 bits without a sign


class Misfit(Exception):
    """What is allowed at a place of the data, and what was found. ``where`` grows on the way out: a path is made of what is wrong alone."""

    def __init__(self, allowed: str, found: str, *, whole: bool = False) -> None:
        super().__init__()
        self.where, self.allowed, self.found, self._whole = "", allowed, found, whole

    def within(self, step: str) -> "Misfit":
        if not self._whole:
            self.where = (step + self.where)[: 2 * NAME_LIMIT]
        return self

    def __str__(self) -> str:
        return f"{shortened(self.where) or 'it'} is {self.found}; allowed: {self.allowed}"


class Map(NamedTuple):
    """An object with any names, all of one form."""

    form: Any


class Either:
    """Any one of these forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


class Choice:
    """One of these texts."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts


class Text(NamedTuple):
    """A text that ``pattern`` matches whole, at most ``limit`` characters long; ``allowed`` says so to people."""

    pattern: str
    allowed: str
    limit: int = NAME_LIMIT


class Whole(NamedTuple):
    """A whole number in this range, both ends included."""

    low: int
    high: int


class _Data:
    """Any JSON."""


DATA = _Data()
NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", None: "null"}


def fitted(form: Any, value: Any) -> Any:
    """A copy of ``value`` in plain types. Raises Misfit."""
    try:
        return _fitting(form)(value, _Count(), 0)
    except Misfit as misfit:
        if isinstance(form, dict):
            misfit.where = misfit.where.removeprefix(".")
        raise


class _Count:
    """How many values the answer may still have."""

    def __init__(self) -> None:
        self.left = VALUES_LIMIT

    def enter(self, depth: int, values: int) -> None:
        """Something that holds so many values: counted together, as most values hold none."""
        self.left -= 1 + values
        if self.left < 0:
            raise Misfit(f"at most {VALUES_LIMIT} values", "larger", whole=True)
        if depth > DEPTH_LIMIT:
            raise Misfit(f"at most {DEPTH_LIMIT} levels", "nested deeper")


Fit = Callable[[Any, _Count, int], Any]
# A form is read once, its parts by what they are: they live as long as this process, so nothing else gets their identity.
_MADE: dict[int, tuple[Any, Fit]] = {}


def _part(form: Any) -> Fit:
    found = _MADE.get(id(form))
    if found is None:
        found = _MADE[id(form)] = (form, _fitting(form))
    return found[1]


def _fitting(form: Any) -> Fit:
    """What takes a value through a form. A form that is made for one answer is read for it alone; its parts are those of all answers."""
    if isinstance(form, dict):
        return _record([(key.removesuffix("?"), key.endswith("?"), _part(part)) for key, part in form.items()])
    if isinstance(form, list):
        return _list(_part(form[0]))
    if isinstance(form, tuple) and not hasattr(form, "_fields"):
        return _row([_part(part) for part in form])
    if isinstance(form, Map):
        return _map(_part(form.form))
    if isinstance(form, Either):
        return _either([_part(part) for part in form.forms], null=None in form.forms)
    return _data if form is DATA else _scalar(form)


def _record(parts: list[tuple[str, bool, Fit]]) -> Fit:
    def fit(value: Any, count: _Count, depth: int) -> Any:
        count.enter(depth, len(of(dict, value, "an object")))
        found = {}
        for name, optional, part in parts:
            if name in value:
                try:
                    found[name] = part(value[name], count, depth + 1)
                except Misfit as misfit:
                    raise misfit.within(f".{name}") from None
            elif not optional:
                raise Misfit(f"an object with {name}", f"without {name}")
        return found

    return fit


def _items(values: list[Any], parts: Iterable[Fit], count: _Count, depth: int) -> list[Any]:
    found: list[Any] = []
    try:
        for item, part in zip(values, parts, strict=False):
            found.append(part(item, count, depth + 1))  # how far it came is the place of what is wrong
    except Misfit as misfit:
        raise misfit.within(f"[{len(found)}]") from None
    return found


def _list(part: Fit) -> Fit:
    def fit(value: Any, count: _Count, depth: int) -> Any:
        count.enter(depth, len(of(list, value, "a list")))
        return _items(value, repeat(part), count, depth)

    return fit


def _row(parts: list[Fit]) -> Fit:
    allowed = f"a list of {len(parts)}"

    def fit(value: Any, count: _Count, depth: int) -> Any:
        count.enter(depth, len(parts))
        if len(of(list, value, allowed)) != len(parts):
            raise Misfit(allowed, f"one of {len(value)}")
        return _items(value, parts, count, depth)

    return fit


def _map(part: Fit) -> Fit:
    def fit(value: Any, count: _Count, depth: int) -> Any:
        count.enter(depth, len(of(dict, value, "an object")))
        found = {}
        for name, item in value.items():
            own = name_of(name)
            try:
                found[own] = part(item, count, depth + 1)
            except Misfit as misfit:
                raise misfit.within(f".{name}") from None
        return found

    return fit


def _either(parts: list[Fit], *, null: bool) -> Fit:
    def fit(value: Any, count: _Count, depth: int) -> Any:
        if value is None and null:
            return None
        misfits = []
        for part in parts:
            try:
                return part(value, count, depth)
            except Misfit as misfit:
                misfits.append(misfit)
        raise misfits[0]  # the first form is the one that is usually there

    return fit


def _data(value: Any, count: _Count, depth: int) -> Any:
    if isinstance(value, dict):
        return _ANY_MAP(value, count, depth)
    if isinstance(value, list | tuple):
        return _ANY_LIST(list(value), count, depth)
    if value is None or _is_plain(value):
        return value
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    if kind is None:
        raise Misfit("plain JSON", kind_of(value))
    return scalar(kind, value)


_ANY_MAP, _ANY_LIST = _map(_data), _list(_data)


def _is_plain(value: Any) -> bool:
    """Most of all values: a text that scalar() would return as it is."""
    return value.__class__ is str and len(value) <= TEXT_LIMIT and value.isascii()


@lru_cache(1 << 14)  # bounded, unlike sys.intern, which lets go of nothing in Python 3.12: a node may say new things for ever
def _shared(text: str) -> str:
    """The same object for equal texts: a thousand nodes say the same things."""
    return text


def _scalar(form: Any) -> Fit:
    if form is str:
        def text(value: Any, _count: _Count, _depth: int) -> Any:
            if not _is_plain(value):
                return scalar(str, value)
            return _shared(value) if len(value) <= SHARED_LENGTH else value

        return text

    def fit(value: Any, _count: _Count, _depth: int) -> Any:
        return scalar(form, value)

    return fit


def scalar(form: Any, value: Any) -> Any:
    """One value that holds no others, as its plain type."""
    test = TESTS.get(form) or TESTS[type(form)]
    if not test(form, value):
        raise Misfit(described(form), kind_of(value))
    if isinstance(value, str):
        return plain(value)
    # Subclasses of numbers are somebody's own; to Python true and false are whole numbers too.
    return value if value is None or isinstance(value, bool) else float(value) if isinstance(value, float) else int(value)


def is_number(value: Any, *kinds: type[int | float]) -> bool:
    """Not so: infinity, and what is no number; more digits than 64 bits hold; true and false."""
    return isinstance(value, kinds) and not isinstance(value, bool) and -INTEGER_LIMIT < value < INTEGER_LIMIT


def is_text(value: Any, limit: int = TEXT_LIMIT) -> bool:
    return isinstance(value, str) and len(value) <= limit


TESTS: dict[Any, Callable[[Any, Any], bool]] = {
    None: lambda _form, value: value is None,
    str: lambda _form, value: is_text(value),
    bool: lambda _form, value: isinstance(value, bool),
    int: lambda _form, value: is_number(value, int),
    float: lambda _form, value: is_number(value, int, float),
    Text: lambda form, value: is_text(value, form.limit) and re.fullmatch(form.pattern, value) is not None,
    Choice: lambda form, value: is_text(value) and value in form.texts,
    Whole: lambda form, value: is_number(value, int) and form.low <= value <= form.high,
}


def of(kind: type, value: Any, allowed: str) -> Any:
    if not isinstance(value, kind):
        raise Misfit(allowed, kind_of(value))
    return value


def name_of(name: Any) -> str:
    if not isinstance(name, str) or len(name) > NAME_LIMIT:
        raise Misfit(f"an object with names of at most {NAME_LIMIT} characters", "one with others")
    return plain(name)


def plain(text: str) -> str:
    """Of the type str itself, and of characters that every file and every stream takes."""
    exact = str.__str__(text)
    return exact if exact.isascii() else exact.encode("utf-8", "replace").decode()


def described(form: Any) -> str:
    if isinstance(form, Text):
        return form.allowed
    if isinstance(form, Choice):
        return ", ".join(form.texts)
    if isinstance(form, Whole):
        return f"{form.low} to {form.high}"
    if form is str:
        return f"a text of at most {TEXT_LIMIT} characters"
    return NAMES.get(form, "plain JSON")


def kind_of(value: Any) -> str:
    """For people: the type, and a short value itself."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the number {value}" if abs(value) < INTEGER_LIMIT else "a number of too many digits"
    if isinstance(value, float):
        return f"the number {value}" if math.isfinite(value) else "no finite number"
    if isinstance(value, str):
        return f"the text {shortened(ascii(value))}"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "something else"


def shortened(text: str, limit: int = 80) -> str:
    """Names on the way to a value are the sender's own."""
    visible = "".join(letter if letter.isprintable() else "?" for letter in text[: limit + 1])
    return visible if len(visible) <= limit else visible[:limit] + "…"
