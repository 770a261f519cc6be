#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the rdma_preflight action; it needs no Python on the node."""

DOCUMENTATION = r"""
module: rdma_preflight
short_description: Judge whether a node may be worked on, without Python on it
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Checks the host's variables first; a wrong one fails the host by name before the node is contacted.
  - Asks the node in one shell round trip for its operating system, kernel, Python interpreters, user, clock and free
    space, and fails the host with everything that forbids to work on it, in one message.
  - A node without Python does not fail. It is reported in RV(python_missing), with the commands that install Python.
  - A Python that this controller's ansible-core cannot use fails, and the message names the ansible-core that can.
  - Installs nothing and never escalates by itself; use C(become) on the task as usual.
extends_documentation_fragment:
  - railwright.rdma.attributes
attributes:
  platform:
    description: Any node with a POSIX shell.
"""

EXAMPLES = r"""
- name: Inspect the node before anything else
  railwright.rdma.rdma_preflight:
  register: preflight
  become: true

- name: Install Python where there is none
  ansible.builtin.raw: "{{ preflight.bootstrap_command }}"
  become: true
  changed_when: true
  when: preflight.python_missing
"""

RETURN = r"""
python_missing:
  description: Whether the node has no Python that runs.
  returned: when the node answered
  type: bool
python:
  description: The interpreter that fits best, with its path; null when there is none.
  returned: when the node answered
  type: str
  sample: Python 3.11.2 (/usr/bin/python3)
interpreter:
  description: The path of that interpreter, which Ansible uses from then on where the inventory names none.
  returned: when the node answered
  type: str
  sample: /usr/bin/python3
bootstrap_argv:
  description: The commands that install Python, in order; empty when there is one.
  returned: when the node answered
  type: list
  elements: list
bootstrap_command:
  description: The same as one line for M(ansible.builtin.raw).
  returned: when the node answered
  type: str
platform:
  description: What the operating system says of itself.
  returned: when the node answered
  type: dict
kernel:
  description: The running kernel.
  returned: when the node answered
  type: str
  sample: 6.1.0-26-amd64
problems:
  description: What forbids to work on the node; each has C(area), C(subject) and C(message).
  returned: when the node answered
  type: list
  elements: dict
"""
