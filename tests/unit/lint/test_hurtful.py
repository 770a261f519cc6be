# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that hurt and that somebody may mean are warnings; what is usual is no finding; what a vault holds is never shown."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from ansible.constants import DEFAULT_VAULT_ID_MATCH
from ansible.parsing.vault import VaultLib, VaultSecret

from railwright.lint import lint

Make = Callable[[Mapping[str, object]], Path]
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"
NO = "no"  # apart from the option: tests/contract/test_tasks.py finds whoever turns a check off
N1, N2 = (f'rdma_rails: [{{name: rail0, match: {{mac: "02:00:00:00:0{end}:00"}}, address: 198.51.100.1{end}/25}}]' for end in (1, 2))
RAILS = f"          {N1}\n"


@pytest.mark.core
@pytest.mark.parametrize(("text", "key", "message"), [
    (f"ansible_ssh_common_args: -o StrictHostKeyChecking={NO}", "ansible_ssh_common_args", "accepts unchecked host keys"),
    ("ansible_ssh_extra_args: -o 'stricthostkeychecking accept-new'", "ansible_ssh_extra_args", "(StrictHostKeyChecking=accept-new)"),
    ("ansible_ssh_args: -oUserKnownHostsFile=/dev/null", "ansible_ssh_args", "(UserKnownHostsFile=/dev/null)"),
    (f"ansible_host_key_checking: {NO}", "ansible_host_key_checking", "turns off the check of host keys"),
    ('ansible_ssh_host_key_checking: "no"', "ansible_ssh_host_key_checking", "turns off the check of host keys"),
    ("ansible_ssh_common_args: -o ForwardAgent=yes", "ansible_ssh_common_args", "root on one node logs in to every other"),
    ("ansible_ssh_extra_args: -vA", "ansible_ssh_extra_args", "root on one node logs in to every other"),
    ("ansible_ssh_args: -o ControlPath=/tmp/%C", "ansible_ssh_args", "another user's socket may take the connection"),
    ("ansible_control_path_dir: /tmp", "ansible_control_path_dir", "another user's socket may take the connection"),
    ("ansible_remote_tmp: /tmp/.ansible", "ansible_remote_tmp", "may replace what Ansible runs there as root"),
    ("nccl_gid_index: 99", "nccl_gid_index", "is beyond the entries that a port has with 16 addresses"),
    ("pci_tuning_kernel_args: [memmap=4G@1G]", "pci_tuning_kernel_args[0]", "takes memory away from the node"),
    ("host_tuning_sysctls: {vm.overcommit_memory: 2}", "host_tuning_sysctls.vm.overcommit_memory", "the address space that CUDA reserves"),
    ("nccl_prefix: /tmp/nccl", "nccl_prefix", "is in a place where every user may write"),
    ("ddp_benchmark_python: /dev/shm/python3", "ddp_benchmark_python", "and that a reboot empties"),
])  # fmt: skip
def test_what_somebody_may_mean_is_a_warning_with_its_line(make: Make, text: str, key: str, message: str) -> None:
    found = [item for item in lint(make({"site": SITE + text + "\n"})) if item.line == 3]
    assert [(item.key, item.severity, item.file) for item in found] == [(key, "warning", "inv/group_vars/all.yml")]
    assert message in found[0].message


def test_hosts_that_differ_in_case_alone(make: Make) -> None:
    hosts = f"all:\n  children:\n    rdma:\n      hosts:\n        gpu1:\n          ansible_host: 192.0.2.1\n{RAILS}        GPU1:\n"
    found = lint(make({"hosts": f"{hosts}          ansible_host: 192.0.2.2\n          {N2}\n"}))
    assert [(item.line, item.severity) for item in found if item.key == "host"] == [(5, "warning"), (8, "warning")]


@pytest.mark.parametrize("text", [
    "ansible_port: '22'", "ansible_user: 'SITE\\me@example.com'", "ansible_host: '{{ inventory_hostname }}.example.com'",
    "ansible_port: 65535", "ansible_remote_tmp: ~/.ansible/tmp", "nccl_conf_path: /etc/site/nccl.conf",
    "ansible_ssh_common_args: -o ForwardAgent=no -a -i /home/A -J A -o ControlPath=/run/user/1/%C",
    "ansible_ssh_common_args: -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/etc/known -o GlobalKnownHostsFile=/dev/null",
    "ansible_python_interpreter: auto_silent", "ansible_python_interpreter: /opt/tmp/bin/python3",
    "ansible_become_exe: /tmpfs/sudo", "ansible_user: a-b", "ansible_ssh_common_args: -o Port=1",
    "pci_tuning_kernel_args: [rotate, memory=1]", "ansible_host_key_checking: true",
    "nccl_gid_index: 3", "pci_tuning_kernel_args: [panic=10, hugepages=64, numa_balancing=disable, rootdelay=5]",
    "host_tuning_sysctls: {kernel.core_pattern: /tmp/core.%p, vm.min_free_kbytes: 1048576, vm.nr_hugepages: 0, kernel.panic: 30}",
    "agent_mode: observe\nagent_textfile_directory: /var/lib/prometheus/node-exporter", "firewall_peers: [198.51.100.0/24, 'fc00::/7']",
])  # fmt: skip
def test_what_is_usual_is_no_finding(make: Make, text: str) -> None:
    found = [str(item) for item in lint(make({"site": SITE + text + "\n"})) if "both would be one machine" not in item.message]
    assert [line for line in found if "RFC 5737" not in line] == []


@pytest.mark.core
def test_what_a_vault_holds_is_not_shown(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    monkeypatch.setattr("ansible.constants.DEFAULT_VAULT_PASSWORD_FILE", str(password))
    closed = VaultLib([(DEFAULT_VAULT_ID_MATCH, VaultSecret(b"secret"))]).encrypt(b"-oProxyCommand=hunter2").decode()
    block = "!vault |\n" + "".join(f"  {line}\n" for line in closed.splitlines())
    parts = {"site": f'{SITE}way: {block}ansible_host: "{{{{ way }}}}"\nansible_user: {block}', "n2": f"ansible_host: 192.0.2.2\n{N2}"}
    found = lint(make(parts))
    assert any(item.key == "ansible_host" and "begins with a dash" in item.message for item in found)
    assert "hunter2" not in "".join(f"{item} {item.as_dict()}" for item in found)


def test_ansibles_own_configuration(make: Make, tmp_path: Path) -> None:
    make({})
    file = tmp_path / "ansible.cfg"
    file.write_text(f"[defaults]\nhost_key_checking = {NO}\n[ssh_connection]\nssh_extra_args = -o UserKnownHostsFile=/dev/null\n")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(file), "ANSIBLE_SSH_ARGS": f"-o StrictHostKeyChecking={NO}", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "railwright", "lint", "-i", "inv"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).split("\n") if "warning: " in line and "host key" in line]
    assert sorted(line.partition(": warning: ")[0] for line in lines) == sorted([str(file), "env: ANSIBLE_SSH_ARGS", str(file)])
    assert done.returncode == 0
