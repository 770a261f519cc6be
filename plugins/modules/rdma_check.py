#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge one node against its inventory; the logic is in module_utils/checks."""

DOCUMENTATION = r"""
module: rdma_check
short_description: Judge the RDMA state of a node against its inventory
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Observes the node once and judges it. The port states, rates, MTUs, GIDs and firmware of every rail, the number of HCAs,
    and everything that M(railwright.rdma.rdma_state) would change, one verdict each.
  - Expectations come from the inventory only, never from what is observed. What is not expected is V(skipped) with the key that
    would make it an expectation; what is expected and cannot be read is V(unknown). Neither ever passes.
  - A failed verdict does not fail the task, so that every node is judged and shown before the play ends; the role
    C(railwright.rdma.validate) fails at its end.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled
  - railwright.rdma.filled.node
  - railwright.rdma.filled.now
"""

EXAMPLES = r"""
- name: Judge every node
  railwright.rdma.rdma_check:
  become: true
  register: check

- name: Stop where a verdict failed
  ansible.builtin.assert:
    that: check.verdicts | selectattr('status', 'equalto', 'fail') | length == 0
"""

RETURN = r"""
verdicts:
  description: Every judgement.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Stable name of the check, see docs/reference/checks.md.
      type: str
      sample: port.state
    node:
      description: The node's name in the inventory; empty for the whole cluster.
      type: str
    hca:
      description: The RDMA device, if the verdict is on one.
      type: str
    port:
      description: The port of the device.
      type: int
    subject:
      description: What was judged, for people.
      type: str
      sample: rail0 (eth1)
    status:
      description: One of pass, fail, warn, unknown, unproven, skipped.
      type: str
    expected:
      description: What the inventory or the catalogue asks for.
      type: raw
    found:
      description: What the node has.
      type: raw
    message:
      description: The judgement in a sentence.
      type: str
facts:
  description: The observed facts, see docs/reference/facts.md.
  returned: success
  type: dict
stack:
  description: The stack that the inventory wants on this node, with its release; nodes with the same one are compared.
  returned: success
  type: str
gpudirect:
  description: What M(railwright.rdma.rdma_measure) has to measure here, as C(path), C(gpus), C(pairs), and C(why_not) where it is nothing.
  returned: success
  type: dict
rails:
  description: Where each rail of the inventory is on this node (interface, device, port, GID index, address).
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec


def main() -> None:
    module = NodeModule(
        argument_spec={"node": {"type": "str"}, "spec": {"type": "dict"}, "now": {"type": "float"}},
        supports_check_mode=True,
    )
    params = module.params
    if params["spec"] is None or params["node"] is None:
        module.fail_json(msg="rdma_check got no spec: its action plugin did not run; call it as railwright.rdma.rdma_check from a playbook")
    try:
        host = Host()
        management = ancestors_connection_address(host)
        result = check_node(host, params["node"], Spec(params["spec"]), management, params["now"])
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
