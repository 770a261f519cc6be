#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests on every node: built once where a compiler is, the same programs everywhere."""

DOCUMENTATION = r"""
module: rdma_nccl_build
short_description: Build nccl-tests once and bring it to every node
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - The steps at the beginning of the role C(nccl_tests), which calls them in order; each one is of little use alone.
  - V(look) says which GPUs, compilers and libraries a node has; V(plan) decides on the controller what is built, where and for which GPUs.
  - V(state) says what lies in the directory already; V(choose) decides on the controller who builds and who gets a copy.
  - V(bring) downloads the source, or copies it from the controller. V(build) compiles without root's rights, V(pack) makes one file of it.
  - V(fetch) brings that file to the controller, V(give) to another node, V(forget) removes it on the controller. All its paths are the
    controller's. V(unpack) puts it in place, V(verify) compares every program with the builder's checksums. What was compiled, and
    the programs below C(mpi_prefix), are started and looked at without root's rights too.
options:
  mode:
    description: Which step.
    type: str
    choices: [look, plan, state, choose, bring, build, pack, fetch, give, forget, unpack, verify]
    required: true
  seen:
    description: The variable under which the result of V(look) was registered.
    type: str
  plan:
    description: The variable under which the result of V(plan) was registered.
    type: str
  state:
    description: The variable under which the result of V(state) was registered.
    type: str
  choice:
    description: The variable under which the result of V(choose) was registered.
    type: str
  made:
    description: The variable under which the result of V(build) was registered.
    type: str
  packed:
    description: The variable under which the result of V(pack) was registered.
    type: str
  carried:
    description: The variable under which the result of V(fetch) was registered.
    type: str
  arguments:
    description: What the step works on. The action plugin fills it from the inventory and the results of other hosts; do not set it.
    type: dict
attributes:
  check_mode:
    support: full
    description: Looks and decides; builds, packs and unpacks nothing, and says that it would.
  diff_mode:
    support: none
    description: Programs have no text to show.
  platform:
    platforms: linux
    support: full
    description: Linux nodes with GNU coreutils and tar.
"""

EXAMPLES = r"""
- name: Look for GPUs, compilers and libraries
  railwright.rdma.rdma_nccl_build:
    mode: look
  become: true
  register: seen

- name: Decide what is built, where, and for which GPUs
  railwright.rdma.rdma_nccl_build:
    mode: plan
    seen: seen
  run_once: true
  register: planned
"""

RETURN = r"""
node:
  description: GPUs with their compute capability, nvcc, NCCL, MPI, tools that are missing, directories for LD_LIBRARY_PATH, the NFS mount.
  returned: when O(mode=look)
  type: dict
build:
  description: Directory, builder, recipe (versions, kinds of GPU, key), toolchain and source.
  returned: when O(mode=plan)
  type: dict
programs:
  description: sha256 of every program in the directory, by name.
  returned: when O(mode=state)
  type: dict
manifest:
  description: What lies beside the programs and says what they were built with; null where there is none.
  returned: when V(state) or V(build) ran
  type: dict
choice:
  description: Who has the build, whether it is to be made, who gets a copy, and what is to be told.
  returned: when O(mode=choose)
  type: dict
carried:
  description: The directory of the controller that holds the packed build.
  returned: when O(mode=fetch)
  type: str
sha256:
  description: Its checksum.
  returned: when O(mode=pack)
  type: str
directory:
  description: Where the programs lie on this node.
  returned: when O(mode=verify)
  type: str
library_path:
  description: Directories for LD_LIBRARY_PATH on this node.
  returned: when O(mode=verify)
  type: list
  elements: str
"""

import os
from typing import Any, Dict, Sequence

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.processes import account, as_user
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import install, mount, toolchain

NAMES = ("seen", "plan", "state", "choice", "made", "packed", "carried")
ARGUMENTS: Dict[str, Any] = dict({
    "mode": {"type": "str", "required": True, "choices": [
        "look", "plan", "state", "choose", "bring", "build", "pack", "fetch", "give", "forget", "unpack", "verify"]},
    "arguments": {"type": "dict"},
}, **{name: {"type": "str"} for name in NAMES})


def without_rights(host: Host, given: Dict[str, Any]) -> Sequence[str]:
    """The words before the command line of a program that may be another user's: it runs with the rights that the compiler gets."""
    who = install.compile_account(host, given.get("user") or os.environ.get("SUDO_USER"))
    return () if who.uid is None else as_user(host, account(who.name), ())


def look(host: Host, given: Dict[str, Any]) -> Dict[str, Any]:
    found = toolchain.look(
        host, os.uname().machine, given["cuda_version"], given["nccl_prefix"], given["nccl_origin"], given["mpi_prefix"],
        given["mpi_install"], without_rights(host, given))
    found["mount"] = mount.look(host, given["nfs"], given["path"]) if given["nfs"] else None
    return {"changed": False, "node": found}


def verify(host: Host, given: Dict[str, Any]) -> Dict[str, Any]:
    """A node without GPU runs nothing, so what its libraries lack is no matter."""
    if given["programs"]:
        install.verify(host, given["directory"], given["programs"])
    if given["gpus"] and not given["pending"]:
        program = "%s/%s" % (given["directory"], given["first"])
        missing = toolchain.unresolved(host, program, given["library_path"], without_rights(host, given))
        if missing:
            raise RailwrightError("%s does not start here: %s" % (program, ", ".join(missing)))
    return {"changed": False, "library_path": given["library_path"]}


def step(host: Host, mode: str, given: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """What was asked for; its result."""
    if mode == "look":
        return look(host, given)
    if mode == "verify":
        return verify(host, given)
    if mode == "state":
        return dict(toolchain.state(host, given["directory"]), changed=False)
    if dry:
        return {"changed": True, "manifest": None}
    if mode == "build":
        account = install.compile_account(host, given["user"] or os.environ.get("SUDO_USER"))
        made = install.Builder(host, account, given["node"], given["build"]).run(given["archive"])
        return dict(made, changed=True)
    if mode == "pack":
        return dict(install.pack(host, given["directory"], given["archive"]), changed=False)
    install.unpack(host, given["archive"], given["sha256"], given["directory"], given["programs"])
    return {"changed": True}


def main() -> None:
    module = NodeModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params["arguments"]
    if given is None:
        module.fail_json(msg="rdma_nccl_build: its action plugin did not run; call it as railwright.rdma.rdma_nccl_build from a playbook")
    try:
        result = step(Host(), module.params["mode"], given, bool(module.check_mode))
    except (RailwrightError, OSError) as error:
        module.fail_json(msg="nccl_tests: %s" % error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
