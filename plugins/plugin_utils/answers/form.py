# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms of data from outside: which types, which names, how long, how deep. Pure; knows nothing of Ansible.

A form is written as Python: ``str``, ``int``, ``float``, ``bool`` and ``None``; ``[form]`` for a list, ``(form, form)`` for one of so many;
``{"name": form, "other?": form}`` for an object with these names, of which ``other`` may be missing, and whose further names are dropped;
``Map(form)`` for an object with any names; ``Either(form, form)``; ``Text``, ``Choice`` and ``Whole``; ``DATA`` for any JSON.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

TEXT_LIMIT = 4 * 1024 * 1024  # characters of one text: a log that is cut to a length of its own, a configuration file
NAME_LIMIT = 4096  # characters of a name in an object
VALUES_LIMIT = 500_000  # values in one answer; the facts of the largest tree in the tests have 9,000
DEPTH_LIMIT = 40
INTEGER_LIMIT = 1 << 64  # the kernel's counters have 64 bits without a sign


class Misfit(Exception):
    """``where`` in the data it is (empty: the whole), what is allowed there, and what was found."""

    def __init__(self, where: str, allowed: str, found: str) -> None:
        super().__init__(f"{where or 'it'} is {found}; allowed: {allowed}")


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
    return _Fitting().fit(form, value, "", 0)


class _Fitting:
    """One answer; counts its values."""

    def __init__(self) -> None:
        self.left = VALUES_LIMIT

    def fit(self, form: Any, value: Any, where: str, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Misfit("", f"at most {VALUES_LIMIT} values", "larger")
        if depth > DEPTH_LIMIT:
            raise Misfit(shortened(where), f"at most {DEPTH_LIMIT} levels", "nested deeper")
        if isinstance(form, dict):
            return self._record(form, value, where, depth)
        if isinstance(form, list):
            items = enumerate(of(list, value, where, "a list"))
            return [self.fit(form[0], item, f"{where}[{number}]", depth + 1) for number, item in items]
        if isinstance(form, tuple) and not hasattr(form, "_fields"):
            parts = of(list, value, where, f"a list of {len(form)}")
            if len(parts) != len(form):
                raise Misfit(shortened(where), f"a list of {len(form)}", f"one of {len(parts)}")
            return [self.fit(form[number], item, f"{where}[{number}]", depth + 1) for number, item in enumerate(parts)]
        if isinstance(form, Map):
            pairs = of(dict, value, where, "an object").items()
            return {name_of(name, where): self.fit(form.form, item, f"{where}.{name}", depth + 1) for name, item in pairs}
        if isinstance(form, Either):
            return self._either(form, value, where, depth)
        if form is DATA:
            return self._data(value, where, depth)
        return scalar(form, value, where)

    def _record(self, form: dict[str, Any], value: Any, where: str, depth: int) -> dict[str, Any]:
        found = {}
        of(dict, value, where, "an object")
        for key, part in form.items():
            name = key.removesuffix("?")
            if name in value:
                found[name] = self.fit(part, value[name], f"{where}.{name}" if where else name, depth + 1)
            elif name == key:
                raise Misfit(shortened(where), f"an object with {name}", f"without {name}")
        return found

    def _either(self, either: Either, value: Any, where: str, depth: int) -> Any:
        misfits = []
        for form in either.forms:
            try:
                return self.fit(form, value, where, depth)
            except Misfit as misfit:
                misfits.append(misfit)
        raise misfits[0]  # the first form is the one that is usually there

    def _data(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, dict):
            return self.fit(Map(DATA), value, where, depth)
        if isinstance(value, list | tuple):
            return self.fit([DATA], list(value), where, depth)
        kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
        if kind is None and value is not None:
            raise Misfit(shortened(where), "plain JSON", kind_of(value))
        return scalar(kind, value, where)


def scalar(form: Any, value: Any, where: str) -> Any:
    """One value that holds no others, as its plain type."""
    test = TESTS.get(form) or TESTS[type(form)]
    if not test(form, value):
        raise Misfit(shortened(where), described(form), kind_of(value))
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


def of(kind: type, value: Any, where: str, allowed: str) -> Any:
    if not isinstance(value, kind):
        raise Misfit(shortened(where), allowed, kind_of(value))
    return value


def name_of(name: Any, where: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LIMIT:
        raise Misfit(shortened(where), f"an object with names of at most {NAME_LIMIT} characters", "one with others")
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
