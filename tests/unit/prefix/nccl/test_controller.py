# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's own file is inspected on the controller: a wrong one never travels."""

import hashlib
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.controller_files import file_digest, wrong_archive


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_pinned_file(tmp_path: Path) -> None:
    path = tmp_path / "n.whl"
    path.write_bytes(b"wheel" * 1_000_000)
    assert wrong_archive("nccl_archive", str(path), "nccl-wheel-cu13-x86_64", hashlib.sha256(path.read_bytes()).hexdigest()) is None


def test_another_file_and_one_that_was_replaced_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "n.whl"
    path.write_bytes(b"one")
    right = hashlib.sha256(b"one").hexdigest()
    assert wrong_archive("nccl_archive", str(path), "nccl-source", right) is None
    path.write_bytes(b"other")
    other = hashlib.sha256(b"other").hexdigest()
    assert wrong_archive("nccl_archive", str(path), "nccl-source", right) == (
        f"nccl_archive {path} has the sha256 {other} and not {right}, which is pinned for nccl-source; no node was changed")


def test_no_file_at_all(tmp_path: Path) -> None:
    said = wrong_archive("nccl_archive", str(tmp_path / "no.whl"), "nccl-source", "0" * 64)
    assert said == f"nccl_archive {tmp_path}/no.whl cannot be read on the controller: No such file or directory; no node was changed"


def test_a_file_is_read_once_and_a_wrong_memory_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "n.whl"
    path.write_bytes(b"one")
    right = hashlib.sha256(b"one").hexdigest()
    assert file_digest(path) == right
    (kept,) = (tmp_path / "cache/railwright/sums").iterdir()
    kept.write_text("0" * 64)
    assert file_digest(path) == "0" * 64, "it was not read again"
    kept.write_text("no sum")
    assert file_digest(path) == right
