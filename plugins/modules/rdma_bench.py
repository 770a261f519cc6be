#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of both benchmarks on a node; the logic is in module_utils/measure."""

DOCUMENTATION = r"""
module: rdma_bench
short_description: Run nccl-tests or a training benchmark over the nodes and judge them
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of the roles C(nccl_tests) and C(ddp_benchmark), which call them in order; each one is of little use alone. A step reads what
    those before it gave, of all nodes, from the variables C(__nccl_tests_MODE) and C(__ddp_benchmark_MODE), in which the roles register
    them. Only the judgement is for others; see docs/bench.md.
  - A job ends by itself after its time limit, and when nobody has polled it for minutes. What belongs to a run is ended on every node, and
    nothing else.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  benchmark:
    description: V(nccl_tests), or V(ddp) for data-parallel training through torchrun.
    type: str
    choices: [nccl_tests, ddp]
    required: true
  mode:
    description:
      - Which step; V(prepare), V(probe) and V(pairs) are those of V(nccl_tests) alone. V(pairs) is for C(railwright isolate), which asks
        for it over its own connection; no playbook can.
    type: str
    choices: [inspect, plan, prepare, probe, pairs, start, poll, stop, collect, judge]
    required: true
  job:
    description: Number of the job in the plan, from 0. For V(start) and V(poll) of V(nccl_tests).
    type: int
    default: 0
  age:
    description: V(poll) of V(ddp) is over when the job is so many seconds old.
    type: int
  directory:
    description: Where C(all_reduce_perf) and the others lie on this node. For V(inspect) of V(nccl_tests).
    type: str
  libraries:
    description: Directories of C(LD_LIBRARY_PATH) of the jobs. For V(inspect) of V(nccl_tests).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Looks and plans, and starts nothing.
  platform:
    description: Linux nodes with NVIDIA GPUs, or with PyTorch 1.10 or newer.
"""

EXAMPLES = r"""
- name: Inspect torch and its devices
  railwright.rdma.rdma_bench:
    benchmark: ddp
    mode: inspect
  become: true
  register: __ddp_benchmark_inspect

- name: Plan the job over all nodes
  railwright.rdma.rdma_bench:
    benchmark: ddp
    mode: plan
  run_once: true
  register: __ddp_benchmark_plan
"""

RETURN = r"""
verdicts:
  description: The verdicts, as M(railwright.rdma.rdma_check) returns them.
  returned: when O(mode=judge)
  type: list
  elements: dict
summary:
  description: Number of verdicts by status, of V(nccl_tests) for each node.
  returned: when O(mode=judge)
  type: dict
pairs:
  description: Of each pair of nodes the answers to its questions, with C(figures) in GB/s, or C(why) there are none.
  returned: when O(mode=pairs)
  type: list
  elements: list
bench:
  description: The document of the run; docs/bench.md has its form.
  returned: when O(mode=judge) of V(nccl_tests)
  type: dict
ddp:
  description: The document of the training; docs/bench.md has its form.
  returned: when O(mode=judge) of V(ddp)
  type: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.bench import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import BENCH


def main() -> None:
    serve(BENCH, answer)


if __name__ == "__main__":
    main()
