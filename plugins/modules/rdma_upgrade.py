#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lease that an upgrade has on a node, and what an upgrade knows of the node; the logic is in module_utils/entry/upgrade.py."""

DOCUMENTATION = r"""
module: rdma_upgrade
short_description: Take and give back the lease of a node that is upgraded, and report what the upgrade knows of it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - With O(mode=lease), writes down on the node (C(/var/lib/railwright/upgrade.json)) which run of which controller upgrades it. The lease
    survives reboots. It is refused in one line while another run has it; the run that has it may take it again at any time.
    RV(busy) says whether an apply or a package manager is still at work on the node, so that the task can be repeated until it is not.
  - With O(mode=release), removes the lease if it is this run's, and nothing else.
  - With O(mode=report), puts together what other tasks have found out about the node. It contacts no node.
  - With O(mode=after_reboot), asks a node after a reboot that failed whether it answers. One that does not is unreachable, in one line that
    says for how long it was waited; one that does fails with the words of the task that failed, and passes where that one only lost it.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description: What to do.
    type: str
    choices: [lease, release, report, after_reboot]
    required: true
  run:
    description: The name of the upgrade's run; for O(mode=lease), O(mode=release) and O(mode=report).
    type: str
  take_over:
    description: Take the lease also from another run.
    type: bool
    default: false
  step:
    description: With O(mode=lease), whether the node is only inspected, or its change begins. Then the lease says so to its end.
    type: str
    choices: [preflight, change]
    default: preflight
  plan:
    description: For O(mode=report), the registered result of M(railwright.rdma.rdma_state).
    type: dict
  lease:
    description: For O(mode=report), the registered result of this module with O(mode=lease).
    type: dict
  scheduler:
    description: For O(mode=report), what the scheduler says of the node.
    type: dict
  dry_run:
    description: For O(mode=report), the registered result of M(railwright.rdma.rdma_packages).
    type: dict
  prefixes:
    description: For O(mode=report), the registered results of the inspections of what lies in directories of its own (NCCL, HPC-X).
    type: list
    elements: dict
    default: []
  error:
    description: For O(mode=after_reboot), the result of the task that failed (RV(ignore:ansible_failed_result)).
    type: dict
  waited_s:
    description: For O(mode=after_reboot), how long the task waited.
    type: int
attributes:
  check_mode:
    description: In check mode it says whether the lease could be taken or given back, and changes nothing.
  diff_mode:
    description: A lease has no text to show.
"""

EXAMPLES = r"""
- name: Take the lease, once nobody else is at work
  railwright.rdma.rdma_upgrade:
    mode: lease
    run: 20261121T180000Z-upgrade
  become: true
  register: lease
  until: lease is failed or not lease.busy
  retries: 60
  delay: 10
"""

RETURN = r"""
lease:
  description: Whose node it is now (C(run), C(controller), C(user), C(since), C(step)); null where it is nobody's.
  returned: with O(mode=lease) and O(mode=release)
  type: dict
taken_over_from:
  description: Whose it was, where O(take_over) took it; else null.
  returned: with O(mode=lease)
  type: dict
busy:
  description: Who is at work on the node at this moment, null where nobody is. Not asked in check mode.
  returned: with O(mode=lease)
  type: str
upgrade:
  description:
    - What the upgrade knows of the node. C(pending) says whether anything is left to do, C(plan) has the keys of the changes, C(classes)
      their disruption classes, C(before) kernel, stack and firmware in a line each, C(packages) what comes from which version to which,
      C(proved) whether they were resolved and C(later) whether some can be only when others are there, C(prefixes) what is missing in
      directories of its own, C(scheduler) and C(lease) what was handed in.
  returned: with O(mode=report)
  type: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import UPGRADE
from ansible_collections.railwright.rdma.plugins.module_utils.entry.upgrade import answer


def main() -> None:
    serve(UPGRADE, answer)


if __name__ == "__main__":
    main()
