# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the modules that put a release below a prefix: which one belongs here, and one step of bringing it."""

from typing import Any, Callable, Dict, NamedTuple

from ..errors import RailwrightError
from ..host.host import Host
from ..spec.model import Spec

ARGUMENTS: Dict[str, Any] = {
    "mode": {"type": "str", "choices": ["look", "bring", "unpack", "build", "place", "link", "clean"], "required": True},
    "spec": {"type": "dict"},
}


class Below(NamedTuple):
    """What one of these modules brings, and how."""

    module: str  # its name without the collection
    role: str  # what a failure's line begins with
    wanted: Callable[[Host, Spec], Any]  # the release; None where the inventory wants none here
    returned: str  # under which name of its result ``look`` says what it found
    look: Callable[[Host, Spec, Any], Dict[str, Any]]
    steps: Dict[str, Callable[[Host, Any], None]]


def run_below(module: Any, below: Below) -> None:
    params = module.params
    if params["spec"] is None:
        module.fail_json(msg="%s got no spec: its action plugin did not run; call it as railwright.rdma.%s" % (below.module, below.module))
    try:
        result = step(Host(), below, Spec(params["spec"]), params["mode"], bool(module.check_mode))
    except RailwrightError as error:
        module.fail_json(msg="%s: %s" % (below.role, error))
    except OSError as error:
        module.fail_json(msg="%s: %s: %s" % (below.role, error.filename, error.strerror))
    module.exit_json(**result)


def step(host: Host, below: Below, spec: Spec, mode: str, check: bool) -> Dict[str, Any]:
    """The result of one step. A look is a change only in check mode, where no other step follows it."""
    release = below.wanted(host, spec)
    if mode == "look":
        told = below.look(host, spec, release)
        found = told[below.returned]
        return dict(told, changed=bool(check and found and found["needed"]))
    if release is not None and not check and mode in below.steps:
        below.steps[mode](host, release)
    return {"changed": release is not None and mode != "clean"}
