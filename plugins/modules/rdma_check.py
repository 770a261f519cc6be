#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge one node against its inventory; the logic is in module_utils/checks."""

DOCUMENTATION = r"""
module: rdma_check
short_description: Judge the RDMA state of a node against its inventory, or say what differs from it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Observes the node once and judges it. Changes nothing, and what it finds does not fail the task, so that every node is judged and shown
    before the play ends; the role C(railwright.rdma.validate) fails at its end.
  - Expectations come from the inventory only, never from what is observed. What is not expected is V(skipped) with the key that
    would make it an expectation; what is expected and cannot be read is V(unknown). Neither ever passes.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description:
      - V(verdicts) gives one verdict each on the port states, rates, MTUs, GIDs and firmware of every rail, the number of HCAs, and
        everything that M(railwright.rdma.rdma_state) would change.
      - V(drift) gives a small answer with every difference between the node and its inventory, what the verdicts find wrong beside the
        plan, and the variables of NCCL that login shells, ssh commands and systemd services really get.
    type: str
    choices: [verdicts, drift]
    default: verdicts
attributes:
  diff_mode:
    support: full
    description: With O(mode=drift) one diff for every finding with a value. Ansible shows it only of a task that changed; with C(--diff)
      drift counts as one.
"""

EXAMPLES = r"""
- name: Judge every node
  railwright.rdma.rdma_check:
  become: true
  register: check

- name: Stop where a verdict failed
  ansible.builtin.assert:
    that: check.verdicts | selectattr('status', 'equalto', 'fail') | length == 0

- name: Look for drift
  railwright.rdma.rdma_check:
    mode: drift
  become: true
  register: drift
"""

RETURN = r"""
verdicts:
  description:
    - Every judgement, with C(check) (see docs/reference/checks.md), C(node), C(hca), C(port), C(subject), C(status) (pass, fail, warn,
      unknown, unproven or skipped), C(expected), C(found) and C(message). The C(node) is empty for the whole cluster.
  returned: with O(mode=verdicts)
  type: list
  elements: dict
overview:
  description: The node as it is seen, a line each for HCAs, ports, GIDs, GPUs, PCIe, the stack and NCCL's variables.
  returned: to C(railwright check), which asks over its own ssh
  type: dict
bundle:
  description: The C(entries) of a captured tree, and what was C(left_out) of it, keys among that.
  returned: to C(railwright bundle), which asks over its own ssh
  type: dict
agent:
  description: What the node's agent says, with its C(findings) and the links that went down (C(downs)).
  returned: to C(railwright events) and C(railwright watch), which ask over their own ssh
  type: dict
facts:
  description: The observed facts, see docs/reference/facts.md.
  returned: with O(mode=verdicts)
  type: dict
stack:
  description: The stack that the inventory wants on this node, with its release; nodes with the same one are compared.
  returned: with O(mode=verdicts)
  type: str
gpudirect:
  description: What M(railwright.rdma.rdma_measure) has to measure here, as C(path), C(gpus), C(pairs), and C(why_not) where it is nothing.
  returned: with O(mode=verdicts)
  type: dict
rails:
  description: Where each rail of the inventory is on this node (interface, device, port, GID index, address).
  returned: with O(mode=verdicts)
  type: list
  elements: dict
findings:
  description:
    - Every difference, with C(key) (the same in every run), C(kind) (setting, state, problem, effective), C(area), C(what), C(expected),
      C(found), C(severity) (critical, major, minor), C(disruption) of the change that fixes it, C(why), C(since) (seconds since the epoch)
      and C(by). See docs/drift.md.
  returned: with O(mode=drift)
  type: list
  elements: dict
summary:
  description: The same for people; a line with the node's name, then one for each finding, what could not be read, and notes.
  returned: with O(mode=drift)
  type: list
  elements: str
judged:
  description: The areas that were inspected.
  returned: with O(mode=drift)
  type: list
  elements: str
unknown:
  description: What is expected and could not be read.
  returned: with O(mode=drift)
  type: list
  elements: str
unasked:
  description: The ways to start a job that gave no answer about their environment, as keys of findings end in them.
  returned: with O(mode=drift)
  type: list
  elements: str
drivers:
  description: Kernel, stack, firmware and peer memory, one line each.
  returned: with O(mode=drift)
  type: dict
notes:
  description: What was left out on this node and why.
  returned: with O(mode=drift)
  type: list
  elements: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import CHECK


def main() -> None:
    serve(CHECK, answer)


if __name__ == "__main__":
    main()
