# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses the nodes of the cluster have, as far as the inventory knows: whom a firewall lets in.

Reading the variables of every host is the same work for each of them, so the first one that asks keeps the answer in
Ansible's own temporary directory of this run, which is private to the user and goes with the run. The others wait for it:
as many forks as there are begin at the same moment, and each of them would do the work of all nodes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError

GROUP = "rdma"
NAMES = ("ansible_host", "rails", "ssh_mesh_addresses")


def cluster_addresses(task_vars: dict[str, Any]) -> dict[str, list[str]]:
    """``peers``: networks of one address each; ``unknown``: nodes that the inventory knows no address of."""
    hosts = sorted(str(name) for name in task_vars.get("groups", {}).get(GROUP, []))
    if not hosts:
        return {"peers": [], "unknown": []}
    kept = _place(task_vars, hosts)
    if kept is None:
        return derive({host: _variables(task_vars, host) for host in hosts})
    if not kept.is_file():
        with _alone(kept.with_suffix(".lock")):
            if not kept.is_file():
                _write(kept, json.dumps(derive({host: _variables(task_vars, host) for host in hosts})))
    return dict(json.loads(kept.read_text(encoding="utf-8")))


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """The kernel lets go of it when a fork dies."""
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _variables(task_vars: dict[str, Any], host: str) -> dict[str, Any]:
    """Plain data. A value that cannot be templated is that host's own error, and is told when its turn comes."""
    found = task_vars["hostvars"][host]
    values: dict[str, Any] = {}
    for name in NAMES:
        with contextlib.suppress(AnsibleError):
            values[name] = json.loads(json.dumps(found[name], default=str)) if name in found else None
    return values


def _place(task_vars: dict[str, Any], hosts: list[str]) -> Path | None:
    """One file for a play and its hosts: another play may give them other variables."""
    directory = Path(str(constants.DEFAULT_LOCAL_TMP))
    play = [str(task_vars.get("ansible_play_name", "")), str(task_vars.get("playbook_dir", "")), hosts]
    if not directory.name.startswith("ansible-local-") or not directory.is_dir():
        return None  # no run of Ansible: nothing would take the file away
    return directory / f"railwright-addresses-{hashlib.sha256(json.dumps(play).encode()).hexdigest()[:16]}.json"


def _write(path: Path, text: str) -> None:
    """In one step: others look for it at the same time."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(temporary).replace(path)


def derive(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """From the variables of every node, templated. Pure."""
    peers: dict[str, None] = {}
    unknown = []
    for name, values in hosts.items():
        rails = values.get("rails")
        given = [values.get("ansible_host") or name, *_texts(values.get("ssh_mesh_addresses"))]
        given += [rail.get("address") for rail in rails if isinstance(rail, dict)] if isinstance(rails, list) else []
        found = list(_networks(given))
        if not found:
            unknown.append(name)
        peers.update(dict.fromkeys(found))
    return {"peers": list(peers), "unknown": unknown}


def _texts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _networks(values: Iterable[Any]) -> Iterable[str]:
    """Each address as a network of its own: a rail's prefix is its subnet's, and not all of that is the cluster."""
    for value in values:
        try:
            address = ipaddress.ip_interface(str(value).strip()).ip
        except ValueError:
            continue
        if not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified):
            yield str(ipaddress.ip_network(address))
