#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_guarded action; Ansible's own modules do the work."""

DOCUMENTATION = r"""
module: rdma_guarded
short_description: Run a module of Ansible's on a node whose answer is not trusted
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Ansible takes facts, hosts and groups from any module's answer. Whoever is root on a node can send what he likes.
  - This runs the module, and takes from its answer only what the roles of this collection need, bounded in size and time.
  - The roles use it for every module that is not their own.
extends_documentation_fragment:
  - railwright.rdma.attributes
options:
  module:
    description: The module's full name.
    type: str
    choices:
      - ansible.builtin.apt
      - ansible.builtin.command
      - ansible.builtin.copy
      - ansible.builtin.dnf
      - ansible.builtin.file
      - ansible.builtin.get_url
      - ansible.builtin.raw
      - ansible.builtin.reboot
      - ansible.builtin.slurp
      - ansible.builtin.stat
      - ansible.builtin.systemd_service
      - ansible.builtin.unarchive
      - ansible.builtin.wait_for_connection
    required: true
  args:
    description: Its options. C(src) of M(ansible.builtin.copy) is not among them.
    type: dict
    default: {}
  src_key:
    description: For M(ansible.builtin.copy), the key of the inventory that names the file on the controller.
    type: str
    choices: [aiacc_archive]
attributes:
  check_mode:
    description: As the module does.
  diff_mode:
    support: full
    description: As the module does.
"""

EXAMPLES = r"""
- name: Make a directory
  railwright.rdma.rdma_guarded:
    module: ansible.builtin.file
    args:
      path: /var/cache/railwright/packages
      state: directory
      mode: "0755"
  become: true
"""

RETURN = r"""
rc:
  description: Exit status of what the module ran.
  returned: where the module says it
  type: int
stdout:
  description: The end of what that printed.
  returned: where the module says it
  type: str
stderr:
  description: The end of what that printed as errors.
  returned: where the module says it
  type: str
failures:
  description: What M(ansible.builtin.dnf) could not do.
  returned: with O(module=ansible.builtin.dnf)
  type: list
  elements: str
content:
  description: The file in base64.
  returned: with O(module=ansible.builtin.slurp)
  type: str
stat:
  description: Whether the file is there, as C(exists).
  returned: with O(module=ansible.builtin.stat)
  type: dict
rebooted:
  description: Whether the node has rebooted.
  returned: with O(module=ansible.builtin.reboot)
  type: bool
"""
