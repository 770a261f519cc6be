# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab keeps things, and what a lab is, as data; the only file that knows its JSON form. Images are a cache."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import open_own
from railwright import writing
from railwright.lab.tools import LabError
from railwright.ownership import state_directory


def cache_root() -> Path:
    """Images: safe to delete, rebuilt when needed."""
    return writing.xdg("XDG_CACHE_HOME", ".cache") / "railwright" / "lab"


def default_state_dir() -> Path:
    """Machines, keys and the inventory of the default lab."""
    return state_directory("lab")


@dataclass(frozen=True)
class LabPaths:
    root: Path

    @classmethod
    def of(cls, state_dir: Path | None) -> Self:
        return cls((state_dir or default_state_dir()).absolute())

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def ssh_key(self) -> Path:
        return self.root / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.root / "ssh" / "known_hosts"

    @property
    def inventory(self) -> Path:
        return self.root / "inventory"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    def node(self, name: str) -> Path:
        return self.nodes / name

    @property
    def tag(self) -> str:
        """A short name for this lab, for things that are global to the machine (namespaces)."""
        return sha256(os.fsencode(self.root)).hexdigest()[:8]


@contextmanager
def locked(lock_file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an exclusive lock; a second caller waits or is told, instead of being left to guess."""
    writing.make_directories(lock_file.parent, 0o700)
    with os.fdopen(open_own(str(lock_file), os.O_RDWR), "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LabError(f"another railwright is working on this lab (lock: {lock_file})") from exc
        yield


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """As every file of the controller is written, with the directory that it lies in; readable by others, where nothing else is said."""
    writing.make_directories(path.parent, 0o700)
    writing.write_atomic(path, text, mode)


VERSION = 1


@dataclass(frozen=True)
class Hardware:
    """What the machines are made of beside the usual: each option is something that a test of the PCI level needs."""

    # A q35 with every NIC behind a PCI Express root port of its own: root ports have ACS, NICs a PCI Express capability.
    pcie: bool = False
    # An Intel IOMMU, for the kernel to find and to be told what to do with.
    iommu: bool = False
    # No hypervisor in CPUID and DMI: what a machine does only on bare metal, it does here.
    bare_metal: bool = False
    # UEFI firmware that has Secure Boot on, with Microsoft's keys; for a recipe with an EFI system partition.
    secure_boot: bool = False

    def words(self) -> list[str]:
        """Names of the options that are on."""
        return [name for name, value in asdict(self).items() if value]


ORDINARY = Hardware()


@dataclass(frozen=True)
class Rail:
    """One fabric NIC of one node."""

    name: str
    mac: str
    address: str


@dataclass(frozen=True)
class Node:
    """One virtual machine. ssh_port is on 127.0.0.1."""

    name: str
    index: int
    ssh_port: int
    mac: str
    rails: tuple[Rail, ...] = ()


@dataclass(frozen=True)
class LabState:
    root: Path
    image: str
    accel: str
    # Everything a memory snapshot depends on; another shape means that the snapshots cannot be loaded.
    shape: str
    nodes: tuple[Node, ...] = ()
    socket_dir: str = ""
    site_hash: str = ""
    # 0: the disk is a file system and QEMU loads the kernel; else the machine boots from its disk, and the file system starts here.
    offset: int = 0
    hardware: Hardware = ORDINARY

    @property
    def paths(self) -> LabPaths:
        return LabPaths(self.root)

    @property
    def inventory(self) -> Path:
        """The directory to give to `-i`."""
        return self.paths.inventory

    def node(self, name: str) -> Node:
        known = {node.name: node for node in self.nodes}
        if name not in known:
            raise LabError(f"no node named {name!r} in this lab (nodes: {', '.join(known) or 'none'})")
        return known[name]


def save_state(state: LabState) -> None:
    """Write state.json in one step."""
    body: dict[str, Any] = asdict(state)
    del body["root"]  # The file is found through the directory; storing it twice lets them disagree.
    write_atomic(state.paths.state_file, json.dumps({"version": VERSION, **body}, indent=2) + "\n")


def load_state(paths: LabPaths) -> LabState | None:
    """Read state.json; None when there is no lab here."""
    try:
        body = read_json(paths.state_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise LabError(f"cannot read {paths.state_file}: {exc}; remove the lab with `railwright lab down --destroy`") from exc
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise LabError(f"{paths.state_file} is from another version of railwright; `railwright lab down --destroy` first")
    try:
        nodes = tuple(_node(item) for item in body["nodes"])
        hardware = Hardware(**{name: bool(value) for name, value in body.get("hardware", {}).items()})
        offset = int(body.get("offset", 0))
        texts = {key: str(body[key]) for key in ("image", "accel", "shape", "socket_dir", "site_hash")}
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise LabError(f"{paths.state_file} is damaged ({exc}); `railwright lab down --destroy` first") from exc
    return LabState(root=paths.root, nodes=nodes, offset=offset, hardware=hardware, **texts)


def _node(item: dict[str, Any]) -> Node:
    rails = tuple(Rail(str(rail["name"]), str(rail["mac"]), str(rail["address"])) for rail in item["rails"])
    return Node(str(item["name"]), int(item["index"]), int(item["ssh_port"]), str(item["mac"]), rails)
