# SPDX-License-Identifier: GPL-3.0-or-later
"""A state directory of the test's own: plots look for the previous run among the stored ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def own_imports() -> Iterator[None]:
    """A verb that reads an inventory makes Ansible import what is below ansible_collections; here it is one of many in a process."""
    yield
    _AnsibleCollectionFinder._remove()
