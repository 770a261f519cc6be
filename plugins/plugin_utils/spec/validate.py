# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's (templated) variables to its Spec, with everything that is wrong on the way.

Pure: no file, no node, no Ansible. ``lint`` and the action plugins call the same
function, so what lint accepts is what a run uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import DEFAULT_QOS, NONE, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec

from ..nccl_catalogue.profiles import DEFAULT_NCCL, derived
from .check_ai_environment import CHECKS as AI_CHECKS
from .check_ai_environment import check_ai_environment
from .check_aiacc import check_aiacc, fill_aiacc
from .check_containers import check_containers
from .check_cuda import check_cuda
from .check_ddp_benchmark import CHECKS as DDP_CHECKS
from .check_erdma import check_erdma
from .check_erdma_driver import check_erdma_driver
from .check_erdma_instance import check_erdma_instance
from .check_firewall import CHECKS as FIREWALL_CHECKS
from .check_gpu_driver import check_gpu_driver
from .check_gpudirect import check_gpudirect
from .check_kernel import CHECKS as KERNEL_CHECKS
from .check_mpi import check_mpi
from .check_nccl import check_nccl
from .check_nccl_env import check_nccl_env
from .check_nccl_tests import CHECKS as NCCL_TESTS_CHECKS
from .check_nccl_tests import check_nccl_tests
from .check_network import check_network
from .check_nic_firmware import CHECKS as FIRMWARE_CHECKS
from .check_nic_firmware import check_nic_firmware
from .check_pci_tuning import check_pci_tuning
from .check_qos import CHECKS as QOS_CHECKS
from .check_qos import check_qos
from .check_roce_qos import CHECKS as ROCE_QOS_CHECKS
from .check_roce_qos import check_roce_qos
from .check_ssh_mesh import CHECKS as MESH_CHECKS
from .check_stack import CHECKS, check_stack
from .check_upgrade import check_upgrade
from .cross_host import validate_site
from .cross_key import MTU_ALLOWED, check_expect, check_fabric, check_mtu, check_profiles
from .dicts import check_pins, check_sysctls
from .findings import Findings, did_you_mean
from .nccl_overrides import check_overrides
from .rails import check_rails
from .schema import FABRICS, KEYS
from .unknown import check_unknown
from .values import MISSING, check_key, plain

__all__ = ("build_spec", "check_value", "validate_site")

VALUE_CHECKS: dict[str, Callable[[Any, Findings], Any]] = {
    "rdma_expect": check_expect, "host_tuning_sysctls": check_sysctls, "rdma_stack_pins": check_pins, **CHECKS, **FIRMWARE_CHECKS,
    **MESH_CHECKS, **FIREWALL_CHECKS, **NCCL_TESTS_CHECKS, **DDP_CHECKS, **QOS_CHECKS, **ROCE_QOS_CHECKS, **AI_CHECKS, **KERNEL_CHECKS,
}
DEFAULTS_BY_FABRIC: dict[str, dict[str, str]] = {"nccl_profile": DEFAULT_NCCL, "qos_profile": DEFAULT_QOS}


def build_spec(values: Mapping[str, Any], host: str) -> tuple[Spec | None, list[Finding]]:
    """The Spec of one host and the findings; no Spec when there is an error.

    ``values`` holds what the inventory says about the host, templated; ``group_names``
    among them decides ``network_opensm`` when the key is unset.
    """
    findings = Findings(host)
    given = {str(name): plain(value) for name, value in values.items()}
    checked = _check_keys(given, findings)
    check_unknown(given, findings)
    rails = check_rails(checked.get("rails", []), checked.get("mtu"), findings)
    _fill_defaults(given, checked)
    _check_together(checked, rails, findings)
    check_aiacc(checked, findings)
    if any(item.severity == "error" for item in findings.items):
        return None, findings.items
    checked["rails"] = rails
    checked["firewall_derived"] = {"peers": [], "unknown": []}  # the other nodes' addresses: whoever knows them puts them in
    checked["nccl_derived"] = derived(Spec(checked))
    return Spec(checked), findings.items


def _check_keys(given: dict[str, Any], findings: Findings) -> dict[str, Any]:
    """Every key by itself: converted, defaulted, or left out after a finding."""
    checked: dict[str, Any] = {}
    for key in KEYS:
        value = given.get(key.name)
        if value is None:
            # An empty key (``rdma_consent:``) means its default; only required keys need a value.
            if key.required:
                allowed = MTU_ALLOWED.get(str(checked.get("fabric")), key.allowed()) if key.field == "mtu" else key.allowed()
                bare = f"; {key.field} is set, but railwright reads {key.name}" if key.field in given else ""
                findings.error(key.name, None, "is empty" if key.name in given else "is missing" + bare, allowed)
            else:
                checked[key.field] = list(key.default) if key.type == "list" else dict(key.default) if key.type == "dict" else key.default
            continue
        converted = check_value(key, value, findings)
        if converted is not MISSING:
            checked[key.field] = converted
    return checked


def check_value(key: Any, value: Any, findings: Findings) -> Any:
    """The converted value of one key by itself, or MISSING after its findings; for whoever judges a value outside of an inventory, too."""
    if key.name == "rdma_fabric" and isinstance(value, str) and value not in FABRICS:
        findings.error(key.name, value, f"is no fabric that railwright knows{did_you_mean(value, FABRICS)}", ", ".join(FABRICS))
        return MISSING
    converted = check_key(key, value, key.name, findings)
    return converted if converted is MISSING or key.name not in VALUE_CHECKS else VALUE_CHECKS[key.name](converted, findings)


def _fill_defaults(given: Mapping[str, Any], checked: dict[str, Any]) -> None:
    """Defaults that depend on another key or on the host's groups."""
    for name, by_fabric in DEFAULTS_BY_FABRIC.items():
        if name in checked and checked[name] is None:
            checked[name] = by_fabric.get(checked.get("fabric", ""), NONE)
    fill_aiacc(checked)
    if checked.get("ddp_benchmark_python", MISSING) is None:
        kept = checked.get("ai_environment_kind", "none") != "none" and "ai_environment_path" in checked
        checked["ddp_benchmark_python"] = f"{checked['ai_environment_path'].rstrip('/')}/current/bin/python" if kept else "python3"
    if checked.get("network_opensm", MISSING) is None:
        checked["network_opensm"] = "opensm" in (given.get("group_names") or [])


def _check_together(checked: dict[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    """Rules over several keys, each only when the keys that it reads are well-formed."""
    if "nccl_overrides" in checked:
        profile = site_profile(checked.get("qos_profile", NONE), checked.get("qos_custom", {}))
        overrides = check_overrides(checked["nccl_overrides"], profile, findings)
        if overrides is not MISSING:
            checked["nccl_overrides"] = overrides
    check_network(checked, rails, findings)
    check_stack(checked, findings)
    check_erdma(checked, findings)
    check_erdma_driver(checked, findings)
    check_erdma_instance(checked, rails, findings)
    check_nic_firmware(checked, findings)
    check_pci_tuning(checked, findings)
    check_gpu_driver(checked, findings)
    check_cuda(checked, findings)
    check_gpudirect(checked, findings)
    check_nccl_tests(checked, findings)
    check_nccl(checked, findings)
    check_mpi(checked, findings)
    check_ai_environment(checked, findings)
    check_qos(checked, findings)
    check_roce_qos(checked, findings)
    check_containers(checked, findings)
    check_upgrade(checked, findings)
    if "fabric" not in checked:
        return
    fabric = checked["fabric"]
    mode = checked.get("network_ipoib_mode", "connected")
    if "mtu" in checked:
        check_mtu("rdma_mtu", checked["mtu"], fabric, mode, findings)
    for rail in rails:
        if rail["mtu"] is not None and rail["mtu"] != checked.get("mtu"):
            check_mtu(f"rdma_rails[{rail['index']}].mtu", rail["mtu"], fabric, mode, findings)
    if "nccl_profile" in checked and "qos_profile" in checked:
        check_profiles(checked, findings)
    check_nccl_env(checked, rails, findings)
    if "rdma_stack" in checked and "expect" in checked and "network_manage_addresses" in checked:
        check_fabric(checked, rails, findings)
    if fabric != "infiniband" and checked.get("network_opensm"):
        findings.error("network_opensm", True, f"a subnet manager runs on InfiniBand; rdma_fabric is {fabric}",
                       "false, and no host in group opensm")
