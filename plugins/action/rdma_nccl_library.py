# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_nccl_library: the Spec, and a look at the file that the operator has here before it travels to any node."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.local_archive import wrong_archive

OPTIONS = {"mode": {"type": "str", "choices": ["look", "unpack", "place", "link", "clean"], "required": True}}


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
            wrong = wrong_archive("nccl_archive", str(archive), str(library["artifact"]), str(library["sha256"]))
            if wrong is not None:
                result.update(failed=True, changed=False, msg=f"nccl: {wrong}")
        return result
