# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X's archive by the role, on nodes that say they are Ubuntu 22.04: Debian's Open MPI in HPC-X's tree, once Debian's own is gone.

Real: the archive, its unpacking, mpicc, mpirun, orted and the ranks. Not NVIDIA's: what is in the archive (hpcx_tree.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_mpi import said

from cluster import Cluster
from launching import CORE, Launching
from playbook import Host, Playbook

NODES = ("node1", "node2")
ARTIFACT, VERSION = "hpcx-ubuntu22.04-x86_64", "2.26.0"
NAME = "hpcx-v2.26-gcc-doca_ofed-ubuntu22.04-cuda13-x86_64"
HOME = f"/opt/railwright/hpcx/{VERSION}"
PARTS = ("ompi", "ucx", "ucc", "hcoll", "sharp")
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\nPRETTY_NAME="Ubuntu 22.04 LTS"\n'
OWN = ("openmpi-bin", "libopenmpi-dev", "libopenmpi3", "mpich", "libmpich-dev")
TOOLS = ("import json, sys; sys.path.insert(0, sys.argv[1]); from module_utils.host.host import Host; "
         "from module_utils.prefix.nccl_tests.toolchain import find_mpi; print(json.dumps(find_mpi(Host(), None, 'hpcx')))")
# The same as NVIDIA's hpcx-init.sh says of the directory that it lies in.
VALUES = {
    "HPCX_DIR": HOME, "HPCX_MPI_DIR": f"{HOME}/ompi", "OPAL_PREFIX": f"{HOME}/ompi", "PMIX_INSTALL_PREFIX": f"{HOME}/ompi",
    "LD_LIBRARY_PATH": ":".join(f"{HOME}/{part}/lib" for part in PARTS),
}  # fmt: skip

On = Callable[..., str]


class Told(NamedTuple):
    other: dict[str, Host]
    left: dict[str, str]
    run: dict[str, Host]
    again: dict[str, Host]
    launching: Launching
    found: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def hpcx(scenario: str, story: object, on: On, tell: Callable[..., Any]) -> Told:
    """First an archive with another layout, then HPC-X's; then Debian's own packages go. ``story``: both are there before."""
    cluster, playbook = Cluster(scenario), Playbook(scenario)
    source = (Path(__file__).resolve().parents[1] / "hpcx_tree.py").read_text(encoding="utf-8")
    on("node1", ("python3", "-", f"/var/lib/railwright-test/{NAME}", "/var/lib/railwright-test/hpcx.tbz"), source)
    right, other = cluster.directory / "hpcx.tbz", cluster.directory / "openmpi.tbz"
    cluster.container("node1").copy_out("/var/lib/railwright-test/hpcx.tbz", right)
    with tarfile.open(other, "w:bz2") as tar:
        for name in ("bin/mpirun", "lib/libmpi.so.40"):
            tar.addfile(tarfile.TarInfo(f"openmpi-4.1.9/{name}"), io.BytesIO())
    for node in NODES:
        on(node, ("rm", "-f", "/etc/os-release"))
        on(node, ("tee", "/etc/os-release"), UBUNTU)

    def run(archive: Path) -> dict[str, Host]:
        pin = {ARTIFACT: hashlib.sha256(archive.read_bytes()).hexdigest()}
        values = {"mpi_install": "hpcx", "mpi_version": VERSION, "mpi_archive": str(archive), "rdma_artifact_pins": pin}
        playbook.say({}, dict.fromkeys(NODES, values))
        return playbook.run()

    refused = run(other)
    left = {node: on(node, ("find", "/opt", "/var/cache/railwright", "-path", "*hpcx*")) for node in NODES}
    first, again = run(right), run(right)
    for node in NODES:
        on(node, ("apt-get", "purge", "--quiet=2", "--yes", *OWN))
    ready = tell("hpcx", first, again)
    return Told(refused, left, first, again, ready.launching, ready.found)


@pytest.fixture
def launching(hpcx: Told) -> Iterator[Launching]:
    yield hpcx.launching
    hpcx.launching.stop()
    hpcx.launching.remove()


@pytest.mark.parametrize("node", NODES)
def test_an_archive_with_another_layout_is_named_and_leaves_nothing(hpcx: Told, node: str) -> None:
    ((_task, text),) = hpcx.other[node].failed
    assert f"{ARTIFACT} is not laid out as HPC-X is: there is no ompi/bin/mpirun below its first directory, which holds " in text
    assert "bin/mpirun" in text.partition("which holds")[2]
    assert hpcx.left[node] == ""


@pytest.mark.parametrize("node", NODES)
def test_the_archive_is_put_in_place_once(hpcx: Told, on: On, node: str) -> None:
    assert hpcx.run[node].failed == []
    assert any("HPC-X" in task for task in hpcx.run[node].changed)
    assert (hpcx.again[node].changed, hpcx.again[node].failed) == ([], [])
    assert on(node, ("readlink", "-f", "/opt/railwright/hpcx/current")).strip() == HOME
    assert json.loads(on(node, ("cat", f"{HOME}/railwright.json")))["mpi"] == "4.1.4"


@pytest.mark.parametrize("node", NODES)
def test_it_alone_is_found_and_compiles_with_its_own_headers(hpcx: Told, on: On, node: str) -> None:
    assert [row["mpirun"] for row in hpcx.found[node]] == [f"{HOME}/ompi/bin/mpirun"]
    tools = json.loads(on(node, ("python3", "-I", "-c", TOOLS, CORE)))
    assert all(tools[name].startswith(f"{HOME}/ompi/") for name in ("include", "library", "directory"))


def test_two_ranks_on_two_nodes_have_its_variables(hpcx: Told, launching: Launching, on: On) -> None:
    names = (*VALUES, "PATH")
    launching.begin("hpcx-1", ("/var/lib/railwright-test/ranks-hpcx", *names))
    outcome = launching.wait()
    assert outcome.rc == 0, outcome.text
    ranks = said(outcome.text)
    assert [(rank.ranks, rank.host, rank.sum, rank.wrong) for rank in ranks] == [
        (2, on(node, ("hostname",)).strip(), 3, 0) for node in NODES], outcome.text
    for rank in ranks:
        # Open MPI puts its own directories before the paths once more.
        found = {name: ":".join(dict.fromkeys(value.split(":"))) for name, value in rank.values.items()}
        assert {name: found[name] for name in VALUES} == VALUES
        assert found["PATH"].split(":")[:6] == [*(f"{HOME}/{part}/bin" for part in PARTS), "/usr/sbin"]
    assert launching.stop() == dict.fromkeys(NODES, 0)


@pytest.mark.parametrize("program", ["mpirun", "orted", "ranks-hpcx"])
def test_everything_that_runs_is_out_of_its_tree(launching: Launching, on: On, program: str) -> None:
    launching.begin(f"hpcx-{program}", ("/var/lib/railwright-test/ranks-hpcx",), {"STAY": "1"})
    launching.says(" wrong 0", 2)
    node = "node2" if program == "orted" else "node1"
    pid = on(node, ("pgrep", "-o", "-x", program)).strip()
    loaded = {line.split()[-1] for line in on(node, ("cat", f"/proc/{pid}/maps")).splitlines() if "/" in line}
    own = {path for path in loaded if path.startswith(f"{HOME}/")}
    assert any("/ompi/lib/libopen-pal.so." in path for path in own)
    assert not [path for path in loaded - own if "openmpi" in path or "libopen-" in path or "/ucx/" in path]
    assert sum(launching.stop().values()) > 0
