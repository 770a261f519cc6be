#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL from its wheel or its source below a prefix; the logic is in module_utils/prefix."""

DOCUMENTATION = r"""
module: rdma_nccl_library
short_description: Put NCCL from its wheel or its source below a prefix
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of C(prefix.yml) of the role C(nccl), which calls them in order; each one is of little use alone.
  - V(look) says which release belongs on this node, from which file with which checksum, and whether it lies there already. It refuses what
    cannot be had, and a file on the controller that is not the pinned one.
  - V(bring) downloads the file or copies it from the controller; V(build) builds a source.
  - V(unpack) compares the file that was brought with its checksum and unpacks it beside its place. V(place) renames it once the library
    itself says that it is that release. V(link) makes C(current) lead to it. V(clean) takes away what a failed run began.
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
    description: A library has no text to show.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with GNU coreutils and tar.
"""

EXAMPLES = r"""
- name: Look which NCCL belongs below the prefix
  railwright.rdma.rdma_nccl_library:
    mode: look
  become: true
  register: wanted
"""

RETURN = r"""
library:
  description:
    - Version, directory, artifact, URL (null where the file comes from the controller), sha256, the file's place on the node, and
      whether it is missing there; null where the inventory wants none below a prefix, or the node has no GPU.
  returned: when O(mode=look)
  type: dict
notes:
  description: What was left out here and why.
  returned: when O(mode=look)
  type: list
  elements: str
"""

from typing import Any, Dict, Optional

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import ARGUMENTS, Below, run_below
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl import Wanted, as_result, wanted
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_install import build, clean, link, place, unpack
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec


def release(host: Host, spec: Spec) -> Optional[Wanted]:
    return wanted(host, spec, observe_identity(host, None))


def look(host: Host, spec: Spec, library: Optional[Wanted]) -> Dict[str, Any]:
    without = library is None and spec["nccl_install"] in ("wheel", "source")
    notes = ["nccl: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"] if without else []
    return {"library": as_result(library, host) if library is not None else None, "notes": notes}


BELOW = Below("rdma_nccl_library", "nccl", release, "library", look, {
    "unpack": unpack, "build": build, "place": place, "link": link, "clean": clean})


def main() -> None:
    run_below(NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True), BELOW)


if __name__ == "__main__":
    main()
