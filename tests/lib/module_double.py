# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of AnsibleModule that the bodies of our modules use: they are told their arguments, and end with one result."""

from collections.abc import Callable
from typing import Any

import pytest


class Ended(Exception):
    """What exit_json and fail_json do instead of ending the process."""


class Module:
    def __init__(self, params: dict[str, Any] | None = None, *, check_mode: bool = False) -> None:
        self.params = params or {}
        self.check_mode = check_mode
        self.result: dict[str, Any] = {}

    def exit_json(self, **result: Any) -> None:
        self.result = result
        raise Ended

    def fail_json(self, **result: Any) -> None:
        self.result = {"failed": True, **result}
        raise Ended

    def call(self, body: Callable[..., None], *arguments: Any) -> dict[str, Any]:
        """The result that the body ended with; a body that just returns has forgotten to."""
        with pytest.raises(Ended):
            body(self, *arguments)
        return self.result
