# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_hpcx: the Spec, and a look at the archive that the operator has here before it travels to any node."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec

OPTIONS = {"mode": {"type": "str", "choices": ["look", "unpack", "place", "link", "clean"], "required": True}}


class ActionModule(ActionBase):
    """An archive that is not the pinned one never leaves the controller."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, options = self.validate_argument_spec(argument_spec=OPTIONS)
        spec = host_spec(self._templar, variables)
        arguments = {"mode": options["mode"], "spec": spec.as_dict()}
        result.update(self._execute_module(module_name="railwright.rdma.rdma_hpcx", module_args=arguments, task_vars=variables))
        hpcx, archive = result.get("hpcx"), spec["mpi_archive"]
        if archive is not None and isinstance(hpcx, dict) and hpcx.get("missing"):
            wrong = wrong_archive(str(archive), str(hpcx["artifact"]), str(hpcx["sha256"]))
            if wrong is not None:
                result.update(failed=True, changed=False, msg=f"mpi: {wrong}")
        return result


def wrong_archive(path: str, artifact: str, sha256: str) -> str | None:
    """Why the archive cannot be used; None when it is the pinned one."""
    try:
        state = Path(path).stat()
        found = digest(path, state.st_size, state.st_mtime_ns)
    except OSError as error:
        return f"mpi_archive {path} cannot be read on the controller: {error.strerror}; no node was changed"
    if found != sha256:
        return f"mpi_archive {path} has the sha256 {found} and not {sha256}, which is pinned for {artifact}; no node was changed"
    return None


@lru_cache(maxsize=8)
def digest(path: str, _size: int, _time: int) -> str:
    """Some hundred MB: read once a run, not once a node."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
