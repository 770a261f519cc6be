#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the RDMA side of one node; the logic is in module_utils, the schema in docs/reference/facts.md."""

DOCUMENTATION = r"""
module: rdma_facts
short_description: Observe the RDMA devices and settings of a node
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

- name: The same object is a fact from then on
  ansible.builtin.assert:
    that: ansible_facts.rdma.stack.name == 'inbox'
"""

RETURN = r"""
summary:
  description: For people; the operating system, then what drives the node, and a line a port.
  returned: success
  type: list
  elements: str
rdma:
  description: The facts object; every key is documented in C(docs/reference/facts.md). Also set as C(ansible_facts.rdma).
  returned: success
  type: dict
  contains:
    schema:
      description: Version of the object. It rises when a key changes its meaning or goes.
      type: int
      sample: 1
    hostname:
      description: Name of the node as its kernel has it.
      type: str
    virtual:
      description: C(container), C(kvm), C(xen), C(vmware), C(hyperv), C(virtualbox), C(other), or null on bare metal.
      type: str
    os:
      description: C(id), C(version), C(codename), C(name), C(family) and C(eol), the last day of the vendor's support.
      type: dict
    kernel:
      description: Release of the running kernel.
      type: str
      sample: 6.1.0-18-amd64
    arch:
      description: Machine architecture.
      type: str
      sample: x86_64
    boot:
      description: Installed kernels, the one that the next boot starts, headers, kernel command line, Secure Boot.
      type: dict
    stack:
      description: C(name) (C(inbox), C(doca), C(mlnx_ofed) or null), C(version), and C(source), what told; whose kernel C(modules) run;
        packages that are C(half_installed).
      type: dict
    dkms:
      description: Module versions that DKMS has registered, built and installed, by kernel.
      type: list
      elements: dict
    storage:
      description: File systems and block devices in use over RDMA.
      type: list
      elements: dict
    hcas:
      description: RDMA devices in natural order (mlx5_2 before mlx5_10).
      type: list
      elements: dict
      contains:
        name:
          description: Name of the device; not stable across driver changes.
          type: str
          sample: mlx5_0
        node_type:
          description: C(CA), or C(RNIC) for iWARP.
          type: str
        node_guid:
          description: As the kernel prints it.
          type: str
          sample: b8ce:f603:00ab:cdef
        sys_image_guid:
          description: As the kernel prints it.
          type: str
        board_id:
          description: PSID of the board.
          type: str
          sample: MT_0000000838
        fw_ver:
          description: Firmware version.
          type: str
          sample: 28.41.1000
        hw_rev:
          description: Hardware revision.
          type: str
        hca_type:
          description: Device type.
          type: str
          sample: MT4129
        pci_address:
          description: PCI function; null for Soft-RoCE.
          type: str
          sample: 0000:18:00.0
        vendor_id:
          description: PCI vendor.
          type: str
          sample: "0x15b3"
        device_id:
          description: PCI device.
          type: str
          sample: "0x1021"
        numa_node:
          description: NUMA node; -1 where the firmware tells none.
          type: int
        driver:
          description: Kernel driver; C(rdma_rxe) for Soft-RoCE.
          type: str
          sample: mlx5_core
        ports:
          description: Ports of the device.
          type: list
          elements: dict
          contains:
            number:
              description: Port number, from 1.
              type: int
            state:
              description: C(ACTIVE), C(INIT), C(DOWN), C(ARMED).
              type: str
            phys_state:
              description: C(LinkUp), C(Polling), C(Disabled) and others.
              type: str
            rate_gbps:
              description: Signalling rate of the link in Gb/s.
              type: float
              sample: 400
            link_layer:
              description: C(InfiniBand) or C(Ethernet).
              type: str
            lid:
              description: Local identifier; 0 without a subnet manager.
              type: int
            lmc:
              description: LID mask count.
              type: int
            sm_lid:
              description: LID of the subnet manager; 0 when there is none.
              type: int
            cap_mask:
              description: Capability mask as the kernel prints it.
              type: str
              sample: "0xa651e848"
            port_guid:
              description: GUID in the low half of GID 0, as ibstat shows it.
              type: str
            active_mtu:
              description: MTU in bytes that verbs has in use on the port; null without C(ibv_devinfo).
              type: int
              sample: 4096
            netdev:
              description: Network interface of the port.
              type: str
              sample: eth2
            netdev_mtu:
              description: MTU of that interface.
              type: int
            gids:
              description: Used slots of the GID table. Each has C(index), C(gid), C(type) and C(netdev).
              type: list
              elements: dict
            counters:
              description: Counters of the port by name; integers, null where the device gives none.
              type: dict
            hw_counters:
              description: Counters of the driver by name, of the port or else of the device.
              type: dict
        link:
          description: Its place on the PCI bus, the links above it, registers, BARs; null without a PCI function.
          type: dict
        firmware:
          description: Version in flash and the stored configuration, where mstflint's tools are installed; null for others' devices.
          type: dict
    netdevs:
      description: Network interfaces with MAC, PCI function, driver, kind, MTU, state and addresses.
      type: list
      elements: dict
    qos:
      description: How each RoCE NIC treats its traffic (trust, DSCP map, PFC, ETS, ECN, CNP, RDMA-CM, DCBX), and whether lldpad runs.
      type: dict
    firewall:
      description: Which firewall runs, and what the kernel's input chains ask of a packet.
      type: dict
    modules:
      description: Loaded kernel modules of the RDMA and GPU family, each with C(version) and C(used_by).
      type: dict
    gpus:
      description: NVIDIA GPUs on the PCI bus, with or without a driver; each with C(name) and C(uuid) where the driver is loaded.
      type: list
      elements: dict
    pci:
      description: What the IOMMU does, Access Control Services of the bridges above GPUs and HCAs, number of NUMA nodes.
      type: dict
    gpu_driver:
      description: The NVIDIA driver as it is loaded and as it is on disk, its packages, the fabric manager and the persistence daemon;
        null on a node with neither GPU nor driver.
      type: dict
    gpudirect:
      description: Peer memory module, GPU driver and kernel options for dma-buf.
      type: dict
    limits:
      description: Limits of locked memory and open files, in files and in effect.
      type: dict
    nccl:
      description: Content of /etc/nccl.conf and of profile.d, library and network plugins found.
      type: dict
    aiacc:
      description: The AIACC network plugin for NCCL and its relatives; null where there is none.
      type: dict
    nccl_libraries:
      description: Every NCCL that a job can load, with its version and where it comes from.
      type: list
      elements: dict
    packages:
      description: Installed packages of the RDMA family with their versions; null when the database cannot be read.
      type: dict
    erdma:
      description:
        - eRDMA of Alibaba Cloud, its driver with its mode, the provider of libibverbs, the devices.
        - Null on a node without any of it.
      type: dict
"""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.facts import run_facts
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule


def main() -> None:
    run_facts(NodeModule(argument_spec={}, supports_check_mode=True))


if __name__ == "__main__":
    main()
