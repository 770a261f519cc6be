# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_nccl_library: the Spec, and a look at the file that the operator has here before it travels to any node."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec

OPTIONS = {"mode": {"type": "str", "choices": ["look", "unpack", "place", "link", "clean"], "required": True}}
CHUNK = 1024 * 1024
_KNOWN: dict[tuple[str, int, int], str] = {}  # by path, size and time: 300 MB are not read once a node


class ActionModule(ActionBase):
    """A file that is not the pinned one never leaves the controller."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, options = self.validate_argument_spec(argument_spec=OPTIONS)
        spec = host_spec(self._templar, variables)
        arguments = {"mode": options["mode"], "spec": spec.as_dict()}
        result.update(self._execute_module(module_name="railwright.rdma.rdma_nccl_library", module_args=arguments, task_vars=variables))
        library, archive = result.get("library"), spec["nccl_archive"]
        if archive is not None and isinstance(library, dict) and library.get("missing"):
            wrong = wrong_file(str(archive), str(library["artifact"]), str(library["sha256"]))
            if wrong is not None:
                result.update(failed=True, changed=False, msg=f"nccl: {wrong}")
        return result


def wrong_file(path: str, artifact: str, sha256: str) -> str | None:
    """Why the file cannot be used; None when it is the pinned one."""
    try:
        found = digest(Path(path))
    except OSError as error:
        return f"nccl_archive {path} cannot be read on the controller: {error.strerror}; no node was changed"
    if found != sha256:
        return f"nccl_archive {path} has the sha256 {found} and not {sha256}, which is pinned for {artifact}; no node was changed"
    return None


def digest(path: Path) -> str:
    state = path.stat()
    key = (str(path), state.st_size, state.st_mtime_ns)
    if key not in _KNOWN:
        total = hashlib.sha256()
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                total.update(chunk)
        _KNOWN[key] = total.hexdigest()
    return _KNOWN[key]
