# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that contradict each other, or that a fabric makes dangerous. Pure; runs after every key is well-formed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import CUSTOM, NONE, QOS_PROFILES, qos_profile

from ..nccl_catalogue.profiles import NCCL_PROFILES, nccl_profile
from .check_qos import NO_PFC
from .findings import Findings, did_you_mean
from .values import MISSING, as_int, as_number, type_name

# RoCE's path MTU is the largest of 256 … 4096 that fits a frame with its headers; 4096 needs some 4200 (NVIDIA).
ROCE_FULL_MTU = 4200
SWITCH_MTU = 9216  # the largest that switch vendors' RoCE templates carry
ERDMA_MTUS = (8500, 1400)
IPOIB_MAX = {"datagram": 4092, "connected": 65520}
MTU_ALLOWED = {
    "roce": "1280 to 9216; 9000 is usual",
    "infiniband": "1280 to 4092 (network_ipoib_mode datagram), to 65520 (connected)",
    "erdma": "8500, 1400",
}
LINK_LAYER = {"roce": "Ethernet", "erdma": "Ethernet", "infiniband": "InfiniBand"}
EXPECT: dict[str, Any] = {
    "rate_gbps": ("number", "a number of Gb/s, like 400"),
    "link_layer": (("InfiniBand", "Ethernet"), "InfiniBand, Ethernet"),
    "active_mtu": ((256, 512, 1024, 2048, 4096), "256, 512, 1024, 2048, 4096"),
    "fw_ver": ("text", "a firmware version in quotes, like '28.41.1000'"),
    "hca_type": ("text", "an HCA type as the kernel prints it, like MT4129"),
    "hcas": ("int", "the number of HCAs of the node, at least 0"),
    "gpus": ("int", "the number of NVIDIA GPUs of the node, at least 0"),
    "gpu_driver": ("text", "a driver branch or version in quotes, like '580' or '580.126.20'"),
}


def check_mtu(path: str, mtu: int, fabric: str, ipoib_mode: str, findings: Findings) -> None:
    """One MTU, the site's or a rail's, against what the fabric carries."""
    if fabric == "erdma" and mtu not in ERDMA_MTUS:
        findings.error(path, mtu, "eRDMA needs 8500 (jumbo frames) or 1400", "8500, 1400")
    if fabric == "infiniband" and mtu > IPOIB_MAX[ipoib_mode]:
        other = "; network_ipoib_mode connected takes up to 65520" if ipoib_mode == "datagram" else ""
        findings.error(path, mtu, f"IPoIB in {ipoib_mode} mode takes at most {IPOIB_MAX[ipoib_mode]}{other}",
                       f"1280 to {IPOIB_MAX[ipoib_mode]}")
    if fabric == "roce" and mtu < ROCE_FULL_MTU:
        findings.warning(path, mtu, "RoCE's active_mtu would be less than 4096", f"at least {ROCE_FULL_MTU}; 9000 is usual")
    if fabric == "roce" and mtu > SWITCH_MTU:
        findings.warning(path, mtu, f"switches carry frames of at most {SWITCH_MTU} bytes", f"at most {SWITCH_MTU}; 9000 is usual")


def check_profiles(values: Mapping[str, Any], findings: Findings) -> None:
    """Profiles exist and fit the fabric."""
    fabric, nccl, qos = values["fabric"], values["nccl_profile"], values["qos_profile"]
    fitting = [profile.name for profile in NCCL_PROFILES if fabric in profile.fabrics]
    row = nccl_profile(nccl)
    if row is None:
        names = [profile.name for profile in NCCL_PROFILES]
        findings.error("rdma_nccl_profile", nccl, f"is no NCCL profile{did_you_mean(nccl, names)}", ", ".join(fitting))
    elif fabric not in row.fabrics:
        findings.error("rdma_nccl_profile", nccl, f"is a profile for {' and '.join(row.fabrics)}; the fabric is {fabric}",
                       ", ".join(fitting))
    if qos == NONE:
        return
    if fabric != "roce":
        findings.error("rdma_qos_profile", qos, f"QoS profiles are for RoCE; {NO_PFC[fabric]}", NONE)
    elif qos != CUSTOM and qos_profile(qos) is None:
        names = [profile.name for profile in QOS_PROFILES] + [CUSTOM, NONE]
        findings.error("rdma_qos_profile", qos, f"is no QoS profile{did_you_mean(qos, names)}", ", ".join(names))


def check_fabric(values: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    """What the choice of fabric and stack says about rails and expectations."""
    fabric, stack = values["fabric"], values["rdma_stack"]
    if stack == "soft_roce" and fabric != "roce":
        findings.error("rdma_stack", stack, f"a software RoCE device makes a RoCE fabric; rdma_fabric is {fabric}",
                       "inbox, or rdma_fabric: roce")
    for rail in rails:
        path = f"rdma_rails[{rail['index']}]"
        if stack == "soft_roce" and rail["match"] == "guid":
            findings.error(path + ".match.guid", rail["value"], "a soft_roce rail has no HCA to match until its link is made", "pci or mac")
        if fabric == "infiniband" and rail["match"] == "mac":
            findings.error(path + ".match.mac", rail["value"], "an InfiniBand port has no Ethernet MAC address", "pci or guid")
        if fabric == "roce" and rail["address"] is None and values["network_manage_addresses"] and not findings.has_error(path):
            findings.warning(path, None, "a RoCE rail without an address has no routable RoCE v2 GID",
                             "address: CIDR, or network_manage_addresses: false")
    expected = values["expect"].get("link_layer")
    if expected is not None and expected != LINK_LAYER[fabric]:
        findings.error("rdma_expect.link_layer", expected, f"the link layer of fabric {fabric} is {LINK_LAYER[fabric]}",
                       LINK_LAYER[fabric])


def check_expect(expect: Mapping[str, Any], findings: Findings) -> Any:
    """The converted ``rdma_expect`` mapping, or MISSING."""
    checked: dict[str, Any] = {}
    good = True
    for name, value in expect.items():
        path = f"rdma_expect.{name}"
        if name not in EXPECT:
            findings.error(path, value, f"nothing of this name is judged{did_you_mean(str(name), tuple(EXPECT))}", ", ".join(EXPECT))
            good = False
            continue
        if value is None:
            continue
        kind, allowed = EXPECT[name]
        converted = _convert_expectation(kind, value)
        if converted is None:
            findings.error(path, value, f"is not what {name} can be ({type_name(value)})", allowed)
            good = False
        checked[name] = converted
    return checked if good else MISSING


def _convert_expectation(kind: Any, value: Any) -> Any:
    if kind == "number":
        number = as_number(value)
        return number if number is not None and number > 0 else None
    if kind == "int":
        count = as_int(value)
        return count if count is not None and count >= 0 else None
    if kind == "text":
        return value if isinstance(value, str) and value else None
    typed = as_int(value) if isinstance(kind[0], int) else value
    return typed if typed in kind and not isinstance(value, bool) else None
