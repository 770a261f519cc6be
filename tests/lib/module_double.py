# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of AnsibleModule that the bodies of our modules use: they are told their arguments, and end with one result."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import response
from ansible_collections.railwright.rdma.plugins.module_utils.entry.response import Body


class Ended(Exception):
    """What exit_json and fail_json do instead of ending the process."""


class Module:
    """``params``: what the action plugin sends."""

    _name = "railwright.rdma.module"

    def __init__(self, params: dict[str, Any] | None = None, *, check_mode: bool = False) -> None:
        self.params: dict[str, Any] = {"filled": params or {}}
        self.check_mode = check_mode
        self.result: dict[str, Any] = {}

    def exit_json(self, **result: Any) -> None:
        self.result = result
        raise Ended

    def fail_json(self, **result: Any) -> None:
        self.result = {"failed": True, **result}
        raise Ended

    def call(self, body: Body, host: Any = None, role: str = "") -> dict[str, Any]:
        """What the module ends with on this host, else on this machine."""
        with pytest.MonkeyPatch.context() as patch:
            if host is not None:
                patch.setattr(response, "Host", lambda: host)
            with pytest.raises(Ended):
                response.respond(self, body, role)
        return self.result
