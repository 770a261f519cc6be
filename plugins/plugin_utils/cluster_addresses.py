# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses the nodes of the cluster have, as far as the inventory knows: whom a firewall lets in.

Reading the variables of every host is the same work for each of them, so the first one that asks keeps the answer in
Ansible's own temporary directory of this run, which is private to the user and goes with the run. The others wait for it:
as many forks as there are begin at the same moment, and each of them would do the work of all nodes.
"""

import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import unreachable
from ansible_collections.railwright.rdma.plugins.module_utils.rules.packet_filter import by_family

GROUP = "rdma"
RESOLVERS, RESOLVE_S = 32, 10.0
WHOLE_CLUSTER = "__railwright_cluster"  # an extra variable: what a worker that knows its own region alone is told of the others
NAMES = ("ansible_host", "rdma_rails", "ssh_mesh_addresses")


def cluster_addresses(task_vars: dict[str, Any]) -> dict[str, list[str]]:
    """``peers``: networks of one address each; ``unknown``: nodes that the inventory knows no address of."""
    if WHOLE_CLUSTER in task_vars:
        return {key: list(task_vars[WHOLE_CLUSTER][key]) for key in ("peers", "unknown")}
    hosts = sorted(str(name) for name in task_vars.get("groups", {}).get(GROUP, []))
    if not hosts:
        return {"peers": [], "unknown": []}
    return _once_a_play(task_vars, "addresses", hosts, lambda: joined(derive({host: _variables(task_vars, host) for host in hosts})))


def resolved_addresses(task_vars: dict[str, Any], names: Mapping[str, str]) -> dict[str, list[str]]:
    """By node the addresses that ``names`` gives it (ansible_host, or its own name) on the controller; [] where it knows none."""
    return _once_a_play(task_vars, "resolved", sorted(names), lambda: resolve_all(names))


def known_addresses(task_vars: dict[str, Any], node: str) -> list[str]:
    """Where the inventory and the controller's resolver know a node: what others are told to connect to is held against it. Usable ones."""
    values = _variables(task_vars, node)
    name = str(values.get("ansible_host") or node)
    given = [name, *resolve_all({node: name})[node], *_given(values)]
    return [network.partition("/")[0] for network in dict.fromkeys(_networks(given))]


def addresses_of(task_vars: dict[str, Any], node: str) -> list[str]:
    """Of one node as the inventory says them: it need not be one of the play."""
    return [network.partition("/")[0] for network in derive({node: _variables(task_vars, node)})["peers"]]


def resolve_all(names: Mapping[str, str]) -> dict[str, list[str]]:
    """By key the addresses of each name. A name server that does not answer is waited for once, and not for every name."""
    found: dict[str, list[str]] = {}
    pending = list(names.items())

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                key, name = pending.pop()
                found[key] = resolve(name)

    threads = [threading.Thread(target=work, daemon=True) for _number in range(min(RESOLVERS, len(names)))]
    end = time.monotonic() + RESOLVE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {key: found.get(key, []) for key in names}


def resolve(name: str) -> list[str]:
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(name))]
    try:
        return list(dict.fromkeys(str(row[4][0]) for row in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)))
    except (OSError, UnicodeError):
        return []


def _once_a_play(
    task_vars: dict[str, Any], what: str, hosts: list[str], compute: Callable[[], dict[str, list[str]]]
) -> dict[str, list[str]]:
    kept = _place(task_vars, what, hosts)
    if kept is None:
        return compute()
    if not kept.is_file():
        with _alone(kept.with_suffix(".lock")):
            if not kept.is_file():
                _write(kept, json.dumps(compute()))
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


def _place(task_vars: dict[str, Any], what: str, hosts: list[str]) -> Path | None:
    """One file for a play and its hosts: another play may give them other variables."""
    directory = Path(str(constants.DEFAULT_LOCAL_TMP))
    play = [str(task_vars.get("ansible_play_name", "")), str(task_vars.get("playbook_dir", "")), hosts]
    if not directory.name.startswith("ansible-local-") or not directory.is_dir():
        return None  # no run of Ansible: nothing would take the file away
    return directory / f"railwright-{what}-{hashlib.sha256(json.dumps(play).encode()).hexdigest()[:16]}.json"


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
        found = list(_networks([values.get("ansible_host") or name, *_given(values)]))
        if not found:
            unknown.append(name)
        peers.update(dict.fromkeys(found))
    return {"peers": list(peers), "unknown": unknown}


def joined(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same addresses in as few networks as there can be: every node gets them, and makes rules of them. Pure."""
    return {**found, "peers": [network for group in by_family(found["peers"]) for network in group]}


def _given(values: Mapping[str, Any]) -> list[Any]:
    """The addresses that are named, and those of the rails."""
    named, rails = (value if isinstance(value, list) else [] for value in map(values.get, ("ssh_mesh_addresses", "rdma_rails")))
    return [*named, *(rail.get("address") for rail in rails if isinstance(rail, dict))]


def _networks(values: Iterable[Any]) -> Iterable[str]:
    """Each address as a network of its own: a rail's prefix is its subnet's, and not all of that is the cluster."""
    for value in values:
        try:
            address = ipaddress.ip_interface(str(value).strip()).ip
        except ValueError:
            continue
        if not unreachable(address):
            yield str(ipaddress.ip_network(address))
