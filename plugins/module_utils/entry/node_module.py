# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of ours is made of: an AnsibleModule that tells nobody what it was given.

Arguments hold values of the inventory, secrets among them. AnsibleModule writes them into the node's syslog or journal, and returns them
as ``invocation``, which ends in verbose output, callbacks and records. ``no_log=True`` at its call would not stop the former: the
controller's own answer to that question, which comes with the arguments, replaces it. ``no_log`` of an argument would take each of its
values out of every result.
"""

from typing import Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..formats.masking import masked
from .response import Body, fit, respond


class NodeModule(AnsibleModule):
    def log(self, msg: str, log_args: Optional[Any] = None) -> None:
        """All that AnsibleModule has to log comes through here: nothing is."""

    def exit_json(self, **kwargs: Any) -> None:
        super(NodeModule, self).exit_json(**fit(kwargs))

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        super(NodeModule, self).fail_json(masked(msg), **fit(kwargs))


def serve(arguments: Dict[str, Any], body: Body, role: str = "", *, writes: bool = True) -> None:
    """A whole module: ``arguments`` are its options; what only the action plugin gives comes in one more, ``filled``."""
    respond(NodeModule(argument_spec=dict(arguments, filled={"type": "dict"}), supports_check_mode=True), body, role,
            writes=writes)
