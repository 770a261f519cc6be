# SPDX-License-Identifier: GPL-3.0-or-later
"""From an archive to /usr/src: the pinned one only, in a layout that is known, and nothing of it is run. tar and sha256sum are real."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import archive_of, directory
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import Source
from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import step
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix import products
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.installer import Release
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.products import ErdmaDriver

PUBLIC = "elastic-rdma-drivers-commit"
TREE = {
    "CMakeLists.txt": "project(erdma C)\n", "src/CMakeLists.txt": "", "src/erdma_main.c": "", "config/erdma.cmake": "",
    "conf/configure-dkms.sh": "#!/bin/bash\n", "conf/dkms.conf": 'PACKAGE_VERSION="1.0.2"\n',
}


def packed(files: dict[str, str], links: dict[str, str] | None = None) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o600
            tar.addfile(entry, io.BytesIO(text.encode()))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return archive.getvalue()


class Rooted(Host):
    """Real commands on real files, all of them below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[str] = []

    def path(self, path: str) -> str:
        return str(self.root) + path

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        self.ran.append(argv[0])
        done = super().run([str(self.root) + word if word.startswith("/") else word for word in argv], timeout, stdin)
        return Result(done.rc, done.out.replace(str(self.root), ""), done.err)


@pytest.fixture
def host(tmp_path: Path) -> Rooted:
    root = tmp_path / "node"
    (root / "usr/src").mkdir(parents=True)
    return Rooted(root)


def brought(host: Rooted, data: bytes, sha256: str | None = None) -> ErdmaDriver:
    source = Source("0.2.37", "erdma-driver", "https://example.com/x.tar.gz", sha256 or hashlib.sha256(data).hexdigest())
    driver = ErdmaDriver(host, Release(
        source.version, directory(source.version), source.artifact, source.url, str(source.sha256), archive_of(source), "node1"))
    driver.prepare()
    Path(host.path(archive_of(source))).write_bytes(data)
    return driver


def wanted(plans: Any) -> Release | None:
    found = products.wanted_erdma_driver(plans.node, plans.spec, observe_identity(plans.node, None))
    return found.release if found is not None else None


@pytest.mark.parametrize("prefix", [f"{PUBLIC}/kernel/", "erdma_installer/kernel/", ""], ids=["public", "one deeper", "at the root"])
def test_the_source_lies_where_dkms_looks(host: Rooted, prefix: str) -> None:
    driver = brought(host, packed({prefix + name: text for name, text in TREE.items()} | {f"{prefix}README.md": ""}))
    assert driver.missing()
    driver.install()
    placed = Path(host.path("/usr/src/erdma-0.2.37"))
    assert sorted(str(path.relative_to(placed)) for path in placed.rglob("*") if path.is_file()) == sorted(
        [*TREE, "README.md", "railwright.json"])
    assert not driver.inspect()["release"]["needed"]
    assert (placed / "CMakeLists.txt").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in (host.root / "usr/src").iterdir()) == ["erdma-0.2.37"]
    assert not Path(host.path("/var/cache/railwright/erdma")).exists()
    assert set(host.ran) <= {"sha256sum", "rm", "mkdir", "install", "tar", "chmod", "mv"}, "nothing of the archive is run"


def test_the_layout_of_the_vendors_packages(host: Rooted) -> None:
    files = {f"erdma-1.0.2/{name.removeprefix('conf/')}": text for name, text in TREE.items()}
    brought(host, packed(files)).install()
    assert Path(host.path("/usr/src/erdma-0.2.37/configure-dkms.sh")).exists()


def test_another_archive_is_not_unpacked(host: Rooted) -> None:
    driver = brought(host, packed({f"{PUBLIC}/kernel/{name}": text for name, text in TREE.items()}), "0" * 64)
    with pytest.raises(RailwrightError, match=r"has the sha256 .* and not 0000"):
        driver.install()
    assert list((host.root / "usr/src").iterdir()) == []


def test_an_archive_without_the_source_is_refused_with_what_it_holds(host: Rooted) -> None:
    driver = brought(host, packed({"erdma_installer/install.sh": "exit 1\n", "erdma_installer/driver.tar": "", "erdma_installer/eadm": ""}))
    with pytest.raises(RailwrightError) as error:
        driver.install()
    assert "erdma-driver 0.2.37 holds no source of the driver in a layout that is known" in str(error.value)
    assert "it holds erdma_installer, erdma_installer/driver.tar, erdma_installer/eadm, erdma_installer/install.sh." in str(error.value)
    assert list((host.root / "usr/src").iterdir()) == []


def test_a_link_in_the_archive_leads_nowhere(host: Rooted, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for name, text in TREE.items():
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(text)
    driver = brought(host, packed({"a/README": ""}, {"a/kernel": str(outside)}))
    with pytest.raises(RailwrightError, match="holds no source"):
        driver.install()
    assert (outside / "CMakeLists.txt").exists()


def test_what_is_incomplete_gives_way(host: Rooted) -> None:
    (host.root / "usr/src/erdma-0.2.37/src").mkdir(parents=True)
    driver = brought(host, packed({f"{PUBLIC}/kernel/{name}": text for name, text in TREE.items()}))
    driver.install()
    assert not driver.missing()


def test_only_a_driver_that_dkms_is_to_build_needs_an_archive(planner: Callable[..., Any]) -> None:
    plans = planner(erdma_mode="compat")
    source = wanted(plans)
    assert source is not None
    assert (source.version, source.artifact) == ("0.2.37", "erdma-driver")
    plans.node.vendor_package()
    plans.node._directories.clear()
    assert wanted(plans) is None, "Alibaba's driver is there"
    assert wanted(planner(node=plans.node, erdma_driver="leave")) is None
    assert wanted(planner(node=plans.node, fabric="roce", mtu=9000)) is None


def test_an_archive_without_a_pin_is_named(planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planner(erdma_mode="compat")
    unpinned = Source("0.2.37", "erdma-driver", "https://example.com/x.tar.gz", None)
    asked = products.desired
    monkeypatch.setattr(products, "desired", lambda spec, identity: asked(spec, identity)._replace(source=unpinned))
    with pytest.raises(RailwrightError, match=r"set rdma_artifact_pins\.erdma-driver to its sha256"):
        wanted(plans)


def test_the_module_names_the_archive_and_nothing_where_none_is_wanted(planner: Callable[..., Any]) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.drop("usr/src/erdma-0.2.37/CMakeLists.txt")
    found = step(plans.node, "erdma_driver", "inspect", {"spec": plans.spec.as_dict()}, dry=False)
    row = found["release"]
    assert (found["changed"], row["missing"], row["needed"], row["directory"]) == (False, True, True, "/usr/src/erdma-0.2.37")
    assert row["sha256"] == plans.seen[0].source.sha256
    left = planner(erdma_driver="leave")
    assert step(left.node, "erdma_driver", "inspect", {"spec": left.spec.as_dict()}, dry=False)["release"] is None
