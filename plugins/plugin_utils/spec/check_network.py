# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of one host as a network: subnets that meet, address families, and what keeps the rails apart. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from .findings import Findings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Placed = list[tuple[dict[str, Any], Network]]
ADDR_FAMILY = "NCCL_IB_ADDR_FAMILY"
APART = "a subnet for each rail, or one subnet for all with network_source_routing: auto"


def check_network(checked: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    """Subnet for each rail, or one flat subnet for all: both work, and nothing in between does."""
    placed = [(rail, ipaddress.ip_interface(rail["address"]).network) for rail in rails if rail["address"] is not None]
    _flat(checked, placed, findings)
    _overlaps(placed, findings)
    for rail, network in placed:
        if network.prefixlen == network.max_prefixlen:
            findings.warning(_path(rail), rail["address"], "has a subnet of its own address alone: no peer is in it",
                             "the rail's prefix length")
    _families(checked.get("fabric"), placed, findings)
    if checked.get("fabric") == "roce" and placed and not findings.has_error("rdma_rails"):
        overrides = dict(checked.get("nccl_overrides") or {})
        if checked.get("nccl_gid_index", "auto") != "auto":
            overrides.setdefault("NCCL_IB_GID_INDEX", checked["nccl_gid_index"])
        _nccl_family(overrides, placed[0][1].version, findings)


def _path(rail: Mapping[str, Any]) -> str:
    return f"rdma_rails[{rail['index']}].address"


def _flat(checked: Mapping[str, Any], placed: Placed, findings: Findings) -> None:
    """The main table has one way into a subnet, so rails that share one need their own tables."""
    if checked.get("network_manage_addresses", True) and checked.get("network_source_routing", "auto") != "false":
        return
    by_subnet: dict[str, list[str]] = {}
    for rail, network in placed:
        if not (rail["gateway"] and checked.get("network_manage_addresses", True)):
            by_subnet.setdefault(str(network), []).append(str(rail["name"]))
    for subnet, names in sorted(by_subnet.items()):
        if len(names) > 1:
            findings.warning("rdma_rails", subnet, "%s are in one subnet, and no source routing of ours keeps them apart: traffic may "
                             "leave on another rail" % " and ".join(names), APART)


def _overlaps(placed: Placed, findings: Findings) -> None:
    for number, (rail, network) in enumerate(placed):
        for other, theirs in placed[:number]:
            if network.version == theirs.version and network != theirs and network.overlaps(theirs):
                findings.error(_path(rail), rail["address"], "%s overlaps %s of %s: a peer in both would be reached by either rail" % (
                    network, theirs, other["name"]), "one subnet for both rails, or two that do not overlap")
                break


def _families(fabric: Any, placed: Placed, findings: Findings) -> None:
    six = [(rail, network) for rail, network in placed if network.version == 6]
    if fabric == "erdma":
        for rail, _network in six:
            findings.error(_path(rail), rail["address"], "is IPv6; eRDMA connects over IPv4 only (its driver takes no AF_INET6)",
                           "an IPv4 address")
    elif fabric == "roce" and six and len(six) < len(placed):
        rail = six[0][0]
        findings.error(_path(rail), rail["address"], "is IPv6, but other rails of the host have IPv4 addresses; NCCL takes the GIDs of all "
                       "HCAs from one family (NCCL_IB_ADDR_FAMILY)", "one address family for all rails of a host")


def _nccl_family(overrides: Mapping[str, Any], version: int, findings: Findings) -> None:
    """An override that makes NCCL look for the rails' GIDs in the other family. With an index it does not look."""
    if ADDR_FAMILY not in overrides or overrides.get("NCCL_IB_GID_INDEX") is not None:
        return
    wanted = "AF_INET6" if version == 6 else "AF_INET"
    if (overrides[ADDR_FAMILY] or "AF_INET") != wanted:
        findings.error("nccl_overrides." + ADDR_FAMILY, overrides[ADDR_FAMILY], "the rails' addresses are IPv%d; NCCL would find no "
                       "RoCE v2 GID of theirs" % version, f"{wanted}, or leave it out")
