# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of ours is made of: an AnsibleModule that tells nobody what it was given.

Arguments hold values of the inventory, secrets among them. AnsibleModule writes them into the node's syslog or journal, and returns them
as ``invocation``, which ends in verbose output, callbacks and records. ``no_log=True`` at its call would not stop the former: the
controller's own answer to that question, which comes with the arguments, replaces it. ``no_log`` of an argument would take each of its
values out of every result.

What a result says for people goes through ``masking``; what later steps work with (steps of packages, a container's variables) does not.
"""

from typing import Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..formats.masking import masked

SHOWN = ("msg", "notes", "plan", "problems", "refused", "before", "after", "diff", "remaining", "left", "findings", "unknown", "verdicts")


class NodeModule(AnsibleModule):
    """Takes what AnsibleModule takes, and ``filled``: parameters that only the action plugin gives, with their defaults."""

    def __init__(self, argument_spec: Dict[str, Any], filled: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        if filled is None:
            super(NodeModule, self).__init__(argument_spec=argument_spec, **kwargs)
            return
        super(NodeModule, self).__init__(argument_spec=dict(argument_spec, filled={"type": "dict"}), **kwargs)
        self.params.update(filled, **(self.params.pop("filled") or {}))

    def log(self, msg: str, log_args: Optional[Any] = None) -> None:
        """All that AnsibleModule has to log comes through here: nothing is."""

    def exit_json(self, **kwargs: Any) -> None:
        super(NodeModule, self).exit_json(**fit(kwargs))

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        super(NodeModule, self).fail_json(masked(msg), **fit(kwargs))


def fit(result: Dict[str, Any]) -> Dict[str, Any]:
    return dict({name: masked(value) if name in SHOWN else value for name, value in result.items()}, invocation={})
