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
    and everything is taken back when one of them fails or does not hold.
  - A change of networking is guarded on a node with systemd. The node takes it back by itself unless the action plugin comes back over a
    fresh connection and confirms it, within C(rdma_confirm_timeout_s) seconds of the inventory.
  - Packages are part of the plan but never installed by this module; the roles do that with M(ansible.builtin.apt)
    and M(ansible.builtin.dnf).
extends_documentation_fragment:
  - railwright.rdma.attributes
  - railwright.rdma.filled
  - railwright.rdma.filled.now
options:
  mode:
    description:
      - Whether to return the plan only, or to carry it out.
      - V(confirm) keeps a change of networking that waits for its confirmation, and says what became of the run; V(outcome) only says so.
        The action plugin runs V(confirm) by itself after an apply.
      - V(explain) says which path the node's HCAs take to GPU memory, why, and why not the others. V(source) names the archive of
        nv_peer_mem that has to be on the node before DKMS can build it. Both only read.
    type: str
    choices: [plan, apply, confirm, outcome, explain, source]
    default: plan
  areas:
    description:
      - The areas to look at, from V(repositories), V(kernel), V(packages), V(dkms), V(stack), V(erdma), V(kernel_modules),
        V(gpu_driver), V(cuda), V(nccl_library), V(aiacc), V(mpi), V(gpudirect), V(nic_firmware), V(pci_tuning), V(network),
        V(firewall), V(rxe), V(ipoib), V(roce_qos), V(limits), V(sysctl), V(cpu), V(nccl), V(containers) and V(opensm). All of them
        when left out.
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
  confirm_seconds:
    description:
      - How long the node waits for the confirmation of a change of networking before it takes it back; 0 leaves it unguarded. The action
        plugin fills it from the inventory; do not set it, as only a caller that comes back may ask for it.
    type: int
    default: 0
  confirm_token:
    description: The name by which the action plugin asks for its own run again. Do not set it.
    type: str
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
    only: "{{ rdma_drift.findings | selectattr('area', 'equalto', 'sysctl') | map(attribute='key') | list }}"
  become: true

- name: Keep by hand what the controller of that run could not confirm any more
  railwright.rdma.rdma_state:
    mode: confirm
    run_id: 20260101T120000Z
  become: true
"""

RETURN = r"""
plan:
  description: Every change, in the order in which it is applied.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: Area and subject; the same drift has the same key in every run.
      type: str
      sample: "network: MTU of rail0 (eth1)"
    area:
      description: The area.
      type: str
    what:
      description: The subject.
      type: str
    before:
      description: The value found; null when absent.
      type: raw
    after:
      description: The value wanted; null when it is to be absent.
      type: raw
    disruption:
      description: One of none, restart, link, repair, downgrade, reload, storage, management, firmware, reboot.
      type: str
    why:
      description: The reason for the change.
      type: str
    source:
      description: Where the value comes from.
      type: str
    subject:
      description: What the change is about, as C(kind) and C(name). Kinds are file, package, unit, module, driver, sysctl, limit, keyring,
        interface, pci, firmware and, without a name, setting.
      type: dict
      sample: {kind: interface, name: eth1}
    when:
      description: V(now), or V(boot) for what only the next boot meets.
      type: str
    rail:
      description: The rail whose interface, port or NIC it is; null for anything else.
      type: str
summary:
  description: The same for people; a line with the node's name, then one for each change, problem, note and what was left out.
  returned: success
  type: list
  elements: str
problems:
  description: What makes the node unfit or the plan impossible; each has C(area), C(subject) and C(message).
  returned: success
  type: list
  elements: dict
before:
  description: The value found, by change key.
  returned: success
  type: dict
after:
  description: The value wanted, by change key.
  returned: success
  type: dict
erdma:
  description: Mode of eRDMA's driver that the inventory wants, and the letter of compat_mode that runs once the plan is applied; null
    where the fabric is another.
  returned: success
  type: dict
notes:
  description: What was left out on this node and why, such as modules that a container cannot load. Neither drift nor a problem.
  returned: success
  type: list
  elements: str
packages:
  description: The package changes of the plan as the package modules of ansible.builtin take them.
  returned: success
  type: dict
  contains:
    manager:
      description: One of apt, dnf, yum, zypper or unknown.
      type: str
    steps:
      description:
        - In the order in which they must be made. Each has C(area), C(state) (uninstall, absent, replaced, file or present) and C(names),
          with the exact version (or a glob of it) where one is pinned.
      type: list
      elements: dict
      sample: [{"area": "packages", "state": "present", "names": ["perftest", "rdma-core=44.0-2"]}]
    needed:
      description: Whether there is anything to do for the package step, repositories included.
      type: bool
    downloads:
      description:
        - What must be downloaded before. Each has C(url), C(dest) and C(checksum), which is empty for a key, whose fingerprint is compared.
      type: list
      elements: dict
drivers:
  description: Kernel, stack, DKMS modules, GPU driver, firmware and peer memory of the node before any change, one line each.
  returned: for a plan of every area
  type: dict
reboot_needed:
  description: Keys of the changes that only a reboot makes effective; after an apply those that still wait for one.
  returned: success
  type: list
  elements: str
remaining:
  description:
    - Changes of the same form as RV(plan) that came to light only through this apply, such as those of a device
      that appeared when a module was loaded. They are not made; the next plan shows them.
  returned: success
  type: list
  elements: dict
left:
  description: What O(only) and O(consented_only) cut off the plan; no part of RV(plan), and not made. Empty without them.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: As in RV(plan).
      type: str
    what:
      description: As in RV(plan).
      type: str
    area:
      description: As in RV(plan).
      type: str
    disruption:
      description: As in RV(plan).
      type: str
    cause:
      description: One of V(not asked), V(consent) and V(needs) (it builds on a change that is left out).
      type: str
    reason:
      description: The same in words.
      type: str
    needs:
      description: With the cause V(needs), the key of the change that it builds on; else empty.
      type: str
only:
  description: The keys of the plan that was cut, for the apply of exactly that.
  returned: with O(only) or O(consented_only)
  type: list
  elements: str
confirm:
  description: What became of a guarded change of networking.
  returned: by an apply that changed networking, and by the modes confirm and outcome
  type: dict
  contains:
    state:
      description: One of applied, taken back, rollback incomplete, rolled back, unconfirmed, applying, interrupted and none (no such run).
      type: str
    run:
      description: The name of the restore point.
      type: str
    changes:
      description: The keys of the changes of that run.
      type: list
      elements: str
    troubles:
      description: What could not be taken back.
      type: list
      elements: str
    restore_point:
      description: The journal of that run.
      type: str
taken_back:
  description: The keys of the changes that the node took back by itself because nobody confirmed them.
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
restore_point:
  description: The journal on the node; empty when nothing was changed.
  returned: success
  type: str
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.entry.state import run_state


def main() -> None:
    module = NodeModule(
        argument_spec={
            "mode": {"type": "str", "choices": ["plan", "apply", "confirm", "outcome", "explain", "source"], "default": "plan"},
            "areas": {"type": "list", "elements": "str"},
            "expected": {"type": "list", "elements": "str"},
            "only": {"type": "list", "elements": "str"},
            "consented_only": {"type": "bool", "default": False},
            "run_id": {"type": "str"},
            "confirm_seconds": {"type": "int", "default": 0},
            "confirm_token": {"type": "str", "no_log": False},
            "spec": {"type": "dict"},
            "now": {"type": "float"},
        },
        supports_check_mode=True,
    )
    run_state(module)


if __name__ == "__main__":
    main()
