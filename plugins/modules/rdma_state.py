#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan or apply the RDMA state of one node; the logic is in module_utils."""

DOCUMENTATION = r"""
module: rdma_state
short_description: Plan or apply the RDMA state of a node
version_added: 0.1.0
author: The railwright developers (@railwright)
description:
  - Observes the node once, compares it with the wishes in the inventory, and returns every difference as a plan.
  - With O(mode=apply) the plan is carried out as one transaction. Every effect is journalled before it happens
    and everything is reverted when one of them fails or does not hold.
  - A change of networking is guarded on a node with systemd. The node reverts it by itself unless the action plugin comes back over a
    fresh connection and confirms it, within C(rdma_confirm_timeout_s) seconds of the inventory.
  - Packages are part of the plan but never installed by this module; the roles do that with M(ansible.builtin.apt)
    and M(ansible.builtin.dnf).
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.attributes.filled
options:
  mode:
    description:
      - Whether to return the plan only, or to carry it out.
      - V(confirm) keeps a change of networking that waits for its confirmation, and says what became of the run; V(outcome) only says so.
        The action plugin runs V(confirm) by itself after an apply.
      - V(explain) says which path the node's HCAs take to GPU memory, why, and why not the others. V(source) names the archive of
        nv_peer_mem that has to be on the node before DKMS can build it. V(container) reads what a container on the node needs, for
        C(railwright container flags). All three only read.
    type: str
    choices: [plan, apply, confirm, outcome, explain, source, container]
    default: plan
  areas:
    description:
      - The areas to inspect, from V(repositories), V(secure_boot), V(kernel), V(packages), V(dkms), V(stack), V(erdma),
        V(kernel_modules), V(gpu_driver), V(cuda), V(nccl_library), V(aiacc), V(mpi), V(gpudirect), V(gdrcopy), V(nic_firmware),
        V(pci_tuning), V(network), V(firewall), V(rxe), V(ipoib), V(roce_qos), V(limits), V(sysctl), V(cpu), V(irqs),
        V(node_code), V(agent),
        V(nccl), V(containers) and V(opensm). All of them when left out.
    type: list
    elements: str
  expected:
    description:
      - The keys of the plan that was shown and consented to. A change that is not among them stops the node
        before anything is changed (C(plan diverged)).
    type: list
    elements: str
  only:
    description:
      - Keys of the changes that are wanted. The plan is cut to them, and to what can be made without the rest.
      - A change that builds on one that is left out is left out too. RV(left) names every one of them. All changes when left out.
    type: list
    elements: str
  consented_only:
    description: Leave out what the host's C(rdma_consent) does not allow, in place of being refused for it.
    type: bool
    default: false
  run_id:
    description:
      - The name of the restore point under C(/var/lib/railwright/restore). Made from the time when left out.
      - With O(mode=confirm) and O(mode=outcome) the run that is meant.
    type: str
  image:
    description: Name of an image whose CUDA release is read, for O(mode=container). Default is C(containers_image).
    type: str
  job:
    description: With O(mode=container), nodes of a job in the order of their ranks; the first one's addresses of the inventory are added.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Returns exactly the plan that an apply would carry out.
  diff_mode:
    support: full
    description:
      - One diff for every change of the plan, made on the controller; values whose names say that they are secret are hidden.
      - Ansible shows a diff only of a task that changed. With C(--diff) and in check mode O(mode=plan) is therefore changed where an apply
        would change something; else it never is.
"""

EXAMPLES = r"""
- name: Show what a node needs
  railwright.rdma.rdma_state:
    mode: plan
  register: plan
  become: true

- name: Set the rails' addresses and MTU
  railwright.rdma.rdma_state:
    mode: apply
    areas: [network]
  become: true

- name: Set back the sysctls that somebody changed, and nothing else
  railwright.rdma.rdma_state:
    mode: apply
    only: "{{ drift.findings | selectattr('area', 'equalto', 'sysctl') | map(attribute='key') | list }}"
  become: true

- name: Keep by hand what the controller of that run could not confirm any more
  railwright.rdma.rdma_state:
    mode: confirm
    run_id: 20260101T120000Z
  become: true
"""

RETURN = r"""
plan:
  description:
    - Every change, in the order in which it is applied, with C(key) (area and subject, the same in every run), C(area), C(what), C(before),
      C(after) (null for what is absent, or is to be), C(disruption) (none, restart, link, repair, downgrade, reload, storage, management,
      secure_boot, firmware or reboot), C(why), C(source), C(subject) (C(kind) and C(name)), C(when) (now, or boot for what only the next
      boot meets) and C(rail).
  returned: by the modes plan and apply
  type: list
  elements: dict
summary:
  description: The same for people; a line with the node's name, then one for each change, problem, note and what was left out.
  returned: by the modes plan and apply
  type: list
  elements: str
problems:
  description: What makes the node unfit or the plan impossible; each has C(area), C(subject) and C(message).
  returned: by the modes plan and apply
  type: list
  elements: dict
before:
  description: The value found, by change key.
  returned: by the modes plan and apply
  type: dict
after:
  description: The value wanted, by change key.
  returned: by the modes plan and apply
  type: dict
erdma:
  description: Mode of eRDMA's driver that the inventory wants, and the letter of compat_mode that runs once the plan is applied; null
    where the fabric is another.
  returned: by the modes plan and apply
  type: dict
notes:
  description: What was left out on this node and why, such as modules that a container cannot load. Neither drift nor a problem.
  returned: by the modes plan and apply
  type: list
  elements: str
packages:
  description:
    - The package changes of the plan as the package modules of ansible.builtin take them. C(manager) is apt, dnf, yum, zypper or unknown.
      C(steps) are in the order in which they must be made, each with C(area), C(state) (uninstall, absent, replaced, file, unsigned or
      present) and C(names), with the exact version (or a glob of it) where one is pinned. C(needed) says whether there is anything to do,
      repositories included. C(downloads) must be there before, each with C(url), C(dest) and C(checksum), which is empty for a key, whose
      fingerprint is compared.
  returned: by the modes plan and apply
  type: dict
drivers:
  description: Kernel, stack, DKMS modules, GPU driver, firmware and peer memory of the node before any change, one line each.
  returned: for a plan of every area
  type: dict
reboot_needed:
  description: Keys of the changes that only a reboot makes effective; after an apply those that still wait for one.
  returned: by the modes plan and apply
  type: list
  elements: str
remaining:
  description:
    - Changes of the same form as RV(plan) that came to light only through this apply, such as those of a device
      that appeared when a module was loaded. They are not made; the next plan shows them.
  returned: by the modes plan and apply
  type: list
  elements: dict
left:
  description:
    - What O(only) and O(consented_only) cut off the plan; no part of RV(plan), and not made. Each has C(key), C(what), C(area) and
      C(disruption) as there, C(cause) (not asked, consent, or needs, where it builds on a change that is left out), C(reason) and C(needs),
      the key of that change. Empty without them.
  returned: by the modes plan and apply
  type: list
  elements: dict
only:
  description: The keys of the plan that was cut, for the apply of exactly that.
  returned: with O(only) or O(consented_only)
  type: list
  elements: str
confirm:
  description:
    - What became of a guarded change of networking, as C(state) (applied, reverted, rollback incomplete, rolled back, unconfirmed,
      applying, interrupted or none), C(run), C(changes) (keys), C(troubles) (what could not be reverted) and C(restore_point).
  returned: by an apply that changed networking, and by the modes confirm and outcome
  type: dict
reverted:
  description: The keys of the changes that the node reverted by itself because nobody confirmed them.
  returned: when that happened
  type: list
  elements: str
explanation:
  description: The path, the reason, the alternatives with what speaks against them, and the evidence with where it was read.
  returned: when O(mode=explain)
  type: dict
source:
  description: URL, sha256, directory and release of the archive; null where none is needed.
  returned: when O(mode=source)
  type: dict
container:
  description: Devices, HCAs, GPUs, driver, NUMA nodes, NCCL variables, addresses, runtimes, toolkit, CDI specifications and the image.
  returned: when O(mode=container)
  type: dict
restore_point:
  description: The journal on the node; empty when nothing was changed.
  returned: by the modes plan and apply
  type: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import STATE
from ansible_collections.railwright.rdma.plugins.module_utils.entry.state import answer


def main() -> None:
    serve(STATE, answer)


if __name__ == "__main__":
    main()
