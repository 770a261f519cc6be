# SPDX-License-Identifier: GPL-3.0-or-later
"""What a row of the table of faults changes in a copy of its base tree, and the form of a row."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Edit = Callable[[Path], None]


class Fault(NamedTuple):
    """``edit`` of ``tree`` must give a verdict ``code`` with ``status`` whose message holds ``word``, which the base tree does not give.

    ``ends``: the exit code of check; None: the one that the status alone gives (fail 1, unknown 4, else 0). ``validate``: the word or the
    whole verdict of validate, if it says something else of a tree with an inventory; () for a row that it has no verdict for.
    """

    tree: str
    what: str
    edit: Edit
    code: str
    status: str
    word: str
    ends: int | None = None
    validate: str | tuple[str, str, str] | tuple[()] = ""


class Difference(NamedTuple):
    """The same, for what only an inventory makes a fault: ``keys`` (fields of the Spec) are added to the tree's own."""

    tree: str
    what: str
    edit: Edit
    code: str
    status: str
    word: str
    keys: dict[str, Any] | None = None


class Healthy(NamedTuple):
    """A variant that is healthy by design: no verdict fails or warns, and ``check`` ends 0.

    ``quiet``: codes that must not be unknown either. ``warns``: codes that may warn, with the reason.
    """

    tree: str
    what: str
    edit: Edit
    quiet: tuple[str, ...] = ()
    warns: dict[str, str] | None = None


def nothing(_root: Path) -> None:
    """Leave the base tree unchanged."""


def together(*edits: Edit) -> Edit:
    def edit(root: Path) -> None:
        for one in edits:
            one(root)

    return edit


def put(path: str, text: str | bytes) -> Edit:
    """Write a file; links on the way are followed."""

    def edit(root: Path) -> None:
        full = root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())

    return edit


def replace(path: str, before: str, after: str, count: int = -1) -> Edit:
    """Replace a text that the file holds."""

    def edit(root: Path) -> None:
        text = (root / path).read_text()
        assert before in text, f"{path} does not hold {before!r}"
        (root / path).write_text(text.replace(before, after, count))

    return edit


def remove(path: str) -> Edit:
    """Remove a file, a link or a directory."""

    def edit(root: Path) -> None:
        full = root / path
        if full.is_symlink() or full.is_file():
            full.unlink()
        else:
            shutil.rmtree(full)

    return edit


def link(path: str, target: str) -> Edit:
    """Make a link to ``target``, a path in the tree."""

    def edit(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(root / target)

    return edit


def port(hca: str, **files: str) -> Edit:
    """Write files of a port: state, phys_state, rate, link_layer, lid, sm_lid."""
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/{name}", text + "\n") for name, text in files.items()))


DOWN = {"state": "1: DOWN", "phys_state": "3: Disabled"}


def function(root: Path, address: str) -> Path:
    """The directory of a PCI function."""
    return (root / "sys/bus/pci/devices" / address).resolve()


def without_devices(root: Path, address: str) -> Path:
    """Remove RDMA device and interfaces of a PCI function; return its directory."""
    without_rdma(address)(root)
    own = function(root, address)
    for entry in (root / "sys/class/net").iterdir():
        if entry.is_symlink() and own in entry.resolve().parents:
            entry.unlink()
    return own


def off_the_bus(address: str) -> Edit:
    """Remove a PCI function with all that the kernel had made of it."""

    def edit(root: Path) -> None:
        own = without_devices(root, address)
        shutil.rmtree(own)
        (root / "sys/bus/pci/devices" / address).unlink()

    return edit


def without_rdma(address: str) -> Edit:
    """Remove the RDMA device of a PCI function; driver and interface stay."""

    def edit(root: Path) -> None:
        own = function(root, address)
        for entry in (root / "sys/class/infiniband").iterdir():
            if own in entry.resolve().parents:
                entry.unlink()
        if (own / "infiniband").is_dir():
            shutil.rmtree(own / "infiniband")

    return edit


def unbound(address: str) -> Edit:
    """Remove RDMA device, interface and driver of a PCI function, as a failed probe leaves it."""

    def edit(root: Path) -> None:
        own = without_devices(root, address)
        shutil.rmtree(own / "net", ignore_errors=True)
        (own / "driver").unlink()
        (own / "uevent").write_text("".join(line for line in (own / "uevent").read_text().splitlines(True) if "DRIVER" not in line))

    return edit


def all_of(make: Callable[[str], Edit], names: tuple[str, ...] | list[str]) -> Edit:
    return together(*map(make, names))
