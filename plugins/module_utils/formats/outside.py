# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON, numbers and lines from outside: of a command, a node's file, a job, a scheduler, a mirror. Pure.

The one place where such text becomes values. What it gives is bounded: no level too deep for what reads it next, no number that a float
or 64 bits do not hold, no text that cannot be written as UTF-8 again. ``str.isdigit`` is no check for ``int``: it takes ``²``, and
``int`` refuses 5,000 digits.
"""

import ipaddress
import json
import math
import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ..errors import UnreadableText

LIMIT = 64 * 1024 * 1024  # characters; the pods of 5,000 nodes are a fifth of it
DEPTH = 64  # levels; nft's rules, the deepest that is read, have ten
LEAST, MOST = -(1 << 63), (1 << 64) - 1
LONGEST = 400  # characters of a number: what a float needs to be written without an exponent is less
_DIGITS = re.compile(r"[0-9]{1,18}\Z")  # 64 bits hold every such number
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}\Z")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?\Z")
# Strings as a whole, so that a bracket in one counts for nothing; one that has no end goes on to the end.
_MARK = re.compile(r'"[^"\\]*(?:\\.?[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def lines_in(text: str) -> List[str]:
    """Split a text of others at its line feeds alone, without an empty last line.

    ``str.splitlines`` breaks at nine other characters too, and a name of a file or a process may hold them: it would forge lines.
    """
    found = text.split("\n")
    return found if found[-1] else found[:-1]


def read_json(text: Optional[str], limit: int = LIMIT) -> Any:
    """The value of a JSON document. Raises UnreadableText for what is none, or is beyond the bounds above."""
    if text is None or len(text) > limit:
        raise UnreadableText("no text" if text is None else "JSON of more than %d characters" % limit)
    _check_depth(text)
    try:
        found = json.loads(text, parse_int=_json_int, parse_float=_json_float, parse_constant=_json_constant)
        if _SURROGATE.search(text):  # half of a pair has no form in UTF-8
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnreadableText:
        raise
    except ValueError as error:
        raise UnreadableText("no JSON: %s" % str(error)[:200]) from None
    return found


def json_value(text: Optional[str]) -> Any:
    """The value of a JSON document; None for what ``read_json`` does not take."""
    try:
        return read_json(text)
    except ValueError:
        return None


def json_object(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The object that a JSON document is; None for any other text."""
    found = json_value(text)
    return found if isinstance(found, dict) else None


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEPTH:
        return
    depth = 0
    for found in _MARK.finditer(text):
        mark = text[found.start()]
        depth += 1 if mark in "[{" else -1 if mark in "]}" else 0
        if depth > DEPTH:
            raise UnreadableText("JSON of more than %d levels" % DEPTH)


def _json_int(text: str) -> int:
    found = int(text) if len(text) < 19 else whole(text)
    if found is None:
        raise UnreadableText("JSON with a number that 64 bits do not hold: %s" % text[:30])
    return found


def _json_float(text: str) -> float:
    found = float(text) if len(text) <= LONGEST else math.inf
    if not math.isfinite(found):
        raise UnreadableText("JSON with a number that a float does not hold: %s" % text[:30])
    return found


def _json_constant(text: str) -> None:
    raise UnreadableText("JSON has no %s" % text)


def rows(value: Any) -> List[Dict[str, Any]]:
    """The objects of a list, as most commands answer; what is none of either is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def list_or_empty(value: Any) -> List[Any]:
    """A list; [] for what is none."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> Dict[str, Any]:
    """An object; {} for what is none."""
    return value if isinstance(value, dict) else {}


def is_address(text: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address without a prefix."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def unreachable(address: Any) -> bool:
    """Whether it is none at which another node reaches this one; ``address``: of ``ipaddress``."""
    return bool(address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def usable_addresses(texts: Iterable[Any]) -> List[str]:
    """Those at which other nodes reach this one, in canonical form. A zone (fe80::1%eth0) belongs to one node alone."""
    found = [ipaddress.ip_address(text) for text in map(str, texts) if is_address(text)]
    return [str(address) for address in found if not unreachable(address) and "%" not in str(address)]


def is_digits(text: str) -> bool:
    """Whether the text is a number without a sign that ``int`` takes and 64 bits hold: ASCII digits, 18 at most."""
    return _DIGITS.match(text) is not None


def whole(value: Any, least: int = LEAST, most: int = MOST) -> Optional[int]:
    """An integer, or the decimal text of one with blanks around it; None for anything else, and for what is out of the bounds."""
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if _WHOLE.match(text) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


def number(value: Any) -> Optional[float]:
    """A finite number, or the decimal text of one with blanks around it, as a float; None for anything else, NaN and Infinity too."""
    if isinstance(value, str):
        text = value.strip()
        value = float(text) if len(text) <= LONGEST and _NUMBER.match(text) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and whole(value) is None:
        return None
    return float(value) if math.isfinite(value) else None


def by_value(digits: str) -> Tuple[int, str]:
    """A sort key of ASCII digits, any number of them: the larger number comes last."""
    bare = digits.lstrip("0")
    return len(bare), bare
