# SPDX-License-Identifier: GPL-3.0-or-later
"""The dry run of an unsigned package with the real apt: what it needs comes first, by exact version, and what cannot be is one line."""

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiacc_node import wishes
from ansible_collections.railwright.rdma.plugins.module_utils.entry import packages
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.observe import package_locks
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages import dry_run
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform
from apt_world import MISSING, AptNode, Signer, build, sign

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needed and not on this machine: {', '.join(MISSING)}")

PLATFORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "6.1.0-26-amd64", "x86_64", "3.11.2", None, (), (), ("systemd", "container"))
FILE = "/var/cache/railwright/packages/aiacc-nccl-plugin.deb"
STEPS = [{"area": "aiacc", "state": "unsigned", "names": [FILE]}]


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place, signer = tmp_path_factory.mktemp("debian"), Signer(tmp_path_factory.mktemp("keys") / "gnupg")
    build(place / "debian", [("libibverbs1", "44.0-2", "Depends: rdma-core\n"), ("rdma-core", "44.0-2", "")], "Debian")
    sign(place / "debian", signer)
    (place / "debian.gpg").write_bytes(signer.key("right"))
    yield place
    signer.stop()


@pytest.fixture
def prove(tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(dry_run, "observe_identity", lambda host, address: IDENTITY)
    monkeypatch.setattr(package_locks, "lock_holder", lambda *args: None)

    def run(depends: str, *, version: str = "1.0.2", digest: str | None = None) -> Any:
        node = AptNode(tmp_path / "node")
        node.write("/etc/apt/sources.list", f"deb [signed-by={debian}/debian.gpg] file:{debian}/debian ./\n")
        control = tmp_path / "tree/DEBIAN/control"
        control.parent.mkdir(parents=True)
        control.write_text(f"Package: aiacc-nccl-plugin\nVersion: {version}\nArchitecture: amd64\nMaintainer: x\nDescription: x\n{depends}")
        target = Path(node.path(FILE))
        target.parent.mkdir(parents=True)
        subprocess.run(("dpkg-deb", "--root-owner-group", "--build", str(tmp_path / "tree"), str(target)), check=True, capture_output=True)
        found = digest or hashlib.sha256(target.read_bytes()).hexdigest()
        before = node.tree()
        try:
            return packages.dry_run_steps(node, wishes(artifact_pins={"aiacc_nccl_plugin_deb": found}), STEPS)
        finally:
            assert node.tree() == before

    return run


def test_what_it_needs_is_a_step_of_its_own_before_it(prove: Callable[..., Any]) -> None:
    dry_run = prove("Depends: libibverbs1\n")
    needed = {"area": "aiacc", "state": "present", "names": ["libibverbs1=44.0-2", "rdma-core=44.0-2"]}
    assert list(dry_run.steps) == [needed, *STEPS]
    found = {row["name"]: row["to"] for row in dry_run.resolved}
    assert found == {"aiacc-nccl-plugin": "1.0.2", "libibverbs1": "44.0-2", "rdma-core": "44.0-2"}


def test_without_needs_it_is_the_only_step(prove: Callable[..., Any]) -> None:
    assert list(prove("").steps) == STEPS


def test_what_cannot_be_had_is_one_line(prove: Callable[..., Any]) -> None:
    with pytest.raises(
        RailwrightError, match=r"unmet dependencies: aiacc-nccl-plugin: Depends: libcudart12.*; nothing was changed"
    ) as caught:
        prove("Depends: libcudart12\n")
    assert "\n" not in str(caught.value)


def test_another_file(prove: Callable[..., Any]) -> None:
    with pytest.raises(RailwrightError, match=r"has the sha256 [0-9a-f]{64} and not 0{64}"):
        prove("", digest="0" * 64)


def test_another_release_in_the_pinned_file(prove: Callable[..., Any]) -> None:
    with pytest.raises(RailwrightError, match=r"holds aiacc-nccl-plugin 1.1.0 and not aiacc-nccl-plugin 1.0.2 \(aiacc_version\)"):
        prove("", version="1.1.0")
