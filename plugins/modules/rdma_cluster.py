#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_cluster action; it runs on the controller only."""

DOCUMENTATION = r"""
module: rdma_cluster
short_description: Judge all nodes of a play together
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Runs once, on the controller, and contacts no node. It reads what M(railwright.rdma.rdma_check) registered on every host of the play.
  - V(schedule) decides who pings whom and who measures with whom, among the nodes that answered. Small clusters ping in full
    mesh, large ones along a ring; measurements run in rounds of disjoint pairs until every node was in one.
  - V(judge) compares the nodes (stack, kernel, MTU, HCA type, firmware, GID type for each rail; duplicate GUIDs and addresses),
    judges what they pinged and heard (swapped rails, traffic that leaves by another rail, addresses held twice),
    collects all verdicts, and shows the ones that did not pass as a table. A node that did not answer is V(unknown), not V(fail).
extends_documentation_fragment:
  - railwright.rdma.attributes
options:
  mode:
    description: What to do.
    type: str
    choices: [schedule, judge]
    default: judge
  check:
    description: The variable under which the result of M(railwright.rdma.rdma_check) was registered on every host.
    type: str
    required: true
  ping:
    description: The variable under which the result of M(railwright.rdma.rdma_measure) was registered on every host. For O(mode=judge).
    type: str
  mesh:
    description: The variable under which the result of M(railwright.rdma.rdma_ssh_mesh) with C(mode=login) was registered on every host.
      For O(mode=judge).
    type: str
  collect:
    description: More variables with verdicts, either registered results or lists of verdicts. For O(mode=judge).
    type: list
    elements: str
    default: []
  ping_peers:
    description: How many peers a node pings. For O(mode=schedule).
    type: int
    default: 4
  perftest:
    description: Whether to pair the nodes for measurements. For O(mode=schedule).
    type: bool
    default: true
attributes:
  platform:
    description: Runs on the controller.
"""

EXAMPLES = r"""
- name: Decide who measures whom
  railwright.rdma.rdma_cluster:
    mode: schedule
    check: check
  run_once: true
  register: schedule

- name: Judge the cluster
  railwright.rdma.rdma_cluster:
    check: check
    ping: ping
    collect: [ping]
  run_once: true
  register: cluster
"""

RETURN = r"""
verdicts:
  description:
    - The verdicts on the cluster, as M(railwright.rdma.rdma_check) returns them.
    - Their C(node) is the odd one out, or empty where there is no majority.
  returned: when O(mode=judge)
  type: list
  elements: dict
summary:
  description: For each node the number of its verdicts by status, those collected included.
  returned: when O(mode=judge)
  type: dict
reachability:
  description:
    - Who reached whom. C(rails) counts the pings of each rail by what came back.
    - C(pairs) has for pairs of nodes what each rail of the one saw of each rail of the other; those with a failure first, at most 64.
  returned: when O(mode=judge)
  type: dict
peers:
  description: For each node the peers that it pings.
  returned: when O(mode=schedule)
  type: dict
rounds:
  description: Rounds of pairs, server and client.
  returned: when O(mode=schedule)
  type: list
  elements: list
"""
