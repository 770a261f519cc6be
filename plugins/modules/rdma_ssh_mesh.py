#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Passwordless ssh between the nodes: one key, recorded host keys, and nobody else let in."""

DOCUMENTATION = r"""
module: rdma_ssh_mesh
short_description: Let a user log into every node from every node
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of the role C(ssh_mesh), which calls them in order; each one is of little use alone.
  - V(observe) says what a node has and what the others must know of it; V(plan) decides over all nodes on the controller.
  - V(generate) makes the key on one node, V(read) and V(key) bring it to the others, V(apply) writes who may log in and which hosts are
    trusted, V(prove) logs into another node.
  - V(login) says for the role C(validate) which of the node's peers it can log into.
  - What lies in a home is read and written with the rights of its user.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled.all
options:
  mode:
    description: Which step.
    type: str
    choices: [observe, plan, generate, read, key, apply, prove, login]
    required: true
  seen:
    description: The variable under which the result of V(observe) was registered. Needed with O(mode=plan).
    type: str
  plan:
    description: The variable under which the result of V(plan) was registered. Needed after it.
    type: str
  made:
    description: The variable under which the result of V(generate) was registered. Needed with V(apply) and V(key).
    type: str
  secret:
    description: The variable under which the result of V(read) was registered. Needed with O(mode=key).
    type: str
  schedule:
    description: The result of M(railwright.rdma.rdma_cluster) in mode schedule, with the peers of each node. Needed with O(mode=login).
    type: dict
  private_key:
    description: The mesh's private key. The action plugin fills it; do not set it.
    type: str
attributes:
  check_mode:
    description: Changes nothing and says what it would change. V(prove) does not log in, and no private key is read.
  diff_mode:
    support: full
    description: Shows the files and the block of authorized_keys; never a private key, nor lines of others.
  platform:
    description: Linux nodes with OpenSSH 7.3 or newer.
"""

EXAMPLES = r"""
- name: Look at the node, its keys and its sshd
  railwright.rdma.rdma_ssh_mesh:
    mode: observe
  become: true
  register: seen

- name: Plan the mesh over all its nodes
  railwright.rdma.rdma_ssh_mesh:
    mode: plan
    seen: seen
  register: mesh
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode.
  returned: when V(generate), V(key) or V(apply) ran
  type: list
  elements: str
node:
  description: User, public key, what is authorized, addresses, host keys and port of the node, and what speaks against a mesh.
  returned: when O(mode=observe)
  type: dict
wishes:
  description: State, generation and addresses that the inventory wants.
  returned: when O(mode=observe)
  type: dict
login:
  description: Whether the mesh's files are C(configured) on the node, the C(user), and by peer in C(logins) what ssh said; null where the
    login worked.
  returned: when O(mode=login)
  type: dict
peers:
  description: The nodes that it was to log into.
  returned: when O(mode=login)
  type: list
  elements: str
mesh:
  description: Members, who makes the key, who lacks it, why a new one is made.
  returned: when O(mode=plan)
  type: dict
public_key:
  description: The key that was made; null in check mode.
  returned: when O(mode=generate)
  type: str
private_key:
  description: The key. The task must hide its result with C(no_log).
  returned: when O(mode=read)
  type: str
"""

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import apply, node
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh.files import member_from

ARGUMENTS = {
    "mode": {"type": "str", "choices": ["observe", "plan", "generate", "read", "key", "apply", "prove", "login"], "required": True},
    "seen": {"type": "str"},
    "plan": {"type": "str"},
    "made": {"type": "str", "no_log": False},
    "secret": {"type": "str", "no_log": False},
    "schedule": {"type": "dict"},
    "private_key": {"type": "str", "no_log": True},
}
FILLED: Dict[str, Any] = {"user": None, "state": "present", "public_key": None, "members": [], "nodes": [], "peers": []}


def step(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """What was asked for; its result."""
    user, mode = params["user"] or host.login(), params["mode"]
    if mode == "login":
        return {"changed": False, "login": node.try_logins(host, user, params["peers"])}
    who = node.account(user)
    if mode == "observe":
        return {"changed": False, "node": node.observe(host, who, ancestors_connection_address(host))}
    if mode == "read":
        return {"changed": False, "private_key": "" if dry else node.read_key(host, who)}
    if mode == "prove":
        return prove(host, who, params["peer"], dry)
    if mode == "apply":
        if params["state"] == "absent":
            return apply.result(apply.leave(host, who, dry))
        members = [member_from(item) for item in params["members"]]
        return apply.result(apply.apply(host, who, apply.Wanted(params["public_key"], members, params["nodes"]), dry))
    public = params["public_key"]
    if mode == "generate":
        public = None if dry else node.generate(host, who, params["generation"], params["serial"])
    elif not dry:
        node.receive_key(host, who, params["private_key"], public)
    return {"changed": True, "changes": ["key pair " + who.key], "public_key": public}


def prove(host: Host, who: node.Account, peer: str, dry: bool) -> Dict[str, Any]:
    fault = None if dry else node.login(host, who, peer)
    if fault is not None:
        raise RailwrightError("%s cannot log into %s: %s" % (who.name, peer, fault))
    return {"changed": False}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, filled=FILLED, supports_check_mode=True)
    params = module.params
    if params["mode"] == "plan":
        module.fail_json(msg="rdma_ssh_mesh: its action plugin did not run; call it as railwright.rdma.rdma_ssh_mesh from a playbook")
    try:
        result = step(Host(), params, bool(module.check_mode))
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="ssh_mesh: %s" % error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
