#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_consent action; it runs on the controller only."""

DOCUMENTATION = r"""
module: rdma_consent
short_description: Refuse a plan that has problems or that nobody consented to
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Looks at the plan that M(railwright.rdma.rdma_state) returned and fails the host when the plan has problems,
    or when it holds changes whose disruption class is not in the host's C(rdma_consent).
  - Runs on the controller; the node is not contacted.
extends_documentation_fragment:
  - railwright.rdma.attributes
options:
  plan:
    description: The registered result of M(railwright.rdma.rdma_state).
    type: dict
    required: true
  consent_needed:
    description: Whether missing consent fails the host. Problems always do.
    type: bool
    default: true
  registered:
    description:
      - The variable under which every node of the play has registered its plan. With it, nodes that would talk in different eRDMA modes are
        all refused, whatever their own plans hold; without it each node is judged by itself.
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
"""

RETURN = r"""
refused:
  description: The changes that lack consent, as in the plan.
  returned: always
  type: list
  elements: dict
"""
