# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and wires. Nothing here leaves the machine: no multicast, no bridge in the host's own namespace."""

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.lab import tools
from railwright.lab.state import Hardware, LabPaths, LabState, Node, Rail
from railwright.lab.tools import LabError

FIRST_PORT = 2201
MAX_NODES = 32
MAX_RAILS = 8
# The first inheritable tap descriptor; tapexec.py puts them there and the argv names them.
FIRST_TAP_FD = 10
# QEMU's own prefix, then ours (0x4d), the NIC (0 is management) and the node.
_MAC = "52:54:00:4d:{nic:02x}:{node:02x}"


def check_size(nodes: int, rails: int) -> None:
    """Refuse what does not fit the addressing plan, or what this user cannot wire, before anything is built."""
    if not 1 <= nodes <= MAX_NODES:
        raise LabError(f"nodes must be 1 to {MAX_NODES}, not {nodes}")
    if not 1 <= rails <= MAX_RAILS:
        raise LabError(f"rails must be 1 to {MAX_RAILS}, not {rails}")
    if nodes > 2:
        tools.require(["ip"])
        if os.geteuid() != 0:
            raise LabError("more than two nodes need a network namespace: run as root, or use --nodes 2")


def make_nodes(count: int, rails: int, keep: dict[str, int]) -> tuple[Node, ...]:
    """Node names, MACs and addresses follow from the index alone; ``keep``: the ssh ports that nodes had before."""
    ports = choose_ports([f"node{index}" for index in range(1, count + 1)], keep)

    def rail(number: int, index: int) -> Rail:
        return Rail(f"rail{number}", _MAC.format(nic=number + 1, node=index), f"10.77.{number}.{10 + index}/24")

    return tuple(
        Node(name, index, port, _MAC.format(nic=0, node=index), tuple(rail(number, index) for number in range(rails)))
        for index, (name, port) in enumerate(ports.items(), start=1)
    )


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports(names: Iterable[str], keep: dict[str, int]) -> dict[str, int]:
    """Keep the ports that a node had where they are still free, so that an open inventory stays right."""
    chosen: dict[str, int] = {}
    candidates = iter(range(FIRST_PORT, FIRST_PORT + 2000))
    for name in names:
        port = keep.get(name, 0)
        if port and port not in chosen.values() and port_is_free(port):
            chosen[name] = port
            continue
        taken = {*chosen.values(), *keep.values()}
        found = next((c for c in candidates if c not in taken and port_is_free(c)), None)
        if found is None:
            raise LabError(f"no free port on 127.0.0.1 from {FIRST_PORT} on")
        chosen[name] = found
    return chosen


def rail_argv(state: LabState, node: Node) -> list[str]:
    """The fabric NICs of one node, and what each is plugged into."""
    argv: list[str] = []
    for number, rail in enumerate(node.rails):
        argv += ["-netdev", _backend(state, node, number)]
        # No host_mtu: it would set the guest's MTU, and a bare node must come up with 1500. virtio-net takes up to 65535.
        argv += nic_argv(state.hardware, rail.name, rail.mac, number + 1)
    return argv


def nic_argv(hardware: Hardware, backend: str, mac: str, slot: int) -> list[str]:
    """One NIC, on the board or behind a root port of its own."""
    nic = f"virtio-net-pci,netdev={backend},mac={mac}"
    if not hardware.pcie:
        return ["-device", nic]
    return ["-device", f"pcie-root-port,id=port{slot},chassis={slot + 1}", "-device", f"{nic},bus=port{slot}"]


def _backend(state: LabState, node: Node, number: int) -> str:
    rail = node.rails[number].name
    if uses_bridge(state):
        return f"tap,id={rail},fd={FIRST_TAP_FD + number}"
    if len(state.nodes) == 1:
        return f"hubport,id={rail},hubid={number + 1}"  # A switch with nobody else on it.
    # Datagrams, not `stream`: a stream client of QEMU 7.2 never reconnects when its peer was powered off.
    peer = next(other for other in state.nodes if other.index != node.index)
    here, there = (escape(Path(state.socket_dir) / f"{end.name}.{rail}") for end in (node, peer))
    return f"dgram,id={rail},local.type=unix,local.path={here},remote.type=unix,remote.path={there}"


def escape(path: Path) -> str:
    """A comma ends a value in QEMU's option syntax; doubled, it stands for itself."""
    return str(path).replace(",", ",,")


def uses_bridge(state: LabState) -> bool:
    return len(state.nodes) > 2


def namespace(paths: LabPaths) -> str:
    return f"railwright-{paths.tag}"


def tap_name(node: Node, number: int) -> str:
    return f"n{node.index}r{number}"


def _namespaces() -> set[str]:
    listed = tools.run_tool(["ip", "netns", "list"])
    return {line.split()[0] for line in lines_in(listed) if line.strip()}


def ensure_bridges(state: LabState) -> None:
    """One bridge a rail in a namespace of the lab's own, one tap a node on each."""
    if not uses_bridge(state):
        return
    name = namespace(state.paths)
    if name in _namespaces():
        return
    tools.run_tool(["ip", "netns", "add", name])
    inside = ["ip", "-n", name]
    try:
        for number in range(len(state.nodes[0].rails)):
            bridge = f"rail{number}"
            # Snooping without a querier would drop neighbour discovery after a few minutes.
            tools.run_tool([*inside, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0"])
            for node in state.nodes:
                tap = tap_name(node, number)
                tools.run_tool([*inside, "tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr"])
                tools.run_tool([*inside, "link", "set", tap, "mtu", "9216", "master", bridge, "up"])
            tools.run_tool([*inside, "link", "set", bridge, "mtu", "9216", "up"])
    except LabError:
        remove_bridges(state.paths)
        raise


def remove_bridges(paths: LabPaths) -> None:
    """Idempotent; the taps and bridges go with their namespace."""
    if os.geteuid() == 0 and tools.find_tool("ip") and namespace(paths) in _namespaces():
        tools.run_tool(["ip", "netns", "delete", namespace(paths)])
