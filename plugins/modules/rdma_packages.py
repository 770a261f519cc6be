#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove the package steps of a plan before they happen, or explain why they failed; the logic is in module_utils/plan/packages."""

DOCUMENTATION = r"""
module: rdma_packages
short_description: Prove the package steps of a plan on the node, without changing it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - With O(mode=check), puts the sources, pins and keyrings of the plan into a private directory of the node, reads the indexes there and
    lets the node's own apt or dnf resolve every step against the real package database. Every package is downloaded and verified, and left
    in the package manager's cache. The private directory is removed afterwards.
  - Fails with one line, before anything has changed, for a signing key that is not the pinned one, an index or a package that is not what
    was signed, a package or version that no repository has, unmet dependencies, removals that the plan does not hold, held packages, a lock
    that somebody holds for too long, a full disk, and a repository that cannot be read.
  - With O(mode=failed), always fails. It makes one line out of the error of a package task and adds the end of the log of the DKMS build
    that broke, where one did.
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description: Whether to prove the steps, or to explain an error.
    type: str
    choices: [check, failed]
    default: check
  plan:
    description: The registered result of M(railwright.rdma.rdma_state) that holds the plan.
    type: dict
  error:
    description: The result of the task that failed (RV(ignore:ansible_failed_result)), for O(mode=failed).
    type: dict
  after_file:
    description:
      - Prove the steps that come after the installation of a package file which brings a repository of its own (offline package).
        Before it, only the steps up to the file can be proved, and RV(later) says that there are more.
    type: bool
    default: false
  download:
    description:
      - Whether O(mode=check) downloads the packages too. Without it everything else is proved, the room for them included, and nothing
        stays on the node.
    type: bool
    default: true
attributes:
  check_mode:
    description: Does nothing in check mode. The plan has named every package already, and nothing has been downloaded.
  platform:
    description: Linux nodes with apt or dnf. With another package manager the steps are returned as they are, without a dry run.
"""

EXAMPLES = r"""
- name: Prove the package steps
  railwright.rdma.rdma_packages:
    plan: "{{ plan }}"
  become: true
  register: proof
"""

RETURN = r"""
steps:
  description:
    - The steps of the plan with the versions that the dry run found out, in the form of RV(railwright.rdma.rdma_state#module:packages).
  returned: success
  type: list
  elements: dict
explains:
  description: That the message is about another task, whose own it stands for in reports.
  returned: with O(mode=failed)
  type: bool
later:
  description: Whether steps are left for O(after_file=true).
  returned: success
  type: bool
resolved:
  description: Everything that the steps change, dependencies included; each has C(name), C(from), C(to) and C(origin).
  returned: success
  type: list
  elements: dict
  sample: [{"name": "doca-ofed", "from": null, "to": "3.2.3-019000", "origin": "DOCA-HOST:stable"}]
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PACKAGES
from ansible_collections.railwright.rdma.plugins.module_utils.entry.packages import answer


def main() -> None:
    serve(PACKAGES, answer)


if __name__ == "__main__":
    main()
