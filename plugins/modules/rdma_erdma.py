#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The source of Alibaba's eRDMA driver for DKMS; the logic is in module_utils/areas/erdma/unpack.py."""

DOCUMENTATION = r"""
module: rdma_erdma
short_description: Bring the source of Alibaba's eRDMA driver to where DKMS looks for it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps of C(driver.yml) of the role C(erdma), which calls them in order; each one is of little use alone.
  - V(look) names the archive that has to be on the node before DKMS can build the driver. V(unpack) compares the archive that was brought
    with its checksum and puts the driver's source into C(/usr/src); nothing of the archive is run. V(clean) takes away the archive.
options:
  mode:
    description: Which step.
    type: str
    choices: [look, unpack, clean]
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
    description: A source tree has no text to show.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with GNU coreutils and tar.
"""

EXAMPLES = r"""
- name: Look which archive is missing
  railwright.rdma.rdma_erdma:
    mode: look
  become: true
  register: source
"""

RETURN = r"""
source:
  description:
    - Version, artifact, URL, sha256 and directory of the source, the archive's place on the node, and whether the source is missing there;
      null where none is wanted.
  returned: when O(mode=look)
  type: dict
"""

from typing import Any, Dict

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.unpack import clean, look, unpack, wanted
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

ARGUMENTS = {
    "mode": {"type": "str", "choices": ["look", "unpack", "clean"], "required": True},
    "spec": {"type": "dict"},
}
STEPS = {"unpack": unpack, "clean": clean}


def step(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """The result of one step."""
    source = wanted(host, Spec(params["spec"]))
    if params["mode"] == "look":
        return {"source": look(host, source) if source is not None else None, "changed": False}
    if source is not None and not check:
        STEPS[params["mode"]](host, source)
    return {"changed": source is not None and params["mode"] == "unpack"}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.params["spec"] is None:
        module.fail_json(msg="rdma_erdma got no spec: its action plugin did not run; call it as railwright.rdma.rdma_erdma from a playbook")
    try:
        result = step(Host(), module.params, bool(module.check_mode))
    except RailwrightError as error:
        module.fail_json(msg="erdma: %s" % error)
    except OSError as error:
        module.fail_json(msg="erdma: %s: %s" % (error.filename, error.strerror))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
