# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts``: the documented rows, what an inventory needs of them, and where a site takes them from."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, FORMS
from railwright.artifact_rows import rows_for
from railwright.cli import console
from railwright.cli.main import run
from railwright.exitcodes import ExitCode

FINGERPRINT = "AAAA0000AAAA0000AAAA0000AAAA0000AAAA0000"
SHA256 = "0a" * 32
SITE = {"rdma_fabric": "roce", "rdma_mtu": 9000, "nccl_tests_archive": "/srv/nccl-tests.tar.gz"}
MIRROR = "http://mirror.example.com/rw"
INDEX = "https://index.example.com/pypi"


def inventory(directory: Path, n2: dict[str, Any] | None = None, **site: Any) -> Path:
    hosts = {"n1": {}, **({"n2": n2} if n2 is not None else {})}
    (directory / "group_vars" / "all").mkdir(parents=True)
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": {"rdma": {"hosts": hosts}}}}))
    values = {key: value for key, value in (SITE | site).items() if value is not None}
    (directory / "group_vars" / "all" / "site.yml").write_text(yaml.safe_dump(values))
    return directory


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, str]]:
    console.out.cache_clear()
    assert run(["artifacts", "--format", "json", *argv]) == ExitCode.OK
    rows: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return rows


def named(rows: list[dict[str, str]], name: str) -> dict[str, str]:
    (row,) = [row for row in rows if row["name"] == name]
    return row


def test_each_row_has_the_documented_keys_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys)
    assert [row["name"] for row in rows] == [row.name for row in ARTIFACTS]
    for row in rows:
        value = set() if row["pin"] == "operator" else {row["pin"]}
        assert set(row) == {"name", "version", "url", "kind", "pin", "source"} | value
        assert "{" not in row["url"]
        assert row["pin"] in (*FORMS, "operator")


def test_text_names_every_artifact_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    console.out.cache_clear()
    console.err.cache_clear()
    assert run(["artifacts"]) == ExitCode.OK
    said = capsys.readouterr()
    lines = said.out.splitlines()
    for row in ARTIFACTS:
        assert sum(line.split()[:1] == [row.name] for line in lines) == 1
    assert f"{len(ARTIFACTS)} artifacts" in said.err
    assert "refused until rdma_artifact_pins names them" in said.err


def test_an_inventory_needs_only_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["name"].partition("-")[0] for row in listed(capsys, "-i", str(inventory(tmp_path)))}
    assert names == {"doca"}


def test_an_inventory_that_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "-i", str(inventory(tmp_path, rdma_stack="inbox"))) == []


def test_the_source_of_nccl_tests_is_needed_by_whoever_builds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pins = {"nccl-tests": "a" * 64}
    built = inventory(tmp_path / "built", nccl_tests_archive=None, nccl_tests_version="2.19.5", rdma_stack="inbox", rdma_artifact_pins=pins)
    (row,) = listed(capsys, "-i", str(built))
    assert (row["name"], row["version"], row["sha256"]) == ("nccl-tests", "2.19.5", "a" * 64)
    assert row["url"].endswith("/v2.19.5.tar.gz")
    prebuilt: dict[str, Any] = {"nccl_tests_archive": None, "nccl_tests_install": "prebuilt", "nccl_tests_path": "/opt/nccl-tests"}
    assert listed(capsys, "-i", str(inventory(tmp_path / "prebuilt", rdma_stack="inbox", **prebuilt))) == []


def test_a_checksum_is_of_its_own_release_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HPC-X 2.24.1 is pinned for one system; the others have 2.25.1's checksum, which would pin the wrong archive."""
    rows = listed(capsys, "-i", str(inventory(tmp_path, rdma_stack="inbox", mpi_install="hpcx", mpi_version="2.24.1")))
    assert "sha256" in named(rows, "hpcx-rhel9-aarch64")
    other = named(rows, "hpcx-ubuntu24.04-x86_64")
    assert (other["version"], other["pin"]) == ("2.24.1", "operator")
    assert "sha256" not in other
    assert "no checksum of 2.24.1" in other["source"]


def test_hosts_may_need_different_things(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = inventory(tmp_path, {"rdma_stack": "mlnx_ofed", "cuda_version": "13.0"})
    assert {row["name"].partition("-")[0] for row in listed(capsys, "-i", str(path))} == {"doca", "mlnx_ofed", "cuda"}
    assert {row["name"].partition("-")[0] for row in listed(capsys, "-i", str(path), "--limit", "n2")} == {"mlnx_ofed", "cuda"}


def test_a_mirror_says_where_each_row_lies_and_is_taken_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "-i", str(inventory(tmp_path, rdma_artifact_mirror=MIRROR, rdma_stack_version="3.2.1")))
    row = named(rows, "doca-ubuntu24.04-x86_64")
    assert row["url"] == "https://linux.mellanox.com/public/repo/doca/3.2.1/ubuntu24.04/x86_64/"
    assert row["version"] == "3.2.1"
    assert row["path"] == "linux.mellanox.com/public/repo/doca/3.2.1/ubuntu24.04/x86_64/"
    for row in rows:
        assert row["from"] == f"{MIRROR}/{row['path']}"


def test_without_a_mirror_they_come_from_the_vendor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for row in listed(capsys, "-i", str(inventory(tmp_path))):
        assert row["from"] == row["url"]


def test_a_pin_of_the_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "-i", str(inventory(tmp_path, rdma_artifact_pins={"doca-key-rhel9-x86_64": FINGERPRINT})))
    row = named(rows, "doca-key-rhel9-x86_64")
    assert (row["pin"], row["fingerprint"]) == ("fingerprint", FINGERPRINT)
    assert row["source"].endswith("; the fingerprint is the inventory's")
    assert named(rows, "doca-key-rhel8-x86_64")["pin"] == "operator"


def test_the_operators_own_urls_are_no_ones_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(
        capsys,
        "-i",
        str(
            inventory(
                tmp_path,
                rdma_artifact_mirror=MIRROR,
                rdma_stack_repository_url="http://own.example.com/doca/",
                rdma_stack_repository_key_url="http://own.example.com/key.asc",
                rdma_stack_repository_fingerprint=FINGERPRINT,
                nic_firmware_images={"MT_0000000838": {"url": "file:///srv/fw.bin", "sha256": SHA256}},
                nic_firmware_versions={"MT_0000000838": "28.47.1080"},
            )
        ),
    )
    assert [row["name"] for row in rows] == [
        "rdma_stack_repository_url",
        "rdma_stack_repository_key_url",
        "nic_firmware_images.MT_0000000838",
    ]
    assert [row["from"] for row in rows] == ["http://own.example.com/doca/", "http://own.example.com/key.asc", "file:///srv/fw.bin"]
    assert all("path" not in row for row in rows)
    assert rows[0]["fingerprint"] == FINGERPRINT
    assert rows[2]["sha256"] == SHA256


def test_an_offline_package_replaces_the_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = {"url": "http://own.example.com/doca-host.deb", "sha256": SHA256}
    (row,) = listed(capsys, "-i", str(inventory(tmp_path, rdma_stack_offline_package=package)))
    assert (row["name"], row["url"], row["pin"], row["sha256"]) == ("rdma_stack_offline_package", package["url"], "sha256", SHA256)


def test_a_copy_of_the_vendors_repository_still_needs_the_vendors_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "-i", str(inventory(tmp_path, rdma_stack_repository_url="http://own.example.com/doca/")))
    assert {row["kind"] for row in rows if row["name"].startswith("doca-")} == {"key"}
    assert named(rows, "rdma_stack_repository_url")["pin"] == "operator"


@pytest.mark.parametrize(("values", "names"), [
    ({"nccl_install": "wheel", "nccl_wheel_index": INDEX, "cuda_version": "13.0"}, {"nccl-wheel-cu13-x86_64", "nccl-wheel-cu13-aarch64"}),
    ({"nccl_install": "wheel", "rdma_artifact_mirror": MIRROR},
     {f"nccl-wheel-cu{cuda}-{arch}" for cuda in (12, 13) for arch in ("x86_64", "aarch64")}),
    ({"nccl_install": "source"}, {"nccl-source"}),
    ({"nccl_install": "wheel", "nccl_archive": "/srv/n.whl"}, set()),
    ({"nccl_install": "repository", "nccl_version": "2.30.7-1+cuda13.3"}, set()),
    ({}, set()),
])
def test_nccl_where_it_is_asked_for(values: dict[str, Any], names: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "-i", str(inventory(tmp_path, **values)))
    assert {row["name"] for row in rows if row["name"].startswith("nccl")} == names
    assert bool([row for row in rows if row["name"].startswith("cuda-")]) == (
        values.get("nccl_install") == "repository" or "cuda_version" in values)


@pytest.mark.parametrize("index", [None, INDEX])
@pytest.mark.parametrize("mirror", [None, MIRROR])
def test_where_a_wheel_is_and_is_taken_from(
    index: str | None, mirror: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loop that fills a mirror (docs/bench.md) needs a url and a path that do not depend on the mirror being named already."""
    path = inventory(tmp_path, nccl_install="wheel", cuda_version="13.0", nccl_wheel_index=index, rdma_artifact_mirror=mirror)
    if index is None and mirror is None:
        assert run(["artifacts", "-i", str(path)]) == ExitCode.USAGE
        assert "nccl_install: wheel: needs nccl_wheel_index" in capsys.readouterr().err
        return
    row = named(listed(capsys, "-i", str(path)), "nccl-wheel-cu13-aarch64")
    assert row["path"].startswith("nccl_wheel_index/packages/d1/21/")
    assert row["path"].endswith("/nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_aarch64.whl")
    assert row["url"] == (row["path"] if index is None else row["path"].replace("nccl_wheel_index", index))
    assert row["from"] == (row["url"] if mirror is None else f"{mirror}/{row['path']}")
    assert row["pin"] == "sha256"
    assert set(row) == {"name", "version", "url", "kind", "pin", "sha256", "source", "path", "from"}


def test_a_source_of_another_release_has_its_own_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pins = {"nccl-source": "0123" * 16}
    rows = listed(capsys, "-i", str(inventory(tmp_path, nccl_install="source", nccl_version="2.29.7", rdma_artifact_pins=pins)))
    (row,) = (row for row in rows if row["name"] == "nccl-source")
    assert (row["version"], row["sha256"]) == ("2.29.7", "0123" * 16)
    assert row["url"].endswith("/v2.29.7-1.tar.gz")


@pytest.mark.parametrize(("path", "kinds"), [("nv_peer_mem", {"archive"}), ("nvidia_peermem", set())])
def test_nv_peer_mem_only_where_it_is_asked_for(path: str, kinds: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "-i", str(inventory(tmp_path, rdma_stack="mlnx_ofed", gpudirect_path=path)))
    assert rows
    assert {row["kind"] for row in rows if row["name"].startswith("nv_peer_mem")} == kinds


def test_a_broken_inventory_ends_64_with_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console.out.cache_clear()
    console.err.cache_clear()
    assert run(["artifacts", "-f", "json", "-i", str(inventory(tmp_path, rdma_stack="dcoa"))]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert json.loads(said.out)["summary"]["errors"] == 1
    assert "rdma_stack" in said.err


def test_a_limit_needs_an_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["artifacts", "--limit", "n1"]) == ExitCode.USAGE
    assert "give -i INVENTORY too" in capsys.readouterr().err


def test_nothing_is_listed_twice() -> None:
    """Four hundred hosts of one kind need the same rows."""
    from field_specs import build_spec

    specs = [build_spec(SITE, f"n{at}")[0] for at in range(3)]
    rows = rows_for([spec for spec in specs if spec is not None])
    assert len({(row.name, row.url) for row in rows}) == len(rows) == len(rows_for([specs[0]] if specs[0] is not None else []))
