# SPDX-License-Identifier: GPL-3.0-or-later
"""One inventory for railwright, kayobe, oci-hpc and linux-system-roles: their variables are no errors of ours."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.lint import lint

# Names only, as these projects' own inventories and role defaults have them.
KAYOBE = (  # openstack/kayobe: ansible/inventory/group_vars/all
    "kayobe_ansible_user", "kolla_base_distro", "kolla_ansible_user", "os_distribution", "network_mtu", "mtu", "docker_daemon_mtu",
    "provision_oc_net_name", "selinux_state", "sysctl_parameters", "compute_network_interfaces", "compute_sysctl_parameters",
    "kolla_enable_neutron_mlnx",
)  # fmt: skip
OCI_HPC = (  # oracle-quickstart/oci-hpc: inventory.tpl
    "rdma_network", "rdma_netmask", "rdma_enabled", "public_subnet", "private_subnet", "vcn_cidr", "nvme_path", "shared_home", "slurm",
    "spack", "hyperthreading", "queue", "instance_type", "healthchecks",
)  # fmt: skip
LINUX_SYSTEM_ROLES = (  # linux-system-roles: defaults of hpc, network, firewall, kernel_settings
    "hpc_install_rdma", "hpc_tuning", "hpc_install_hpc_nvidia_nccl", "hpc_manage_firewall", "hpc_reboot_ok", "network_connections",
    "network_provider", "network_allow_restart", "network_packages", "firewall", "kernel_settings_sysctl",
    "kernel_settings_transparent_hugepages",
)  # fmt: skip


@pytest.mark.core
def test_variables_of_other_collections_are_no_errors(make: Callable[[Mapping[str, object]], Path]) -> None:
    names = KAYOBE + OCI_HPC + LINUX_SYSTEM_ROLES
    assert len(set(names)) >= 30
    site = "rdma_fabric: roce\nrdma_mtu: 9000\n" + "".join(f"{name}: '{{{{ not_ours }}}}'\n" for name in names)
    findings = [(finding.severity, finding.key) for finding in lint(make({"site": site}))]
    assert findings == [("warning", name) for name in names if name.startswith("rdma_")]
