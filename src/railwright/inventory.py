# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory as Ansible reads it: hosts, groups, templated variables, and the line that each was written on.

Ansible's own inventory manager, variable manager and templar do the work in this
process, so that lint sees what a run will see. Ansible is slow to import and reads its
configuration on the way: import this module where an inventory is needed, not at start.
"""

import fnmatch
import gc
import importlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any

from ansible import constants, context, template
from ansible.errors import AnsibleError
from ansible.inventory import data
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing import vault
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib
from ansible.plugins import inventory as plugins
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.utils.context_objects import CLIArgs
from ansible.utils.display import Display
from ansible.utils.vars import combine_vars, load_extra_vars

import ansible_collections.railwright.rdma
from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked_text, without_user
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.inventory_facts import remove_facts
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import Opened, unfilled
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import plain
from railwright.ansible_env import COLLECTION, collection_root
from railwright.exitcodes import InputError
from railwright.given import OURS, given
from railwright.inventories import Given, Inventories, inventories
from railwright.inventory_index import Index, Origin, bounded_expand, build_index
from railwright.inventory_text import Loader
from railwright.inventory_values import Layered, NotTemplatedError, Variables, compiled_once
from railwright.limits import chosen
from railwright.report.text import short

SHOWN = 5  # hosts named in a message before the rest is counted
GROUP = "rdma"  # every managed node is in it
UNREADABLE_VAULT = ("is encrypted with Ansible Vault and no password fits; allowed: one of --ask-vault-pass, --vault-id, "
                    "--vault-password-file, ANSIBLE_VAULT_PASSWORD_FILE or ansible.cfg")  # fmt: skip
NO_VARIABLES = "are no variables; allowed: KEY=VALUE, a mapping as YAML or JSON text, or @FILE"


@dataclass(frozen=True)
class Untemplated:
    """In place of a connection variable whose template cannot be filled in here."""

    why: str


class Connections(Mapping[str, Mapping[str, Any]]):
    """Variables of each host that are read when they are asked for: most verbs never do."""

    def __init__(self, hosts: Mapping[str, Any], read: Callable[[str], Mapping[str, Any]]) -> None:
        self._hosts, self._read = hosts, read

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        if host not in self._hosts:
            raise KeyError(host)
        return self._read(host)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


@dataclass(frozen=True)
class Inventory:
    """The managed hosts (group rdma, limited) and what the inventory says about each."""

    path: Inventories
    limit: str | None
    hosts: Mapping[str, Layered]  # plain values; unknown variables are present, but not templated
    groups: Mapping[str, tuple[str, ...]]  # every group with all its hosts, limited or not
    membership: Mapping[str, tuple[str, ...]]  # host: its groups in Ansible's order of rising precedence
    index: Index
    connection: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # any host: its ansible_* as plain values, or Untemplated
    lineage: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)  # group: its priority, and the groups above it
    options: Mapping[str, str] = field(default_factory=dict)  # variables that an option of the command line has set: which one
    raw: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # any host: all its variables as they are written, a vault's closed
    opened: Opened = field(default_factory=Opened)  # what is shown to nobody
    secret: Mapping[str, frozenset[str]] = field(default_factory=dict)  # managed host: its keys that hold some of it

    def origin(self, host: str, key: str) -> Origin | None:
        """File and line of a host's key, or of the deepest written part of ``rdma_rails[1].match.mac``; none of what an option says."""
        if re.split(r"[.\[]", key)[0] in self.options:
            return None
        return self.index.find(host, list(self.membership.get(host, ())), key)


Ask = Callable[[Inventory], Mapping[str, Collection[str]]]  # the hosts of each ``slurm:`` part of a limit, of an inventory without one


def override(inventory: Inventory, values: Mapping[str, Any], options: Mapping[str, str]) -> Inventory:
    """The inventory as the extra variables of a run make it, to be judged like any other; ``options``: variable -> option's name."""
    hosts = {name: Layered(own.base, {**own.own, **values}) for name, own in inventory.hosts.items()}
    return replace(inventory, hosts=hosts, options={**inventory.options, **options})


def load_inventory(given: Given, limit: str | None = None, ask: Ask | None = None, group: str = GROUP) -> Inventory:
    """Read inventories as one. Raises InputError with one clear line for everything that keeps it from being read. ``ask``: needed where
    the limit has ``slurm:`` parts. ``group``: of which hosts."""
    named = inventories(given)
    for path in named:
        if not path.exists():
            raise InputError(f"{path}: does not exist; allowed: an inventory file, or the directory that `railwright init` wrote", path)
        if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
            raise InputError(f"{path}: cannot be read: permission denied", path)
    try:
        with uncollected(), compiled_once(), _quiet() as said:
            secrets = _vault_secrets()
            index = build_index(*named, decrypt=partial(_decrypted, secrets))
            found, manager = _load(named, limit if ask is None else None, index, secrets, said, group)
            if ask is None or limit is None:
                return found
            names = [str(host.name) for host in _managed(manager, named, limit, ask(found), group)]
            membership = {name: found.membership[name] for name in names}
            return replace(found, limit=limit, hosts={name: found.hosts[name] for name in names}, membership=membership)
    except InputError as error:
        raise InputError(without_user(str(error)), error.file, error.line) from error
    except (RecursionError, MemoryError) as error:  # in what an INI file, a vault or a template hides
        raise InputError(f"{named}: a value is nested too deeply to be read") from error


def _load(
    path: Inventories, limit: str | None, index: Index, secrets: list[Any], said: list[str], group: str,
) -> tuple[Inventory, Any]:  # fmt: skip
    """With Ansible's inventory manager."""
    loader = Loader(index.condensed, alone=index.sources == 1)
    # Ansible reads group_vars beside the playbook, too: those of the collection, as in a run, not those of whatever directory this is.
    loader.set_basedir(str(collection_root() / COLLECTION / "playbooks"))
    loader.set_vault_secrets(secrets)
    extra = extra_variables(loader)
    try:
        manager = _manager(InventoryManager, loader, path, said)
        groups = {str(name): tuple(str(host.name) for host in group.get_hosts()) for name, group in manager.groups.items()}
        lineage = {
            str(name): (int(group.priority), frozenset(str(above.name) for above in group.get_ancestors()))
            for name, group in manager.groups.items()
        }
        hosts = _managed(manager, path, limit, {}, group)
        variables = Variables(manager, loader, *path, extra=extra)
        membership, values, secret = {}, {}, {}
        opened, of_groups = Opened(), cache(partial(index.in_vaults, ""))
        for host in hosts:
            name = str(host.name)
            values[name], membership[name] = variables.values(host)
            texts = variables.secrets(host, values[name], of_groups(membership[name]), index.in_vaults(name, membership[name]))
            secret[name] = frozenset(texts)
            for key in texts:
                opened.add(key, texts[key], (*manager.hosts, *groups))
    except NotTemplatedError as failed:
        if failed.key in extra:
            raise InputError(f"-e {failed.key}: on {name}: {_why(failed)}") from (None if failed.secret else failed)
        raise _untemplated(index, name, failed) from (None if failed.secret else failed)
    except AnsibleError as error:
        why = _one_line(error)
        # Ansible does not name the file that no password fits.
        where = index.encrypted[0] if why == UNREADABLE_VAULT and index.encrypted else path
        raise InputError(f"{where}: {why}") from error
    by_name = {str(name): host for name, host in manager.hosts.items()}  # a scheduler's host need not be managed

    def read(name: str) -> dict[str, Any]:
        with compiled_once(), _quiet():
            return variables.connection(by_name[name], lambda error: Untemplated(_one_line(error)))

    def read_raw(name: str) -> dict[str, Any]:
        with _quiet():
            return variables.raw(by_name[name])

    options = {key: f"-e {key}" for key in extra}
    connections, raw = Connections(by_name, read), Connections(by_name, read_raw)
    return Inventory(path, limit, values, groups, membership, index, connections, lineage, options, raw, opened, secret), manager


def _manager(kind: Any, loader: Any, path: Inventories, said: list[str]) -> Any:
    """Ansible's inventory manager. What its plugins said against a file goes to the terminal only; here it is the error."""
    directory, expand = data.basedir, plugins.expand_hostname_range
    data.basedir = lru_cache(directory)  # asked for each host; three looks at the disk every time
    plugins.expand_hostname_range = bounded_expand
    try:
        return kind(loader=loader, sources=[str(one.absolute()) for one in path])
    except AnsibleError as error:
        reasons = [text for text in (" ".join(item.split("<<< caused by")[0].split()) for item in said) if "Failed to parse" in text]
        # Each plugin has tried the file; the one for its form knows what is wrong with it.
        own = "yaml" if any(one.is_dir() or one.suffix in (".yml", ".yaml", ".json") for one in path) else "ini"
        reasons = [text for text in reasons if re.search(rf"{own}\W+plugin", text)] or reasons
        why = _of_plugin(reasons[-1]) if reasons else _one_line(error)
        why = why.partition(" Failed to parse inventory with ")[0]
        # Up to ansible-core 2.18 the place of a line of INI stands in it.
        places = [word[:-1].rpartition(":") for word in why.split() if word[:1] == "/" and word[-1:] == ":"]
        at = next(((file, int(line)) for file, _colon, line in places if is_digits(line)), (None, None))
        raise InputError(f"{path}: is not an inventory: {why[:300]}; allowed: YAML or INI as Ansible reads it", *at) from error
    finally:
        data.basedir, plugins.expand_hostname_range = directory, expand


def _managed(manager: Any, path: Inventories, limit: str | None, slurm: Mapping[str, Collection[str]], group: str) -> list[Any]:
    """The hosts of the group within the limit; never the implicit localhost."""
    hint = f"allowed: at least one host in group {group}"
    members = manager.groups[group].get_hosts() if group in manager.groups else []
    if not members:
        known = sorted(host.name for host in manager.get_hosts())
        if not known:
            raise InputError(f"{path}: has no hosts; {hint}")
        what = "is empty" if group in manager.groups else "does not exist"
        raise InputError(f"{path}: group {group} {what}, so no host is managed{did_you_mean(group, tuple(sorted(manager.groups)))}; {hint}")
    if limit is None:
        return list(members)
    names = chosen(limit, manager.hosts, partial(_matched, manager), partial(_check_limit, manager, path=path), slurm)
    if names is None:
        _check_limit(manager, limit, path)
        names = _matched(manager, limit)
    hosts = [host for host in members if host.name in names]
    if not hosts:
        allowed = first_of([host.name for host in members], SHOWN)
        raise InputError(f"--limit {limit}: matches no host of group {group} in {path}; allowed: {allowed}")
    return hosts


def _matched(manager: Any, pattern: str) -> set[str]:
    """The hosts of a pattern of Ansible's; none where an index is beyond the end."""
    manager.subset(pattern)
    try:
        return {str(host.name) for host in manager.get_hosts("all")}
    except AnsibleError:
        return set()
    finally:
        manager.subset(None)


def _check_limit(manager: Any, limit: str, path: Inventories) -> None:
    """Each name of a limit exists: Ansible itself only warns, and goes on without that host."""
    names = [*manager.groups, *manager.hosts]
    if "~" in limit and set("[]") & set(re.sub(r"\[[^\[\]]*\]", "", limit)):  # Ansible leaves them out
        raise InputError(f"--limit {limit}: is no regular expression: its brackets do not match; allowed: ~REGEX, as Python reads it")
    for part in split_host_pattern(limit):
        pattern = re.sub(r"\[[-0-9:]+\]$", "", part.strip().lstrip("!&"))
        if pattern.startswith("~"):
            try:
                re.compile(part.strip().lstrip("!&")[1:])
            except re.error as error:
                text = f"--limit {limit}: {pattern} is no regular expression: {error}; allowed: ~REGEX, as Python reads it"
                raise InputError(text) from error
        if not pattern or pattern.startswith(("@", "~")):
            continue
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise InputError(f"--limit {limit}: {pattern} is no host or group of {path}; allowed: {first_of(sorted(manager.hosts), SHOWN)}")


def _untemplated(index: Index, host: str, failed: NotTemplatedError) -> InputError:
    """A key of ours whose template fails: where it is written, and what with."""
    origin = index.find(host, list(failed.groups), failed.key)
    where = f"{origin.file}:{origin.line}: " if origin is not None else ""
    written = f"{short(masked_text(plain(failed.raw)))}: " if isinstance(failed.raw, str) and "{{" in failed.raw else ""
    text = f"{where}{failed.key}: {written}on {host}: {_why(failed)}"
    return InputError(text, *((origin.file, origin.line) if origin is not None else ()))


def _why(failed: NotTemplatedError) -> str:
    said = _one_line(failed.error)
    return unfilled(failed.error) if failed.secret and said != UNREADABLE_VAULT else said


def extra_variables(loader: Any) -> dict[str, Any]:
    """Those of -e, read by Ansible, the later over the earlier. Its variable managers of this process have them from here on."""
    trusted = getattr(template, "trust_as_template", str)  # ansible-core 2.19 fills in no other's templates
    found: dict[str, Any] = {}
    before = context.CLIARGS
    for text in given.extra_vars:
        where = f"-e {text}" if text.startswith("@") else "-e"  # any other may be a secret
        try:
            context.CLIARGS = CLIArgs({"extra_vars": (trusted(text),)})
            load_extra_vars.extra_vars = None  # what it remembers
            said = load_extra_vars(loader)
        except AnsibleError as error:
            raise InputError(f"{where}: {NO_VARIABLES if where == '-e' else _one_line(error)}") from error
        finally:
            context.CLIARGS = before
        if "_raw_params" in said:
            raise InputError(f"{where}: {NO_VARIABLES}")
        if (ours := next((key for key in said if OURS.fullmatch(str(key))), None)) is not None:
            raise InputError(f"-e {ours}: a run says that itself; allowed: keys of the inventory, and variables of your own")
        found = combine_vars(found, said)
    load_extra_vars.extra_vars = found
    return found


def connection_variables() -> dict[str, Any]:
    """What -e says of how nodes are reached that are in no inventory; nothing else can mean them. Raises InputError."""
    loader = Loader({}, alone=False)
    loader.set_vault_secrets(_vault_secrets())
    found = {str(key): plain(value) for key, value in extra_variables(loader).items()}
    if (other := next((key for key in found if not key.startswith("ansible_")), None)) is not None:
        raise InputError(f"-e {other}: there is no inventory that it could change; allowed: ansible_* variables, or -i INVENTORY")
    return found


def _vault_secrets() -> list[Any]:
    """The passwords that the command line and Ansible's own configuration name."""
    ids = [*constants.DEFAULT_VAULT_IDENTITY_LIST, *given.vault_ids]
    if not constants.DEFAULT_VAULT_PASSWORD_FILE and not ids and not given.vault_files:
        return []
    cli = importlib.import_module("ansible.cli").CLI  # slow, and needed for this only
    if hasattr(vault, "VaultSecretsContext"):
        vault.VaultSecretsContext._current = None  # noqa: SLF001 - it would refuse the second inventory of a process
    try:
        files = list(given.vault_files)
        found: list[Any] = cli.setup_vault_secrets(DataLoader(), ids, vault_password_files=files, auto_prompt=False)
    except AnsibleError as error:
        raise InputError(f"Ansible Vault: {_one_line(error)}") from error
    return found


def _decrypted(secrets: list[Any], text: str) -> str:
    """Nothing where no password fits: Ansible refuses that file with its own words."""
    try:
        return str(VaultLib(secrets).decrypt(text), "utf-8")
    except (AnsibleError, UnicodeDecodeError):
        return ""


def _one_line(error: Exception) -> str:
    """Ansible's message without its excerpts and hints."""
    text = str(getattr(error, "message", "") or error)
    if re.search(r"vault", text, re.IGNORECASE) and re.search(r"secret|decrypt", text, re.IGNORECASE):
        return UNREADABLE_VAULT
    first = re.split(r"\n\s*\n|\nThe error appears|\nOrigin:|<<< caused by", text)[0]
    # ansible-core 2.16 says some things twice in one message.
    said = " ".join(first.split())
    half = said[: len(said) // 2 - 1]
    return (half if half and said == f"{half}. {half}" else said)[:300]


def _of_plugin(reason: str) -> str:
    """What a plugin said against a file, without the words that Ansible puts before it."""
    rest = reason.partition("Failed to parse ")[2]
    named = re.search(r"plugin\W{0,4}?[:.] ", rest)
    return rest[named.end() :] if named else reason


@contextmanager
def uncollected() -> Iterator[None]:
    """Millions of values that all stay: looking for garbage among them, again and again, takes a third of the time. Nor is it looked for
    afterwards: what is there by then is let go of by its last user, or with the process.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def ready_plugins() -> None:
    """What finds Ansible's plugins and collections; once in a process."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()
        # Ansible's importer refuses new modules of a collection that it has not loaded itself, for want of this.
        vars(ansible_collections.railwright.rdma).setdefault("_collection_meta", {})


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Ansible's warnings stay off the terminal (they are yielded); an inventory that no plugin can read is an error instead."""
    display = Display()
    shown, fatal = display.display, constants.INVENTORY_ANY_UNPARSED_IS_FAILED
    said: list[str] = []
    display.display = lambda message, *_args, **_kwargs: said.append(str(message))
    constants.INVENTORY_ANY_UNPARSED_IS_FAILED = True
    remove_facts()  # as in our runs: cached facts of nodes would outrank the inventory
    try:
        ready_plugins()
        yield said
    finally:
        display.display = shown
        constants.INVENTORY_ANY_UNPARSED_IS_FAILED = fatal
