# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_switch: one command that reads, its answer into a private directory, and of it nothing into the result: a
configuration holds secrets, and results are shown and kept."""

from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils import connection as persistent

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked_text
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import wire
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import plain, shortened
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction, text_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.scanned import keep_answer
from ansible_collections.railwright.rdma.plugins.plugin_utils.switches import CLI_COMMAND, COMMANDS, Way, way_of

SAID = 200  # characters of a refusal; what is longer may be the configuration itself, of which a line looked like an error


class ActionModule(StepAction):
    argument_spec: ClassVar[dict[str, Any]] = {"directory": {"type": "str", "required": True}}

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        try:
            way = way_of(self._templar.template(variables.get("ansible_network_os")), self._connection.transport)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        text = self._read(way, variables)
        keep_answer(Path(options["directory"]), str(variables["inventory_hostname"]), {"text": plain(text)})
        return {**result, "changed": False, "characters": len(text)}

    def _read(self, way: Way, variables: dict[str, Any]) -> str:
        self._limit(wire.BEGIN_S)
        command = COMMANDS[way.os]
        if way.module:
            by_cli = way.module == CLI_COMMAND
            self._log_in("get_prompt" if by_cli else "get_capabilities")
            said = self._answer(way.module, {"command": command} if by_cli else {"commands": [command]}, variables, {})
            failed, why, text = bool(said.get("failed")), text_of(said.get("msg") or said.get("exception", "")), said.get("stdout")
            text = text[0] if isinstance(text, list) and text else text
        else:
            said = self._low_level_execute_command(command)
            failed, why, text = said["rc"] != 0, str(said["stderr"]), said["stdout"]
        if not failed and isinstance(text, str) and text.strip():
            return text
        why = " ".join(why.split()) if failed else "it answered nothing"
        shown = masked_text(shortened(why, SAID)) if len(why) <= SAID else "what it said is not shown: it may hold secrets"
        raise AnsibleActionFail(f"{command}: {shown}")

    def _log_in(self, question: str) -> None:
        """Before the command: the module's answer would not tell a switch that is away from one that refuses."""
        try:
            getattr(persistent.Connection(self._connection.socket_path), question)()
        except persistent.ConnectionError as error:
            raise AnsibleConnectionFailure(shortened(" ".join(str(error).split()), SAID)) from None
