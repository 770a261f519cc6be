# SPDX-License-Identifier: GPL-3.0-or-later
"""The wishes of nobody: a Spec for a node that no inventory describes. What it wishes is put in its place there (checks/wishless.py)."""

from functools import cache

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .validate import build_spec

# What a Spec must have and nobody wishes: the node's own fabric, rails and stack take their place.
NOBODYS = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_qos_profile": "none", "roce_qos_manage": False, "firewall_manage": False,
           "pci_tuning_acs": "keep"}


@cache
def nobodys_spec() -> Spec:
    """Raises RailwrightError, which a test keeps from happening."""
    spec, findings = build_spec(NOBODYS, "")
    if spec is None:
        raise RailwrightError(f"the wishes of nobody are wrong: {findings[0].message}")
    return spec


def agent_derived(spec: Spec) -> dict[str, object]:
    """By what an agent on a node judges; nothing where there is none."""
    return {} if spec["agent_mode"] == "off" else nobodys_spec().as_dict()
