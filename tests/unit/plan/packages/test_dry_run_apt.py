# SPDX-License-Identifier: GPL-3.0-or-later
"""The dry run of the package step with the real apt: what it resolves, what it refuses in one line, and that the node stays as it is."""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.entry import packages
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.observe import package_locks
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages import dry_run
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import DryRun
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Identity, Platform
from apt_world import MISSING, AptNode, Signer, build, sign
from field_specs import build_spec

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needed and not on this machine: {', '.join(MISSING)}")

CORE = {"3.2.2": "2510.0.11-1", "3.2.3": "2510.0.12-1"}
INBOX = "44.0-2"
HCA = Hca("mlx5_0", None, "0000:1a:00.0", "mlx5_core", (), (1,), (), "Ethernet")
PLATFORM = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
IDENTITY = Identity("node1", PLATFORM, "6.1.0-26-amd64", "x86_64", "3.11.2", None, (), (HCA,), ("systemd", "container"))


def doca(release: str) -> list[tuple[str, str, str]]:
    core = CORE[release]
    return [
        ("doca-ofed", f"{release}-019000", f"Depends: rdma-core (= {core}), libibverbs1 (= {core}), mlnx-tools\n"),
        ("rdma-core", core, ""), ("libibverbs1", core, ""), ("mlnx-tools", "25.10-1", ""), ("dkms", "9.9-1", ""),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Signer]]:
    place = tmp_path_factory.mktemp("repositories")
    signer = Signer(tmp_path_factory.mktemp("keys") / "gnupg")
    for release in CORE:
        build(place / release, doca(release), "DOCA-HOST " + release)
        sign(place / release, signer)
        (place / release / "key.gpg").write_bytes(signer.key("right"))
    inbox = [("rdma-core", INBOX, ""), ("libibverbs1", INBOX, ""), ("dkms", "3.0-1", ""), ("perftest", "4.5-1", "Depends: libibverbs1\n"),
             ("site-tool", "1.0-1", "Depends: libibverbs1 (<< 100)\n")]
    build(place / "debian", inbox, "Debian")
    sign(place / "debian", signer)
    (place / "debian.gpg").write_bytes(signer.key("right"))
    yield place, signer
    signer.stop()


class World:
    """A node on bookworm with an NVIDIA HCA, the distribution's repository, and the wish for a stack."""

    def __init__(self, root: Path, repositories: tuple[Path, Signer]) -> None:
        self.place, self.signer = repositories
        self.node = AptNode(root)
        self.node.write("/etc/apt/sources.list", f"deb [signed-by={self.place}/debian.gpg] file:{self.place}/debian ./\n")
        self.key = "right"

    def spec(self, **values: Any) -> Spec:
        vendor = {"rdma_stack_repository_url": f"file://{self.place}/3.2.3", "rdma_stack_repository_key_url": "file:///key.gpg",
                  "rdma_stack_repository_fingerprint": self.signer.fingerprints["right"]}
        values = {**({} if values.get("rdma_stack") == "inbox" else vendor), **values}
        rails = [{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.11/28"}]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "doca", "rails": rails, **values}, "node1")
        assert spec is not None, findings
        return spec

    def dry_run(
        self, *names: str, absent: tuple[str, ...] = (), steps: list[dict[str, Any]] | None = None, download: bool = True, **values: Any
    ) -> DryRun:
        staged = self.node.root / "var/cache/railwright/keys"
        staged.mkdir(parents=True, exist_ok=True)
        (staged / "doca").write_bytes(self.signer.key(self.key))
        made = [{"area": "packages", "state": "absent", "names": list(absent)}] if absent else []
        made += [{"area": "packages", "state": "present", "names": list(names)}] if names else []
        return packages.dry_run_steps(self.node, self.spec(**values), steps or made, download=download)

    def refusal(self, *names: str, **values: Any) -> str:
        before = self.node.tree()
        with pytest.raises(RailwrightError) as caught:
            self.dry_run(*names, **values)
        assert self.node.tree() == before, "the node must be as it was"
        assert not list((self.node.root / "var/cache/railwright").glob("dry-run-*")), "the overlay must be gone"
        said = str(caught.value)
        assert "\n" not in said
        return said


@pytest.fixture
def world(tmp_path: Path, repositories: tuple[Path, Signer], monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(dry_run, "observe_identity", lambda *_arguments: IDENTITY)
    return World(tmp_path / "node", repositories)


@pytest.fixture
def served(repositories: tuple[Path, Signer]) -> Iterator[str]:
    """The repositories over http, as vendors have them."""
    handler = functools.partial(Quiet, directory=str(repositories[0]))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        pass


def changed(dry_run: DryRun) -> dict[str, tuple[str | None, str | None]]:
    return {row["name"]: (row["from"], row["to"]) for row in dry_run.resolved}


def test_a_stack_resolves_on_a_bare_node_and_changes_nothing(world: World) -> None:
    before = world.node.tree()
    dry_run = world.dry_run("doca-ofed=3.2.3*", "perftest")
    assert changed(dry_run) == {
        "doca-ofed": (None, "3.2.3-019000"), "rdma-core": (None, CORE["3.2.3"]), "libibverbs1": (None, CORE["3.2.3"]),
        "mlnx-tools": (None, "25.10-1"), "perftest": (None, "4.5-1"),
    }  # fmt: skip
    assert next(row["origin"] for row in dry_run.resolved if row["name"] == "doca-ofed").startswith("DOCA-HOST")
    assert world.node.tree() == before
    assert not list((world.node.root / "var/cache/railwright").glob("dry-run-*"))


def test_what_was_downloaded_and_verified_is_left_to_the_real_step(world: World, served: str) -> None:
    world.dry_run("doca-ofed=3.2.3*", rdma_stack_repository_url=served + "/3.2.3")
    kept = sorted((world.node.root / "var/cache/apt/archives").glob("*.deb"))
    assert [path.name.partition("_")[0] for path in kept] == ["doca-ofed", "libibverbs1", "mlnx-tools", "rdma-core"]
    world.dry_run("doca-ofed=3.2.3*", rdma_stack_repository_url=served + "/3.2.3")  # links to what is there: neither lost nor doubled
    assert sorted((world.node.root / "var/cache/apt/archives").glob("*.deb")) == kept


def test_a_dry_run_without_download_leaves_nothing_and_counts_the_room(
    world: World, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = served + "/3.2.3"
    assert changed(world.dry_run("doca-ofed=3.2.3*", rdma_stack_repository_url=url, download=False))["doca-ofed"] == (None, "3.2.3-019000")
    assert not list((world.node.root / "var/cache/apt/archives").glob("*.deb"))
    monkeypatch.setattr(AptNode, "free_bytes", lambda _self, _path: 1_000_000)
    assert "the package step needs" in world.refusal("doca-ofed=3.2.3*", rdma_stack_repository_url=url, download=False)


def test_the_vendors_dkms_never_wins(world: World) -> None:
    assert changed(world.dry_run("dkms"))["dkms"] == (None, "3.0-1")


def test_upgrade_in_place(world: World) -> None:
    world.node.installed(("rdma-core", INBOX, ""), ("libibverbs1", INBOX, ""))
    assert changed(world.dry_run("doca-ofed=3.2.3*"))["rdma-core"] == (INBOX, CORE["3.2.3"])


def test_a_downgrade_asks_for_the_exact_versions_of_the_older_release(world: World) -> None:
    world.node.installed(("doca-ofed", "3.2.3-019000", ""), ("rdma-core", CORE["3.2.3"], ""), ("libibverbs1", CORE["3.2.3"], ""))
    dry_run = world.dry_run("doca-ofed=3.2.2*", rdma_stack_repository_url=f"file://{world.place}/3.2.2")
    assert changed(dry_run)["rdma-core"] == (CORE["3.2.3"], CORE["3.2.2"])
    (step,) = dry_run.steps
    assert step["names"] == ["doca-ofed=3.2.2*", f"libibverbs1={CORE['3.2.2']}", f"rdma-core={CORE['3.2.2']}"]


def test_back_to_the_distribution(world: World) -> None:
    """The meta package goes, packages of inbox names come back in the distribution's version, and nothing else is lost."""
    rows = (("doca-ofed", "3.2.3-019000", ""), ("rdma-core", CORE["3.2.3"], ""), ("libibverbs1", CORE["3.2.3"], ""))
    world.node.installed(*rows)
    wanted = {"doca-ofed": None, "rdma-core": "present", "libibverbs1": "present"}
    changes = [package_change("packages", name, version, wanted[name], "why", "source", "reload") for name, version, _rest in rows]
    dry_run = world.dry_run(steps=package_steps(changes, "apt")["steps"], rdma_stack="inbox")
    assert changed(dry_run) == {
        "rdma-core": (CORE["3.2.3"], INBOX), "libibverbs1": (CORE["3.2.3"], INBOX), "doca-ofed": ("3.2.3-019000", None),
    }  # fmt: skip
    assert [(step["state"], step["names"]) for step in dry_run.steps] == [
        ("absent", ["doca-ofed"]), ("present", [f"rdma-core={INBOX}", f"libibverbs1={INBOX}"]),
    ]  # fmt: skip


def test_a_package_file_that_brings_a_repository(world: World, tmp_path: Path) -> None:
    """Before it is installed only the file can be proved; afterwards, what is in its repository."""
    build(tmp_path / "host", [("doca-host", "3.2.3-019000", "")], "nowhere")
    (deb,) = (tmp_path / "host").glob("*.deb")
    own = {"rdma_stack": "doca", "rdma_stack_offline_package": {"url": "https://mirror.example/doca-host.deb", "sha256": "0" * 64}}
    values = {**dict.fromkeys(("rdma_stack_repository_url", "rdma_stack_repository_key_url", "rdma_stack_repository_fingerprint")), **own}
    first = world.dry_run(steps=[{"area": "packages", "state": "file", "names": [str(deb)]}], **values)
    assert changed(first) == {"doca-host": (None, "3.2.3-019000")}
    world.node.installed(("doca-host", "3.2.3-019000", ""))
    world.node.write("/etc/apt/sources.list.d/doca.list", f"deb [signed-by={world.place}/debian.gpg] file:{world.place}/3.2.3 ./\n")
    assert changed(world.dry_run("doca-ofed=3.2.3*", **values))["rdma-core"] == (None, CORE["3.2.3"]), "with an update: apt had not seen it"


def test_another_key_than_the_pinned_one(world: World) -> None:
    world.key = "wrong"
    said = world.refusal("doca-ofed=3.2.3*")
    assert said.startswith("repository doca: the signing key from file:///key.gpg has fingerprint " + world.signer.fingerprints["wrong"])
    assert world.signer.fingerprints["right"] in said
    assert "rdma_stack_repository_fingerprint" in said
    assert not [argv for argv in world.node.commands if argv[0] == "apt-get"], "apt is not even asked"


def test_no_key_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.signer, "key", lambda _name: b"<html>404</html>")
    assert "holds no OpenPGP key" in world.refusal("doca-ofed")


def test_an_index_signed_by_somebody_else(world: World, tmp_path: Path) -> None:
    build(tmp_path / "other", doca("3.2.3"), "DOCA-HOST")
    sign(tmp_path / "other", world.signer, "wrong")
    said = world.refusal("doca-ofed", rdma_stack_repository_url=f"file://{tmp_path}/other")
    assert "its index is not signed by the pinned key" in said
    assert f"repository doca (file://{tmp_path}/other)" in said


@pytest.mark.parametrize(("file", "message"), [
    ("InRelease", "its index is not signed by the pinned key"), ("Packages", "its index is not the one that was signed"),
])  # fmt: skip
def test_a_tampered_index(world: World, tmp_path: Path, file: str, message: str) -> None:
    place = tmp_path / "tampered"
    build(place, doca("3.2.3"), "DOCA-HOST")
    sign(place, world.signer)
    (place / file).write_text((place / file).read_text().replace("DOCA-HOST", "DOCA-HOSt").replace("25.10-1", "25.10-2"))
    assert message in world.refusal("doca-ofed", rdma_stack_repository_url=f"file://{place}")


def test_a_package_that_is_not_what_the_index_says(world: World, tmp_path: Path) -> None:
    place = tmp_path / "corrupt"
    build(place, doca("3.2.3"), "DOCA-HOST")
    sign(place, world.signer)
    (deb,) = place.glob("mlnx-tools*.deb")
    deb.write_bytes(deb.read_bytes()[:-1] + b"!")
    said = world.refusal("doca-ofed", rdma_stack_repository_url=f"file://{place}")
    assert "a package is not the file that the signed index describes" in said
    assert not list((world.node.root / "var/cache/apt/archives").glob("mlnx-tools*")), "nothing of it reaches the real cache"


def test_a_repository_that_is_not_there(world: World, tmp_path: Path) -> None:
    said = world.refusal("doca-ofed", rdma_stack_repository_url=f"file://{tmp_path}/nowhere")
    assert f"repository doca (file://{tmp_path}/nowhere) cannot be read" in said


@pytest.mark.parametrize(("names", "message"), [
    (["nonsense"], "Unable to locate package nonsense in any repository of this node; nothing was changed"),
    (["perftest=9.9-1"], "Version '9.9-1' for 'perftest' was not found in any repository of this node; nothing was changed"),
    (["doca-ofed=3.2.3*", f"rdma-core={INBOX}"], "unmet dependencies: doca-ofed: Depends: rdma-core (= 2510.0.12-1) but 44.0-2"),
])  # fmt: skip
def test_what_cannot_be_resolved(world: World, names: list[str], message: str) -> None:
    assert world.refusal(*names).startswith(message)


def test_removals_of_others_need_to_be_allowed(world: World) -> None:
    world.node.installed(("libibverbs1", INBOX, ""), ("site-tool", "1.0-1", "Depends: libibverbs1 (<< 100)\n"))
    said = world.refusal("doca-ofed=3.2.3*")
    assert said == ("the package step would also remove site-tool 1.0-1; nothing was changed. Put the names into "
                    "rdma_stack_allow_removal if that is meant")  # fmt: skip
    dry_run = world.dry_run("doca-ofed=3.2.3*", rdma_stack_allow_removal=["site-tool"])
    assert changed(dry_run)["site-tool"] == ("1.0-1", None)


def test_held_packages(world: World) -> None:
    world.node.installed(("rdma-core", INBOX, ""))
    status = world.node.root / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("install ok installed", "hold ok installed"))
    said = world.refusal("doca-ofed=3.2.3*")
    assert "rdma-core" in said
    assert "held" in said or "hold" in said


def test_a_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AptNode, "free_bytes", lambda _self, _path: 1_000_000)
    said = world.refusal("doca-ofed=3.2.3*")
    assert "has 0 MiB free and the package step needs" in said


def test_an_interrupted_dpkg_does_not_hide_the_answer(world: World) -> None:
    """It is repaired before the package step, with consent; the dry run is made before that."""
    (world.node.root / "var/lib/dpkg/updates").mkdir()
    (world.node.root / "var/lib/dpkg/updates/0001").write_text("")
    assert "doca-ofed" in changed(world.dry_run("doca-ofed=3.2.3*"))


def test_nothing_is_installed_by_the_dry_run(world: World) -> None:
    world.dry_run("doca-ofed=3.2.3*")
    for argv in world.node.commands:
        if argv[0] == "apt-get" and "update" not in argv:
            assert {"-s", "--print-uris", "--download-only"} & set(argv), argv
        assert argv[0] != "dpkg"


@pytest.fixture
def locked(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A process that holds dpkg's lock, as /proc/locks says."""
    def hold() -> None:
        lock = world.node.root / "var/lib/dpkg/lock-frontend"
        lock.write_text("")
        line = f"1: POSIX  ADVISORY  WRITE 4711 00:2a:{lock.stat().st_ino} 0 EOF\n"
        answers = {"/proc/locks": line, "/proc/4711/cmdline": "apt-get\0-y\0upgrade\0", "/proc/4711/status": "Uid:\t0\t0\t0\t0\n"}
        read = world.node.read
        monkeypatch.setattr(world.node, "read", lambda path, *rest: answers[path] if path in answers else read(path, *rest))
        monkeypatch.setattr(package_locks, "POLL_SECONDS", 0.05)

    return hold


def test_a_lock_that_is_held_for_too_long(world: World, locked: Callable[[], None]) -> None:
    locked()
    said = world.refusal("doca-ofed=3.2.3*", rdma_stack_lock_wait_s=1)
    assert said == ("/var/lib/dpkg/lock-frontend is held by process 4711 (apt-get -y upgrade) for longer than "
                    "rdma_stack_lock_wait_s (1 s); nothing was changed")  # fmt: skip
