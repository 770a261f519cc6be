#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One side of a perftest pair: start servers, run clients, stop and judge; the logic is in module_utils."""

DOCUMENTATION = r"""
module: rdma_perftest
short_description: Measure bandwidth and latency between two nodes on every rail
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Runs C(ib_write_bw) and C(ib_read_lat) of perftest between the two nodes of a pair, rail by rail, in three steps that the
    caller puts around a barrier, V(start), V(run) and V(stop).
  - V(start) reads the counters of both nodes (errors, and on RoCE pauses, discards, marks and CNPs of the HCA port and its
    interfaces) and starts a server for each rail and test on one of them. A server ends by itself after a bounded time,
    whatever becomes of the controller.
  - V(run) runs the clients one after the other on the other node and judges the average against the thresholds in the inventory.
    Without a threshold the figure is reported as V(skipped), never as passed.
  - On RoCE the traffic carries the traffic class of the inventory's QoS profile, as that of NCCL does.
  - eRDMA in driver mode default is iWARP, whose queue pairs only RDMA-CM connects (C(-R)); in the other modes they connect as on RoCE.
  - V(stop) ends the servers that V(start) recorded, and no other process, and judges the growth of the counters since V(start).
    Put it under C(always).
  - A node that sits out a round skips the step without a connection.
options:
  mode:
    description: The step.
    type: str
    choices: [start, run, stop]
    required: true
  schedule:
    description:
      - Who measures whom.
      - The registered result of M(railwright.rdma.rdma_cluster) with O(railwright.rdma.rdma_cluster#module:mode=schedule).
    type: dict
  round:
    description: The round of the schedule, from 0.
    type: int
  check:
    description: The variable under which the result of M(railwright.rdma.rdma_check) was registered on every host.
    type: str
  started:
    description: The variable under which the result of V(start) is registered on every host.
    type: str
  ping:
    description:
      - The variable under which the result of M(railwright.rdma.rdma_ping) was registered on every host.
      - Rails that it found on another rail's network are not measured.
    type: str
  node:
    description: The node's name in the inventory. The action plugin fills it; do not set it.
    type: str
  peer:
    description: The other node of the pair. The action plugin fills it; do not set it.
    type: str
  serve:
    description: Whether this node is the server. The action plugin fills it; do not set it.
    type: bool
    default: false
  tests:
    description: The tests of this node. The action plugin fills it; do not set it.
    type: list
    elements: dict
  ports:
    description: The HCA ports whose counters are read. The action plugin fills it; do not set it.
    type: list
    elements: dict
    default: []
  lossless:
    description: The priorities that the QoS profile pauses instead of dropping. The action plugin fills it; do not set it.
    type: list
    elements: int
    default: []
  why_not:
    description: Why there is no QoS profile to judge the traffic by. The action plugin fills it; do not set it.
    type: str
  options:
    description: Sizes and times. The action plugin fills it from the inventory; do not set it.
    type: dict
  open_ports:
    description: The ports that the server listens on. The action plugin fills it; do not set it.
    type: list
    elements: int
    default: []
  thresholds:
    description: The thresholds. The action plugin fills it from the inventory; do not set it.
    type: dict
    default: {}
  sources:
    description:
      - Where a threshold comes from that is not the inventory's (the ECS instance type of an eRDMA node), or why there is none.
      - The action plugin fills it; do not set it.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Nothing is measured in check mode; the task is skipped.
  diff_mode:
    support: none
    description: Changes nothing that lasts.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with perftest.
"""

EXAMPLES = r"""
- name: Measure a round
  block:
    - name: Start the servers
      railwright.rdma.rdma_perftest:
        mode: start
        schedule: "{{ schedule }}"
        round: 0
        check: check
        started: started
      register: started

    - name: Run the clients
      railwright.rdma.rdma_perftest:
        mode: run
        schedule: "{{ schedule }}"
        round: 0
        check: check
        started: started
      register: measured
  always:
    - name: Stop the servers
      railwright.rdma.rdma_perftest:
        mode: stop
        schedule: "{{ schedule }}"
        round: 0
        check: check
        started: started
"""

RETURN = r"""
verdicts:
  description: Verdicts of this step, as M(railwright.rdma.rdma_check) returns them.
  returned: success
  type: list
  elements: dict
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

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure import perftest_node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.bandwidth_verdicts import Limits
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Measurement, Options
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import Watched
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts

ARGUMENTS = {
    "mode": {"type": "str", "choices": ["start", "run", "stop"], "required": True},
    "schedule": {"type": "dict"},
    "round": {"type": "int"},
    "check": {"type": "str"},
    "started": {"type": "str"},
    "ping": {"type": "str"},
    "node": {"type": "str"},
    "peer": {"type": "str"},
    "serve": {"type": "bool", "default": False},
    "tests": {"type": "list", "elements": "dict"},
    "ports": {"type": "list", "elements": "dict", "default": []},
    "lossless": {"type": "list", "elements": "int", "default": []},
    "why_not": {"type": "str"},
    "options": {"type": "dict"},
    "open_ports": {"type": "list", "elements": "int", "default": []},
    "thresholds": {"type": "dict", "default": {}},
    "sources": {"type": "dict", "default": {}},
}


def step(host: Host, params: Dict[str, Any]) -> Dict[str, Any]:
    """The step that was asked for; its result."""
    node = params["node"]
    tests = [Measurement(**test) for test in params["tests"]]
    options = Options(**{name: int(value) for name, value in params["options"].items()})
    ports = [Watched(**dict(port, netdevs=tuple(port["netdevs"]))) for port in params["ports"]]
    if params["mode"] == "start":
        verdicts, open_ports = perftest_node.start(host, node, params["peer"], tests if params["serve"] else [], ports, options)
        return {"verdicts": as_dicts(verdicts), "open_ports": open_ports}
    if params["mode"] == "run":
        limits = Limits(params["thresholds"], params["sources"])
        verdicts = perftest_node.run_clients(host, node, params["peer"], tests, params["open_ports"], options, limits)
        return {"verdicts": as_dicts(verdicts)}
    verdicts, ended, traffic = perftest_node.stop(host, node, params["peer"], ports, params["lossless"], params["why_not"])
    return {"verdicts": as_dicts(verdicts), "ended": ended, "traffic": traffic}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, verdicts=[])
    if module.params["tests"] is None or module.params["options"] is None or module.params["node"] is None:
        module.fail_json(msg="got no tests: the action plugin did not run; call railwright.rdma.rdma_perftest from a playbook")
    try:
        result = step(Host(), module.params)
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="perftest %s: %s" % (module.params["mode"], error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
