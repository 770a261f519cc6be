#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a container on a node may be given, read in one look."""

DOCUMENTATION = r"""
module: rdma_containers
short_description: Look at what a container on a node needs for RDMA
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Reads the RDMA device nodes, HCAs, GPUs, NUMA nodes, container runtimes, CDI specifications and the NCCL variables of a node.
  - C(railwright container flags) makes command lines, a compose fragment or a pod of it. Nothing is changed.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled
options:
  image:
    description: Name of an image whose CUDA release is read, where a runtime of the node has that image. Default is C(containers_image).
    type: str
  job:
    description: The nodes of a job in the order of their ranks. The action plugin adds the first one's addresses of the inventory.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Look at what a container needs
  railwright.rdma.rdma_containers:
    image: registry.example.com/train:1
  become: true
  register: look
"""

RETURN = r"""
container:
  description: Devices, HCAs, GPUs, driver, NUMA nodes, NCCL variables, addresses, runtimes, toolkit, CDI specifications and the image.
  returned: success
  type: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import look
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

ARGUMENTS = {
    "image": {"type": "str"},
    "job": {"type": "list", "elements": "str", "default": []},
    "spec": {"type": "dict"},
}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    spec = module.params["spec"]
    if spec is None:
        module.fail_json(
            msg="rdma_containers got no spec: its action plugin did not run; call it as railwright.rdma.rdma_containers from a playbook")
    try:
        host = Host()
        found = look(host, Spec(spec), module.params["image"], ancestors_connection_address(host))
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="rdma_containers: %s" % error)
    module.exit_json(changed=False, container=found)


if __name__ == "__main__":
    main()
