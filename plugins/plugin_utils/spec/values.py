# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of inventory values: plain JSON in, checked and converted values out.

Numbers and booleans may arrive as text (an INI inventory, a template under
ansible-core 2.16), so text that reads as one is taken; nothing else is guessed.
"""

import math
import re
import sys
from collections.abc import Callable
from typing import Any

from .findings import MISSING, Findings
from .schema import TYPE_WORDS, Key

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_SHIFTS = {"K": 10, "M": 20, "G": 30}
LARGEST = sys.float_info.max
LONGEST = 300  # digits: a float ends at 308, and Python turns no text of more than 4300 into a number


def plain(value: Any) -> Any:
    """The same value without Ansible's tagged or unsafe subclasses; what is not JSON stays as it is."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        # what no float holds, and what Python refuses to print from some length on, is no number that anybody meant
        return int(value) if value.bit_length() < 1024 else math.inf if value > 0 else -math.inf
    if isinstance(value, float):
        return float(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def type_name(value: Any) -> str:
    """What a value is, in YAML's words."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity or NaN"
    for python, name in ((str, "text"), (int, "an integer"), (float, "a number"), (dict, "a mapping"), (list, "a list")):
        if isinstance(value, python):
            return name
    # A tagged subclass of ansible-core 2.19 is named by what it is a subclass of.
    return "a %s" % next((kind.__name__ for kind in type(value).__mro__ if kind.__module__ in ("datetime", "builtins")), "value")


def as_int(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= LONGEST and re.match(r"^-?(0|[1-9][0-9]*)$", value.strip()):
        return int(value)
    return None


def as_number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if -LARGEST <= value <= LARGEST else None
    if isinstance(value, str) and len(value) <= LONGEST and re.match(r"^-?[0-9]+(\.[0-9]+)?$", value.strip()):
        return float(value) if "." in value else int(value)
    return None


def bytes_of(text: str) -> int:
    """Of a size as nccl-tests reads it: digits (8), and one of K, M, G (32M, 16g), which are binary."""
    unit = text[-1:].upper()
    return int(text[:-1]) << _SHIFTS[unit] if unit in _SHIFTS else int(text)


def as_bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in _TRUE + _FALSE:
        return value.strip().lower() in _TRUE
    return None


CONVERT: dict[str, Callable[[Any], Any]] = {  # None: not of this type
    "int": as_int, "number": as_number, "bool": as_bool,
    "str": lambda value: value if isinstance(value, str) else None,
    "list": lambda value: value if isinstance(value, list) else None,
    "dict": lambda value: value if isinstance(value, dict) else None,
}


def check_key(key: Key, value: Any, path: str, findings: Findings) -> Any:
    """The converted value of one key, or MISSING after the finding that says why not."""
    # A memlock of 8388608 or a version 44 is naturally written as a number.
    if key.type == "str" and isinstance(value, int) and not isinstance(value, bool) and not key.choices:
        value = str(value)
    if key.type == "str" and isinstance(value, bool) and "true" in key.choices:
        value = "true" if value else "false"  # YAML reads the word as a boolean; Ansible's own check of arguments turns it back too
    converted = CONVERT[key.type](value)
    if converted is None:
        return findings.error(path, value, f"must be {TYPE_WORDS[key.type]}, not {type_name(value)}", key.allowed())
    if key.type == "list":
        return _check_elements(key, converted, path, findings)
    if key.type == "str" and not _matches(key, converted):
        return findings.error(path, value, f"is not a value that {path} can have" if key.choices else "must be " + key.form, key.allowed())
    if (key.minimum is not None and converted < key.minimum) or (key.maximum is not None and converted > key.maximum):
        return findings.error(path, value, "is out of range", key.allowed())
    return converted


def _matches(key: Key, value: str) -> bool:
    if key.choices:
        return value in key.choices
    # fullmatch: "$" alone would let a trailing newline through
    return key.pattern is None or re.fullmatch(key.pattern, value) is not None


def _check_elements(key: Key, value: Any, path: str, findings: Findings) -> Any:
    for index, element in enumerate(value if key.elements == "str" else ()):
        if not isinstance(element, str):
            findings.error(f"{path}[{index}]", element, f"must be text, not {type_name(element)}", key.allowed())
        elif not _matches(key, element):
            findings.error(f"{path}[{index}]", element, f"is not a value that {path} can hold", key.allowed())
    return MISSING if findings.has_error(path) else value
