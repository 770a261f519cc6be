#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_remediate action; it runs on the controller only."""

DOCUMENTATION = r"""
module: rdma_remediate
short_description: Choose what of a node's drift is mended, and judge what became of it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Runs on the controller; the node is not contacted. It reads what M(railwright.rdma.rdma_drift) found.
  - V(choose) says which changes M(railwright.rdma.rdma_state) is to make (its O(railwright.rdma.rdma_state#module:only)), and names
    everything that is left with the reason. A change that needs a reboot is always left.
  - V(judge) compares the looks before and after. It fails the host when something that was mended is still there, when something new
    of the asked severity came, or when a step failed.
  - V(guard) says which nodes of the play were lost in earlier batches, for which Ansible itself would not stop.
extends_documentation_fragment:
  - railwright.rdma.attributes
options:
  mode:
    description: What to do.
    type: str
    choices: [choose, judge, guard]
    default: choose
  drift:
    description: The registered result of the newest M(railwright.rdma.rdma_drift).
    type: dict
    default: {}
  before:
    description: The registered result of the look before anything was done. For O(mode=judge).
    type: dict
    default: {}
  earlier:
    description: The registered result of the choice before this one.
    type: dict
    default: {}
  plan:
    description: The registered cut plan of the choice before this one. What the node left out of it is not chosen again.
    type: dict
    default: {}
  error:
    description: The result of the task that failed, if one did. For O(mode=judge).
    type: dict
    default: {}
  areas:
    description: Only these areas; all of them when empty.
    type: list
    elements: str
    default: []
  severity:
    description: Only this severity and what is worse.
    type: str
    choices: [critical, major, minor]
    default: minor
  began:
    description:
      - The variable that every node of the play has once its batch has begun. With it the message of a failure names the nodes that
        are not touched.
    type: str
attributes:
  platform:
    description: Runs on the controller.
"""

EXAMPLES = r"""
- name: Look for drift
  railwright.rdma.rdma_drift:
  become: true
  register: drift

- name: Choose what is critical
  railwright.rdma.rdma_remediate:
    drift: "{{ drift }}"
    severity: critical
  register: choice

- name: Mend that, and nothing else
  railwright.rdma.rdma_state:
    mode: apply
    only: "{{ choice.remediation.mend }}"
    consented_only: true
  become: true
"""

RETURN = r"""
lost:
  description: The nodes of the play that failed or could not be reached any more.
  returned: with O(mode=guard)
  type: list
  elements: str
remediation:
  description: The choice, or what became of it.
  returned: with the other modes
  type: dict
  contains:
    stage:
      description: chosen or judged.
      type: str
    round:
      description: Number of this choice.
      type: int
    mend:
      description: Keys of the changes to make next; empty when nothing is left to try. At most three rounds.
      type: list
      elements: str
    tried:
      description: Everything that was chosen so far; each has C(key), C(kind), C(area), C(what), C(severity) and C(disruption).
      type: list
      elements: dict
    held:
      description: What the node left out of a cut plan, by key.
      type: dict
    left:
      description: What is not mended; each has C(cause) (area, severity, problem, refused, effective, state, reboot, consent, needs or
        new) and C(reason) as well.
      type: list
      elements: dict
    mended:
      description: What is gone.
      type: list
      elements: dict
    still:
      description: What was tried and is still there.
      type: list
      elements: dict
    new:
      description: What was not there before.
      type: list
      elements: dict
    clean:
      description: Whether the node came back clean.
      type: bool
    consent:
      description: The disruption classes that the host's inventory allows.
      type: list
      elements: str
"""
