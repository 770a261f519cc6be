# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines for the lab tests: each file has one, which starts from the snapshot of its first boot. One at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab_debs import Keyring, publish, served
from lab_machine import Machine
from lab_pair import NODES, USER, Pair, on_machines, write_site
from lab_vendor import LABEL, driver, old_driver, stack
from railwright import lab

ROOT = Path(__file__).resolve().parents[2]


def report(line: str) -> None:
    print(line, flush=True)


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The machine that the file's RECIPE and HARDWARE describe. Its disks stay below build/, so that a later run starts in seconds."""
    state_dir = ROOT / "build" / "lab" / request.module.__name__.rpartition(".")[2]
    options: dict[str, Any] = {"recipe": request.module.RECIPE, "hardware": request.module.HARDWARE}
    lab.down(state_dir=state_dir)
    lab.up(1, state_dir=state_dir, progress=report, **options)
    try:
        yield Machine(state_dir)
    finally:
        lab.down(state_dir=state_dir)


@pytest.fixture(scope="module")
def machines(request: pytest.FixtureRequest) -> Iterator[tuple[Machine, ...]]:
    """Two machines with RAILS rails each, bare."""
    state_dir = ROOT / "build" / "lab" / request.module.__name__.rpartition(".")[2]
    options: dict[str, Any] = {"recipe": request.module.RECIPE, "hardware": request.module.HARDWARE, "rails": request.module.RAILS}
    lab.down(state_dir=state_dir)
    lab.up(len(NODES), state_dir=state_dir, progress=report, **options)
    try:
        yield tuple(Machine(state_dir, node) for node in NODES)
    finally:
        lab.down(state_dir=state_dir)


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two machines, provisioned: packages, rails, Open MPI, ssh mesh."""
    state_dir = ROOT / "build" / "lab" / request.module.__name__.rpartition(".")[2]
    lab.down(state_dir=state_dir)
    state = lab.up(len(NODES), state_dir=state_dir, progress=report, recipe=request.module.RECIPE, hardware=request.module.HARDWARE)
    try:
        write_site(state.inventory)
        made = Pair(on_machines(state_dir), state.inventory, tmp_path_factory.mktemp("state"), interface="eth1", limit=60)
        for node in NODES:
            made.on(node, ("useradd", "--create-home", "--uid", "2000", "--shell", "/bin/bash", USER))
        code, document, err = made.railwright("apply")
        assert code == 0, (document, err)
        made.mesh()
        made.stand_in()
        yield made
    finally:
        lab.down(state_dir=state_dir)


@pytest.fixture(scope="session")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyring]:
    made = Keyring.make(tmp_path_factory.mktemp("keys") / "gnupg")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory, keyring: Keyring) -> Iterator[dict[str, Any]]:
    """The vendor's repository, served: the inventory values that name it; and what is served, as directory and as URL."""
    with repository(tmp_path_factory.mktemp("vendor"), keyring) as values:
        yield values


@contextmanager
def repository(directory: Path, keyring: Keyring, **options: str) -> Iterator[dict[str, Any]]:
    publish([*stack(**options), driver(), old_driver()], directory / "doca", directory / "work", keyring, LABEL)
    with served(directory) as url:
        yield {
            "directory": directory,
            "mirror": url,
            "rdma_stack_repository_url": f"{url}/doca",
            "rdma_stack_repository_key_url": f"{url}/doca/key.asc",
            "rdma_stack_repository_fingerprint": keyring.fingerprint,
        }
