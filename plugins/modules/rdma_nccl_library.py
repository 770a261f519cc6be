#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL from its wheel or its source below a prefix; the logic is in module_utils/nccl_prefix.py and nccl_prefix_node.py."""

DOCUMENTATION = r"""
module: rdma_nccl_library
short_description: Put NCCL from its wheel or its source below a prefix
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of C(prefix.yml) of the role C(nccl), which calls them in order; each one is of little use alone.
  - V(look) says which release belongs on this node, from which file with which checksum, and whether it lies there already. It refuses what
    cannot be had, and a file on the controller that is not the pinned one.
  - V(unpack) compares the file that was brought with its checksum and unpacks it beside its place. V(place) renames it once the library
    itself says that it is that release. V(link) makes C(current) lead to it. V(clean) takes away what a failed run began.
options:
  mode:
    description: Which step.
    type: str
    choices: [look, unpack, place, link, clean]
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
    - Version, directory, artifact, URL (null where the file comes from the controller), sha256, the file's place on the node, the command
      that builds a source, and whether it is missing there; null where the inventory wants none below a prefix, or the node has no GPU.
  returned: when O(mode=look)
  type: dict
notes:
  description: What was left out here and why.
  returned: when O(mode=look)
  type: list
  elements: str
"""

from typing import Any, Callable, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.nccl_prefix import Wanted, as_result, wanted
from ansible_collections.railwright.rdma.plugins.module_utils.nccl_prefix_node import clean, link, place, unpack
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

STEPS = {"unpack": unpack, "place": place, "link": link, "clean": clean}  # type: Dict[str, Callable[[Host, Wanted], None]]


def step(host, spec, mode, check):
    # type: (Host, Spec, str, bool) -> Dict[str, Any]
    library = wanted(host, spec, observe_identity(host, None))
    if mode == "look":
        found = as_result(library, host) if library is not None else None
        without = library is None and spec["nccl_install"] in ("wheel", "source")
        notes = ["nccl: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"] if without else []
        return {"changed": bool(check and found and found["needed"]), "library": found, "notes": notes}
    if library is not None and not check:
        STEPS[mode](host, library)
    return {"changed": library is not None and mode != "clean"}


def main():
    # type: () -> None
    modes = ["look", "unpack", "place", "link", "clean"]
    arguments = {"mode": {"type": "str", "choices": modes, "required": True}, "spec": {"type": "dict"}}
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    if module.params["spec"] is None:
        module.fail_json(msg="rdma_nccl_library got no spec: its action plugin did not run; call it as railwright.rdma.rdma_nccl_library")
    try:
        result = step(Host(), Spec(module.params["spec"]), module.params["mode"], module.check_mode)
    except RailwrightError as error:
        module.fail_json(msg="nccl: %s" % error)
    except OSError as error:
        module.fail_json(msg="nccl: %s: %s" % (error.filename, error.strerror))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
