# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a package file without a signature is installed: its checksum is the operator's, and it is the package that was asked for.

The answers of dpkg-deb and rpm are written from their manual pages; real ones are in molecule/aiacc.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aiacc_node import wishes
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import fits_nccl, is_release
from ansible_collections.railwright.rdma.plugins.module_utils.entry.packages import parted
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import check_unsigned

FILE = b"a package"
DIGEST = hashlib.sha256(FILE).hexdigest()


class Query(TreeHost):
    """sha256sum is real in effect; the file says what it holds."""

    says = "aiacc-nccl-plugin 1.0.2-1\n"
    rc = 0

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        path = Path(self.path(argv[-1]))
        if argv[0] == "sha256sum":
            return Result(0, f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {argv[-1]}\n", "") if path.exists() else Result(1, "", "no")
        assert argv[0] in ("dpkg-deb", "rpm")
        return Result(self.rc, self.says if self.rc == 0 else "", "")


@pytest.fixture
def host(tmp_path: Path) -> Query:
    (tmp_path / "var/cache/railwright/packages").mkdir(parents=True)
    for ending in ("deb", "rpm"):
        (tmp_path / f"var/cache/railwright/packages/aiacc-nccl-plugin.{ending}").write_bytes(FILE)
    return Query(str(tmp_path))


def said(host: Query, manager: str, digest: str, **values: Any) -> str:
    spec = wishes(artifact_pins={"aiacc_nccl_plugin_deb": digest, "aiacc_nccl_plugin_rpm": digest}, **values)
    try:
        check_unsigned(host, spec, manager, ["/whatever/the/plan/said"])
    except RailwrightError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("manager", ["apt", "dnf", "yum"])
def test_the_right_file(host: Query, manager: str) -> None:
    assert said(host, manager, DIGEST) == ""


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_another_file_than_the_pinned(host: Query, manager: str) -> None:
    words = said(host, manager, "0" * 64)
    assert f"has the sha256 {DIGEST} and not {'0' * 64}" in words
    assert words.endswith("; nothing was changed")
    assert "\n" not in words


def test_a_file_that_never_came(host: Query) -> None:
    Path(host.path("/var/cache/railwright/packages/aiacc-nccl-plugin.deb")).unlink()
    assert "nothing (it is not there)" in said(host, "apt", DIGEST)


@pytest.mark.parametrize(
    ("says", "rc"), [("aiacc-nccl-plugin 1.1.0\n", 0), ("aiacc-nccl-plugin 1.0.20\n", 0), ("evil 1.0.2\n", 0), ("", 0), ("", 2)]
)
def test_a_pinned_file_with_something_else_in_it(host: Query, says: str, rc: int) -> None:
    host.says, host.rc = says, rc
    words = said(host, "apt", DIGEST)
    assert "and not aiacc-nccl-plugin 1.0.2 (aiacc_version); nothing was changed" in words


def test_it_is_not_pinned(host: Query) -> None:
    with pytest.raises(RailwrightError, match="not pinned"):
        check_unsigned(host, wishes(artifact_pins={}), "apt", ["file"])


def test_nothing_to_install_asks_nothing(host: Query) -> None:
    check_unsigned(host, wishes(artifact_pins={}), "apt", [])


def test_it_brings_no_repository_so_all_steps_are_proved_at_once() -> None:
    steps = [
        {"area": "packages", "state": "present", "names": ["rdma-core"]},
        {"area": "aiacc", "state": "unsigned", "names": ["/x.deb"]},
        {"area": "mpi", "state": "present", "names": ["openmpi"]},
    ]
    assert parted(steps, False) == (steps, [])


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("2.8.0", True),
        ("2.16.5", True),
        ("2.16.5-1+cuda11.8", True),
        ("2.7.8", False),
        ("2.17.1", False),
        ("2.30.7", False),
        ("3.0.0", False),
        (None, None),
        ("unknown", None),
    ],
)
def test_the_range(version: str | None, good: bool | None) -> None:
    assert fits_nccl(version) is good


@pytest.mark.parametrize(
    ("found", "same"), [("1.0.2", True), ("1.0.2-1.el7", True), ("0:1.0.2-1", True), ("1.0.20", False), ("1.0.2.1", False)]
)
def test_a_release_with_its_packagers_revision(found: str, same: bool) -> None:
    assert is_release(found, "1.0.2") is same
