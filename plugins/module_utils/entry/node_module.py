# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of ours is made of: an AnsibleModule that tells nobody what it was given.

Arguments hold values of the inventory, secrets among them. AnsibleModule writes them into the node's syslog or journal, and returns them
as ``invocation``, which ends in verbose output, callbacks and records. ``no_log=True`` at its call would not stop the former: the
controller's own answer to that question, which comes with the arguments, replaces it. ``no_log`` of an argument would take each of its
values out of every result.

What a result says for people goes through ``masking``; what later steps work with (steps of packages, a container's variables) does not.
"""

from typing import Any, Callable, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..errors import ApplyError, RailwrightError
from ..formats.masking import masked
from ..host.host import Host

SHOWN = ("msg", "notes", "plan", "problems", "refused", "before", "after", "diff", "remaining", "left", "findings", "unknown", "verdicts")
Params = Dict[str, Any]
Body = Callable[[Host, Params, bool], Dict[str, Any]]  # (the node, the parameters, whether nothing may change) -> the answer


class NodeModule(AnsibleModule):
    def log(self, msg: str, log_args: Optional[Any] = None) -> None:
        """All that AnsibleModule has to log comes through here: nothing is."""

    def exit_json(self, **kwargs: Any) -> None:
        super(NodeModule, self).exit_json(**fit(kwargs))

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        super(NodeModule, self).fail_json(masked(msg), **fit(kwargs))


def fit(result: Dict[str, Any]) -> Dict[str, Any]:
    return dict({name: masked(value) if name in SHOWN else value for name, value in result.items()}, invocation={})


def serve(arguments: Dict[str, Any], body: Body, role: str = "") -> None:
    """A whole module: ``arguments`` are its options; what only the action plugin gives comes in one more, ``filled``."""
    respond(NodeModule(argument_spec=dict(arguments, filled={"type": "dict"}), supports_check_mode=True), body, role)


def respond(module: Any, body: Body, role: str = "") -> None:
    """End the module with the body's answer, or with one line that says why there is none; it begins with ``role``."""
    filled = module.params.pop("filled")
    if filled is None:
        module.fail_json(msg="%s: its action plugin did not run; call it by its full name from a playbook" % module._name)
    why = ""
    more: Dict[str, Any] = {}
    try:
        module.exit_json(**dict({"changed": False}, **body(Host(), dict(module.params, **filled), bool(module.check_mode))))
    except RailwrightError as error:
        why = str(error)
        more = {"rolled_back": error.rolled_back} if isinstance(error, ApplyError) else {}
    except OSError as error:
        why = "%s: %s" % (error.filename, error.strerror) if error.filename else str(error)
    module.fail_json(msg="%s: %s" % (role, why) if role else why, **more)
