# SPDX-License-Identifier: GPL-3.0-or-later
"""The package step of the role stands between two records, and the second one is made however the step ends."""

from typing import Any

import repo

RECORD = "railwright.rdma.rdma_rollback"


def tasks() -> list[dict[str, Any]]:
    return list(repo.read_yaml("roles/rdma_stack/tasks/packages.yml"))


def test_every_package_is_written_down_before_the_step() -> None:
    names = [next((key for key in task if "." in key or key == "block"), "") for task in tasks()]
    assert tasks()[names.index(RECORD)][RECORD]["mode"] == "packages_before"
    assert names.index(RECORD) + 1 == names.index("block"), "nothing that changes packages comes between"


def test_and_after_it_also_where_it_failed() -> None:
    (step,) = [task for task in tasks() if "block" in task]
    assert [task[RECORD]["mode"] for task in step["always"]] == ["packages_after"]
    assert "rescue" in step, "the reason of the failure is said first"


def test_every_run_has_its_own_name_on_the_node() -> None:
    (before,) = [task[RECORD] for task in tasks() if RECORD in task]
    assert before["run_id"] == "{{ rdma_run_id | default(omit) }}"
