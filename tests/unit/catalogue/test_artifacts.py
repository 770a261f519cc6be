# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of what is downloaded, the one mapping to a mirror, and what an operator can pin."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import (
    ARTIFACTS,
    FORMS,
    INDEX,
    OPERATOR_PIN,
    PINS,
    Artifact,
    at_vendor,
    download_url,
    find_artifact,
    located,
    mirror_path,
    mirrored,
    pin_form,
    pinned,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

ONLY_HTTP = r"http://mirrors\.cloud\.aliyuncs\.com"  # inside a VPC, and no https there: the checksum is what is trusted
OTHER = "AAAA0000AAAA0000AAAA0000AAAA0000AAAA0000"


@pytest.mark.parametrize("row", ARTIFACTS, ids=[row.name for row in ARTIFACTS])
def test_each_row_says_how_it_is_recognised_and_where_that_was_read(row: Artifact) -> None:
    assert row.kind in OPERATOR_PIN
    assert row.pin in PINS
    assert row.version
    assert row.source
    place = ONLY_HTTP if row.name.startswith("erdma-installer") else rf"{INDEX}/packages" if row.name.startswith("nccl-wheel-") else r"https://[\w.-]+"
    assert re.fullmatch(place + "/[!-~]+", row.url), row.url
    if row.pin == "operator":
        assert row.value is None
    else:
        assert row.value is not None
        assert re.fullmatch(FORMS[row.pin], row.value)
        assert len(set(row.value)) > 4, "no hash looks like this"


def test_names_are_keys() -> None:
    names = [row.name for row in ARTIFACTS]
    assert len(set(names)) == len(names)
    assert all(find_artifact(row.name) is row for row in ARTIFACTS)
    assert find_artifact("doca-slackware-x86_64") is None


@pytest.mark.parametrize("row", [row for row in ARTIFACTS if row.name.startswith("cuda-key-")], ids=lambda row: row.name)
def test_a_cuda_key_ends_in_the_id_that_its_file_is_named_for(row: Artifact) -> None:
    """NVIDIA names the files for the last eight digits of the fingerprint: a check of what was copied."""
    key_id = row.url.rpartition("/")[2].removesuffix(".pub").upper()
    assert row.value is not None or row.pin == "operator"
    assert (row.value or key_id).endswith(key_id)


def test_el_10_has_a_cuda_key_of_its_own() -> None:
    """NVIDIA/gpu-driver-container, rhel10/Dockerfile. Nobody here read its fingerprint, so the operator pins it."""
    for arch, place in (("x86_64", "x86_64"), ("aarch64", "sbsa")):
        row = find_artifact(f"cuda-key-rhel10-{arch}")
        assert row is not None
        assert row.url == f"https://developer.download.nvidia.com/compute/cuda/repos/rhel10/{place}/CDF6BA43.pub"
        assert (row.pin, row.value, pin_form(row)) == ("operator", None, "fingerprint")
        assert "afbea87d3b979b3788ef34223aeeb323ade481128e2c133723ae99b8a51368bb" in row.source
    older = find_artifact("cuda-key-rhel9-x86_64")
    assert older is not None
    assert older.url.endswith("/D42D0685.pub")


def test_each_repository_has_its_key_and_both_the_same_pin() -> None:
    for row in ARTIFACTS:
        if row.kind == "repository":
            vendor, _dash, place = row.name.partition("-")
            key = find_artifact("erdma-key" if vendor == "erdma" else f"{vendor}-key-{place}")  # one key signs all of Alibaba's for eRDMA
            assert key is not None, row.name
            assert (key.kind, key.pin, key.value) == ("key", row.pin, row.value)


def test_one_release_of_doca_is_pinned() -> None:
    assert {row.version for row in ARTIFACTS if row.name.startswith("doca-") and row.kind in ("repository", "key")} == {"3.2.3"}


def test_the_asked_release_stands_in_the_url() -> None:
    row = find_artifact("doca-ubuntu24.04-x86_64")
    assert row is not None
    assert located(row).endswith("/doca/3.2.3/ubuntu24.04/x86_64/")
    assert located(row, "3.2.1").endswith("/doca/3.2.1/ubuntu24.04/x86_64/")
    host = find_artifact("doca-host-ubuntu24.04-x86_64")
    assert host is not None
    assert located(host, "3.2.1") == host.url, "a file with a checksum is one release"


@pytest.mark.parametrize(
    ("url", "mirror", "expected"),
    [
        ("https://h.example.com/a/b/", None, "https://h.example.com/a/b/"),
        ("https://h.example.com/a/b/", "http://m.example.com/rw", "http://m.example.com/rw/h.example.com/a/b/"),
        ("https://h.example.com/a/b/", "http://m.example.com/rw/", "http://m.example.com/rw/h.example.com/a/b/"),
        ("http://h.example.com/k.pub", "file:///srv/mirror", "file:///srv/mirror/h.example.com/k.pub"),
        ("file:///srv/doca/", "http://m.example.com", "file:///srv/doca/"),
        ("nccl_wheel_index/packages/a.whl", "http://m.example.com/rw", "http://m.example.com/rw/nccl_wheel_index/packages/a.whl"),
        ("nccl_wheel_indexes/a.whl", "http://m.example.com", "nccl_wheel_indexes/a.whl"),
    ],
)
def test_one_mapping_to_a_mirror(url: str, mirror: str | None, expected: str) -> None:
    assert mirrored(url, mirror) == expected


def test_every_artifact_has_a_place_of_its_own_in_a_mirror_directory(tmp_path: Path) -> None:
    """What `railwright artifacts` lists can be laid out as one directory, and is found there again."""
    for row in ARTIFACTS:
        path = mirror_path(located(row))
        assert path is not None
        assert ".." not in path
        target = tmp_path / (path + "Release" if row.kind == "repository" else path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(located(row))
    for row in ARTIFACTS:
        url = mirrored(located(row), tmp_path.as_uri())
        found = Path(url.removeprefix("file://") + ("Release" if row.kind == "repository" else ""))
        assert found.read_text() == located(row)


def test_a_wheel_is_taken_from_nowhere_until_the_inventory_says_from_where(make_spec: Callable[..., Spec]) -> None:
    wheel, source = find_artifact("nccl-wheel-cu13-x86_64"), find_artifact("nccl-source")
    assert wheel is not None
    assert source is not None
    path = located(wheel).removeprefix(INDEX)
    for values, url in (({}, None), ({INDEX: "https://i.example/p/"}, f"https://i.example/p{path}"),
                        ({INDEX: "https://i.example", "artifact_mirror": "http://m.example"}, f"http://m.example/{INDEX}{path}")):
        assert download_url(wheel, make_spec(**values)) == url
    indexed = make_spec(**{INDEX: "https://i.example"})
    assert at_vendor(wheel, indexed) == f"https://i.example{path}"
    assert download_url(source, indexed) == at_vendor(source, indexed) == located(source)


def test_the_operator_pins_where_nobody_did(make_spec: Callable[..., Spec]) -> None:
    row = find_artifact("doca-key-rhel9-x86_64")
    assert row is not None
    assert pinned(row, make_spec()) is None
    assert pinned(row, make_spec(artifact_pins={row.name: OTHER})) == OTHER


def test_the_operator_may_know_better(make_spec: Callable[..., Spec]) -> None:
    """Vendors rotate keys: DOCA's changed in January 2026."""
    row = find_artifact("doca-key-ubuntu24.04-x86_64")
    assert row is not None
    assert pinned(row, make_spec()) == row.value
    assert pinned(row, make_spec(artifact_pins={row.name: OTHER})) == OTHER


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nv_peer_mem", "sha256"),
        ("nv_peer_mem-git", "commit"),
        ("doca-key-rhel9-x86_64", "fingerprint"),
        ("doca-host-rhel9-x86_64", "sha256"),
        ("mlnx_ofed-ubuntu22.04-x86_64", "fingerprint"),
    ],
)
def test_what_an_operator_has_to_give(name: str, form: str) -> None:
    row = find_artifact(name)
    assert row is not None
    assert pin_form(row) == form
