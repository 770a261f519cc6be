# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's repository in the dry run, with the real apt: its packages are taken though the distribution has newer ones of these names."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import packages
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages import dry_run
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import DryRun
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform
from apt_world import MISSING, AptNode, Signer, build, sign
from field_specs import build_spec

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needed and not on this machine: {', '.join(MISSING)}")

NAMES = ("libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1")
INBOX, THEIRS = "39.0-1", "38.9-1+erdma"  # older than the distribution's, so that only the rule makes the choice
PLATFORM = Platform("ubuntu", "22.04", "jammy", ("debian",), "Ubuntu 22.04", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "5.15.0-91-generic", "x86_64", "3.10", None, (), (), ("systemd", "container"))


def nest(place: Path, suite: str) -> None:
    """From a flat repository to one with a suite and a component, as Alibaba's is."""
    binary = place / "dists" / suite / "main" / "binary-amd64"
    binary.mkdir(parents=True)
    pool = place / "pool"
    pool.mkdir()
    for package in place.glob("*.deb"):
        package.rename(pool / package.name)
    index = subprocess.run(["apt-ftparchive", "packages", "pool"], cwd=place, check=True, capture_output=True).stdout
    (binary / "Packages").write_bytes(index)
    options = [part for value in ("Components=main", "Architectures=amd64") for part in ("-o", f"APT::FTPArchive::Release::{value}")]
    top = place / "dists" / suite
    release = subprocess.run(["apt-ftparchive", *options, "release", "."], cwd=top, check=True, capture_output=True).stdout
    (top / "Release").write_bytes(release)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Signer]]:
    base = tmp_path_factory.mktemp("erdma")
    signer = Signer(tmp_path_factory.mktemp("keys") / "gnupg")
    for name, version in (("ubuntu", INBOX), ("erdma", THEIRS), ("partial", THEIRS)):
        rows = [(package, version, "" if package == "libibverbs1" else f"Depends: libibverbs1 (= {version})\n") for package in NAMES]
        build(base / name, rows[:2] if name == "partial" else rows, name)
    sign(base / "ubuntu", signer)
    for name, key in (("erdma", "right"), ("partial", "right")):
        nest(base / name, "jammy/erdma")
        sign(base / name / "dists/jammy/erdma", signer, key)
    (base / "ubuntu.gpg").write_bytes(signer.key("right"))
    yield base, signer
    signer.stop()


class World:
    def __init__(self, root: Path, base: Path, signer: Signer) -> None:
        self.base, self.signer, self.node = base, signer, AptNode(root)
        self.node.write("/etc/apt/sources.list", f"deb [signed-by={base}/ubuntu.gpg] file:{base}/ubuntu ./\n")

    def dry_run(self, state: str, *names: str, repository: str = "erdma", key: str = "right") -> DryRun:
        staged = self.node.root / "var/cache/railwright/keys"
        staged.mkdir(parents=True, exist_ok=True)
        (staged / "erdma").write_bytes(self.signer.key(key))
        values: dict[str, Any] = {
            "fabric": "erdma", "mtu": 8500, "rails": [{"name": "rail0", "match": {"mac": "02:00:00:00:01:00"}, "address": "192.0.2.11/28"}],
            "erdma_repository_url": f"file://{self.base}/{repository}/", "erdma_repository_key_url": "file:///key.gpg",
            "erdma_repository_fingerprint": self.signer.fingerprints["right"]}
        spec, findings = build_spec(values, "node1")
        assert spec is not None, findings
        return packages.dry_run_steps(self.node, spec, [{"area": "packages", "state": state, "names": list(names)}])


@pytest.fixture
def world(tmp_path: Path, place: tuple[Path, Signer], monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(dry_run, "observe_identity", lambda *_arguments: IDENTITY)
    return World(tmp_path / "node", *place)


def test_what_it_supplies_comes_from_it_in_its_version(world: World) -> None:
    dry_run = world.dry_run("present", *NAMES)
    assert {row["name"]: (row["from"], row["to"]) for row in dry_run.resolved} == dict.fromkeys(NAMES, (None, THEIRS))
    assert dry_run.steps[0]["names"] == [f"{name}={THEIRS}" for name in NAMES]


def test_installed_ones_of_the_distribution_are_replaced(world: World) -> None:
    rows = [(name, INBOX, "" if name == "libibverbs1" else f"Depends: libibverbs1 (= {INBOX})\n") for name in NAMES]
    world.node.installed(*rows)
    dry_run = world.dry_run("replaced", *NAMES)
    assert {row["name"]: (row["from"], row["to"]) for row in dry_run.resolved} == dict.fromkeys(NAMES, (INBOX, THEIRS))
    assert (dry_run.steps[0]["state"], dry_run.steps[0]["names"]) == ("present", [f"{name}={THEIRS}" for name in NAMES])


def test_a_package_that_it_should_have_and_has_not(world: World) -> None:
    before = world.node.tree()
    with pytest.raises(RailwrightError, match=r"repository erdma \(.*partial/\) has no package ibverbs-utils for this system; nothing"):
        world.dry_run("present", *NAMES, repository="partial")
    assert world.node.tree() == before


def test_another_key_is_refused_and_nothing_changed(world: World) -> None:
    before = world.node.tree()
    with pytest.raises(RailwrightError, match=r"repository erdma: the signing key .* has fingerprint .*\(erdma_repository_fingerprint\)"):
        world.dry_run("present", *NAMES, key="wrong")
    assert world.node.tree() == before
