#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a node back to how it was before a run, and record packages around a package step; the logic is in module_utils/rollback."""

DOCUMENTATION = r"""
module: rdma_rollback
short_description: Bring a node back to how it was right before a run
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Every apply leaves restore points on the node. With O(mode=plan) it is looked up what would be restored to have the node as it was right
    before the run O(to), and what somebody else has changed since. Nothing is changed.
  - With O(mode=prove) the packages that would come back are resolved, downloaded and verified in a private overlay on the node.
  - With O(mode=apply) files, values and commands are undone, the newest first, then the packages are restored in one transaction of the
    package manager. All of it is one transaction with a restore point of its own. A change of networking is reverted by the node itself
    unless it is confirmed over a fresh connection, as that of M(railwright.rdma.rdma_state).
  - With O(mode=inspect) the runs that the node has restore points of are listed.
  - O(mode=packages_before) and O(mode=packages_after) record every package around a package step; the role C(rdma_stack) calls them.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description: What to do.
    type: str
    choices: [inspect, plan, prove, apply, packages_before, packages_after]
    default: inspect
  to:
    description: The run; the node is brought back to how it was right before it. Required for O(mode=plan), O(mode=prove), O(mode=apply).
    type: str
  force:
    description:
      - Paths and names of packages that are restored although somebody else has changed them since, and keys of changes whose undo may
        fail.
      - C(packages) leaves every package as it is.
    type: list
    elements: str
    default: []
  expected:
    description:
      - The keys of the plan that was shown and consented to. Whatever is to be restored beside them stops the node before anything is
        changed.
    type: list
    elements: str
  run_id:
    description: The name of the restore point that this run leaves. Made from the time when left out.
    type: str
  record:
    description: The record that O(mode=packages_before) made, for O(mode=packages_after).
    type: str
  plan:
    description:
      - For O(mode=packages_before), the registered result of M(railwright.rdma.rdma_state), whose areas and disruption classes go into the
        record.
    type: dict
attributes:
  check_mode:
    description: Returns the plan that a rollback would carry out, and refuses what it would refuse. Packages are not proved.
  diff_mode:
    description: The plan names every file with its digest; contents stay on the node, as they may hold secrets.
  platform:
    description: Linux nodes; packages are restored by apt and dnf.
"""

EXAMPLES = r"""
- name: Which runs can be undone
  railwright.rdma.rdma_rollback:
    mode: inspect
  become: true

- name: What would be restored
  railwright.rdma.rdma_rollback:
    mode: plan
    to: 20260101T120000Z-apply
  become: true
  register: rollback
"""

RETURN = r"""
restore_points:
  description:
    - The runs that the node has restore points of, the newest first. Each has C(run), and with O(mode=inspect) C(points), C(when) (seconds
      since the epoch), C(state), C(files), C(values), C(commands), C(packages), C(packages_assumed) and C(undid).
  returned: for O(mode=inspect), and where the node does not know the run
  type: list
  elements: dict
known:
  description: Whether the node has a restore point of the run. Nothing is planned where it has none.
  returned: where a rollback is planned
  type: bool
undone:
  description: The restore points that are undone, the newest first.
  returned: where a rollback is planned
  type: list
  elements: str
to:
  description: The run.
  returned: where a rollback is planned
  type: str
plan:
  description: What is restored, in the form of RV(railwright.rdma.rdma_state#module:plan). Files are named with size, mode and digest.
  returned: where a rollback is planned
  type: list
  elements: dict
problems:
  description: What was changed by somebody else since, and what else forbids it; each has C(area), C(subject) and C(message).
  returned: where a rollback is planned
  type: list
  elements: dict
notes:
  description: What is left out and why, and what is assumed.
  returned: where a rollback is planned
  type: list
  elements: str
reboot_needed:
  description: Keys of what is in effect since a reboot, so that it takes another one to be undone.
  returned: where a rollback is planned
  type: list
  elements: str
restore_point:
  description: The journal of this rollback on the node, by which it can be undone itself.
  returned: for O(mode=apply) when something was undone
  type: str
confirm:
  description: What became of a guarded change of networking; see M(railwright.rdma.rdma_state).
  returned: for O(mode=apply) when it changed networking
  type: dict
reverted:
  description: The keys of the changes that the node reverted by itself because nobody confirmed them.
  returned: when that happened
  type: list
  elements: str
record:
  description: The restore point that holds the record of packages; empty where none is kept.
  returned: for O(mode=packages_before), O(mode=packages_after)
  type: str
packages_changed:
  description: The packages that the step changed.
  returned: for O(mode=packages_after)
  type: list
  elements: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import ROLLBACK
from ansible_collections.railwright.rdma.plugins.module_utils.entry.rollback import answer


def main() -> None:
    serve(ROLLBACK, answer)


if __name__ == "__main__":
    main()
