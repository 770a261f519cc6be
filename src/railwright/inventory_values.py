# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of each host as Ansible's variable manager has them; what its groups say is read and templated once for all hosts of the
same groups.

Only where that cannot differ: no other plugin brings variables, no fact does, mappings are not merged, and a template names nothing but
variables of the groups that the host has not set itself. Anything else is asked for each host, as Ansible does.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.helpers import sort_groups
from ansible.inventory.host import Host
from ansible.plugins.loader import vars_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from ansible.vars.plugins import get_vars_from_inventory_sources
from jinja2 import Environment, TemplateError, meta, nodes

from ansible_collections.railwright.rdma.plugins.plugin_utils.controller_files import is_encrypted
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import KEPT, MAGIC, TEMPLATE, UNFILLED, Sources
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import plain

NO_FILES = "/"  # the name of a host for which Ansible looks for no host_vars
# Filters and tests that make the same of the same.
STEADY = frozenset(("bool", "d", "default", "defined", "first", "float", "int", "join", "last", "length", "list", "lower", "string"))
NOT_STATIC = object()
FACTS = ("ansible_facts", "ansible_local")  # what nodes have said: nothing of it decides how they are reached
REACHES = ("inventory_hostname", "inventory_hostname_short")


LARGEST = 10_000_000  # characters and items of what one template gives: 20,000 nodes with eight addresses each are 4,000,000
LONGEST_RANGE = 100_000  # as jinja2's sandbox has it
_COMPILED: dict[tuple[Any, ...], Any] = {}


def _bounded_range(*ends: int) -> range:
    found = range(*ends)
    if found[LONGEST_RANGE:]:
        raise AnsibleError(f"{found} holds more than {LONGEST_RANGE} numbers, the most that a template may ask for")
    return found


def size(value: Any) -> int:
    """Count characters and items."""
    if isinstance(value, Mapping):
        return sum(size(item) for pair in value.items() for item in pair)
    return len(value) + sum(map(size, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 1


def templated(templar: Any, value: Any) -> Any:
    """Return the plain data that a template gives. Raises AnsibleError where it fails or gives too much."""
    found = plain(decrypted(templar.template(value)))
    if size(found) > LARGEST:
        raise AnsibleError(f"the template gives more than {LARGEST} characters and items; allowed: at most as many")
    return found


@contextmanager
def compiled_once() -> Iterator[None]:
    """Jinja compiles a text once, however many hosts have it: most of what a template costs. Not one with a filter that may give
    another result each time, which the compiler would apply to constants once for all."""
    compile_text = Environment.compile

    def compiled(self: Environment, source: Any, *named: Any, **more: Any) -> Any:
        self.globals["range"] = _bounded_range
        if not isinstance(source, str) or names_in(str.__str__(source)) is None:
            return compile_text(self, source, *named, **more)
        key = (str.__str__(source), named, tuple(sorted(more.items())), type(self), self.lexer)
        if key not in _COMPILED:
            _COMPILED[key] = compile_text(self, source, *named, **more)
        return _COMPILED[key]

    type.__setattr__(Environment, "compile", compiled)
    try:
        yield
    finally:
        type.__setattr__(Environment, "compile", compile_text)


class Layered(Mapping[str, Any]):
    """A host's own values over those that it shares with others."""

    __slots__ = ("base", "own")

    def __init__(self, base: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self.base, self.own = base, own

    def __getitem__(self, name: str) -> Any:
        return self.own[name] if name in self.own else self.base[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.base
        yield from (name for name in self.own if name not in self.base)

    def __len__(self) -> int:
        return len(self.base.keys() | self.own.keys())


def static(value: Any) -> Any:
    """The value as plain data where no template is in it, as it is if it is plain already; else NOT_STATIC."""
    if isinstance(value, str):
        return NOT_STATIC if TEMPLATE.search(value) else str.__str__(value)
    if isinstance(value, dict):
        found = {static(key): static(item) for key, item in value.items()}
        return NOT_STATIC if NOT_STATIC in found or any(item is NOT_STATIC for item in found.values()) else found
    if isinstance(value, list):
        items = [static(item) for item in value]
        return NOT_STATIC if any(item is NOT_STATIC for item in items) else items
    return plain(value) if value is None or isinstance(value, (bool, int, float)) else NOT_STATIC


@cache
def names_in(text: str) -> frozenset[str] | None:
    """The variables that decide what a template becomes; None where something else may, too."""
    try:
        tree = Environment(autoescape=True).parse(text)
    except TemplateError:
        return None  # of an extension, or one that Ansible will refuse, too
    used = {node.name for node in tree.find_all((nodes.Filter, nodes.Test))}
    return frozenset(meta.find_undeclared_variables(tree)) if used <= STEADY else None


def names_behind(value: Any, variables: Mapping[str, Any], seen: set[str]) -> bool:
    """Collect in ``seen`` every variable that a value depends on; False where it may depend on something else."""
    if isinstance(value, Mapping):
        return all(names_behind(item, variables, seen) for pair in value.items() for item in pair)
    if isinstance(value, (list, tuple)):
        return all(names_behind(item, variables, seen) for item in value)
    if not isinstance(value, str):
        return value is None or isinstance(value, (bool, int, float))
    names = names_in(plain(value)) if TEMPLATE.search(value) else frozenset()
    if names is None or value.startswith("#jinja2:") or not names <= variables.keys():
        return False
    for name in names - seen:
        seen.add(name)
        if not names_behind(variables[name], variables, seen):
            return False
    return True


class NotTemplatedError(Exception):
    """A key of ours whose template Ansible cannot fill in."""

    def __init__(self, key: str, raw: Any, groups: tuple[str, ...], error: Exception, *, secret: bool) -> None:
        super().__init__(key)
        self.key, self.raw, self.groups, self.error, self.secret = key, raw, groups, error, secret


class Groups:
    """What all hosts of the same groups share."""

    def __init__(self, membership: tuple[str, ...], raw: Mapping[str, Any], unsteady: frozenset[str]) -> None:
        self.membership, self.raw = membership, raw
        self.values: dict[str, Any] = {"group_names": [name for name in membership if name != "all"]}
        self.secret: list[str] | None = None  # keys that hold a hidden value; None: not known yet
        self.behind: dict[str, set[str] | None] = {}  # key of ours: the variables that decide it; None: to be templated for each host
        for name, value in raw.items():
            if name not in BY_NAME:
                self.values.setdefault(str(name), plain(value) if name in KEPT else None)
                continue
            seen: set[str] = set()
            steady = names_behind(value, raw, seen) and not seen & unsteady
            self.behind[str(name)] = seen if steady else None

    def late(self, raw: Mapping[str, Any], own: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The keys that are to be templated now, for a host with these variables of its own, and where the value is kept."""
        found = []
        for name, behind in self.behind.items():
            if name not in raw:
                alone = behind is None or not behind.isdisjoint(raw)
                if alone or name not in self.values:
                    found.append((name, own if alone else self.values))
        return found


class Variables:
    """``sharing`` off: everything is asked for each host. ``extra``: what lies over all of them, which Ansible's manager has already."""

    def __init__(
        self, manager: Any, loader: Any, *paths: Path, extra: Mapping[str, Any] = MappingProxyType({}), sharing: bool = True
    ) -> None:  # fmt: skip
        self._all = VariableManager(loader=loader, inventory=manager)
        self._loader = loader
        of_nobody = self._all.get_vars()
        self._extra = frozenset(name for name in extra if of_nobody.get(name) == extra[name])
        self._magic = frozenset(str(name) for name in of_nobody) - self._extra
        self._sharing = sharing and only_files()
        self._sources = [str(path.absolute()) for path in paths]
        directories = {(path if path.is_dir() else path.parent) / "host_vars" for path in paths}
        found = [entry.name for files in directories if files.is_dir() for entry in files.iterdir()]
        self._with_files = frozenset((*found, *(name.rpartition(".")[0] for name in found)))
        self._groups: dict[tuple[int, ...], Groups] = {}
        self._encrypted = cache(is_encrypted)

    def split(self, host: Any) -> tuple[Groups, dict[str, Any]]:
        """What the host's groups say, and what lies over it."""
        groups = self._of_groups(host)
        own = {**host.vars, **self._loader.values.get(host.name, {}), **host.get_magic_vars()}
        if host.name in self._with_files or "/" in host.name:
            own |= get_vars_from_inventory_sources(self._loader, self._sources, [host], "task")
        if self._extra:
            own = {name: value for name, value in own.items() if name not in self._extra}
        if not self._sharing or not own.keys().isdisjoint(self._magic):
            host.vars |= self._loader.values.get(host.name, {})
            return Groups(groups.membership, {}, frozenset()), self._all.get_vars(host=host)
        return groups, own

    def raw(self, host: Any) -> dict[str, Any]:
        """All that the inventory says of it, without what Ansible says itself."""
        groups, own = self.split(host)
        magic = self._magic | {*host.get_magic_vars(), "inventory_file", "inventory_dir"}
        return {str(name): value for name, value in {**groups.raw, **own}.items() if name not in magic and name not in FACTS}

    def _of_groups(self, host: Any) -> Groups:
        same = tuple(map(id, host.groups))
        if same not in self._groups:
            names = tuple(str(group.name) for group in sort_groups(host.get_groups()))
            raw = {}
            if self._sharing:
                nobody = Host(NO_FILES, gen_uuid=False)
                nobody.groups = host.groups
                raw = self._all.get_vars(host=nobody)
            self._groups[same] = Groups(names, raw, self._magic | {*host.get_magic_vars()})
        return self._groups[same]

    def values(self, host: Any) -> tuple[Layered, tuple[str, ...]]:
        """Our keys templated; the host's groups.

        Of other people's variables there is the name alone: we must not fail on their templates.
        """
        groups, raw = self.split(host)
        shared = groups.values
        own: dict[str, Any] = {}
        late = groups.late(raw, own)
        known = self._loader.values.get(host.name, {})
        for name, value in raw.items():
            if name not in BY_NAME:
                if name in KEPT:
                    own[str(name)] = plain(value)
                elif name not in shared:
                    own[str(name)] = None
            elif (found := value if known.get(name) is value else static(value)) is not NOT_STATIC:
                own[str(name)] = found
            else:
                late.append((str(name), own))
        if late:
            everything = {**groups.raw, **raw}
            templar = Templar(loader=self._loader, variables=everything)
            for name, place in late:
                try:
                    place[name] = templated(templar, everything[name])
                except (AnsibleError, *UNFILLED) as error:
                    secret = Sources(everything, self._encrypted).named(name)
                    raise NotTemplatedError(name, everything[name], groups.membership, error, secret=secret) from error
        return Layered(shared, own), groups.membership

    def secrets(self, host: Any, values: Mapping[str, Any], names: frozenset[str], own: frozenset[str]) -> dict[str, set[str]]:
        """The variables that hold a hidden value, of those that findings are about, each with its texts. ``values``: what they hold.
        ``names``, ``own``: of those that come from files in a vault as a whole, what the groups and what the host itself has."""
        groups, raw = self.split(host)
        known = self._loader.values.get(host.name, {})
        fresh = [name for name, value in raw.items() if known.get(name) is not value and name not in self._magic and name not in MAGIC]
        if groups.secret == [] and not own and not fresh:
            return {}
        everything = {**groups.raw, **raw}
        sources = Sources(everything, self._encrypted, {*(names - raw.keys() if groups.raw else names), *own})
        if own or any(map(sources.named, fresh)):
            keys = sources.keys()
        else:
            if groups.secret is None:
                groups.secret = Sources(groups.raw, self._encrypted, names).keys()
            keys = [key for key in groups.secret if key not in raw]
        found = {key: set() if key in KEPT else sources.texts(key, values[key]) for key in keys}
        for key in found.keys() & KEPT:
            with suppress(AnsibleError, *UNFILLED):  # one that cannot be filled in here is shown as it is written
                filled = Templar(loader=self._loader, variables=everything).template(everything[key])
                found[key] = sources.texts(key, plain(decrypted(filled)))
        return found

    def connection(self, host: Any, failed: Callable[[AnsibleError], Any]) -> dict[str, Any]:
        """What decides how the host is reached; ``failed``: what stands for a variable whose template cannot be filled in."""
        groups, own = self.split(host)
        everything = {**groups.raw, **own}
        found: dict[str, Any] = {}
        templar = None
        for name, value in everything.items():
            if name in REACHES or (name.startswith("ansible_") and name not in FACTS):
                found[str(name)] = static(value)
                if found[str(name)] is NOT_STATIC:
                    templar = templar or Templar(loader=self._loader, variables=everything)
                    try:
                        found[str(name)] = templated(templar, value)
                    except AnsibleError as error:
                        found[str(name)] = failed(error)
        return found


def only_files() -> bool:
    """Whether variables come from the inventory and its group_vars and host_vars alone, the later over the earlier."""
    plugins = {kind.ansible_name for kind in vars_loader.all(class_only=True)}
    return (
        plugins == {"ansible.builtin.host_group_vars"}
        and list(constants.VARIABLE_PLUGINS_ENABLED) == ["host_group_vars"]
        and constants.DEFAULT_HASH_BEHAVIOUR == "replace"
        and constants.CACHE_PLUGIN in ("memory", "ansible.builtin.memory")
    )


def decrypted(value: Any) -> Any:
    """ansible-core 2.16 keeps a vaulted scalar as an object until it is read as text."""
    if type(value).__name__ == "AnsibleVaultEncryptedUnicode":
        return str(value)
    if isinstance(value, dict):
        return {key: decrypted(item) for key, item in value.items()}
    return [decrypted(item) for item in value] if isinstance(value, list) else value
