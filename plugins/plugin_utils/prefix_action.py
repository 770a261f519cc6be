# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of putting a release below a prefix: the Spec, and the archive that the operator has here."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .host_spec import host_spec
from .local_archive import wrong_archive
from .step_action import StepAction


class PrefixAction(StepAction):
    """An archive that is not the pinned one never leaves the controller."""

    argument_spec: ClassVar[dict[str, Any]] = {
        "mode": {"type": "str", "choices": ["look", "bring", "unpack", "build", "place", "link", "clean"], "required": True},
    }
    module: ClassVar[str]
    role: ClassVar[str]  # what a failure's line begins with
    archive: ClassVar[str]  # the inventory's key of the operator's own archive
    returned: ClassVar[str]  # under which name the module says what it looked for

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec, mode = host_spec(self._templar, variables), options["mode"]
        if mode == "bring":
            return result | self._bring(spec, variables)
        arguments = {"mode": mode, "spec": spec.as_dict()}
        if mode == "build" and not self._task.check_mode:
            return result | self.run_in_background(self.module, arguments, variables)
        answer = self._execute_module(module_name=self.module, module_args=arguments, task_vars=variables)
        return result | answer | self._wrong(spec, answer)

    def _wrong(self, spec: Spec, answer: dict[str, Any]) -> dict[str, Any]:
        """A failure where the operator's archive is not the one that this node needs."""
        found, archive = answer.get(self.returned), spec[self.archive]
        if archive is None or not isinstance(found, dict) or not found["missing"]:
            return {}
        wrong = wrong_archive(self.archive, str(archive), str(found["artifact"]), str(found["sha256"]))
        return {} if wrong is None else {"failed": True, "changed": False, "msg": f"{self.role}: {wrong}"}

    def _bring(self, spec: Spec, variables: dict[str, Any]) -> dict[str, Any]:
        """The archive on the node: the controller's, which only the inventory names, or downloaded there."""
        answer = self._execute_module(module_name=self.module, module_args={"mode": "look", "spec": spec.as_dict()}, task_vars=variables)
        found = answer.get(self.returned)
        wrong = self._wrong(spec, answer)
        if wrong or answer.get("failed") or not isinstance(found, dict) or not found["missing"]:
            return {**answer, **wrong}
        target, source = found["file"], spec[self.archive]
        made = self.run_builtin(
            "ansible.builtin.file", {"path": target.rpartition("/")[0], "state": "directory", "mode": "0755"}, variables)
        if made.get("failed"):
            return made
        if source is not None:
            return self.run_builtin("ansible.builtin.copy", {"src": str(source), "dest": target, "mode": "0644"}, variables)
        wanted = {"url": found["url"], "dest": target, "checksum": f"sha256:{found['sha256']}", "mode": "0644"}
        return self.run_builtin("ansible.builtin.get_url", wanted, variables)
