#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUDirect RDMA of one node: explain the choice, name the source that is missing, prove it with traffic."""

DOCUMENTATION = r"""
module: rdma_gdr
short_description: Explain, prepare and prove GPUDirect RDMA on a node
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - With O(mode=traffic) runs C(ib_write_bw) between the memory of a GPU and an HCA of the same node, for every pair that is near
    on the PCIe tree, and judges it. Server and client run on the node and end by themselves after a bounded time.
  - Where perftest is built without CUDA, or without DMA-BUF where that is the path, the verdict is V(unproven), never V(pass).
  - With O(mode=explain) says which path the node's HCAs take to GPU memory, why, and why not the others.
  - With O(mode=source) names the archive of nv_peer_mem that has to be on the node before DKMS can build it.
options:
  mode:
    description: What to do.
    type: str
    choices: [explain, source, traffic]
    default: traffic
  check:
    description: The variable under which the result of M(railwright.rdma.rdma_check) was registered. Needed with O(mode=traffic).
    type: str
  node:
    description: The node's name in the inventory. The action plugin fills it; do not set it.
    type: str
  spec:
    description: The validated wishes for this host. The action plugin fills it from the inventory; do not set it.
    type: dict
  path:
    description: The path that the node takes. The action plugin fills it; do not set it.
    type: str
  pairs:
    description: GPUs and HCAs to measure. The action plugin fills it; do not set it.
    type: list
    elements: dict
    default: []
  options:
    description: Sizes and times. The action plugin fills it from the inventory; do not set it.
    type: dict
  port:
    description: TCP port of the exchange. The action plugin fills it from the inventory; do not set it.
    type: int
  minimum:
    description: Least bandwidth in Gb/s. The action plugin fills it from the inventory; do not set it.
    type: float
attributes:
  check_mode:
    support: full
    description: Nothing is measured in check mode; the other modes only read.
  diff_mode:
    support: none
    description: Changes nothing that lasts.
  platform:
    platforms: linux
    support: full
    description: Linux nodes.
"""

EXAMPLES = r"""
- name: Judge every node by itself
  railwright.rdma.rdma_check:
  become: true
  register: check

- name: Prove GPUDirect RDMA with traffic
  railwright.rdma.rdma_gdr:
    check: check
  become: true
"""

RETURN = r"""
verdicts:
  description: One verdict C(gpudirect.traffic) for every pair, as M(railwright.rdma.rdma_check) returns them.
  returned: when O(mode=traffic)
  type: list
  elements: dict
explanation:
  description: The path, the reason, the alternatives with what speaks against them, and the evidence with where it was read.
  returned: when O(mode=explain)
  type: dict
source:
  description: URL, sha256, directory and release of the archive; null where none is needed.
  returned: when O(mode=source)
  type: dict
"""

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain, needed_source
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure import gdr
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts

ARGUMENTS = {
    "mode": {"type": "str", "choices": ["explain", "source", "traffic"], "default": "traffic"},
    "check": {"type": "str"},
    "node": {"type": "str"},
    "spec": {"type": "dict"},
    "path": {"type": "str"},
    "pairs": {"type": "list", "elements": "dict", "default": []},
    "options": {"type": "dict"},
    "port": {"type": "int"},
    "minimum": {"type": "float"},
}


def step(host: Host, params: Dict[str, Any]) -> Dict[str, Any]:
    """What was asked for; its result."""
    if params["mode"] == "explain":
        return {"explanation": explain(host, Spec(params["spec"]))}
    if params["mode"] == "source":
        return {"source": needed_source(host, Spec(params["spec"]))}
    pairs, options = gdr.pairs_from(params["pairs"]), gdr.options_from(params["options"])
    verdicts = gdr.measure(host, params["node"], params["path"], pairs, options, params["port"], params["minimum"])
    return {"verdicts": as_dicts(verdicts)}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if module.check_mode and params["mode"] == "traffic":
        module.exit_json(changed=False, skipped=True, verdicts=[])
    if params["spec"] is None and (params["mode"] != "traffic" or params["options"] is None):
        module.fail_json(msg="rdma_gdr got no spec: its action plugin did not run; call it as railwright.rdma.rdma_gdr from a playbook")
    try:
        result = step(Host(), params)
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="rdma_gdr %s: %s" % (params["mode"], error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
