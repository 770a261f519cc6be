# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person, a record or a report is shown of values that may be secrets: names tell. Linear in what it is given.

Hidden are the value after a name that looks like a secret's (``HF_TOKEN=…``, ``password: …``, ``--secret …``, a sysctl ``…_key``) and
user and password of a URL; and, whatever its name, each text that was given to ``hide``: on the controller, what came out of a vault.
What is written on a node is never made of what came out of here.
"""

import json
import re
from typing import Any, Callable, Dict, Iterable, List, Tuple

from ..types import Change
from .outside import is_digits

HIDDEN = "(hidden)"
# A part of a name, between _ - and ., that ends so.
_SECRET = re.compile(
    "(?:password|passwd|passphrase|storagepass|jobcomppass|sshpass|psk|secret|token|credential|apikey|accesskey|secretkey|privatekey|sharedkey)s?$")
_NAME_LIMIT = 64  # characters of a name that are inspected
_QUOTES = "\"'"
_END_OF_URL = "/?#\"'<>\\"
SHOWN = (  # parts of a result that are for people
    "msg", "notes", "plan", "problems", "refused", "before", "after", "diff", "remaining", "left", "findings", "unknown", "verdicts",
    "overview",
)
OPEN = ("key", "what")  # of a change: others refer to it by these
_VALUES = ("before", "after", "expected", "found")  # of a change or a finding: a number there may be a hidden value
_HEAD = 4  # characters: a shorter text is hidden by its key alone, because it stands in every other text too
_WHOLE = 8  # a shorter text, and a number, is hidden where it stands between other signs than letters, digits and _
_SEALED = re.compile(r"\(hidden [0-9]{1,6}\)")
_hidden: Dict[str, List[str]] = {}  # texts by their first characters, the longest first


def hide(texts: Iterable[str]) -> None:
    """Hide these texts from now on in all that this process masks or prints."""
    for text in texts:
        lines = [line.strip() for line in text.split("\n")]
        for form in {text, json.dumps(text)[1:-1], repr(text)[1:-1], *(lines if len(lines) > 1 else ())}:
            same = _hidden.setdefault(form[:_HEAD], [])
            if len(form.strip()) >= _HEAD and form not in same:
                same.append(form)
                same.sort(key=len, reverse=True)


def forget() -> None:
    """Forget all hidden texts: the next command line of this process has another inventory."""
    _hidden.clear()


def hidden(value: Any, kept: Tuple[str, ...] = (), put: Callable[[str], str] = lambda _form: HIDDEN) -> Any:
    """The same JSON value without the texts of ``hide``. ``kept``: names whose values stay. ``put``: what stands for a text."""
    if not _hidden:
        return value
    if isinstance(value, str):
        return _without_hidden(value, put)
    if isinstance(value, dict):
        return {hidden(name): item if name in kept else HIDDEN if name in _VALUES and hidden(str(item)) == HIDDEN else
                hidden(item, kept, put) for name, item in value.items()}
    return [hidden(item, kept, put) for item in value] if isinstance(value, (list, tuple)) else value


def sealed(value: Any) -> Any:
    """The same JSON value with a number for each text of ``hide``, for ``unsealed`` in a process that hides the same."""
    return hidden(value, (), {form: number for number, form in _sealed().items()}.__getitem__)


def unsealed(value: Any) -> Any:
    if isinstance(value, str):
        forms = _sealed()
        return _SEALED.sub(lambda found: forms.get(found.group(), HIDDEN), value)
    if isinstance(value, dict):
        return {name: unsealed(item) for name, item in value.items()}
    return [unsealed(item) for item in value] if isinstance(value, list) else value


def _sealed() -> Dict[str, str]:
    return {"(hidden %d)" % number: form for number, form in enumerate(sorted(form for same in _hidden.values() for form in same))}


def _without_hidden(text: str, put: Callable[[str], str]) -> str:
    parts: List[str] = []
    done = at = 0
    while at <= len(text) - _HEAD:
        forms = [form for form in _hidden.get(text[at:at + _HEAD], ()) if text.startswith(form, at) and _stands(text, at, form)]
        if forms:
            parts += [text[done:at], put(forms[0])]
            done = at + len(forms[0])
        at = max(done, at + 1)
    return "".join(parts) + text[done:]


def _stands(text: str, at: int, form: str) -> bool:
    if len(form) >= _WHOLE and not is_digits(form):
        return True
    around = text[at - 1:at] + text[at + len(form):at + len(form) + 1]
    return not any(char.isalnum() or char == "_" for char in around)


def secret_name(name: str) -> bool:
    """Whether what has this name is probably a secret. ``key`` alone is not: plans, lists and files are full of keys. Nor is a path."""
    if "/" in name:
        return False
    parts = name.lower().replace("-", "_").replace(".", "_").split("_")
    if len(parts) > 1 and parts[-1].rstrip("0123456789") in ("key", "pass") and parts[-2] != "public":
        return True
    return any(map(_SECRET.search, parts))


def masked(value: Any) -> Any:
    """The same JSON value, fit to be shown."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {name: item if name in OPEN else masked_value(str(name), item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _words(value)
    return value


def masked_value(name: str, value: Any) -> Any:
    """The value of one name; what is absent, or a mere yes or no, tells nothing."""
    if value is None or isinstance(value, bool) or not secret_name(name):
        return masked(value)
    return HIDDEN


def masked_change(change: Change) -> Change:
    """What is shown of an effect is masked, and its ops stay as they are. Of packages and reboots, which have none, other steps take it."""
    if change.external:
        return change
    name = change.subject.name
    return change._replace(before=masked_value(name, change.before), after=masked_value(name, change.after))


def _words(words: Any) -> List[Any]:
    """Of a command line, say: the word after ``--password`` is one."""
    found: List[Any] = []
    after = False
    for word in words:
        found.append(HIDDEN if after and isinstance(word, str) else masked(word))
        after = isinstance(word, str) and word.startswith("-") and secret_name(word.lstrip("-"))
    return found


def masked_text(text: str) -> str:
    """Each line by itself."""
    return "\n".join(_line(without_user(line)) for line in hidden(text).split("\n"))


def without_user(line: str) -> str:
    """The users and passwords of a line's URLs hidden, one with a slash or another sign that ends a host's name too."""
    first, *rest = line.split("://")
    found = [first]
    for part in rest:
        end = next((at for at, char in enumerate(part) if char in _END_OF_URL or char.isspace()), len(part))
        _name, colon, port = part[:end].rpartition("]")[2].partition(":")
        if colon and "@" not in port and not is_digits(port):  # a password that goes on to the last @
            blank = next((at for at, char in enumerate(part) if char.isspace()), len(part))
            end = part.rfind("@", 0, blank) + 1 or end
        user, at_sign, host = part[:end].rpartition("@")
        found.append((HIDDEN + at_sign + host if user else part[:end]) + part[end:])
    return "://".join(found)


def _line(line: str) -> str:
    """The value ends with the line, for it may hold blanks; in the query of a URL with the next ``&`` or blank."""
    found: List[str] = []
    done = 0
    for at, char in enumerate(line):
        if at < done or char not in "=:":
            continue
        name, before = _name_before(line, at)
        if before == "/" or not secret_name(name) or (char == ":" and line[at + 1:at + 2].strip(" \t" + _QUOTES)):
            continue
        end = len(line)
        if char == "=" and before in ("?", "&"):
            end = next((place for place in range(at + 1, end) if line[place] in "&" + _QUOTES or line[place].isspace()), end)
        if end > at + 1:
            blanks = " " if line[at + 1] == " " else ""
            found += [line[done:at + 1], blanks, HIDDEN]
            done = end
    return "".join(found) + line[done:]


def _name_before(line: str, at: int) -> Tuple[str, str]:
    """The name that ends before ``at``, quotes and a blank aside, and the character before it."""
    end = at
    while end > 0 and at - end < 2 and line[end - 1] in " \t" + _QUOTES:
        end -= 1
    begin = end
    while begin > 0 and end - begin < _NAME_LIMIT and (line[begin - 1].isalnum() or line[begin - 1] in "_-."):
        begin -= 1
    return line[begin:end], line[begin - 1:begin]
