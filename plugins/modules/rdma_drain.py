#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ask a scheduler about nodes, keep new work from them, let work come again; the logic is in module_utils/scheduler."""

DOCUMENTATION = r"""
module: rdma_drain
short_description: Drain nodes at their scheduler and give them back
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of C(tasks/drain.yml), C(tasks/drained.yml), C(tasks/undrain.yml), C(tasks/isolate.yml), C(tasks/open.yml) and
    C(tasks/scheduler.yml) of the
    role C(upgrade), which call them in order; each one is of little use alone.
  - Runs on the scheduler host, by C(delegate_to). Of all hosts that share a scheduler the first one asks for all of them, with one
    call; the others wait for its answer.
  - No job is ever ended. With Slurm a drain keeps new jobs away and the running ones go on. With Kubernetes pods that a ReplicaSet,
    StatefulSet or ReplicationController starts again elsewhere are evicted, with every PodDisruptionBudget respected, and all others
    are waited for.
  - What somebody else has drained stays drained, and keeps their reason.
  - Which scheduler there is, and what a node is called there, comes from the inventory (C(upgrade_*)).
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description:
      - V(inspect) asks, of all hosts of the play. V(drain) begins the drain of the hosts of the batch, V(wait) looks after it,
        V(revert) ends it for those that are not empty in time, V(verify) only checks whether they are still drained, V(undrain) lets
        work come again. V(isolate) keeps new work from the hosts of the batch that O(reasons) names, each with its own reason; it
        waits for nothing, evicts no pod, and no other step gives these hosts back. V(open) gives back those whose reason is that of
        C(railwright watch).
      - V(tell) gives every host its own part of what one of those steps registered, and fails where it is not what was expected.
    type: str
    choices: [inspect, drain, wait, revert, verify, undrain, isolate, open, tell]
    default: inspect
  run:
    description:
      - Id of the upgrade. The reason of its drains is C(railwright upgrade RUN). Needed but for V(inspect), V(isolate), V(open),
        V(tell).
    type: str
  reasons:
    description: Host to reason, which begins with C(railwright isolate RUN) or C(railwright watch), of at most 200 plain characters.
      Needed with V(isolate).
    type: dict
  seen:
    description: The variable under which an earlier step registered its result. Needed with V(revert) and V(tell).
    type: str
  taken:
    description: The variable under which V(revert) registered its result, for the words of V(tell).
    type: str
  alone:
    description: Whether the host asks for itself alone. For a step that not all hosts of the batch come to.
    type: bool
    default: false
  expect:
    description: What V(tell) fails without. V(answer) asks for no more than that the scheduler answered, V(any) also that it did not refuse
      this host, V(closed) also that no new work may start on it.
    type: str
    choices: [answer, any, drained, closed, available]
    default: any
  began:
    description: When the waiting began, in seconds since the epoch.
    type: float
  timeout_s:
    description: How long V(wait) and V(undrain) say that there is something to wait for.
    type: int
    default: 0
attributes:
  check_mode:
    description: Only looks.
  diff_mode:
    description: Changes nothing on a node.
  platform:
    description: Linux hosts with scontrol and squeue, or kubectl.
"""

EXAMPLES = r"""
- name: Ask the scheduler about all nodes
  railwright.rdma.rdma_drain:
  delegate_to: "{{ upgrade_scheduler_host }}"
  register: asked

- name: Say what it says of this one
  railwright.rdma.rdma_drain:
    mode: tell
    seen: asked
"""

RETURN = r"""
drain:
  description:
    - What the scheduler says of this host, as C(scheduler) (none, slurm, kubernetes or command), C(node) (its name there), C(state)
      (available, draining, drained, down or unknown), C(jobs) and C(holders) (what holds the node, as ids and for people; at most 50),
      C(reason) and C(by) (us, other, or null where new work may come), C(message) (why the step was not made), C(raw) (the scheduler's own
      word), C(closed) (no new work may start), C(empty) (no work runs) and C(done) (both).
  returned: with O(mode=tell)
  type: dict
drains:
  description: The same of all hosts that were asked for, by their names in the inventory.
  returned: on the host that asked
  type: dict
leader:
  description: The host that asks for this one.
  returned: success
  type: str
waiting:
  description: Whether there is something left to wait for, and time.
  returned: success
  type: bool
now:
  description: The controller's clock.
  returned: success
  type: float
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.drain import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import DRAIN


def main() -> None:
    serve(DRAIN, answer, writes=False)


if __name__ == "__main__":
    main()
