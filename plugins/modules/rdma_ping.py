#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ping the peers of a node on every rail with full-size packets; the logic is in module_utils/measure/ping.py."""

DOCUMENTATION = r"""
module: rdma_ping
short_description: Ping peers on every rail with packets of the full MTU
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Sends C(ping -M do) with a payload that fills the MTU which the inventory gives the rail, from the rail's own interface and address to
    the same rail of every peer. Sixteen run at a time.
  - Where the full size does not come back, one ping of the Ethernet size tells a smaller MTU on the way from a peer that is not reachable.
  - Asks the kernel by which interface it would send from the rail's address.
  - Asks on every Ethernet rail, by ARP or neighbour discovery, who else has the rail's address, and where pings fail also for the
    addresses of the peers on all rails. Less than a second, for all rails at once. Needs root.
  - Needs C(ping) of iputils. What it finds is judged by M(railwright.rdma.rdma_cluster), which sees all nodes.
options:
  schedule:
    description:
      - Who pings whom.
      - The registered result of M(railwright.rdma.rdma_cluster) with O(railwright.rdma.rdma_cluster#module:mode=schedule).
    type: dict
  check:
    description: The variable under which the result of M(railwright.rdma.rdma_check) was registered on every host.
    type: str
  count:
    description: Pings of a probe; one answer is enough.
    type: int
    default: 2
  wait:
    description: Seconds to wait for an answer.
    type: int
    default: 1
  probes:
    description: The pings to send. The action plugin fills it; do not set it.
    type: list
    elements: dict
  rails:
    description: The rails of this node that have an address. The action plugin fills it; do not set it.
    type: list
    elements: dict
attributes:
  check_mode:
    support: full
    description: Changes nothing, so check mode makes no difference.
  diff_mode:
    support: none
    description: Changes nothing.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with iputils.
"""

EXAMPLES = r"""
- name: Ping the peers on every rail
  railwright.rdma.rdma_ping:
    schedule: "{{ schedule }}"
    check: check
  become: true
  register: ping
"""

RETURN = r"""
pings:
  description:
    - One for each rail and peer.
    - What was asked, whether the full and the small packet came back, the route, and which MACs were heard.
  returned: success
  type: list
  elements: dict
rails:
  description:
    - One for each rail with an address.
    - The MACs of others that answer for it (null when nobody could be asked), and the kernel's C(dadfailed).
  returned: success
  type: list
  elements: dict
verdicts:
  description: Why nothing was pinged, if so.
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping import look


def main() -> None:
    module = NodeModule(
        argument_spec={
            "schedule": {"type": "dict"},
            "check": {"type": "str"},
            "count": {"type": "int", "default": 2},
            "wait": {"type": "int", "default": 1},
            "probes": {"type": "list", "elements": "dict"},
            "rails": {"type": "list", "elements": "dict"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["probes"] is None or params["rails"] is None:
        module.fail_json(msg="rdma_ping got no probes: its action plugin did not run; call it as railwright.rdma.rdma_ping from a playbook")
    module.exit_json(changed=False, **look(Host(), params["probes"], params["rails"], params["count"], params["wait"]))


if __name__ == "__main__":
    main()
