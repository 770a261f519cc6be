# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a node's answer to rollback."""

from railwright.documents import rollback_document

POINT = {"run": "r1", "points": 2, "when": 1.5, "state": "applied", "files": 1, "values": 0, "commands": 0, "packages": 3,
         "packages_assumed": False, "undid": []}  # fmt: skip


def test_an_answer_is_held_to_its_form() -> None:
    found = rollback_document({"known": True, "to": "r1", "undone": ["r1.2", 7], "restore_points": [POINT, {"files": 1}], "secret": "x"})
    assert found == {"known": True, "to": "r1", "undone": ["r1.2"], "restore_points": [POINT]}


def test_a_record_of_packages_is_no_answer() -> None:
    assert rollback_document({"changed": False, "record": "r1"}) is None
    assert rollback_document("x") is None
