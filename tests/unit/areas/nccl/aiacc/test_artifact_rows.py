# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts`` of an inventory with AIACC: both kinds of the wanted release with its pins, or the operator's own place."""

from typing import Any

from aiacc_node import wishes
from railwright.artifact_rows import Row, rows_for


def rows(**values: Any) -> dict[str, Row]:
    found = rows_for([wishes(nccl_tests_archive="/srv/nccl-tests.tar.gz", **values)])
    return {row.name: row for row in found if "aiacc" in row.name}


def test_deb_and_rpm_rows_have_the_inventorys_pins_and_mirror_paths() -> None:
    found = rows(artifact_pins={"aiacc_nccl_plugin_rpm": "e" * 64}, artifact_mirror="http://mirror.example.com/m")
    assert {name: (row.pin, row.value) for name, row in found.items()} == {
        "aiacc_nccl_plugin_deb": ("operator", None),
        "aiacc_nccl_plugin_rpm": ("sha256", "e" * 64),
    }
    row = found["aiacc_nccl_plugin_rpm"]
    assert row.path is not None
    assert row.taken_from == f"http://mirror.example.com/m/{row.path}"
    assert row.path.endswith("/rpm/aiacc-nccl-plugin-1.0.2.rpm")


def test_another_release_has_rows_of_its_own() -> None:
    assert {row.version for row in rows(aiacc_version="1.1.0").values()} == {"1.1.0"}
    assert set(rows(aiacc_version="1.1.0")) == {"aiacc_nccl_plugin_deb-1.1.0", "aiacc_nccl_plugin_rpm-1.1.0"}


def test_an_operators_url_is_one_row_and_a_controllers_file_none() -> None:
    url = "http://mirror.example.com/plugin.rpm"
    (row,) = rows(aiacc_url=url).values()
    assert (row.name, row.url, row.value) == ("aiacc_url", url, "e" * 64)
    assert rows(aiacc_archive="/srv/plugin.deb") == {}
    assert rows(aiacc_install=False) == {}
