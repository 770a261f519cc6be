#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What lies below a versioned prefix; the logic is in module_utils/prefix."""

DOCUMENTATION = r"""
module: rdma_prefix
short_description: Install a release below a versioned prefix
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Every release has a directory of its own, written once and never changed. It is made in a temporary directory from files that are
    held to their sha256, verified, renamed, and named by the link C(current). An error leaves nothing of it on the node.
  - Which release belongs on a node, and from which file, is the inventory's to say. A file on the controller that is not the pinned one
    never leaves it.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  product:
    description:
      - V(nccl) is NCCL from its wheel or its source, V(hpcx) HPC-X from its archive, V(ai_environment) a Python environment with torch.
      - V(erdma_driver) is the source of Alibaba's eRDMA driver, where DKMS looks for it; nothing of the archive is run.
      - V(nccl_tests) is built once, without root's rights, and brought to every node of the play; the role C(nccl_tests) calls its modes.
    type: str
    choices: [nccl, hpcx, nccl_tests, ai_environment, erdma_driver]
    required: true
  mode:
    description:
      - V(inspect) says what belongs on this node and whether it is there, and refuses what cannot be had. V(apply) makes what is missing;
        O(product=nccl_tests) has all modes but this one, and the other products these two.
      - The modes of V(nccl_tests) are steps of the role C(nccl_tests), each of little use alone. Each reads what those before it gave from
        the variables C(__nccl_tests_build_MODE), in which the role registers them.
    type: str
    choices: [inspect, apply, plan, state, choose, build, fetch, give, forget, verify]
    required: true
attributes:
  check_mode:
    description: Inspects, and says whether something would change.
  diff_mode:
    description: An installation has no text to show.
  platform:
    description: Linux nodes with glibc, GNU coreutils, findutils and tar.
"""

EXAMPLES = r"""
- name: Install the NCCL that the inventory asks for
  railwright.rdma.rdma_prefix:
    product: nccl
    mode: apply
  become: true

- name: Inspect the Python environment of jobs
  railwright.rdma.rdma_prefix:
    product: ai_environment
    mode: inspect
  become: true
  register: environment
"""

RETURN = r"""
release:
  description:
    - Directory, version, artifact, URL (null where the file comes from the controller), sha256, the file's place on the node, whether it is
      missing, and whether that or the link C(current) needs a change; null where the inventory wants none here.
    - Of O(product=ai_environment) kind, directory, its Python, what is broken, the wheels that it wants, and what torch said of itself.
  returned: when O(mode=inspect) or O(mode=apply), of all products but V(nccl_tests)
  type: dict
product:
  description: As it was asked for.
  returned: with RV(release)
  type: str
plan:
  description: What would change, or has changed, in the form of a plan; filled for O(product=ai_environment).
  returned: with RV(release)
  type: list
  elements: dict
drivers:
  description: The Python environment, torch and its NCCL, one line each.
  returned: with RV(release)
  type: dict
notes:
  description: What was left out here and why, and what is kept beside it.
  returned: with RV(release)
  type: list
  elements: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import answer


def main() -> None:
    serve(PREFIX, answer)


if __name__ == "__main__":
    main()
