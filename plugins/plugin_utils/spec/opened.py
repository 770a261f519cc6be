# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of an inventory that are shown to nobody: a vault, an ``!unsafe`` or a lookup had a part in them.

``Sources`` finds them among a host's variables as they are written. ``Opened`` keeps their texts by key, and takes them out of findings.
Nothing here depends on the release of ansible-core: 2.19 tags values, 2.16 has classes for them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from yaml import YAMLError

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, hidden, hide
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding

from .hurtful import REACH
from .schema import BY_NAME
from .values import plain

TEMPLATE = re.compile(r"\{[{%#]|\A#jinja2:")
RAILS = "rdma_rails"  # their names stand in everything that is said
# What tells two nodes' ways apart: lint keeps it as it is written, templates and all, since most hosts have a value of their own.
WAYS = ("ansible_host", "ansible_port", "ansible_connection", "ansible_ssh_host", "ansible_ssh_port", "ansible_ssh_common_args",
        "ansible_ssh_extra_args", "ansible_ssh_args")  # fmt: skip
LOGINS = ("ansible_user", "ansible_ssh_user")
KEPT = REACH.union(WAYS, LOGINS)  # variables by which Ansible reaches a host, that findings are about
VAULTED = frozenset(("AnsibleVaultEncryptedUnicode", "EncryptedString", "VaultedValue"))
# In a template: what reads from elsewhere than from the host's own variables.
READERS = frozenset(("lookup", "query", "q", "hostvars", "vars", "unvault", "include", "import"))
# Ansible's own variables: 2.19 marks names of hosts and groups as it marks an !unsafe.
MAGIC = frozenset(("inventory_hostname", "inventory_hostname_short", "inventory_dir", "inventory_file", "groups", "group_names",
                   "play_hosts", "ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_batch"))  # fmt: skip
_WORD = re.compile(r"\w+")
_STEP = re.compile(r"[.\[]")
_NUMBERED = re.compile(r"(?<![\w.:/-])(?=[\w.:/-]*[0-9])[\w.:/-]+")
_ADVICE = "; did you mean "
UNFILLED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, YAMLError)  # what a filter raises before ansible-core 2.19
_UNDEFINED = re.compile(r"'\w+' is undefined")
SHORT = 3  # letters of a word that counts as a part of a value


class Sources:
    """Which variables of a host hold a hidden value. ``encrypted``: whether a file is in a vault as a whole. ``names``: variables that
    come from such a file; ansible-core 2.16 itself marks neither numbers nor what is written as JSON."""

    def __init__(self, variables: Mapping[str, Any], encrypted: Callable[[str], bool], names: Collection[str] = ()) -> None:
        self._variables, self._encrypted = variables, encrypted
        self._known: dict[str, bool] = {}
        self._behind = cache(lambda name: {None} if name in names else set(self._scan(variables[name])))

    def named(self, name: str) -> bool:
        """Whether a variable, or one that its templates name, holds a hidden value."""
        if name not in self._known:
            seen: set[str | None] = {name}
            todo = [name]
            while todo:
                found = self._behind(todo.pop()) - seen
                seen |= found
                todo += filter(None, found)
            self._known[name] = None in seen
        return self._known[name]

    def keys(self) -> list[str]:
        """The variables that hold one, of those that findings are about."""
        return [str(name) for name in self._variables if (name in BY_NAME or name in KEPT) and self.named(name)]

    def texts(self, key: str, value: Any) -> set[str]:
        """The texts to hide of a key's ``value``, in which the templates are filled in."""
        names = {str(rail.get("name")) for rail in value if isinstance(rail, Mapping)} if key == RAILS and isinstance(value, list) else ()
        found = set(self._texts(self._variables[key], value)) or set(_leaves(value))
        return found.difference(names)

    def _texts(self, raw: Any, value: Any) -> Iterator[str]:
        """Of a list or a mapping only the parts that hold a hidden value."""
        alike = type(value) in (dict, list) and isinstance(raw, type(value)) and len(raw) == len(value)
        if alike and not self._marked(raw):
            for one, other in zip(*(item.values() if isinstance(item, dict) else item for item in (raw, value)), strict=True):
                yield from self._texts(one, other)
        elif self._holds(raw):
            yield from _leaves(value)

    def _holds(self, value: Any) -> bool:
        return any(name is None or self.named(name) for name in set(self._scan(value)))

    def _scan(self, value: Any) -> Iterator[str | None]:
        """None for each hidden value, and the variables that templates name."""
        if self._marked(value):
            yield None
        elif isinstance(value, (dict, list, tuple)):  # not hostvars, which would fill in every template of every host
            for item in value.values() if isinstance(value, dict) else value:
                yield from self._scan(item)
        elif isinstance(value, str) and TEMPLATE.search(value):
            words = set(_WORD.findall(value))
            yield from (words & self._variables.keys()) - MAGIC if words.isdisjoint(READERS) else (None,)

    def _marked(self, value: Any) -> bool:
        kinds = _kinds(type(value).__mro__) | {kind.__name__ for kind in _tags(value)}
        unsafe = "AnsibleUnsafe" in kinds or (isinstance(value, str) and "Origin" in kinds and "TrustedAsTemplate" not in kinds)
        return unsafe or not VAULTED.isdisjoint(kinds) or self._from_vault(value)

    def _from_vault(self, value: Any) -> bool:
        tag = next((tag for kind, tag in _tags(value).items() if kind.__name__ == "Origin"), None)
        file = getattr(tag, "path", None) or (getattr(value, "ansible_pos", None) or [None])[0]
        return file is not None and self._encrypted(str(file))


@cache
def _kinds(bases: tuple[type, ...]) -> frozenset[str]:
    return frozenset(base.__name__ for base in bases)


def _tags(value: Any) -> Mapping[Any, Any]:
    found: Mapping[Any, Any] = getattr(value, "_ansible_tags_mapping", {})
    return found


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers in a value, and the names of mappings; a yes or no tells nothing."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from (*_leaves(name), *_leaves(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(plain(value))


def unfilled(error: Exception) -> str:
    """Why the template of a hidden value cannot be filled in, without a part of the value."""
    said = _UNDEFINED.search(str(error))
    return said[0] if said else f"its template cannot be filled in ({type(error).__name__}); why is hidden: a secret takes part in it"


class Opened:
    """The hidden texts of an inventory, or of one host, by key."""

    def __init__(self) -> None:
        self._texts: dict[str, set[str]] = {}
        self._words: set[str] = set()

    def add(self, key: str, texts: Iterable[str], names: Iterable[str] = ()) -> None:
        """``names``: of hosts and groups, which stand in everything that is said."""
        found = set(texts)
        self._texts.setdefault(key, set()).update(found)
        found -= {*(BY_NAME[key].choices if key in BY_NAME else ()), *names}
        self._words.update(word.lower() for text in found for word in _WORD.findall(text) if len(word) >= SHORT or len(text) <= SHORT)
        hide(found)

    def shown(self, finding: Finding) -> Finding:
        """The finding without any hidden value. Of a key that holds one also without numbers and advice, which are made of the value."""
        if not self._texts:
            return finding
        root = _STEP.split(finding.key)[0]
        if root not in self._texts:
            value, message, allowed = hidden(finding.value), self._without(finding.message), self._without(finding.allowed)
            return finding._replace(value=value, message=message, allowed=allowed)
        said, _advice, rest = finding.message.partition(_ADVICE)
        texts = (said + rest.partition("?")[2], finding.allowed)
        message, allowed = (_NUMBERED.sub(HIDDEN, self._without(text)) for text in texts)
        if root in BY_NAME and finding.allowed == BY_NAME[root].allowed():
            allowed = finding.allowed
        value = None if finding.value is None else HIDDEN
        return finding._replace(key=root + self._without(finding.key[len(root):]), value=value, message=message, allowed=allowed)

    def _without(self, text: str) -> str:
        return _WORD.sub(lambda word: HIDDEN if word[0].lower() in self._words else word[0], hidden(text))
