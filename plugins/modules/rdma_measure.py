#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Traffic between nodes and within one; the logic is in module_utils/entry/measure.py."""

DOCUMENTATION = r"""
module: rdma_measure
short_description: Ping and measure on every rail, between nodes and from GPU memory
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - V(ping) sends C(ping -M do) with a payload that fills the MTU which the inventory gives the rail, from the rail's own interface and
    address to the same rail of every peer, sixteen at a time. Where the full size does not come back, one ping of the Ethernet size tells a
    smaller MTU on the way from a peer that is not reachable. It asks the kernel for its route, and on every Ethernet rail, by ARP or
    neighbour discovery, who else has the rail's address. Needs root and C(ping) of iputils. M(railwright.rdma.rdma_cluster), which sees all
    nodes, judges what it finds.
  - V(start), V(run) and V(stop) are one round of C(ib_write_bw), C(ib_read_lat) and C(ib_write_lat) of perftest between the nodes of a
    pair, rail by rail, or with O(together) of C(ib_write_bw) over all rails at once. The caller puts a barrier between them.
  - V(start) reads the counters of both nodes (errors, and on RoCE pauses, discards, marks and CNPs of the HCA port and its interfaces) and
    starts the servers on one of them. A server ends by itself after a bounded time, whatever becomes of the controller.
  - V(run) runs the clients one after the other on the other node, and judges the average against the thresholds in the inventory, else
    against what the rate that the inventory expects carries. Without either the figure is V(skipped), never passed. On RoCE the traffic
    carries the traffic class of the inventory's QoS profile, as that of NCCL does. eRDMA in driver mode default is iWARP, whose queue pairs
    only RDMA-CM connects (C(-R)).
  - V(sample) runs clients as V(run) does and judges nothing. C(railwright isolate) asks for it over its own connection; no playbook can.
  - V(stop) ends the servers that V(start) recorded, and no other process, and judges the growth of the counters. Put it under C(always).
  - V(gpudirect) runs C(ib_write_bw) between the memory of a GPU and an HCA of the same node, for every pair that is near on the PCIe tree.
    Where perftest is built without CUDA, or without DMA-BUF where that is the path, the verdict is V(unproven), never V(pass).
  - V(health) reads what a burn-in compares from round to round, of the GPUs temperatures, counters of slowdowns and memory errors, and the
    serial numbers of GPUs and HCAs. With O(diag) C(dcgmi diag -r 3) comes before, where it is installed. It judges nothing.
  - A node that has nothing to do in a step skips it without a connection.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description: What is measured, or which step of it.
    type: str
    choices: [ping, start, run, sample, stop, gpudirect, health]
    required: true
  check:
    description: The variable under which the result of M(railwright.rdma.rdma_check) was registered on every host.
    type: str
  schedule:
    description:
      - Who pings and measures whom. For all modes but V(gpudirect).
      - The registered result of M(railwright.rdma.rdma_cluster) with O(railwright.rdma.rdma_cluster#module:mode=schedule).
    type: dict
  round:
    description: The round of the schedule, for perftest.
    type: int
    default: 0
  started:
    description: The variable under which the result of V(start) is registered on every host. For perftest.
    type: str
  ping:
    description:
      - The variable under which the result of V(ping) was registered on every host. For perftest.
      - Rails that it found on another rail's network are not measured.
    type: str
  together:
    description: Measure all rails at once, from GPU memory where V(gpudirect) has shown that it works. For perftest.
    type: bool
    default: false
  gpudirect:
    description: The variable under which the result of V(gpudirect) was registered on every host. For O(together).
    type: str
  measured:
    description: The variable under which the result of V(run) of one rail after the other was registered. For O(together).
    type: str
  count:
    description: Pings of a probe; one answer is enough.
    type: int
    default: 2
  wait:
    description: Seconds to wait for the answer to a ping.
    type: int
    default: 1
  diag:
    description: Run C(dcgmi diag -r 3), which takes a quarter of an hour and more. For V(health).
    type: bool
    default: false
attributes:
  check_mode:
    description: Only pings are sent in check mode; the other modes are skipped.
  platform:
    description: Linux nodes with iputils and perftest.
"""

EXAMPLES = r"""
- name: Ping the peers on every rail
  railwright.rdma.rdma_measure:
    mode: ping
    schedule: "{{ schedule }}"
    check: check
  become: true
  register: ping
"""

RETURN = r"""
verdicts:
  description: Verdicts of this step, as M(railwright.rdma.rdma_check) returns them.
  returned: success
  type: list
  elements: dict
pings:
  description: For each rail and peer what was asked, whether the full and the small packet came back, the route, and which MACs were heard.
  returned: when O(mode=ping)
  type: list
  elements: dict
rails:
  description: For each rail with an address the MACs of others that answer for it (null when nobody could be asked), and C(dad_failed).
  returned: when O(mode=ping)
  type: list
  elements: dict
samples:
  description:
    - For each client its C(figure) in Gb/s or us, or C(why) there is none.
    - C(hung) where the connection came up and nothing moved.
  returned: when O(mode=sample)
  type: list
  elements: dict
health:
  description: C(gpus), C(nics), and in C(diag) the results of C(dcgmi diag), or C(why) there are none. C(null) is what cannot be read.
  returned: when O(mode=health)
  type: dict
open_ports:
  description: The TCP ports that the started servers listen on.
  returned: when O(mode=start)
  type: list
  elements: int
traffic:
  description:
    - For each HCA port what its counters and those of its interfaces grew by since V(start), with C(rail), C(hca), C(port), C(peer)
      and C(seconds).
    - C(backwards) names the counters that were reset or wrapped in between.
  returned: when O(mode=stop)
  type: list
  elements: dict
ended:
  description: How many servers were still running and were ended.
  returned: when O(mode=stop)
  type: int
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.measure import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import MEASURE


def main() -> None:
    serve(MEASURE, answer, "rdma_measure")


if __name__ == "__main__":
    main()
