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
  - The steps of the role C(ssh_mesh), which calls them in order; each one is of little use alone. A step reads what those before it gave,
    of all nodes, from the variables C(__ssh_mesh_MODE), in which the role registers them. V(login) is a step of the role C(validate).
  - What lies in a home is read and written with the rights of its user.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description: Which step.
    type: str
    choices: [observe, plan, generate, read, key, apply, prove, login]
    required: true
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
- name: Inspect the node, its keys and its sshd
  railwright.rdma.rdma_ssh_mesh:
    mode: observe
  become: true
  register: __ssh_mesh_observe

- name: Plan the mesh over all its nodes
  railwright.rdma.rdma_ssh_mesh:
    mode: plan
  register: __ssh_mesh_plan
"""

RETURN = r"""
mesh:
  description: Members, who makes the key, who lacks it, why a new one is made.
  returned: when O(mode=plan)
  type: dict
changes:
  description: What was changed, or would be in check mode.
  returned: when V(generate), V(key) or V(apply) ran
  type: list
  elements: str
login:
  description:
    - Whether the mesh's files are C(configured) on the node, the C(user), and by peer in C(logins) what ssh said; null where the login
      worked.
  returned: when O(mode=login)
  type: dict
peers:
  description: The nodes that it was to log into.
  returned: when O(mode=login)
  type: list
  elements: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import SSH_MESH
from ansible_collections.railwright.rdma.plugins.module_utils.entry.ssh_mesh import answer


def main() -> None:
    serve(SSH_MESH, answer, "ssh_mesh")


if __name__ == "__main__":
    main()
