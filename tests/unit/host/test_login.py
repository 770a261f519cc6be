# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom Ansible logged in as, where become has put root in its place."""

import os
import pwd

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

WE = pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SUDO_USER": "ops"}, "ops"),
        ({"DOAS_USER": "ops"}, "ops"),
        ({"SUDO_USER": "ops", "DOAS_USER": "other"}, "ops"),
        ({"SUDO_USER": "", "DOAS_USER": ""}, WE),
        ({"USER": "somebody", "LOGNAME": "somebody"}, WE),
    ],
)
def test_who_logged_in(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    for name in ("SUDO_USER", "DOAS_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Host().login() == expected
