# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments below a temporary directory of this machine (tests/lib/ai_site.py)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ai_site import H100, MakeSite, Site, ThisHost
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env import manifest

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture(autouse=True)
def as_ourselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pytest's directories are not open to nobody; sums are remembered in the test's own directory."""
    monkeypatch.setattr(manifest, "NOBODY", ME)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path: Path) -> MakeSite:
    return lambda host=None, gpus=(H100,), **values: Site(tmp_path, host or ThisHost(), gpus, {
        "ai_environment_owner": ME, **values})
