#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_consent action; it runs on the controller only."""

DOCUMENTATION = r"""
module: rdma_consent
short_description: Refuse a plan that nobody consented to, and choose what of a node's drift is fixed
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Runs on the controller; the node is not contacted.
  - V(refuse) inspects the plan that M(railwright.rdma.rdma_state) returned and fails the host when the plan has problems, or when it holds
    changes whose disruption class is not in the host's C(rdma_consent).
  - V(choose) reads what M(railwright.rdma.rdma_check) found in mode drift, says which changes M(railwright.rdma.rdma_state) is to make (its
    O(railwright.rdma.rdma_state#module:only)), and names everything that is left with the reason. A change that needs a reboot is always
    left.
  - V(judge) compares the inspections before and after. It fails the host when something that was fixed is still there, when something new
    of the asked severity came, or when a step failed.
  - V(guard) says which nodes of the play were lost in earlier batches, for which Ansible itself would not stop.
extends_documentation_fragment:
  - railwright.rdma.attributes
options:
  mode:
    description: What to do.
    type: str
    choices: [refuse, choose, judge, guard]
    default: refuse
  plan:
    description: The registered result of M(railwright.rdma.rdma_state). For O(mode=choose) the cut plan of the choice before this one; what
      the node left out of it is not chosen again.
    type: dict
    default: {}
  consent_needed:
    description: Whether missing consent fails the host. Problems always do. For O(mode=refuse).
    type: bool
    default: true
  registered:
    description:
      - The variable under which every node of the play has registered its plan. With it, nodes that would talk in different eRDMA modes are
        all refused, whatever their own plans hold; without it each node is judged by itself. For O(mode=refuse).
    type: str
  drift:
    description: The newest registered result of M(railwright.rdma.rdma_check) in mode drift. For O(mode=choose) and O(mode=judge).
    type: dict
    default: {}
  before:
    description: The same from before anything was done. For O(mode=judge).
    type: dict
    default: {}
  earlier:
    description: The registered result of the choice before this one.
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
- name: Ask for consent
  railwright.rdma.rdma_consent:
    plan: "{{ rdma_plan }}"
    registered: rdma_plan

- name: Choose what is critical
  railwright.rdma.rdma_consent:
    mode: choose
    drift: "{{ drift }}"
    severity: critical
  register: choice

- name: Fix that, and nothing else
  railwright.rdma.rdma_state:
    mode: apply
    only: "{{ choice.remediation.fix }}"
    consented_only: true
  become: true
"""

RETURN = r"""
refused:
  description: The changes that lack consent, as in the plan.
  returned: with O(mode=refuse)
  type: list
  elements: dict
lost:
  description: The nodes of the play that failed or could not be reached any more.
  returned: with O(mode=guard)
  type: list
  elements: str
remediation:
  description:
    - The choice, or what became of it, see docs/remediate.md. C(stage) is chosen or judged. A choice has C(round), C(fix) (keys of the
      changes to make next, empty when nothing is left to try; at most three rounds), C(tried), C(held) and C(left) (each with C(cause) and
      C(reason)); a judgement has C(fixed), C(still), C(new), C(left) and C(clean). Both have C(consent), the disruption classes that the
      inventory allows.
  returned: with O(mode=choose) and O(mode=judge)
  type: dict
"""
