#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the RDMA side of one node; the logic is in module_utils, the schema in docs/reference/facts.md."""

DOCUMENTATION = r"""
module: rdma_facts
short_description: Observe the RDMA devices and settings of a node, or the processes of a job
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Reads what the kernel, the package database and verbs tell about RDMA on a node and returns it as one object.
  - Works with InfiniBand, RoCE, iWARP, eRDMA, Soft-RoCE, bonded and multi-port devices of any vendor.
  - Nothing is changed and nothing is judged. What cannot be read is null; the module does not fail for it.
  - A handful of commands run on the node (C(ibv_devinfo -v), C(ip -j addr), C(rpm -q) on rpm systems, C(systemctl show),
    C(uname -m) before Linux 6.1).
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description:
      - V(facts) observes the node; V(job) asks the scheduler of this host for the nodes of a job.
      - V(ranks) looks at the processes of a job several times, and says what each does, waits in, sends and leaves unread; nothing is
        stopped, traced or signalled (docs/diagnose.md).
    type: str
    choices: [facts, job, ranks]
    default: facts
  scheduler:
    description: Of O(mode=job), slurm or kubernetes.
    type: str
  job:
    description: The job as its scheduler names it. With O(mode=ranks) a Slurm job's number.
    type: str
  process:
    description: Of O(mode=ranks) without a job, the name of a program or a script.
    type: str
  uid:
    description: Of O(mode=ranks), whose processes alone are looked at.
    type: int
  pods:
    description: Of O(mode=ranks), the uids of a job's pods.
    type: list
    elements: str
    default: []
  seconds:
    description: Of O(mode=ranks), for how long, 1 to 600.
    type: int
    default: 10
notes:
  - C(active_mtu) is not in sysfs. It is null where C(ibv_devinfo) is not installed; it is never computed from the
    MTU of an interface.
  - Reading all of it needs root; an ordinary user gets null for what the kernel hides.
seealso:
  - module: railwright.rdma.rdma_state
"""

EXAMPLES = r"""
- name: Observe the node
  railwright.rdma.rdma_facts:
  register: observed
  become: true

- name: Show the ports that are not up
  ansible.builtin.debug:
    msg: "{{ item.0.name }} port {{ item.1.number }} is {{ item.1.state }} ({{ item.1.phys_state }})"
  loop: "{{ observed.rdma.hcas | subelements('ports') }}"
  when: item.1.state != 'ACTIVE'
  loop_control:
    label: "{{ item.0.name }}/{{ item.1.number }}"
"""

RETURN = r"""
summary:
  description: For people; the operating system, then what drives the node, and a line a port.
  returned: with O(mode=facts)
  type: list
  elements: str
rdma:
  description: The facts object; every key is documented in C(docs/reference/facts.md). Also set as C(ansible_facts.rdma).
  returned: with O(mode=facts)
  type: dict
job:
  description: Its C(id), C(state), C(uid) of the owner, C(pods), and C(nodes) with C(name), C(down) and the scheduler's C(raw) word.
  returned: with O(mode=job)
  type: dict
ranks:
  description: What was seen of each of the job's C(ranks) here, the growth of C(counters) meanwhile, and C(xids).
  returned: with O(mode=ranks)
  type: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.facts import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import FACTS


def main() -> None:
    serve(FACTS, answer)


if __name__ == "__main__":
    main()
