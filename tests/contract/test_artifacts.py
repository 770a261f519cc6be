# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is downloaded stands in one place: no vendor's host, checksum, fingerprint or commit anywhere else in what runs."""

import re
from urllib.parse import urlsplit

import pytest

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, FORMS, INDEX, OPERATOR_PIN, PINS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME

CATALOGUE = "plugins/module_utils/catalogue/artifacts.py"
RUNS = ("plugins/", "roles/", "playbooks/", "src/")
# A hexadecimal word as long as a commit, a fingerprint or a checksum; not a part of a longer one.
HASH = re.compile(r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})(?![0-9A-Za-z])")
HOSTS = sorted({str(urlsplit(row.url).hostname) for row in ARTIFACTS if not row.url.startswith(INDEX + "/")})


def elsewhere() -> list[str]:
    """What runs, on nodes or on the controller, beside the catalogue."""
    return [name for name in repo.matching(*RUNS) if name != CATALOGUE and not name.endswith((".png", ".svg"))]


def test_there_is_something_to_inspect() -> None:
    assert CATALOGUE in repo.matching(*RUNS)
    assert len(elsewhere()) > 100
    assert "linux.mellanox.com" in HOSTS


@pytest.mark.parametrize("host", HOSTS)
def test_no_url_of_a_vendor_outside_the_catalogue(host: str) -> None:
    assert not [name for name in elsewhere() if f"://{host}/" in repo.text(name)]


def test_which_package_index_a_site_takes_wheels_from_is_not_ours_to_say() -> None:
    """A wheel's row has the inventory key in place of the host."""
    wheels = [row for row in ARTIFACTS if row.url.endswith(".whl")]
    assert wheels
    assert all(row.url.startswith(f"{INDEX}/packages/") for row in wheels)
    assert INDEX in BY_NAME


def test_no_hash_outside_the_catalogue() -> None:
    """Examples are one digit over and over."""
    found = {name: [word for word in HASH.findall(repo.text(name)) if len(set(word)) > 1] for name in elsewhere()}
    assert not {name: words for name, words in found.items() if words}


def test_the_pattern_finds_what_it_is_for() -> None:
    for row in ARTIFACTS:
        if row.value is not None:
            assert HASH.search(f'"{row.value}"'), row.name


def test_every_row_has_a_source_and_a_pin_of_the_right_form() -> None:
    assert set(PINS) == {*FORMS, "operator"}
    for row in ARTIFACTS:
        assert row.source.strip(), row.name
        assert row.kind in OPERATOR_PIN
        if row.pin == "operator":
            assert row.value is None, f"{row.name}: a value that is not pinned"
        else:
            assert row.value is not None
            assert re.fullmatch(FORMS[row.pin], row.value), row.name


def test_files_have_checksums_and_repositories_have_fingerprints() -> None:
    for row in ARTIFACTS:
        allowed = {"operator", OPERATOR_PIN[row.kind]} | ({"commit"} if row.kind == "archive" else set())
        assert row.pin in allowed, row.name
