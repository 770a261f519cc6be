#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""HPC-X below its prefix; the logic is in module_utils/prefix/hpcx.py."""

DOCUMENTATION = r"""
module: rdma_hpcx
short_description: Put HPC-X from its archive below a prefix
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of C(prefix.yml) of the role C(mpi), which calls them in order; each one is of little use alone.
  - V(look) says which release belongs on this node, from which archive with which checksum, and whether it lies there already. It refuses
    what cannot be had, and an archive on the controller that is not the pinned one.
  - V(unpack) compares the archive that was brought with its checksum and unpacks it beside its place. V(place) renames it once its own
    mpirun has answered. V(link) makes C(current) lead to it. V(clean) takes away what a failed run began.
options:
  mode:
    description: Which step.
    type: str
    choices: [look, bring, unpack, build, place, link, clean]
    required: true
  spec:
    description: The validated wishes for this host. The action plugin fills it from the inventory; do not set it.
    type: dict
attributes:
  check_mode:
    support: full
    description: Looks, and says whether something would change.
  diff_mode:
    support: none
    description: An installation has no text to show.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with GNU coreutils, tar and bzip2.
"""

EXAMPLES = r"""
- name: Look which HPC-X belongs below the prefix
  railwright.rdma.rdma_hpcx:
    mode: look
  become: true
  register: wanted
"""

RETURN = r"""
hpcx:
  description:
    - Version, directory, artifact, URL (null where the archive comes from the controller), sha256, the archive's place on the node, and
      whether it is missing there; null where the inventory wants no HPC-X.
  returned: when O(mode=look)
  type: dict
"""

from typing import Any, Dict, Optional

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import ARGUMENTS, Below, run_below
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.hpcx import Wanted, as_result, clean, link, place, unpack, wanted
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec


def release(host: Host, spec: Spec) -> Optional[Wanted]:
    return wanted(spec, observe_identity(host, None))


def look(host: Host, _spec: Spec, hpcx: Optional[Wanted]) -> Dict[str, Any]:
    return {"hpcx": as_result(host, hpcx) if hpcx is not None else None}


BELOW = Below("rdma_hpcx", "mpi", release, "hpcx", look, {"unpack": unpack, "place": place, "link": link, "clean": clean})


def main() -> None:
    run_below(NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True), BELOW)


if __name__ == "__main__":
    main()
