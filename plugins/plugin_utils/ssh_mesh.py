# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides over all nodes of an ssh mesh: who belongs to it, which key is the key, whether it has to be a new one. Pure.

A node that leaves the inventory still has the key, so a mesh that loses a node gets a
new one: from= alone would let in whoever takes over the address of a node.
"""

from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_address, usable_addresses
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh.files import NAME, PUBLIC, Member, good_host_keys

ADDRESS_HINT = "set ssh_mesh_addresses of the host"


class Node(NamedTuple):
    """One node: what the inventory says of it (``addresses``: ssh_mesh_addresses, ``rails``: its rails' own), and what it said itself.

    ``resolved``: the addresses that ansible_host, or the node's name, has on the controller. ``user``: ssh_mesh_user, where it is set.
    """

    name: str
    generation: int
    addresses: tuple[str, ...]
    rails: tuple[str, ...]
    hostname: str  # ansible_host
    seen: dict[str, Any]
    resolved: tuple[str, ...] = ()
    user: str | None = None


class Mesh(NamedTuple):
    """The answer, the same whichever host asks."""

    members: list[Member]
    origin: str | None  # the node that has the key, or makes it
    generate: bool
    public_key: str | None  # None: still to be made
    generation: int
    serial: int
    receivers: list[str]
    holders: list[str]
    why: str
    problems: list[str]  # of the whole mesh
    unfit: dict[str, list[str]]  # nodes that are left out, and why: one node's word stops nobody else


def plan_mesh(nodes: list[Node], wanted: set[str]) -> Mesh:
    """``wanted``: every node that the inventory has in the mesh, those too that did not answer."""
    problems = disagreements(nodes)
    members, unfit = members_of(nodes)
    nodes = [node for node in nodes if node.name not in unfit]
    if problems or not nodes:
        return Mesh([], None, False, None, 1, 1, [], [], "", problems, unfit)
    generation = nodes[0].generation
    said = {node.name: node.seen.get("public_key") for node in nodes}
    held = {name: key for name, key in said.items() if isinstance(key, str) and PUBLIC.fullmatch(key) is not None}
    serials = [mesh_number(key, "serial") for key in held.values()]
    fitting = [name for name in held if mesh_number(held[name], "generation") == generation]
    newest = max((mesh_number(held[name], "serial") for name in fitting), default=0)
    origin = next((name for name in fitting if mesh_number(held[name], "serial") == newest), None)
    known = set() if origin is None else holders_of(nodes, held[origin])
    gone = sorted(known - wanted)
    if origin is None or gone:
        why = f"{', '.join(gone)} had the key and is no longer part of the mesh" if gone else "no node has a key of this generation"
        first = nodes[0].name
        return Mesh(members, first, True, None, generation, max(serials, default=0) + 1,
                    [node.name for node in nodes if node.name != first], [node.name for node in nodes], why, [], unfit)
    key = held[origin]
    receivers = [node.name for node in nodes if held.get(node.name) != key]
    return Mesh(members, origin, False, key, generation, newest, receivers, sorted(known | {node.name for node in nodes}), "", [], unfit)


def mesh_number(key: str, field: str) -> int:
    found = PUBLIC.fullmatch(key)
    return int(found[field]) if found else 0


def holders_of(nodes: list[Node], key: str) -> set[str]:
    """Everybody whom this very key was given to, by what any node has written down."""
    found: set[str] = set()
    for node in nodes:
        said = node.seen.get("authorized")
        if isinstance(said, list) and len(said) == 2 and said[0] == key and isinstance(said[1], list):
            found |= {name for name in said[1] if isinstance(name, str) and NAME.fullmatch(name)}
    return found


def disagreements(nodes: list[Node]) -> list[str]:
    """One generation for all, and no address that the inventory gives to two of them."""
    found = []
    if len({node.generation for node in nodes}) > 1:
        each = ", ".join(f"{node.name} has {node.generation}" for node in nodes)
        found.append(f"ssh_mesh_generation must be the same on every node of the mesh: {each}")
    owners = grouped((address, node.name) for node in nodes for address in dict.fromkeys(usable_addresses((*node.addresses, *node.rails))))
    return found + [f"{names[1]}: address {address} is another node's too ({names[0]})" for address, names in owners.items() if names[1:]]


def members_of(nodes: list[Node]) -> tuple[list[Member], dict[str, list[str]]]:
    """The nodes as the others will know them, and the unfit ones. Names and addresses are the inventory's: a node may only confirm them."""
    unfit: dict[str, list[str]] = {}
    addresses = {node.name: addresses_of(node) for node in nodes}
    names = {node.name: names_of(node) for node in nodes}
    user = common_user(nodes)
    members = []
    for node in nodes:
        others = [other for other in nodes if other is not node]
        taken = {item for other in others for item in addresses[other.name]}
        own = [item for item in addresses[node.name] if item not in taken]
        named = {item.lower() for other in others for item in names[other.name]}
        aliases = [item for item in names[node.name] if item == node.name or item.lower() not in named]
        keys = good_host_keys(node.seen.get("host_keys") or [])
        port = node.seen.get("port")
        wrong = [str(text) for text in node.seen.get("problems") or []]
        here, wanted = str(node.seen.get("user")), node.user or user
        if here != wanted:
            wrong.append(f"ssh_mesh_user must be the same on every node of the mesh: {here} here, else {wanted}")
        if not NAME.fullmatch(node.name):
            wrong.append("a host of a mesh has a name of letters, digits, dots, _ and -")
        elif not own:
            wrong.append(f"has no address of its own that the others could reach it at; {ADDRESS_HINT}")
        elif (not keys or not isinstance(port, int) or not 0 < port < 65536) and not wrong:
            wrong.append("said no host key or no port of its sshd")
        if wrong:
            unfit[node.name] = [f"{node.name}: {text}" for text in wrong]
        else:
            members.append(Member(tuple(aliases), tuple(own), int(str(port)), keys))
    return members, unfit


def common_user(nodes: list[Node]) -> str:
    """Where the inventory names none: what most nodes say; among as many the first one's. Empty where nobody is left."""
    said = [str(node.seen.get("user")) for node in nodes]
    return max(said, key=lambda user: (said.count(user), -said.index(user)), default="")


def twins(members: list[Member]) -> list[str]:
    """Nodes made from one image with its host keys in it: each can pretend to be the other, and recorded keys prove nothing."""
    found = grouped((key, member.names[0]) for member in members for key in member.host_keys)
    groups = sorted({tuple(names) for names in found.values() if len(names) > 1})
    advice = "have the same host key; make new ones (ssh-keygen -A), or each can pretend to be the other"
    return [f"{', '.join(names)} {advice}" for names in groups]


def addresses_of(node: Node) -> list[str]:
    """In order of preference, each once, in canonical form: what the inventory and the controller's resolver know, nothing else.

    Where a key's from= lets in, and where a name leads, is no node's to say. Of several that are known those come first that the node
    has on its interfaces.
    """
    known = usable_addresses((node.hostname, *node.resolved, *node.rails))
    said = [text for text in usable_addresses(node.seen.get("addresses") or []) if text in known]
    return list(dict.fromkeys(usable_addresses(node.addresses) if node.addresses else [*said, *known]))


def names_of(node: Node) -> list[str]:
    """The inventory's name first, then ansible_host where it is a name, and the short form of either where the node calls itself so."""
    own = str(node.seen.get("hostname") or "").lower()
    given = [node.name, node.hostname, *(text.partition(".")[0] for text in (node.name, node.hostname) if not is_address(text))]
    mine = [text for text in given if text in (node.name, node.hostname) or text.lower() in (own, own.partition(".")[0])]
    good = [text for text in mine if NAME.fullmatch(text) and not text.lower().startswith("localhost") and not is_address(text)]
    return list(dict.fromkeys([node.name, *good]))
