# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fabric says about MTUs, profiles, rails and expectations, and the rails of one host as a network. Pure."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import CUSTOM, NONE, QOS_PROFILES, qos_profile
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped

from ..nccl_catalogue.profiles import NCCL_PROFILES, nccl_profile
from .check_qos import NO_PFC
from .findings import Findings, did_you_mean

Values = Mapping[str, Any]
Rails = list[dict[str, Any]]
Placed = list[tuple[dict[str, Any], ipaddress.IPv4Network | ipaddress.IPv6Network]]
# RoCE's path MTU is the largest of 256 … 4096 that fits a frame with its headers; 4096 needs some 4200 (NVIDIA).
ROCE_FULL_MTU = 4200
SWITCH_MTU = 9216  # the largest that switch vendors' RoCE templates carry
IPOIB_MAX = {"datagram": 4092, "connected": 65520}
MTU_ALLOWED = {
    "roce": "1280 to 9216; 9000 is usual",
    "infiniband": "1280 to 4092 (network_ipoib_mode datagram), to 65520 (connected)",
    "erdma": "8500, 1400",
}
LINK_LAYER = {"roce": "Ethernet", "erdma": "Ethernet", "infiniband": "InfiniBand"}
ADDR_FAMILY = "NCCL_IB_ADDR_FAMILY"
APART = "a subnet for each rail, or one subnet for all with network_source_routing: auto"


def check_mtus(values: Values, rails: Rails, findings: Findings) -> None:
    """The site's MTU and the rails' own against what the fabric carries."""
    fabric, mode, own = values["fabric"], values.get("network_ipoib_mode", "connected"), values.get("mtu")
    mtus = {} if own is None else {"rdma_mtu": own}
    mtus.update({f"rdma_rails[{rail['index']}].mtu": rail["mtu"] for rail in rails if rail["mtu"] not in (None, own)})
    for path, mtu in mtus.items():
        if fabric == "erdma" and mtu not in (8500, 1400):
            findings.error(path, mtu, "eRDMA needs 8500 (jumbo frames) or 1400", "8500, 1400")
        if fabric == "infiniband" and mtu > IPOIB_MAX[mode]:
            other = "; network_ipoib_mode connected takes up to 65520" if mode == "datagram" else ""
            findings.error(path, mtu, f"IPoIB in {mode} mode takes at most {IPOIB_MAX[mode]}{other}", f"1280 to {IPOIB_MAX[mode]}")
        if fabric == "roce" and mtu < ROCE_FULL_MTU:
            findings.warning(path, mtu, "RoCE's active_mtu would be less than 4096", f"at least {ROCE_FULL_MTU}; 9000 is usual")
        if fabric == "roce" and mtu > SWITCH_MTU:
            findings.warning(path, mtu, f"switches carry frames of at most {SWITCH_MTU} bytes", f"at most {SWITCH_MTU}; 9000 is usual")


def check_profiles(values: Values, _rails: Rails, findings: Findings) -> None:
    """Profiles exist and fit the fabric."""
    fabric, nccl, qos = values["fabric"], values["nccl_profile"], values["qos_profile"]
    row, fitting = nccl_profile(nccl), ", ".join(profile.name for profile in NCCL_PROFILES if fabric in profile.fabrics)
    if row is None:
        names = [profile.name for profile in NCCL_PROFILES]
        findings.error("rdma_nccl_profile", nccl, f"is no NCCL profile{did_you_mean(nccl, names)}", fitting)
    elif fabric not in row.fabrics:
        findings.error("rdma_nccl_profile", nccl, f"is a profile for {' and '.join(row.fabrics)}; the fabric is {fabric}", fitting)
    if qos != NONE and fabric != "roce":
        findings.error("rdma_qos_profile", qos, f"QoS profiles are for RoCE; {NO_PFC[fabric]}", NONE)
    elif qos not in (NONE, CUSTOM) and qos_profile(qos) is None:
        names = [profile.name for profile in QOS_PROFILES] + [CUSTOM, NONE]
        findings.error("rdma_qos_profile", qos, f"is no QoS profile{did_you_mean(qos, names)}", ", ".join(names))


def check_fabric(values: Values, rails: Rails, findings: Findings) -> None:
    """What the choice of fabric and stack says about rails and expectations."""
    fabric, stack, expected = values["fabric"], values["rdma_stack"], values["expect"].get("link_layer")
    managed = values["network_manage_addresses"]
    if stack == "soft_roce" and fabric != "roce":
        findings.error("rdma_stack", stack, f"a software RoCE device makes a RoCE fabric; rdma_fabric is {fabric}",
                       "inbox, or rdma_fabric: roce")
    for rail in rails:
        path = f"rdma_rails[{rail['index']}]"
        if stack == "soft_roce" and rail["match"] == "guid":
            findings.error(path + ".match.guid", rail["value"], "a soft_roce rail has no HCA to match until its link is made", "pci or mac")
        if fabric == "infiniband" and rail["match"] == "mac":
            findings.error(path + ".match.mac", rail["value"], "an InfiniBand port has no Ethernet MAC address", "pci or guid")
        if fabric == "roce" and rail["address"] is None and managed and not findings.has_error(path):
            findings.warning(path, None, "a RoCE rail without an address has no routable RoCE v2 GID",
                             "address: CIDR, or network_manage_addresses: false")
    known = [rail["name"] for rail in rails]
    for name in sorted(set(map(str, values["cabling"])) - set(known)):
        findings.error("rdma_cabling", name, "is no rail of this host", ", ".join(known) or "rdma_rails first")
    if expected not in (None, LINK_LAYER[fabric]):
        findings.error("rdma_expect.link_layer", expected, f"the link layer of fabric {fabric} is {LINK_LAYER[fabric]}", LINK_LAYER[fabric])


def check_network(values: Values, rails: Rails, findings: Findings) -> None:
    """A subnet for each rail, or one flat subnet for all: both work, and nothing in between does."""
    placed = [(rail, ipaddress.ip_interface(rail["address"]).network) for rail in rails if rail["address"] is not None]
    _flat(values, placed, findings)
    for number, (rail, network) in enumerate(placed):
        clash = next((f"{theirs} of {other['name']}" for other, theirs in placed[:number]
                      if network.version == theirs.version and network != theirs and network.overlaps(theirs)), None)
        if clash is not None:
            findings.error(_path(rail), rail["address"], f"{network} overlaps {clash}: a peer in both would be reached by either rail",
                           "one subnet for both rails, or two that do not overlap")
    for rail, network in placed:
        if network.prefixlen == network.max_prefixlen:
            findings.warning(_path(rail), rail["address"], "has a subnet of its own address alone: no peer is in it",
                             "the rail's prefix length")
    six = [rail for rail, network in placed if network.version == 6]
    if values.get("fabric") == "erdma":
        for rail in six:
            findings.error(_path(rail), rail["address"], "is IPv6; eRDMA connects over IPv4 only (its driver takes no AF_INET6)",
                           "an IPv4 address")
    elif values.get("fabric") == "roce" and six and len(six) < len(placed):
        findings.error(_path(six[0]), six[0]["address"], "is IPv6, but other rails of the host have IPv4 addresses; NCCL takes the GIDs of "
                       "all HCAs from one family (NCCL_IB_ADDR_FAMILY)", "one address family for all rails of a host")
    if values.get("fabric") == "roce" and placed and not findings.has_error("rdma_rails"):
        _nccl_family(values, "AF_INET6" if six else "AF_INET", findings)


def _path(rail: Mapping[str, Any]) -> str:
    return f"rdma_rails[{rail['index']}].address"


def _flat(values: Values, placed: Placed, findings: Findings) -> None:
    """The main table has one way into a subnet, so rails that share one need their own tables."""
    managed = values.get("network_manage_addresses", True)
    if managed and values.get("network_source_routing", "auto") != "false":
        return
    by_subnet = grouped((str(network), str(rail["name"])) for rail, network in placed if not (rail["gateway"] and managed))
    for subnet, names in sorted(by_subnet.items()):
        if len(names) > 1:
            findings.warning("rdma_rails", subnet, f"{' and '.join(names)} are in one subnet, and no source routing of ours keeps them "
                             "apart: traffic may leave on another rail", APART)


def _nccl_family(values: Values, wanted: str, findings: Findings) -> None:
    """An override that makes NCCL look for the rails' GIDs in the other family. With an index it does not look."""
    index = values.get("nccl_gid_index", "auto")
    overrides = {"NCCL_IB_GID_INDEX": None if index == "auto" else index, **(values.get("nccl_overrides") or {})}
    if ADDR_FAMILY in overrides and overrides["NCCL_IB_GID_INDEX"] is None and (overrides[ADDR_FAMILY] or "AF_INET") != wanted:
        version = 6 if wanted == "AF_INET6" else 4
        findings.error("nccl_overrides." + ADDR_FAMILY, overrides[ADDR_FAMILY], f"the rails' addresses are IPv{version}; NCCL would "
                       "find no RoCE v2 GID of theirs", f"{wanted}, or leave it out")
