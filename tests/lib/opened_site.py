# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories with secrets of a vault, each of them under a key that lint has something to say about, or that a plan shows."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

OPENS = "open sesame"  # the vault's password
NUMBER = 5  # of the secrets the one that is a number


class Vaulted(str):
    """Text that is written as Ansible's vault has it."""

    __slots__ = ()


class Unsafe(str):
    """Text that is written with ``!unsafe``."""

    __slots__ = ()


class Dumper(yaml.SafeDumper):
    """With Ansible's tags."""


def sealed(text: str) -> str:
    secret = VaultSecret(OPENS.encode())
    return str(VaultLib([("default", secret)]).encrypt(text, secret).decode())


Dumper.add_representer(Vaulted, lambda dumper, text: dumper.represent_scalar("!vault", sealed(str(text)), style="|"))
Dumper.add_representer(Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


def new_secrets(count: int = 12) -> list[str]:
    return [str(secrets.randbelow(9 * 10**14) + 10**14) if at == NUMBER else f"zq{secrets.token_hex(10)}" for at in range(count)]


Values = Mapping[str, Any]


def write(directory: Path, hosts: Values, site: Values, whole: Values, host_vars: Values) -> Path:
    """``whole``: of a file that is in a vault as a whole. ``host_vars``: of the first host."""
    for name in ("group_vars/all", "host_vars"):
        (directory / name).mkdir(parents=True)
    dump = {"Dumper": Dumper, "width": 1000}
    (directory / "hosts.yml").write_text(yaml.dump({"all": {"children": {"rdma": {"hosts": dict(hosts)}}}}, **dump))
    (directory / "group_vars/all/site.yml").write_text(yaml.dump(dict(site), **dump))
    (directory / "group_vars/all/vault.yml").write_text(sealed(json.dumps(dict(whole))))
    (directory / f"host_vars/{next(iter(hosts))}.yml").write_text(yaml.dump(dict(host_vars), **dump))
    return directory


def wrong_site(directory: Path, planted: list[str], node: Mapping[str, Any]) -> Path:
    """Every kind of finding, each about a value with a secret in it. The inventory of ``right_site`` is without findings."""
    (directory.parent / "looked-up.txt").write_text(planted[11])
    site = {
        "rdma_fabric": "roce",
        "rdma_mtuu": Vaulted(planted[0]),  # an unknown key
        "rdma_mtu": Vaulted(planted[1]),  # the wrong type
        "agent_flaps": Vaulted(planted[NUMBER]),  # out of range
        "rdma_artifact_mirror": Vaulted(f"ftp://x/{planted[2]}"),  # no such form
        "nccl_tests_environment": {"HF-TOKEN": "Authorization: Bearer {{ vault_token }}", "SITE_NOTE": "plain"},  # a hyphen in a name
        "upgrade_scheduler": "slurm",
        "upgrade_drain_command": ["curl", "-H", "Authorization: Bearer {{ vault_drain }}", "{node}"],  # another scheduler's
        "rdma_out_of_service": {"reason": "x", "until": Vaulted(planted[6])},  # a nested mapping
        "nccl_tests_slurm_options": ["--time=5", Vaulted(f"--nodelist={planted[7]}")],  # an item of a list
        "nccl_overrides": {"NCCL_IB_TC": "{{ vault_class }}", "NCCL_NET": "{{ vault_net | b64encode }}"},  # a role's own, transformed
        "nccl_version": Unsafe(planted[10]),
        "rdma_stack_version": "{{ lookup('ansible.builtin.file', '%s') }}" % (directory.parent / "looked-up.txt"),
        "rdma_nccl_profile": "scnett",  # a finding of its own, which stays as it is
    }
    whole = {"vault_token": planted[3], "vault_drain": planted[4], "vault_class": planted[8], "vault_net": planted[9],
             "rdma_keep_code": 77123}  # fmt: skip
    rails = [{"name": "rail0", "match": {"mac": Vaulted(planted[9] + "-mac")}, "address": "10.10.0.1/24"}]
    return write(directory, {"n1": dict(node)}, site, whole, {"rdma_rails": rails})  # of one host


def right_site(directory: Path, planted: list[str], node: Mapping[str, Any]) -> Path:
    """Every secret where its value is right, and where a plan, a verdict or a file of a node has it. Names give nothing away."""
    site = {
        "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_stack": "doca",
        "rdma_stack_repository_url": Vaulted(f"https://mirror.example.com/{planted[0]}/doca"),
        "rdma_stack_repository_key_url": "https://mirror.example.com/{{ vault_path }}/doca.asc",
        "rdma_stack_repository_fingerprint": "0123456789ABCDEF0123456789ABCDEF01234567",
        "nccl_wheel_index": Vaulted(f"https://mirror.example.com/wheels/{planted[2]}"),
        "host_tuning_sysctls": {"kernel.domainname": Vaulted(planted[3]), "kernel.panic": "{{ vault_number }}"},
        "nccl_overrides": {"NCCL_DEBUG_FILE": Vaulted(f"/var/log/{planted[4]}")},
        "nccl_tests_environment": {"SITE_NOTE": Vaulted(planted[6])},
        "ddp_benchmark_environment": {"SITE_NOTE": Unsafe(planted[10])},
        "upgrade_scheduler": "command",
        "upgrade_drain_command": ["/bin/true", "{node}", Vaulted(planted[7])],
        "upgrade_drained_command": ["/bin/true", "{node}", "{{ vault_word }}"],
        "upgrade_undrain_command": ["/bin/true", "{node}", Vaulted(planted[9])],
    }
    whole = {"vault_path": planted[1], "vault_word": planted[8], "vault_number": int(planted[NUMBER][:9])}
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "10.10.0.1/24"}]
    return write(directory, {"n1": dict(node)}, site, whole, {"rdma_rails": rails})
