# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that must succeed, and files that must be the right ones. Real commands of this machine."""

import hashlib
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.commands import check_brought, must, sums
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

HOST = Host()
ONE = hashlib.sha256(b"one").hexdigest()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo last >&2; echo out; exit 3", "last"),
        ("echo out; exit 3", "out"),
        ("exit 3", "exit 3"),
    ],
)
def test_what_fails_says_what_for_and_its_last_words(script: str, said: str) -> None:
    with pytest.raises(RailwrightError) as caught:
        must(HOST, ("sh", "-c", script), "make /a")
    assert str(caught.value) == f"cannot make /a: {said}"


def test_what_succeeds_returns_what_it_printed() -> None:
    assert must(HOST, ("sh", "-c", "echo beside >&2; echo out"), "make /a") == "out\n"


def test_sums_leave_out_what_cannot_be_read(tmp_path: Path) -> None:
    odd = "a\nb \\ c"  # sha256sum marks and escapes such a name
    for name in ("one", odd):
        (tmp_path / name).write_bytes(b"one")
    assert sums(HOST, str(tmp_path), ["one", "gone", odd]) == {"one": ONE}
    assert sums(HOST, str(tmp_path), []) == {}


def test_only_the_file_that_somebody_pins_is_used(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"one")
    check_brought(HOST, str(path), "thing", ONE)
    path.write_bytes(b"two")
    with pytest.raises(RailwrightError) as caught:
        check_brought(HOST, str(path), "thing", ONE)
    found = f"has the sha256 {hashlib.sha256(b'two').hexdigest()} and not {ONE}"
    assert str(caught.value) == f"thing {found}, which the inventory or the catalogue pins; it is not used"
    path.unlink()
    with pytest.raises(RailwrightError, match=r"^thing has the sha256 nothing \(it cannot be read\) and not "):
        check_brought(HOST, str(path), "thing", ONE)
