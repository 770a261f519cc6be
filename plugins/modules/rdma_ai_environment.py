#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Python environment with torch below a prefix; the logic is in module_utils/prefix/python_env."""

DOCUMENTATION = r"""
module: rdma_ai_environment
short_description: Make a Python environment with torch below a prefix
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of the role C(ai_environment), which calls them in order; each one is of little use alone.
  - V(look) says which environment belongs on this node, and whether it is there whole. It refuses what cannot
    be had before anything changes (driver, Python, wheels that do not fit, space).
  - V(prepare) makes the directories and writes the lock. V(bring) copies wheels, or conda's files, from the
    controller, V(verify) compares them with the controller's checksums, V(build) runs pip and conda. V(settle)
    imports torch in a child without rights and writes the manifest. V(link) makes C(current) lead to the environment. V(clean) takes away
    what a failed run began.
options:
  mode:
    description: Which step.
    type: str
    choices: [look, prepare, bring, verify, build, settle, link, clean]
    required: true
  spec:
    description: The validated wishes for this host. The action plugin fills it from the inventory; do not set it.
    type: dict
  bill:
    description: The lock and the wheels as the controller has read them. The action plugin fills it; do not set it.
    type: dict
attributes:
  check_mode:
    support: full
    description: Looks, and says what would be made.
  diff_mode:
    support: none
    description: An environment has no text to show.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with glibc, GNU coreutils and findutils.
"""

EXAMPLES = r"""
- name: Look which environment belongs here
  railwright.rdma.rdma_ai_environment:
    mode: look
  become: true
  register: wanted
"""

RETURN = r"""
environment:
  description:
    - Kind, directory, its Python, whether it is missing or the link leads elsewhere, what is broken, the wheels that
      it wants, and what torch said of itself when it was made; null where the inventory wants none here.
  returned: when O(mode=look)
  type: dict
plan:
  description: What would change, in the form of a plan; empty when nothing differs.
  returned: when O(mode=look)
  type: list
  elements: dict
drivers:
  description: The environment, torch and its NCCL, one line each.
  returned: when O(mode=look)
  type: dict
notes:
  description: What was left out here and why, and what is kept beside it.
  returned: when O(mode=look)
  type: list
  elements: str
torch:
  description: What torch said of itself.
  returned: when O(mode=settle)
  type: dict
"""

from typing import Any, Dict, Optional

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env import install as node
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.wanted import Bill, Wanted, bill_from, place_of, wanted
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

ARGUMENTS: Dict[str, Any] = {
    "mode": {"type": "str", "choices": ["look", "prepare", "bring", "verify", "build", "settle", "link", "clean"], "required": True},
    "spec": {"type": "dict"},
    "bill": {"type": "dict"},
}
WITHOUT_GPU = "ai_environment: no NVIDIA GPU on the PCI bus of this node; ai_environment_torch VERSION+cpu asks for a build without CUDA"


def look(host: Host, spec: Spec, wish: Optional[Wanted], check: bool) -> Dict[str, Any]:
    """A look is a change only in check mode, where no other step follows it."""
    if wish is None:
        notes = [WITHOUT_GPU] if spec["ai_environment_kind"] != "none" else []
        return {"changed": False, "environment": None, "notes": notes, "plan": [], "drivers": {}}
    told = node.look(host, wish)
    return dict(told, changed=bool(check and told["plan"]))


def step(host: Host, spec: Spec, bill: Bill, mode: str, check: bool) -> Dict[str, Any]:
    wish = wanted(host, spec, observe_identity(host, None), bill)
    if mode == "look":
        return look(host, spec, wish, check)
    if wish is None or check:
        return {"changed": wish is not None and mode != "clean"}
    place = place_of(host, wish)
    if mode == "verify":
        node.verify(host, wish, place, bill.wheels)
        return {"changed": False}
    if mode == "settle":
        return {"changed": True, "torch": node.settle(host, wish, place)}
    {"prepare": node.prepare, "build": node.build, "link": node.link, "clean": node.clean}[mode](host, wish, place)
    return {"changed": mode != "clean"}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["spec"] is None:
        module.fail_json(msg="rdma_ai_environment got no spec: its action plugin did not run; call it by its full name")
    try:
        result = step(Host(), Spec(params["spec"]), bill_from(params["bill"]), params["mode"], bool(module.check_mode))
    except RailwrightError as error:
        module.fail_json(msg="ai_environment: %s" % error)
    except OSError as error:
        module.fail_json(msg="ai_environment: %s: %s" % (error.filename, error.strerror))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
