# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL profiles: the variables that a fabric or a cloud needs, each with its reason. Controller only.

A new profile is one more row in tables/nccl_profiles.yml. What a node needs of the chosen one (the values, and what
it has to check and to add) travels there in the Spec, as ``derived`` makes it; reasons and sources stay here.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import NCCL_RELEASE
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from ..tables.rows import read_table, rows

HCA = "NCCL_IB_HCA"
SOCKET = "NCCL_SOCKET_IFNAME"
NODE_ADDS = (HCA, SOCKET)  # what only the node knows: the rails' devices, and the interface of the bootstrap
DEFAULT_NCCL: dict[str, str] = {"roce": "roce", "infiniband": "infiniband", "erdma": "erdma-native"}
AUTO = "auto"
GID_INDEX = "NCCL_IB_GID_INDEX"
# Where the rows above say nothing: (why, source) of what the inventory's other keys bring.
_RANGE = ("The rails' subnet, so that no GID of another address is chosen.", "alibabacloud-erdma-controller runbook")
_FAMILY = ("The rails have IPv6 addresses, and NCCL looks for GIDs of IPv4 unless told otherwise.",
           "NCCL (src/transport/net_ib, since 2.21)")


class NcclVariable(NamedTuple):
    """``file``: the value names a file of the node, and this is where it comes from."""

    name: str
    value: str
    why: str
    source: str
    file: str = ""


class Correction(NamedTuple):
    """What the source says, what the profile does instead, and why."""

    said: str
    instead: str
    why: str


class Exclusion(NamedTuple):
    """A variable that defeats the profile. ``values`` (): whatever its value; ``severity``: error, or warning where it only costs speed."""

    name: str
    values: tuple[str, ...]
    why: str
    source: str
    severity: str = "error"


class NcclProfile(NamedTuple):
    """One row: everything that a fabric or a cloud needs of NCCL, and what it was corrected against."""

    name: str
    fabrics: tuple[str, ...]
    variables: tuple[NcclVariable, ...]
    address_range: bool  # set NCCL_IB_ADDR_RANGE to the rails' subnet when they share one
    hca_prefix: str | None  # the driver's device names, for documentation; lists are rendered from the match
    why: str
    source: str
    corrected: tuple[Correction, ...] = ()
    qos: str | None = None  # the QoS profile that the fabric's switches know; "none": there must be none; None: any
    nccl: tuple[str | None, str | None] = (None, None)  # first and last release that it is for
    transport: str = ""  # a plugin that brings its own: it finds devices and GIDs, and NCCL_IB_* are not its settings
    node: tuple[str, ...] = NODE_ADDS  # what the node adds
    hcas: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (shape, its HCAs): used where a host has no rails
    excludes: tuple[Exclusion, ...] = ()
    needs: tuple[str, ...] = ()  # what must be there beside it, in words


class Origin(NamedTuple):
    """One variable of a host and whose it is. ``value`` None: only the node knows it, or it is left out (then ``origin`` is override)."""

    name: str
    value: str | None
    origin: str  # profile, qos_profile, inventory, override, node
    why: str
    source: str


NCCL_PROFILES = rows(NcclProfile, read_table("nccl_profiles"))


def nccl_profile(name: str) -> NcclProfile | None:
    return next((profile for profile in NCCL_PROFILES if profile.name == name), None)


def nccl_variables(spec: Spec) -> dict[str, str]:
    """Profile, traffic class and overrides of a host, in the order in which files show them.

    Without NCCL_IB_HCA and NCCL_SOCKET_IFNAME, which the node adds unless they are overridden here.
    """
    return {row.name: row.value for row in origins(spec) if row.value is not None}


def origins(spec: Spec) -> tuple[Origin, ...]:
    """The same with where each comes from; a variable that an override leaves out is there with None."""
    found = {row.name: row for row in _of_profile(spec) + _of_inventory(spec)}
    for name, value in spec["nccl_overrides"].items():
        why = "nccl_overrides" if value is not None else "nccl_overrides leaves it out"
        found[name] = Origin(name, value, "override", why, "the inventory")
    return tuple(found.values())


def _of_profile(spec: Spec) -> tuple[Origin, ...]:
    profile = nccl_profile(spec["nccl_profile"])
    if profile is None:
        return ()
    rows = [Origin(row.name, row.value, "profile", row.why, row.source) for row in profile.variables]
    subnet = common_subnet(spec) if profile.address_range else None
    if subnet is not None:
        rows.append(Origin("NCCL_IB_ADDR_RANGE", subnet, "inventory", *_RANGE))
    if spec.fabric == "roce" and not profile.transport and has_ipv6(spec):  # NCCL before 2.21 looks for none; it needs an index
        rows.append(Origin("NCCL_IB_ADDR_FAMILY", "AF_INET6", "inventory", *_FAMILY))
    return tuple(rows)


def _of_inventory(spec: Spec) -> tuple[Origin, ...]:
    rows = []
    qos = site_profile(spec["qos_profile"], spec["qos_custom"])
    if qos is not None:
        rows.append(Origin("NCCL_IB_TC", str(qos.tc), "qos_profile", f"{qos.name}: {qos.why}", qos.source))
    if spec["nccl_gid_index"] != AUTO:
        rows.append(Origin(GID_INDEX, spec["nccl_gid_index"], "inventory", "nccl_gid_index; checked against every HCA of the node",
                           "the inventory"))
    return tuple(rows)


def derived(spec: Spec) -> dict[str, Any]:
    """What a node has to know of the profile, as plain JSON; ``spec["nccl_derived"]``.

    ``variables``: as ``nccl_variables``; ``adds``: which of the node's own go in beside them; ``hcas``: (shape, devices) for a host
    without rails; ``files``: variables of the profile that name a file, with where that comes from; ``gid``: see below;
    ``transport``: the plugin that takes the place of NCCL's own, or empty;
    ``nccl``: the release that the inventory asks for, None where it leaves that open.
    """
    profile = nccl_profile(spec["nccl_profile"])
    overrides = spec["nccl_overrides"]
    adds = [name for name in (profile.node if profile is not None else NODE_ADDS) if name not in overrides]
    if SOCKET not in adds and SOCKET not in overrides and spec["bootstrap_interface"] is not None:
        adds.append(SOCKET)  # the profile needs it no more than any other variable, but the operator named one
    rows = profile.variables if profile is not None else ()
    return {
        "variables": nccl_variables(spec),
        "adds": adds,
        "hcas": [[shape, list(names)] for shape, names in (profile.hcas if profile is not None and not spec.rails else ())],
        "files": {row.name: row.file for row in rows if row.file and row.name not in overrides},
        "gid": _gid_policy(spec, profile),
        "transport": profile.transport if profile is not None else "",
        "nccl": wanted_nccl(spec),
    }


def _gid_policy(spec: Spec, profile: NcclProfile | None) -> str:
    """auto: the node decides; given: a number that the node checks; off: nobody's business here."""
    if spec.fabric == "infiniband" or (profile is not None and profile.transport):
        return "off"
    if GID_INDEX in spec["nccl_overrides"]:
        value = spec["nccl_overrides"][GID_INDEX]
        return "off" if value is None or value.startswith("-") else "given"
    return "auto" if spec["nccl_gid_index"] == AUTO else "given"


def wanted_nccl(spec: Spec | Mapping[str, Any]) -> str | None:
    """Return the release of NCCL that the inventory installs; None for none, and for the distribution's newest."""
    if spec["nccl_install"] == "none":
        return None
    version = spec["nccl_version"] or (None if spec["nccl_install"] == "distribution" else NCCL_RELEASE)
    return version.partition("-")[0] if version is not None else None


def has_ipv6(spec: Spec) -> bool:
    """Whether the rails have IPv6 addresses; of several rails all have, or none. On InfiniBand no GID holds them."""
    return any(rail.address is not None and ":" in rail.address for rail in spec.rails)


def common_subnet(spec: Spec) -> str | None:
    """The one subnet of all rails of the host, or None when they have several or none."""
    subnets = {str(ipaddress.ip_interface(rail.address).network) for rail in spec.rails if rail.address is not None}
    return subnets.pop() if len(subnets) == 1 else None
