# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts`` for a site with eRDMA: every repository that a node can come to need, and one key that pins them."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright.artifact_rows import Row, rows_for

MakeSpec = Callable[..., Spec]
REPOSITORIES = {"erdma-apt-x86_64", "erdma-redhat7-x86_64", "erdma-redhat8-x86_64"}
MIRROR = "http://m.example.com/rw"


def user_space(spec: Spec) -> dict[str, Row]:
    names = {*REPOSITORIES, "erdma-key", "erdma_repository_url", "erdma_repository_key_url"}
    return {row.name: row for row in rows_for([spec]) if row.name in names}


def test_every_repository_and_the_key_wait_for_a_pin(erdma: MakeSpec) -> None:
    rows = user_space(erdma())
    assert set(rows) == {*REPOSITORIES, "erdma-key"}
    assert {(row.pin, row.value) for row in rows.values()} == {("operator", None)}


@pytest.mark.parametrize("values", [{"erdma_repository_fingerprint": "A" * 40}, {"artifact_pins": {"erdma-key": "A" * 40}}])
def test_one_key_pins_what_it_signs(values: dict[str, Any], erdma: MakeSpec) -> None:
    assert {(row.pin, row.value) for row in user_space(erdma(**values)).values()} == {("fingerprint", "A" * 40)}


def test_a_mirror_says_where_each_lies(erdma: MakeSpec) -> None:
    for row in user_space(erdma(artifact_mirror=MIRROR)).values():
        assert row.taken_from == f"{MIRROR}/{row.path}"


def test_nothing_of_it_where_the_distribution_serves_or_the_site_itself(erdma: MakeSpec) -> None:
    assert user_space(erdma(erdma_repository="false")) == {}
    own = {"erdma_repository_url": "https://r.example.com/erdma/", "erdma_repository_key_url": "https://r.example.com/key.asc",
           "erdma_repository_fingerprint": "A" * 40}
    assert set(user_space(erdma(**own))) == {"erdma_repository_url", "erdma_repository_key_url"}
