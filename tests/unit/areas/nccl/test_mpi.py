# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of Open MPI and MPICH by family, and why the distribution's Open MPI is refused beside a vendor's stack."""

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_text import OS_RELEASE, dpkg_status
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import mpi
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.mpi import hpcx_artifact
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from field_specs import build_spec

VENDORS = "3:4.1.9a1-1.2510046"


class Node:
    """A captured node with these packages, and the area's answers for these wishes."""

    def __init__(self, root: Path, system: str, packages: dict[str, str], **values: Any) -> None:
        tree = Tree(root)
        tree.system(OS_RELEASE[system], "6.8.0-85-generic", "node1", "ext4 1 0 - Live 0x0\n")
        if system.startswith(("ubuntu", "debian")):
            tree.write("var/lib/dpkg/status", dpkg_status({"bash": "5.2", **packages}))
        else:
            rows = "".join(f"{name} {version}\n" for name, version in {"bash": "5.2-1", **packages}.items())
            tree.write("cmd/rpm_-qa_--qf_%{NAME} %{VERSION}-%{RELEASE}\\n", rows)
        self.host = TreeHost(str(root))
        self.identity = observe_identity(self.host)
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": [], **values}, "node1")
        assert spec is not None, findings
        self.spec = spec
        self.desired = mpi.desired(spec, self.identity)
        self.observed = mpi.observe(self.host, self.desired)

    @property
    def changes(self) -> list[Any]:
        return mpi.plan(self.desired, self.observed)

    @property
    def rows(self) -> list[tuple[str, Any, Any, str]]:
        return [(change.package, change.before, change.after, change.disruption) for change in self.changes]

    @property
    def problems(self) -> list[str]:
        found = mpi.problems(self.spec, self.identity, self.desired) + mpi.conflicts(self.desired, self.observed)
        return [f"{problem.subject}: {problem.message}" for problem in found]


@pytest.mark.parametrize(("system", "install", "names"), [
    ("ubuntu2404", "openmpi", ["openmpi-bin", "libopenmpi-dev"]),
    ("ubuntu2404", "mpich", ["mpich", "libmpich-dev"]),
    ("rocky9", "openmpi", ["openmpi", "openmpi-devel"]),
    ("rocky9", "mpich", ["mpich", "mpich-devel"]),
])
def test_starter_and_headers_by_family(tmp_path: Path, system: str, install: str, names: list[str]) -> None:
    node = Node(tmp_path, system, {}, mpi_install=install)
    assert node.problems == []
    assert node.rows == [(name, None, "present", "none") for name in names]
    assert Node(tmp_path, system, dict.fromkeys(names, "4.1.1-5"), mpi_install=install).rows == []


def test_a_version_is_the_packages_or_the_releases(tmp_path: Path) -> None:
    there = {"openmpi-bin": "4.1.6-7ubuntu2", "libopenmpi-dev": "4.1.6-7ubuntu2"}
    assert Node(tmp_path, "ubuntu2404", there, mpi_install="openmpi", mpi_version="4.1.6").rows == []
    assert Node(tmp_path, "ubuntu2404", there, mpi_install="openmpi", mpi_version="4.1.6-7ubuntu2").rows == []
    assert Node(tmp_path, "ubuntu2404", there, mpi_install="openmpi", mpi_version="4.1.2").rows == [
        ("openmpi-bin", "4.1.6-7ubuntu2", "4.1.2-*", "downgrade"), ("libopenmpi-dev", "4.1.6-7ubuntu2", "4.1.2-*", "downgrade")]


def test_nothing_is_asked_for_and_both_side_by_side_are_fine(tmp_path: Path) -> None:
    assert Node(tmp_path, "ubuntu2404", {}).rows == []
    both = {"openmpi-bin": "4.1.6-7", "libopenmpi-dev": "4.1.6-7"}
    node = Node(tmp_path, "ubuntu2404", both, mpi_install="mpich")
    assert (node.problems, [row[0] for row in node.rows]) == ([], ["mpich", "libmpich-dev"])


@pytest.mark.parametrize(("stack", "profile", "title"), [
    ("doca", None, "DOCA-OFED (doca-ofed)"), ("mlnx_ofed", "mlnx-ofed-hpc", "MLNX_OFED (mlnx-ofed-hpc)"),
])
def test_a_stack_that_brings_its_own_open_mpi(tmp_path: Path, stack: str, profile: str | None, title: str) -> None:
    values = {"rdma_stack": stack, "rdma_stack_profile": profile}
    refused = Node(tmp_path, "ubuntu2404", {}, mpi_install="openmpi", **values)
    (said,) = refused.problems
    assert said == (
        f"mpi_install: {title} brings an Open MPI of its own, and the distribution's does not go beside it; "
        "use mpi_install: none (theirs is found in /usr/mpi/gcc), mpich or hpcx")
    for install in ("mpich", "hpcx", "none"):
        assert Node(tmp_path, "ubuntu2404", {}, mpi_install=install, **values).problems == []


def test_a_profile_without_mpi_allows_one_unless_a_vendors_is_installed(tmp_path: Path) -> None:
    values = {"rdma_stack": "doca", "rdma_stack_profile": "doca-roce", "mpi_install": "openmpi"}
    assert Node(tmp_path, "ubuntu2404", {}, **values).problems == []
    (said,) = Node(tmp_path, "ubuntu2404", {"openmpi": VENDORS}, **values).problems
    assert said.startswith(f"mpi_install: package openmpi {VENDORS} of a vendor's stack is installed")
    assert Node(tmp_path, "rocky9", {"openmpi": "4.1.1-7.el9"}, mpi_install="openmpi").problems == []


def test_hpcx_is_no_part_of_a_plan_but_what_unpacks_it_is(tmp_path: Path) -> None:
    node = Node(tmp_path, "ubuntu2404", {}, mpi_install="hpcx")
    assert node.problems == []
    assert node.rows == [("bzip2", None, "present", "none")]
    assert mpi.notes(node.desired, node.observed) == [
        "mpi: HPC-X is put below /opt/railwright/hpcx by role mpi, and before nccl-tests run; that is no part of this plan"]
    (said,) = Node(tmp_path, "debian12", {}, mpi_install="hpcx").problems
    assert said.startswith("mpi_install: the catalogue has no HPC-X for Debian GNU/Linux 12 (bookworm) (x86_64); use openmpi or mpich")


def test_rebuilds_of_rhel_get_rhels_build(tmp_path: Path) -> None:
    node = Node(tmp_path, "rocky9", {}, mpi_install="hpcx")
    artifact = hpcx_artifact(node.identity.platform, "x86_64")
    assert artifact is not None
    assert artifact.name == "hpcx-rhel9-x86_64"
    assert "redhat9" in artifact.url


def test_its_packages_come_after_cuda_and_nccl(tmp_path: Path) -> None:
    names = [area.name for area in AREAS]
    assert names.index("cuda") < names.index("nccl_library") < names.index("mpi") < names.index("gpudirect")
    changes = Node(tmp_path, "ubuntu2404", {}, mpi_install="openmpi", mpi_version="4.1.6").changes
    assert package_steps(changes, "apt")["steps"] == [
        {"area": "mpi", "state": "present", "names": ["openmpi-bin=4.1.6-*", "libopenmpi-dev=4.1.6-*"]}]
