# SPDX-License-Identifier: GPL-3.0-or-later
"""A check without an inventory: the wishes of nobody, the question over ssh, the node's half as one file, a node as one archive."""

import base64
import io
import tarfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.entry import inspection
from ansible_collections.railwright.rdma.plugins.module_utils.formats.secrets import fit_to_leave, known_variable
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import NAMES
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import needed_files
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import COMMANDS
from railwright import __version__
from railwright.events import HostOutcome
from railwright.exitcodes import InputError

MODULE = "rdma_check"
PACKAGE = "railwright_node"
MAIN = """# SPDX-License-Identifier: GPL-3.0-or-later
# railwright {version}: `railwright check --emit` wrote this. Python 3.6 or newer, and nothing else.
from {package}.entry.alone import main

main({values!r}, {commands!r})
"""
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same file of the same code


# Each host's outcome in the order that they were given, and all verdicts.
Outcomes = tuple[dict[str, HostOutcome], list[dict[str, Any]]]


class Host(NamedTuple):
    """As it was given: ``[USER@]NAME``, which ssh's configuration may know."""

    name: str
    user: str | None
    address: str


def hosts_of(names: Sequence[str]) -> list[Host]:
    """Raises InputError."""
    found = []
    for name in dict.fromkeys(names):
        user, _at, address = name.rpartition("@")
        if not address or address.startswith("-") or user.startswith("-") or any(char.isspace() or not char.isprintable() for char in name):
            raise InputError(f"{name!r}: is no host; allowed: [USER@]NAME as ssh takes it")
        found.append(Host(name, user or None, address))
    return found


def ask_here(mode: str, node: str) -> Outcomes:
    """This machine, as whoever we are: the same body, and the same gate, as a node over ssh."""
    call = {"module": MODULE, "given": {"mode": mode, "node": node}, "derived": {}}
    result = passed(NAMESPACE + MODULE, mode, inspection.answer(nobodys_spec().as_dict(), call))
    if result.get("failed"):
        return {node: HostOutcome(node, "failed", message=str(result.get("msg") or "it gave no reason"))}, []
    outcome = HostOutcome(node, overview=result.get("overview"), bundle=result.get("bundle"), agent=result.get("agent"))
    return {node: outcome}, result.get("verdicts", [])


def one_file() -> bytes:
    """The node's half as a zip that Python runs: no import leads out of it."""
    files = {f"{PACKAGE}/{name}": text for name, text in needed_files(("__init__.py", "entry/__init__.py", "entry/alone.py")).items()}
    files["__main__.py"] = MAIN.format(version=__version__, package=PACKAGE, values=nobodys_spec().as_dict(), commands=COMMANDS)
    room = io.BytesIO(b"#!/usr/bin/env python3\n")
    room.seek(0, io.SEEK_END)
    with zipfile.ZipFile(room, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED, 9)
    return room.getvalue()


# Of an environment, also what our own settings and answers to a bug report name.
KNOWN = NAMES | {
    "LD_LIBRARY_PATH", "SSH_CONNECTION", "UCX_IB_GID_INDEX", "UCX_IB_SL", "UCX_IB_TRAFFIC_CLASS", "UCX_MAX_RNDV_RAILS", "UCX_NET_DEVICES",
    "UCX_RNDV_SCHEME", "UCX_TCP_PUT_ENABLE", "UCX_TLS",
}  # fmt: skip


def archive(bundle: Mapping[str, Any], name: str) -> bytes:
    """The tree below a directory ``name``, as .tar.gz. No member lies below a link, so that none leads out. Raises InputError."""
    entries = {str(entry["path"]): fit(entry) for entry in bundle["entries"]}
    links = {path for path, entry in entries.items() if entry["kind"] == "link"}
    above = {str(parent) for path in entries for parent in PurePosixPath(path).parents}
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w:gz", compresslevel=6) as tar:
        for path, entry in sorted(entries.items()):
            if any(path.startswith(f"{link}/") for link in links):
                raise InputError(f"the node's answer is no tree: {path} lies below a link")
            _add(tar, name + path, {**entry, "kind": "directory"} if path in above else entry)
            for child in entry.get("names", ()) if entry["kind"] == "directory" else ():
                if f"{path}/{child}" not in entries.keys() | above:
                    _add(tar, f"{name}{path}/{child}", {"kind": "file"})
    return room.getvalue()


def fit(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the values of variables that no table of ours has: the node, which has no tables, goes by their prefix."""
    if "text" not in entry:
        return entry
    text = str(entry["text"]).encode("utf-8", "replace")
    data = fit_to_leave(str(entry["path"]), text, lambda name: name in KNOWN and known_variable(name))
    return {**entry, "text": (data or b"").decode("utf-8", "replace")}


def _add(tar: tarfile.TarFile, path: str, entry: Mapping[str, Any]) -> None:
    kind, text = entry["kind"], entry.get("text")
    content = base64.b64decode(entry.get("base64", "")) if text is None else str(text).encode("utf-8", "replace")
    info = tarfile.TarInfo(path)
    info.type = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}[kind]
    usual = 0o755 if kind == "directory" else 0o644
    info.mode = (int(entry.get("mode", usual)) & 0o755) | (0o700 if kind == "directory" else 0o600)  # whoever unpacks it must read it
    info.mtime = float(entry.get("mtime", time.time()))
    info.linkname = str(entry.get("to", "")) if kind == "link" else ""
    info.size = len(content) if kind == "file" else 0
    tar.addfile(info, io.BytesIO(content) if kind == "file" else None)
