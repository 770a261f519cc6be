#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Say what differs on a node from its inventory; the logic is in module_utils/entry/drift.py."""

DOCUMENTATION = r"""
module: rdma_drift
short_description: Say what differs on a node from its inventory
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - One look, one small answer. Every difference between the node and its inventory with area, severity, what is expected and what
    was found, and since when and by whom where the node has a record of it.
  - Holds everything that M(railwright.rdma.rdma_state) would change, what M(railwright.rdma.rdma_check) finds wrong beside that, and
    the variables of NCCL that login shells, ssh commands and systemd services really get.
  - Changes nothing. A difference does not fail the task.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled
  - railwright.rdma.filled.node
  - railwright.rdma.filled.now
attributes:
  diff_mode:
    support: full
    description: One diff for every finding with a value. Ansible shows it only of a task that changed; with C(--diff) drift counts as one.
"""

EXAMPLES = r"""
- name: Look for drift
  railwright.rdma.rdma_drift:
  become: true
  register: drift

- name: Fail where something critical has drifted
  ansible.builtin.assert:
    that: drift.findings | selectattr('severity', 'equalto', 'critical') | length == 0
"""

RETURN = r"""
findings:
  description: Every difference.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: Name of the difference, the same in every run.
      type: str
      sample: "network: MTU of rail0 (eth1)"
    kind:
      description: setting (apply mends it), state (nothing of ours can), problem (apply refuses the node), effective (another's
        line wins over ours).
      type: str
    area:
      description: Area of the plan, or hca for what devices and ports show.
      type: str
    what:
      description: What differs, for people.
      type: str
    expected:
      description: What the inventory or the catalogue asks for.
      type: raw
    found:
      description: What the node has.
      type: raw
    severity:
      description: critical, major or minor.
      type: str
    disruption:
      description: Class of the change that mends it; empty where none does.
      type: str
    why:
      description: Why it should be otherwise.
      type: str
    since:
      description: Seconds since the epoch, by the node's own records.
      type: float
    by:
      description: Who or what changed it, by the node's own records.
      type: str
summary:
  description: The same for people; a line with the node's name, then one for each finding, what could not be read, and notes.
  returned: success
  type: list
  elements: str
judged:
  description: The areas that were looked at.
  returned: success
  type: list
  elements: str
unknown:
  description: What is expected and could not be read.
  returned: success
  type: list
  elements: str
unasked:
  description: The ways to start a job that gave no answer about their environment, as keys of findings end in them.
  returned: success
  type: list
  elements: str
  sample: ["login shells"]
drivers:
  description: Kernel, stack, firmware and peer memory, one line each.
  returned: success
  type: dict
notes:
  description: What was left out on this node and why.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.drift import observe_drift
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
        module.fail_json(msg="rdma_drift got no spec: its action plugin did not run; call it as railwright.rdma.rdma_drift from a playbook")
    try:
        host = Host()
        result = observe_drift(host, params["node"], Spec(params["spec"]), ancestors_connection_address(host), params["now"])
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
