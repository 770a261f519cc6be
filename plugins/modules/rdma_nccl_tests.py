#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One step of the final proof on one node; the logic is in module_utils/measure/nccl_tests."""

DOCUMENTATION = r"""
module: rdma_nccl_tests
short_description: Run nccl-tests over the nodes and judge them
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of the role C(nccl_tests), which calls them in order; each one is of little use alone.
  - V(look) says what a node has. V(plan) decides over all nodes on the controller who launches what. V(prepare) makes the run's
    directory.
  - V(probe) has the launcher start a small script in place of every rank, so that a launcher that fails is told from a GPU that is not
    there.
  - V(start) begins a job and V(poll) asks how far it is. A job ends by itself when its time is over, and when nobody has polled for 90
    seconds.
  - V(stop) ends every process of the run on a node, and no other. V(collect) takes the results and removes the directory. Both belong
    under C(always).
  - V(judge) turns what was collected into verdicts, on the controller.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled.all
options:
  mode:
    description: Which step.
    type: str
    choices: [look, plan, prepare, probe, start, poll, stop, collect, judge]
    required: true
  look:
    description: The variable under which the result of V(look) was registered on every host.
    type: str
  plan:
    description: The variable under which the result of V(plan) was registered. Needed after it.
    type: str
  probe:
    description: The variable under which the result of V(probe) was registered. Needed with V(start) and V(judge).
    type: str
  polled:
    description: The variable under which the result of V(poll) is registered. Needed with V(start).
    type: str
  stopped:
    description: The variable under which the result of V(stop) was registered. Needed with V(judge).
    type: str
  collected:
    description: The variable under which the result of V(collect) was registered. Needed with V(judge).
    type: str
  job:
    description: Number of the job in the plan, from 0. Needed with V(start) and V(poll).
    type: int
  directory:
    description: Where C(all_reduce_perf) and the others lie on this node. Needed with V(look).
    type: str
  libraries:
    description: Directories of C(LD_LIBRARY_PATH) of the jobs. Used with V(look).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Nothing is run in check mode; V(look) reads.
  platform:
    description: Linux nodes with NVIDIA GPUs.
"""

EXAMPLES = r"""
- name: Look at the node
  railwright.rdma.rdma_nccl_tests:
    mode: look
    directory: /opt/nccl-tests/build
  become: true
  register: seen

- name: Decide who runs what
  railwright.rdma.rdma_nccl_tests:
    mode: plan
    look: seen
  run_once: true
  register: planned
"""

RETURN = r"""
seen:
  description: GPUs, NCCL, launchers and programs of the node.
  returned: when O(mode=look)
  type: dict
plan:
  description: Launcher, ranks, hosts and jobs.
  returned: when O(mode=plan)
  type: dict
job:
  description: The collective that was started.
  returned: when O(mode=start)
  type: str
pid:
  description: The process that keeps it.
  returned: when O(mode=start)
  type: int
status:
  description: Exit status of the probe or of the job; null while it runs, and when it is not known.
  returned: when V(probe) or V(poll) ran
  type: int
reason:
  description: What the launcher said of its failure; else null.
  returned: when O(mode=probe)
  type: str
tail:
  description: The end of what was printed.
  returned: when V(probe) or V(poll) ran
  type: list
  elements: str
too_much:
  description: Whether more was printed than is read.
  returned: when O(mode=poll)
  type: bool
jobs:
  description: What each collective left, its status, seconds, output, JSON and NCCL's log, all bounded.
  returned: when O(mode=collect)
  type: list
  elements: dict
nccl_topo:
  description: The topology that NCCL saw; null where it wrote none.
  returned: when O(mode=collect)
  type: str
nccl_graph:
  description: The graphs that NCCL made; null where it wrote none.
  returned: when O(mode=collect)
  type: str
answers:
  description: What the ranks said, host, CUDA devices and NCCL's version.
  returned: when O(mode=probe)
  type: list
  elements: dict
ended:
  description: With V(poll) whether the job has ended; with V(stop) how many processes were ended.
  returned: when O(mode=poll) or O(mode=stop)
  type: raw
progress:
  description: The collective, the seconds it has run, the last size that it printed and its busbw.
  returned: when O(mode=poll)
  type: dict
verdicts:
  description: The verdicts, as M(railwright.rdma.rdma_check) returns them.
  returned: when O(mode=judge)
  type: list
  elements: dict
summary:
  description: Number of verdicts by node and status.
  returned: when O(mode=judge)
  type: dict
bench:
  description: The document of the run, docs/bench.md has its form.
  returned: when O(mode=judge)
  type: dict
"""

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import job, readiness, run_directory
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.collect import collect
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

NODE_MODES = ("look", "prepare", "probe", "start", "poll", "stop", "collect")
ARGUMENTS = {
    "mode": {"type": "str", "required": True, "choices": ["look", "plan", "prepare", "probe", "start", "poll", "stop", "collect", "judge"]},
    **{name: {"type": "str"} for name in ("look", "plan", "probe", "polled", "stopped", "collected")},
    "job": {"type": "int"},
    "directory": {"type": "str"},
    "libraries": {"type": "list", "elements": "str", "default": []},
}
FILLED: Dict[str, Any] = {"node": None, "hosts": "", "names": [], "cancel": None}


def look_at(host: Host, params: Dict[str, Any]) -> Dict[str, Any]:
    spec = Spec(params["spec"])
    user = spec["nccl_tests_user"] or spec["ssh_mesh_user"] or host.login()
    wanted = readiness.Wanted(
        user, params["directory"], tuple(params["libraries"]), tuple(spec["nccl_tests_collectives"]), spec["mpi_prefix"],
        {str(name): str(value) for name, value in spec["nccl_tests_environment"].items()})
    return {"seen": readiness.look(host, params["node"], spec, observe_identity(host, ancestors_connection_address(host)), wanted)}


def launch_of(params: Dict[str, Any]) -> job.Launch:
    wanted = params["launch"]
    return job.Launch(params["run"], params["user"], wanted["name"], [str(word) for word in wanted["argv"]],
                      {str(name): str(value) for name, value in wanted["environment"][params["node"]].items()}, int(wanted["seconds"]))


def step(host: Host, params: Dict[str, Any]) -> Dict[str, Any]:
    """The step that was asked for; its result."""
    mode = params["mode"]
    if mode == "look":
        return look_at(host, params)
    if mode == "prepare":
        run_directory.prepare(host, params["run"], params["user"], params["hosts"])
        return {}
    if mode == "probe":
        return job.run_probe(host, launch_of(params))
    if mode == "start":
        return job.begin(host, launch_of(params))
    if mode == "poll":
        return job.poll(host, params["run"], params["user"], params["launch"]["name"])
    if mode == "stop":
        found = job.stop(host, params["run"], params["user"], params["cancel"])
    else:
        found = collect(host, params["run"], params["user"], params["names"])
        found["notes"] += ["%s/%s stays behind" % (run_directory.directory_of(params["run"]), name) for name in found.pop("left")]
    return found


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, filled=FILLED, supports_check_mode=True)
    params = module.params
    if params["node"] is None or params["mode"] not in NODE_MODES:
        module.fail_json(msg="got no node: the action plugin did not run; call railwright.rdma.rdma_nccl_tests from a playbook")
    if module.check_mode and params["mode"] != "look":
        module.exit_json(changed=False, skipped=True)
    try:
        result = step(Host(), params)
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="nccl_tests %s: %s" % (params["mode"], error))
    for text in result.pop("notes", []):
        module.warn(text)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
