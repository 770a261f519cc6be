# SPDX-License-Identifier: GPL-3.0-or-later
"""Two MPIs, one after the other: what the role did, and a way to start the compiled program by each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import hpcx_words
from cluster import Cluster
from launching import CORE, Launching, Plan
from playbook import Host, Playbook

NODES = ("node1", "node2")
USER = "mpi"
SOURCE = Path(__file__).resolve().parents[1] / "ranks.c"
FOUND = ("import json, sys; sys.path.insert(0, sys.argv[1]); from module_utils.host.host import Host; "
         "from module_utils.observe.mpi import found_mpi; "
         "print(json.dumps([row._asdict() for row in found_mpi(Host(), None, sys.argv[2])]))")


# On each node. MPICH's ranks spin while they wait: three of them on a busy core kept each other from the end of MPI_Finalize (seen once).
RANKS = {"openmpi": 3, "mpich": 1, "hpcx": 1}


class Told(NamedTuple):
    """One MPI: the run that brought it and the one after it (Open MPI's are molecule's own), and its programs."""

    run: Mapping[str, Host]
    again: Mapping[str, Host]
    found: dict[str, list[dict[str, Any]]]
    launching: Launching


@pytest.fixture(scope="session")
def on(scenario: str) -> Callable[..., str]:
    """A command on a node; it must succeed."""
    cluster = Cluster(scenario)

    def run(node: str, argv: Sequence[str], stdin: str = "") -> str:
        return cluster.container(node).run(*argv, stdin=stdin).stdout

    return run


def told(on: Callable[..., str], install: str, run: Mapping[str, Host], again: Mapping[str, Host]) -> Told:
    """What the node's own look finds first is what starts and what compiles, as for nccl-tests."""
    launching = Launching(on, Plan("", "", {name: name for name in NODES}, USER, interface="eth0", per_node=RANKS[install]))
    found = {node: json.loads(on(node, ("python3", "-I", "-c", FOUND, CORE, install))) for node in NODES}
    first = found["node1"][0]
    program = f"/var/lib/railwright-test/ranks-{install}"
    for node in NODES:
        launching.bring(node, program + ".c", SOURCE.read_bytes())
        home = first["prefix"]
        compiler = (*hpcx_words(first["mpirun"]), f"{home}/bin/mpicc") if install == "hpcx" else (f"mpicc.{install}",)
        on(node, (*compiler, "-o", program, program + ".c"))
    launching.plan = launching.plan._replace(kind=first["kind"], path=first["mpirun"])
    return Told(run, again, found, launching)


@pytest.fixture(scope="session")
def tell(on: Callable[..., str]) -> Callable[..., Told]:
    """For an MPI that another file brings."""
    return partial(told, on)


@pytest.fixture(scope="session")
def story(scenario: str, on: Callable[..., str]) -> dict[str, Told]:
    """Open MPI is there already; then the inventory asks for MPICH, and both are."""
    stories = {"openmpi": told(on, "openmpi", {}, {})}
    playbook = Playbook(scenario)
    playbook.say({}, {node: {"mpi_install": "mpich"} for node in NODES})  # group_vars beside converge.yml go before the inventory's
    stories["mpich"] = told(on, "mpich", playbook.run(), playbook.run())
    return stories
