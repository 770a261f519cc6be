# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as a file: what ``plan -o`` writes and ``apply FILE`` makes, here or on another controller.

It names the version that planned, and of each node a digest of what the inventory wants there and how the node is reached (secrets and
order left out), so that another inventory is refused by the nodes that it changed. The file's own digest tells that it is as it was
written, not who wrote it. Loading an inventory runs what its author likes, so the one that a plan names is loaded without -i only if
nobody but we and root could have written the plan and the inventory, and if its files are those that were planned with.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import hidden, masked
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, read_json, rows
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright import __version__
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.inventories import Inventories, stored_text
from railwright.inventory_content import Content, content_of
from railwright.ownership import open_checked
from railwright.writing import write_atomic

KIND, SCHEMA = "railwright plan", 2
LIMIT = 1 << 30  # characters: a node whose files differ has a megabyte
REACHED_BY = ("ansible_host", "ansible_port", "ansible_connection")


class SavedPlan(NamedTuple):
    inventory: Inventories  # as it was named; a relative path is one from where the plan is applied
    areas: list[str]  # [] for all
    batches: list[Any]  # --batch, --canary, --max-failures, --max-unavailable of the plan; null where one was not given
    created: str
    nodes: dict[str, HostOutcome]  # as they were planned: changes, problems, notes, or how they failed
    wishes: dict[str, str]  # node -> digest of what its inventory says
    files: str  # digest of the inventory's files; empty if they could not be read
    fault: str  # why another user could have written the plan; empty if none could


def write_plan(
    path: Path, inventory: Inventories, areas: Sequence[str], created: str, outcome: RunOutcome, wishes: Mapping[str, str],
    batches: Sequence[Any], files: str = "",
) -> None:  # fmt: skip
    """Whole or not at all, for the owner's eyes only. Raises OSError."""
    nodes = {
        name: {"status": host.status, "message": host.message, "planned": host.planned, "changes": host.changes, "problems": host.problems,
               "notes": host.notes, "wire": host.wire, "wish": wishes.get(name, "")}
        for name, host in sorted(outcome.hosts.items())
    }  # fmt: skip
    document = {"kind": KIND, "schema": SCHEMA, "railwright": __version__, "inventory": [stored_text(part) for part in inventory],
                "areas": list(areas), "batches": list(batches), "created": created, "nodes": nodes,
                "files": files}  # fmt: skip
    write_atomic(path, json.dumps(document | {"sha256": digest(document)}, indent=1) + "\n")


def read_plan(path: Path) -> SavedPlan:
    """Raises InputError: no plan, another version's, or not as it was written."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: {'is no file' if path.exists() else 'does not exist'}; allowed: what plan -o has written", path)
        descriptor, fault = open_checked(path)
        with os.fdopen(descriptor, encoding="utf-8") as stream:
            size = os.fstat(descriptor).st_size
            document = mapping(read_json(stream.read(size + 1) if size <= LIMIT else None, LIMIT))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", path) from error
    except ValueError as error:
        raise InputError(f"{path}: is no plan that plan -o has written ({error})", path) from error
    said = document.pop("sha256", None)
    if document.get("kind") != KIND:
        raise InputError(f"{path}: is no plan that plan -o has written", path)
    if document.get("railwright") != __version__ or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: was planned by railwright {document.get('railwright')}, this is {__version__}; plan it again", path)
    if said != digest(document):
        raise InputError(f"{path}: is not as it was written (sha256); plan it again", path)
    try:
        nodes = {str(name): _node(str(name), row) for name, row in document["nodes"].items()}
        wishes = {str(name): str(row["wish"]) for name, row in document["nodes"].items()}
        named = Inventories(Path(part) for part in document["inventory"])
        areas = [str(area) for area in document["areas"]]
        return SavedPlan(named, areas, _batches(document["batches"]), str(document["created"]), nodes, wishes,
                         str(document["files"]), fault)  # fmt: skip
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no plan that plan -o has written ({error!r})", path) from error


def _batches(value: Any) -> list[Any]:
    kinds = (str, int, int, str)
    if not isinstance(value, list) or len(value) != len(kinds):
        raise TypeError("batches")
    given = [(part, kind) for part, kind in zip(value, kinds, strict=True) if part is not None]
    if any(type(part) is not kind or (isinstance(part, int) and part < 0) for part, kind in given):
        raise TypeError("batches")
    return value


def _node(name: str, row: Mapping[str, Any]) -> HostOutcome:
    found = HostOutcome(name, str(row["status"]), message=str(row["message"]), planned=bool(row["planned"]))
    found.changes, found.problems = [dict(change) for change in rows(row["changes"])], rows(row["problems"])
    found.notes, found.wire = [str(note) for note in row["notes"]], mapping(row.get("wire"))
    found.drivers = {str(label): str(text) for label, text in mapping(row.get("drivers")).items()}
    if found.status not in ("ok", "failed", "unreachable") or any(not isinstance(change.get("key"), str) for change in found.changes):
        raise KeyError(name)
    return found


def hosts_of(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, HostOutcome]:
    """The documents of a stored plan as the outcomes that they were."""
    return {name: _node(name, {"planned": True, **row}) for name, row in nodes.items()}


def digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def wish_of(spec: Spec, variables: Mapping[str, Any]) -> str:
    """A digest of what the inventory wants of a node, and where it is. Not in it: secrets, and consent, which is no part of a plan."""
    reached = {name: hidden(str(variables[name])) for name in REACHED_BY if name in variables}
    return digest([masked(dict(spec.as_dict(), consent=None)), reached])


def files_of(inventory: Inventories) -> str:
    """Return the digest of an inventory's files for a plan; empty if they cannot be read."""
    try:
        return content_of(inventory).sealed()
    except (OSError, InputError):
        return ""


def own_inventory(saved: SavedPlan, file: Path) -> Content:
    """Return the files of the inventory that a plan names. Raises InputError where another user could have written the plan or the
    inventory, and where its files are not those that were planned with."""
    yourself = "name the inventory yourself (-i INVENTORY)"
    if saved.fault:
        raise InputError(f"{file}: {saved.fault}; or {yourself}", file)
    try:
        found = content_of(saved.inventory, trusted=True)
    except OSError as error:
        raise InputError(f"{saved.inventory}: {error.strerror}, and {file} names it; {yourself}", file) from error
    except InputError as error:
        raise InputError(f"{file} names {saved.inventory}: {error}; or {yourself}", file) from error
    if not found.matches(saved.files):
        raise InputError(f"{saved.inventory} is not as it was when {file} was made; plan it again, or {yourself}", file)
    return found


def other_wishes(saved: SavedPlan, wishes: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Of these nodes those for which this inventory says something else than the one that was planned."""
    return [name for name in names if wishes.get(name) != saved.wishes[name]]
