#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of the training benchmark on a node; the logic is in module_utils/measure/ddp."""

DOCUMENTATION = r"""
module: rdma_ddp
short_description: Run a data-parallel training benchmark through torchrun
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of the role C(ddp_benchmark), which calls them in order; each one is of little use alone.
  - V(look) says on every node which torch its Python has, how many processes it gets and which interface the rendezvous goes over, and
    refuses a node that cannot take part. V(plan) decides over all nodes on the controller.
  - V(start) starts torchrun on every node, V(poll) waits for its end for a bounded time, V(stop) ends what belongs to the run and nothing
    else, V(collect) reads what the ranks left and takes the run's directory away. V(judge) gives the verdicts on the controller.
  - A job ends by itself after its time limit, and when nobody has polled it for minutes.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled.all
options:
  mode:
    description: Which step.
    type: str
    choices: [look, plan, start, poll, stop, collect, judge]
    required: true
  seen:
    description: The variable under which the result of V(look) was registered. Needed with O(mode=plan).
    type: str
  plan:
    description: The variable under which the result of V(plan) was registered. Needed after it.
    type: str
  started:
    description: The variable under which the result of V(start) was registered. Needed with O(mode=poll).
    type: str
  polled:
    description: The variable under which the results of V(poll) are registered. Needed with O(mode=poll).
    type: str
  collected:
    description: The variable under which the result of V(collect) was registered. Needed with O(mode=judge).
    type: str
  age:
    description: V(poll) is over when the job is so many seconds old. Needed with O(mode=poll).
    type: int
attributes:
  check_mode:
    description: Looks and plans, and starts nothing.
  platform:
    description: Linux nodes with PyTorch 1.10 or newer.
"""

EXAMPLES = r"""
- name: Look at torch and its devices
  railwright.rdma.rdma_ddp:
    mode: look
  become: true
  register: seen

- name: Plan the job over all nodes
  railwright.rdma.rdma_ddp:
    mode: plan
    seen: seen
  run_once: true
  register: planned
"""

RETURN = r"""
look:
  description: User, Python, version of torch, number of processes, bootstrap interface with its addresses, and whether the port is taken.
  returned: when O(mode=look)
  type: dict
plan:
  description: Name of the run, hosts in rank order, address and port of the rendezvous, processes and first rank of every node.
  returned: when O(mode=plan)
  type: dict
process:
  description: Process id and start time of torchrun, and when that was.
  returned: when O(mode=start)
  type: dict
done:
  description: Whether there is nothing more to wait for.
  returned: when O(mode=poll)
  type: bool
exit:
  description: Exit status of torchrun; null while it runs, and when it is not known.
  returned: when O(mode=poll)
  type: int
over:
  description: Whether the job has ended or reached the age.
  returned: when O(mode=poll)
  type: bool
progress:
  description: How old the job is, and on the first node the step and the number of steps.
  returned: when O(mode=poll)
  type: dict
ended:
  description: How many processes were ended.
  returned: when O(mode=stop)
  type: int
collected:
  description: Exit status, versions of every rank, failures, the result (first node), the end of torchrun's log.
  returned: when O(mode=collect)
  type: dict
verdicts:
  description: C(ddp.complete), C(ddp.values), C(ddp.throughput) and C(ddp.versions), as M(railwright.rdma.rdma_check) returns them.
  returned: when O(mode=judge)
  type: list
  elements: dict
ddp:
  description: Hosts, ranks, backend, steps, batch, samples per second, percentiles of the step time, versions of every node.
  returned: when O(mode=judge)
  type: dict
"""

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp import node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import share_from
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.manifest import steady
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

ARGUMENTS = {
    "mode": {"type": "str", "choices": ["look", "plan", "start", "poll", "stop", "collect", "judge"], "required": True},
    **{name: {"type": "str"} for name in ("seen", "plan", "started", "polled", "collected")},
    "age": {"type": "int"},
}
FILLED: Dict[str, Any] = {"spec": None, "share": None, "process": None}


def look(host: Host, name: str, spec: Spec) -> Dict[str, Any]:
    user = spec["ddp_benchmark_user"] or spec["nccl_tests_user"] or spec["ssh_mesh_user"] or host.login()
    python = steady(host, spec["ddp_benchmark_python"])
    wanted = node.Wanted(name, python, spec["ddp_benchmark_backend"], spec["ddp_benchmark_processes"], user,
                         spec["ddp_benchmark_port"])
    return {"look": node.look(host, wanted, spec, observe_identity(host, ancestors_connection_address(host)))}


def step(host: Host, params: Dict[str, Any]) -> Dict[str, Any]:
    """What was asked for; its result."""
    mode = params["mode"]
    if mode == "look":
        return look(host, params["node"], Spec(params["spec"]))
    share = share_from(params["share"])
    if mode == "start":
        return {"process": node.start(host, share, params["files"])}
    if mode == "poll":
        return node.poll(host, share, params["process"], float(params["age"]))
    if mode == "stop":
        return {"ended": node.stop(host, share)}
    found = node.collect(host, share)
    node.remove(host, share.run)
    return {"collected": found}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, filled=FILLED, supports_check_mode=True)
    params = module.params
    if params["mode"] in ("plan", "judge") or (params["mode"] == "look" and params["spec"] is None):
        module.fail_json(msg="rdma_ddp: its action plugin did not run; call it as railwright.rdma.rdma_ddp from a playbook")
    if module.check_mode and params["mode"] != "look":
        module.exit_json(changed=False, skipped=True)
    try:
        result = step(Host(), params)
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="ddp_benchmark: %s" % error)
    except (KeyError, TypeError, ValueError) as error:
        module.fail_json(msg="rdma_ddp %s: a part of the plan is missing: %r" % (params["mode"], error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
