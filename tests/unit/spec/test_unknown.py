# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are no key of ours: a misspelt key is an error that names the key, other people's variables are let be."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME, KEYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.unknown import LET_BE, distance, misspelt
from repo import ROOT

Judge = Callable[..., tuple[Spec | None, list[Finding]]]
MISSPELT = {
    "rdma_mtuu": "rdma_mtu", "rdma_mut": "rdma_mtu", "rmda_fabric": "rdma_fabric", "rdma_fabirc": "rdma_fabric", "rdma_rail": "rdma_rails",
    "rdma_consnet": "rdma_consent", "rdma_expects": "rdma_expect", "rdma_stak": "rdma_stack", "rdma_qos_profil": "rdma_qos_profile",
    "rdma_boostrap_interfce": "rdma_bootstrap_interface", "rdma_artefact_pins": "rdma_artifact_pins",
    "rdmaconsent": "rdma_consent", "nccl_overides": "nccl_overrides", "host_tunning_memlock": "host_tuning_memlock",
    "hosttuning_memlock": "host_tuning_memlock", "network_bckned": "network_backend", "validate_prot": "validate_port",
    "gpu_drivr_brnch": "gpu_driver_branch", "ncl_verison": "nccl_version", "firewall_mange": "firewall_manage",
    "upgrade_max_unavailible": "upgrade_max_unavailable", "ssh_mesh_adresses": "ssh_mesh_addresses",
}  # fmt: skip
THEIRS = (
    "mtu", "rails", "fabric", "consent", "expect", "nccl_profile", "kernel_version",  # what our own keys were called, and anybody's may be
    "network_interfaces", "network_provider", "firewall", "cudnn_version", "curl_version", "api_version", "rccl_version", "pmix_version",
    "ucx_version", "slurm_partition", "validate_certs", "erdma_x", "nccl_x", "hostvars", "groups", "omit", "ansible_user", "molecule_yml",
    "railwright_run", *sorted(LET_BE),
)  # fmt: skip


def found(judged: tuple[Spec | None, list[Finding]]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.key) for finding in judged[1]]


@pytest.mark.parametrize(("wrong", "right"), MISSPELT.items())
def test_a_misspelt_key_is_an_error_with_the_right_name(judge: Judge, wrong: str, right: str) -> None:
    spec, (finding,) = judge(**{wrong: 1})
    assert spec is None
    assert (finding.severity, finding.key, finding.value, finding.allowed) == ("error", wrong, None, right)
    assert finding.message == f"is no known key; did you mean {right}?"


@pytest.mark.parametrize("name", THEIRS)
def test_other_peoples_variables_are_let_be(judge: Judge, name: str) -> None:
    spec, findings = judge(**{name: object()})
    assert findings == []
    assert spec is not None


@pytest.mark.parametrize("name", ["_mine", "__rdma_stack", "_rdma_mtu", "__network_backend"])
def test_private_variables_are_let_be(judge: Judge, name: str) -> None:
    assert judge(**{name: object()})[1] == []


@pytest.mark.parametrize(("name", "hint"), [
    ("rdma_network", ""), ("rdma_netmask", ""), ("rdma_reboot_timeout", "; did you mean rdma_reboot_timeout_s?"),
    ("rdma_nccl_overrides", "; did you mean nccl_overrides?"),
])
def test_an_unknown_rdma_name_is_a_warning(judge: Judge, name: str, hint: str) -> None:
    spec, (finding,) = judge(**{name: 1})
    assert spec is not None
    assert (finding.severity, finding.key, finding.value) == ("warning", name, None)
    assert finding.message.startswith("is no key of railwright")
    assert finding.message.endswith(hint)


@pytest.mark.parametrize("key", [key for key in KEYS if key.required], ids=lambda key: key.name)
def test_a_missing_key_names_the_variable_without_prefix(judge: Judge, key: Any) -> None:
    """``mtu`` may be another's, so it is no error by itself; where rdma_mtu is missing, it is probably meant."""
    without = judge(**{key.name: ...})
    assert f"{key.field} is set" not in str(without[1])
    _spec, findings = judge(**{key.name: ..., key.field: key.example})
    (finding,) = [item for item in findings if item.key == key.name]
    assert (finding.severity, finding.message) == ("error", f"is missing; {key.field} is set, but railwright reads {key.name}")


def test_no_variable_of_our_own_plays_looks_misspelt() -> None:
    """What the command line gives a run (rdma_run_id) and what tasks register."""
    names = {name for path in (*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("tasks/*.yml"))
             for name in re.findall(r"(?<!railwright\.rdma\.)\b_*[a-z]+_[a-z0-9_]+\b", path.read_text(encoding="utf-8"))}
    assert "rdma_run_id" in names
    assert {name: meant for name in names - set(BY_NAME) if not name.startswith("_") and (meant := misspelt(name))} == {}


@pytest.mark.parametrize(("one", "other", "letters"), [
    ("", "ab", 2), ("mtu", "mtu", 0), ("mtu", "mut", 1), ("overides", "overrides", 1), ("tunning", "tuning", 1), ("cudnn", "cuda", 2),
    ("abcd", "badc", 2), ("fabric", "rails", 5),
])
def test_distance(one: str, other: str, letters: int) -> None:
    assert distance(one, other) == distance(other, one) == letters


def test_a_large_inventory_is_judged_fast() -> None:
    """Kayobe's has some 1,500 variables; each name is inspected once, however many hosts have it."""
    misspelt.cache_clear()
    started = time.monotonic()
    for number in range(1500):
        misspelt(f"kolla_enable_service_{number}")
        misspelt(f"network_{number}")
    assert time.monotonic() - started < 5
