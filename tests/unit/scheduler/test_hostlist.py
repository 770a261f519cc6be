# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's short node lists. The second example is what the real ``scontrol show hostnames`` said; molecule/drain asks it again."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand


@pytest.mark.parametrize(("text", "names"), [
    ("n1", ["n1"]),
    ("rack[0-1]n[08-11],x,y3", [f"rack{rack}n{node}" for rack in (0, 1) for node in ("08", "09", "10", "11")] + ["x", "y3"]),
    ("gpu[001-003,7]", ["gpu001", "gpu002", "gpu003", "gpu7"]),
    ("n[9-11]-ib", ["n9-ib", "n10-ib", "n11-ib"]),
    ("", []),
])
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[1-3", "n1]", "n[[1-2]]", "n[a-b]", "n[]", "n[1-99999999999]", "a[0-999]b[0-999]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"brackets|no range|more than"):
        expand(text)
