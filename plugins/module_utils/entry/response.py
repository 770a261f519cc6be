# SPDX-License-Identifier: GPL-3.0-or-later
"""How a body's answer becomes a module's: the disk first, errors as one line, nothing of what was given, secrets masked.

What a result says for people goes through ``masking``; what later steps work with (steps of packages, a container's variables) does not.
"""

from typing import Any, Callable, Dict

from ..errors import ApplyError, RailwrightError
from ..formats.masking import SHOWN, masked
from ..host.disk import refusing_disk
from ..host.host import Host

# What became of an apply must be known, above all where the apply filled the disk; and a check writes nothing.
ANY_DISK = ("confirm", "outcome", "check", "bundle")
Params = Dict[str, Any]
Body = Callable[[Host, Params, bool], Dict[str, Any]]  # (the node, the parameters, whether nothing may change) -> the answer


def fit(result: Dict[str, Any]) -> Dict[str, Any]:
    return dict({name: masked(value) if name in SHOWN else value for name, value in result.items()}, invocation={})


def respond(module: Any, body: Body, role: str = "", *, writes: bool = True) -> None:
    """End the module with the body's answer, or with one line that says why there is none; it begins with ``role``.

    ``writes``: whether this is a node, where we write; the scheduler's host is none.
    """
    filled = module.params.pop("filled")
    if filled is None:
        module.fail_json(msg="%s: its action plugin did not run; call it by its full name from a playbook" % module._name)
    host, params = Host(), dict(module.params, **filled)
    why = refusing_disk(host) if writes and params.get("mode") not in ANY_DISK else None
    more: Dict[str, Any] = {}
    try:
        if why is None:
            module.exit_json(**dict({"changed": False}, **body(host, params, bool(module.check_mode))))
    except RailwrightError as error:
        why = str(error)
        more = {"rolled_back": error.rolled_back} if isinstance(error, ApplyError) else {}
    except OSError as error:
        why = "%s: %s" % (error.filename, error.strerror) if error.filename else str(error)
    module.fail_json(msg="%s: %s" % (role, why) if role else why, **more)
