# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of putting a release below a prefix: the Spec, and a look at the archive that the operator has here."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.local_archive import wrong_archive
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction


class PrefixAction(StepAction):
    """An archive that is not the pinned one never leaves the controller."""

    argument_spec: ClassVar[dict[str, Any]] = {
        "mode": {"type": "str", "choices": ["look", "unpack", "place", "link", "clean"], "required": True},
    }
    module: ClassVar[str]
    role: ClassVar[str]  # what a failure's line begins with
    archive: ClassVar[str]  # the inventory's key of the operator's own archive
    returned: ClassVar[str]  # under which name the module says what it looked for

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec = host_spec(self._templar, variables)
        arguments = {"mode": options["mode"], "spec": spec.as_dict()}
        result.update(self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables))
        found, archive = result.get(self.returned), spec[self.archive]
        if archive is not None and isinstance(found, dict) and found.get("missing"):
            wrong = wrong_archive(self.archive, str(archive), str(found["artifact"]), str(found["sha256"]))
            if wrong is not None:
                result.update(failed=True, changed=False, msg=f"{self.role}: {wrong}")
        return result
