# SPDX-License-Identifier: GPL-3.0-or-later
"""Where every variable of an inventory is written: file and line, found by reading the files as Ansible does.

Ansible itself forgets the line of a number or a boolean (and, before 2.19, of nearly everything), so the files are composed once more
here.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

import yaml
from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.inventory import detect_range, expand_hostname_range

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_address
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import PYTHON_LINE_END, shell_words
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
from railwright.exitcodes import InputError
from railwright.inventory_text import Condensed, condensed, understood
from railwright.inventory_yaml import MERGE, TEXT, compose, items, read, written, wrong

YAML_SUFFIXES = ("", ".yml", ".yaml", ".json")  # what Ansible's host_group_vars plugin reads
# What Ansible's inventory manager passes over in a directory (its INVENTORY_IGNORE_EXTS).
IGNORED = (".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".ini", ".cfg", ".retry")
GROUP_PARTS = ("hosts", "vars", "children")
VAULT = "$ANSIBLE_VAULT;"


class Origin(NamedTuple):
    file: Path
    line: int


class Definition(NamedTuple):
    """A place that sets a variable."""

    file: Path
    node: Any  # of YAML; of INI the text
    line: int
    further: int = 0  # how many lines further down
    source: int = 0  # of group_vars and host_vars: beside which inventory they lie


Owner = tuple[str, str]  # who a variable is for: ("group", name) or ("host", name)
Definitions = dict[Owner, dict[str, list[Definition]]]  # in reading order: of one owner the last is in force


@dataclass
class Index:
    """What the inventory's files define, in reading order."""

    decrypt: Callable[[str], str]  # a file in a vault; nothing where no password fits
    inline: Definitions = field(default_factory=dict)
    files: Definitions = field(default_factory=dict)
    named: list[tuple[str, str, Path]] = field(default_factory=list)  # group_vars and host_vars entries: kind, name, path
    sources: int = 0
    condensed: dict[Path, Condensed] = field(default_factory=dict)  # long files: the nodes are of this text
    encrypted: list[Path] = field(default_factory=list)  # whole files in a vault: nobody is shown what is in them
    scripts: list[Path] = field(default_factory=list)  # and configurations of plugins: what they bring has no lines that we could name
    unread: list[tuple[Path, str]] = field(default_factory=list)  # files of variables that Ansible passes over, and why
    names: dict[str, Definition] = field(default_factory=dict)  # where each host is named first

    def find(self, host: str, groups: list[str], key: str) -> Origin | None:
        """The line that wins for a host. ``groups`` in Ansible's order of rising precedence.

        ``key`` may go into the value: ``rdma_rails[1].match.mac``; the deepest line that exists is taken.
        """
        name, *path = re.findall(r"[^.\[\]]+", key)
        places = self.places(host, groups, name)
        if not places:
            return None
        _owner, found = places[-1]
        return self.place(found._replace(line=_descend(found.node, path, found.line)))

    def places(self, host: str, groups: Iterable[str], key: str) -> list[tuple[Owner, Definition]]:
        """All that set a variable for a host, and for whom, in rising precedence. ``groups`` as in ``find``.

        Files beside a later inventory lie over those beside an earlier one, whichever of the groups they are of: Ansible reads them so.
        """
        every, rest = [("group", "all")], [("group", group) for group in groups if group != "all"]
        stages = {"all_inventory": (self.inline, every), "all_plugins_inventory": (self.files, every),
                  "groups_inventory": (self.inline, rest), "groups_plugins_inventory": (self.files, rest)}
        own = [("host", host)]
        found: list[tuple[Owner, Definition]] = []
        for store, owners in [*(stages[name] for name in constants.VARIABLE_PRECEDENCE if name in stages), (self.inline, own),
                              (self.files, own)]:
            rows = [(owner, said) for owner in owners for said in store.get(owner, {}).get(key, ())]
            found += sorted(rows, key=lambda row: row[1].source)
        return found

    def in_vaults(self, host: str, groups: tuple[str, ...]) -> frozenset[str]:
        """The variables of a host, or of groups ("" for the host), whose last place is in a file that is in a vault as a whole."""
        owners = [("host", host)] if host else [("group", group) for group in groups]
        rows = [store.get(owner, {}) for owner in owners for store in (self.inline, self.files) if self.encrypted]
        return frozenset(name for row in rows for name in row if self.places(host, groups, name)[-1][1].file in self.encrypted)

    def place(self, found: Definition) -> Origin:
        file, line = found.file, found.line
        return Origin(file, (self.condensed[file].line(line) if file in self.condensed else line) + found.further)

    def value(self, owner: Owner, key: str, found: Definition) -> Any:
        """What a place says, as it is written there; HIDDEN in place of what is encrypted."""
        value = HIDDEN if found.file in self.encrypted else written(found.node)
        return self.condensed[found.file].of_host(owner[1], key, value) if found.file in self.condensed else value


def build_index(*sources: Path, decrypt: Callable[[str], str] = lambda _text: "") -> Index:
    """Read inventory files or directories, and the group_vars and host_vars beside each; the later wins. Raises InputError."""
    index = Index(decrypt)
    for number, source in enumerate(sources):
        _read_inventory(source, number, index)
    return index


def _read_inventory(source: Path, number: int, index: Index) -> None:
    base = source if source.is_dir() else source.parent
    sources = list(_sources(source)) if source.is_dir() else [source]
    if not sources:
        raise InputError(f"{source}: holds no inventory file; allowed: hosts.yml, hosts or another inventory, with group_vars/ beside it")
    index.sources += len(sources)
    for path in sources:
        with _in_vault(path, index):
            _read_source(path, index)
    for directory, kind in ((base / "group_vars", "group"), (base / "host_vars", "host")):
        _read_variables(directory, kind, number, index)


def _sources(directory: Path) -> Iterator[Path]:
    """The files that Ansible tries to read as inventories, in its order."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name.endswith(IGNORED) or path.name in ("group_vars", "host_vars"):
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path


def _read(path: Path, index: Index) -> str:
    text = read(path)
    if not text.startswith(VAULT):
        return text
    index.encrypted.append(path)
    return index.decrypt(text)


@contextmanager
def _in_vault(path: Path, index: Index) -> Iterator[None]:
    """What is wrong with a file may quote it."""
    try:
        yield
    except InputError as error:
        if path not in index.encrypted:
            raise
        where = path if error.line is None else f"{path}:{error.line}"
        raise InputError(f"{where}: cannot be read; why is hidden, because the file is in a vault", path, error.line) from None


def _read_source(path: Path, index: Index) -> None:
    text = _read(path, index)
    if text.startswith("#!"):
        index.scripts.append(path)
        return
    if path.suffix not in (".yml", ".yaml", ".json"):
        _read_ini(path, text, index)
    elif path in index.encrypted or not _read_condensed(path, text, index):  # what is hidden keeps its file
        _read_groups(path, compose(path, text), index)


def _read_condensed(path: Path, text: str, index: Index) -> bool:
    short = condensed(text)
    try:
        if short is None or not understood(short, top := compose(path, short.text)):
            return False
        _read_groups(path, top, index)
    except InputError:
        return False  # whoever reads the whole file finds it, too, with its line
    if any(("host", name) in index.inline for first in short.firsts.values() for name in first.followers):
        return False  # what is said there too may come before or after
    index.condensed[path] = short
    for first in short.firsts.values():
        for name, (line, _words) in first.followers.items():
            index.names.setdefault(name, index.names[first.name]._replace(further=line - first.line))
            places = index.inline["host", first.name].items()
            index.inline["host", name] = {key: [said[-1]._replace(further=line - first.line)] for key, said in places}
    return True


def _read_groups(path: Path, top: yaml.Node | None, index: Index) -> None:
    groups = list(items(top))
    if any(name == "plugin" for name, _line, _node in groups):
        index.scripts.append(path)  # the configuration of an inventory plugin, which finds its hosts elsewhere
        return
    _expect_mapping(path, top, "an inventory")
    for name, _line, node in groups:
        _read_group(path, name, node, index)


def _expect_mapping(path: Path, node: yaml.Node | None, what: str) -> None:
    empty = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
    if node is not None and not empty and not isinstance(node, yaml.MappingNode):
        raise wrong(path, node.start_mark.line + 1, f"{what} must be a mapping; allowed: lines of NAME: VALUE")


def _expect_names(path: Path, node: yaml.Node | None) -> None:
    """Ansible takes 5, on and ~ for names of variables and stumbles over them later."""
    for key, _value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.tag not in (TEXT, MERGE):
            kind = key.tag.rpartition(":")[2]
            text = f"{key.value}: YAML reads this as {kind}, not as a name; allowed: a variable's name"
            raise wrong(path, key.start_mark.line + 1, text)


def _read_group(path: Path, name: str, node: yaml.Node, index: Index) -> None:
    """One group of a YAML inventory, and its children."""
    _expect_mapping(path, node, f"group {name}")
    for part, line, value in items(node):
        if part not in GROUP_PARTS:
            # Ansible warns and goes on without it.
            hint = did_you_mean(part, GROUP_PARTS)
            raise wrong(path, line, f"{part}: a group has no such part{hint}; allowed: {', '.join(GROUP_PARTS)}")
        _expect_mapping(path, value, f"{part} of group {name}")
        if part == "vars":
            _store(index.inline, ("group", name), path, value)
        elif part == "hosts":
            for pattern, host_line, variables in items(value):
                _expect_mapping(path, variables, f"host {pattern}")
                for host in _expanded(path, pattern, host_line):
                    _store(index.inline, ("host", host), path, variables)
                    index.names.setdefault(host, Definition(path, None, host_line))
        elif part == "children":
            for child, _child_line, body in items(value):
                _read_group(path, child, body, index)


HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


def is_host_name(name: str) -> bool:
    """It becomes a name of files, a word of command lines and of --limit, and where nothing else is said what ssh connects to."""
    return HOST_NAME.fullmatch(name) is not None or is_address(name)


def _store(store: Definitions, owner: Owner, path: Path, node: yaml.Node | None, source: int = 0) -> None:
    _expect_names(path, node)
    known = store.setdefault(owner, {})
    for key, line, value in items(node):
        known.setdefault(key, []).append(Definition(path, value, line, source=source))


def _read_variables(directory: Path, kind: str, source: int, index: Index) -> None:
    """group_vars/NAME, NAME.yml or NAME/ with files in it. Of one name Ansible reads the first form that it finds, and no other."""
    found: dict[str, list[Path]] = {}
    for entry in sorted(directory.iterdir()) if directory.is_dir() else []:
        if not entry.name.startswith(".") and not entry.name.endswith(("~", ".bak", ".swp")):
            name = entry.stem if entry.suffix in YAML_SUFFIXES[1:] and not entry.is_dir() else entry.name
            found.setdefault(name, []).append(entry)
    for name, entries in found.items():
        first, *others = sorted(entries, key=lambda entry: YAML_SUFFIXES.index(entry.suffix) if entry.name != name else 0)
        index.unread += [(path, f"is never read: of one name Ansible reads {first} alone") for path in others]
        _read_vars(first, name, kind, source, index)


def _read_vars(entry: Path, name: str, kind: str, source: int, index: Index) -> None:
    index.named.append((kind, name, entry))
    for path in _vars_files(entry):
        with _in_vault(path, index):
            top = compose(path, _read(path, index))
            _expect_mapping(path, top, "a file of variables")
            _store(index.files, (kind, name), path, top, source)


def _vars_files(entry: Path) -> list[Path]:
    if not entry.is_dir():
        return [entry] if entry.suffix in YAML_SUFFIXES else []  # a broken link too: reading it says so
    found: list[Path] = []
    for path in sorted(entry.iterdir()):
        if path.name.startswith(".") or path.name.endswith(("~", ".bak", ".swp")):
            continue
        if path.suffix in (YAML_SUFFIXES[:1] if path.is_dir() else YAML_SUFFIXES):
            found += _vars_files(path)
    return found


RANGE = re.compile(r"\[([0-9]*|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")
WIDEST = 100_000  # hosts of one range; a host takes 12 KB and 0.2 ms


def width(pattern: str) -> int:
    """Count the hosts of a pattern without expanding it."""
    ends = ([_place(word) for word in (low or "0", high, step or "1")] for low, high, step in RANGE.findall(pattern))
    return prod(max(0, high - low) // max(step, 1) + 1 for low, high, step in ends)


def _place(word: str) -> int:
    """Return where a number or a letter is in its order; a number of more than 18 digits is one beyond all bounds."""
    return ascii_letters.index(word) if word in ascii_letters else int(word) if len(word) < 19 else 10**18


def bounded_expand(pattern: str) -> list[str]:
    """Expand a range as Ansible does. Raises AnsibleError before that for one of too many hosts."""
    if width(pattern) > WIDEST:
        raise AnsibleError(f"{pattern}: {TOO_WIDE}")
    return [str(host) for host in expand_hostname_range(pattern)]


TOO_WIDE = f"this range holds more than {WIDEST} hosts; allowed: at most {WIDEST} in one range"


def expand(pattern: str) -> list[str]:
    """``gpu[01:04]`` as its hosts, by Ansible's own rules."""
    if not detect_range(pattern) or re.search(r"\[[^\[\]:]+:[^\[\]]+\]", pattern) is None:
        return [pattern]
    try:
        return bounded_expand(pattern)
    except (AnsibleError, ValueError):  # of two brackets, or none that closes, Ansible makes a number
        return []  # Ansible refuses the inventory with its own words


def _expanded(path: Path, pattern: str, line: int) -> list[str]:
    """The hosts of a line. Ansible drops a range that runs backwards in silence."""
    if width(pattern) > WIDEST:
        raise wrong(path, line, f"{pattern}: {TOO_WIDE}")
    found = expand(pattern)
    if not found and (ends := re.search(r"\[(\d{1,18}):(\d{1,18})\b", pattern)) and int(ends[1]) > int(ends[2]):
        raise wrong(path, line, f"{pattern}: this range holds no host; allowed: a range that runs upwards, like node[01:04]")
    return found


SECTION = re.compile(r"\s*\[(?P<name>[^:\]]+)(?::(?P<kind>\w+))?\]\s*(?:#.*)?$")
SECTIONS = "[GROUP], [GROUP:vars] or [GROUP:children]"
ASSIGNMENT = re.compile(r"(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>.*)", re.DOTALL)


def _expect_section(path: Path, number: int, line: str, kind: str, *, is_section: bool) -> None:
    """Ansible takes ``[rdma`` for a range of hosts. A range may stand first in a line: ``[01:04]-gpu``."""
    if is_section and kind not in GROUP_PARTS:
        raise wrong(path, number, f"{line}: a group has no such part; allowed: {SECTIONS}")
    if not is_section and line.startswith("[") and ("]" not in line or line.endswith("]")):
        raise wrong(path, number, f"{line}: is no section; allowed: {SECTIONS}")


def _read_ini(path: Path, text: str, index: Index) -> None:
    """The lines of an INI inventory. What they mean is Ansible's to say."""
    name, kind = "ungrouped", "hosts"
    for number, line in enumerate(PYTHON_LINE_END.split(text), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        section = SECTION.match(line)
        if section is not None:
            name, kind = section["name"], section["kind"] or "hosts"
        _expect_section(path, number, stripped, kind, is_section=section is not None)
        if section is not None:
            continue
        if kind == "vars":
            _assign(index, ("group", name), path, number, [stripped])
        elif kind == "hosts":
            host, *rest = shell_words(stripped, comments=True)  # Ansible refuses unclosed quotes with its own words
            for name_of_host in _expanded(path, host, number):
                index.names.setdefault(name_of_host, Definition(path, None, number))
                _assign(index, ("host", name_of_host), path, number, rest)


def _assign(index: Index, owner: Owner, path: Path, number: int, words: list[str]) -> None:
    for found in filter(None, map(ASSIGNMENT.fullmatch, words)):
        index.inline.setdefault(owner, {}).setdefault(found["key"], []).append(Definition(path, found["value"], number))


def _descend(node: Any, path: list[str], line: int) -> int:
    """The line of the deepest part of a path that the file has."""
    for step in path:
        if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
            continue
        found = {key: (value, at) for key, at, value in items(node)}.get(step)
        if found is None:
            break
        node, line = found
    return line


def unread(index: Index, groups: set[str], hosts: set[str]) -> list[tuple[Path, str, str]]:
    """What is wrong and what is allowed: group_vars and host_vars that nothing reads because no group or host has the name."""
    found = [(path, message, "all of it in one of the two") for path, message in index.unread]
    for kind, name, path in index.named:
        names = groups if kind == "group" else hosts
        if name not in names:
            hint = did_you_mean(name, tuple(sorted(names)))
            found.append((path, f"no {kind} has this name, so nothing reads it{hint}", "the name of a group or host of the inventory"))
    return found
