# SPDX-License-Identifier: GPL-3.0-or-later
"""Which manager owns a rail's interface: pure over what was observed.

First what names this very interface, then what the node runs. Two managers on one
interface are reported, never resolved: each would take the other's settings away.
"""

from typing import List, NamedTuple, Optional, Tuple

from .managers import ifupdown, netplan, networkd, nm
from .model import LinkState, Observed, RailWish


class Claim(NamedTuple):
    """Evidence that a manager has this interface."""

    backend: str
    evidence: str


def owner(rail: RailWish, preference: str, observed: Observed) -> Tuple[Optional[str], str]:
    """The backend for a rail and why; None when the node has nothing that could do it."""
    if preference != "auto":
        reason = unusable(preference, observed)
        return (None, reason) if reason else (preference, "network_backend says so")
    found = claims(rail, observed)
    if found:
        return found[0].backend, found[0].evidence
    return node_manager(observed.link(rail), observed)


def claims(rail: RailWish, observed: Observed) -> List[Claim]:
    """What names this interface, the surest first."""
    link = observed.link(rail)
    found: List[Claim] = []
    if "ifquery" in observed.tools:
        found += [Claim(ifupdown.NAME, "%s has a stanza for it" % state.path)
                  for state in ifupdown.sources(observed) if rail.netdev in ifupdown.interfaces(state.text or "")]
    if observed.active(networkd.UNIT) and link.networkd_file:
        by_netplan = networkd.NETPLAN_MARK in link.networkd_file
        found.append(Claim(netplan.NAME if by_netplan else networkd.NAME, "networkd configures it by %s" % link.networkd_file))
    if observed.active(nm.UNIT) and link.nm_managed:
        found += _nm_claims(link, observed)
    return found


def _nm_claims(link: LinkState, observed: Observed) -> List[Claim]:
    """NetworkManager manages every interface that it was not told to leave; what it does with it decides."""
    active = [profile for profile in nm.profiles(observed) if profile.uuid is not None and profile.uuid == link.nm_uuid]
    if any(profile.external for profile in active):
        return []
    if active and nm.NETPLAN_PREFIX in active[0].path:
        return [Claim(netplan.NAME, "NetworkManager configures it by %s" % active[0].path)]
    if all(profile.generated for profile in active) and has_netplan(observed):
        return []  # no settings of its own: netplan is where this node's are
    return [Claim(nm.NAME, "NetworkManager manages it" + (" by %s" % active[0].path if active else ""))]


def has_netplan(observed: Observed) -> bool:
    return "netplan" in observed.tools and bool(netplan.yaml_files(observed))


def node_manager(link: LinkState, observed: Observed) -> Tuple[Optional[str], str]:
    """The manager for an interface that nobody has yet: the one that the node runs."""
    if has_netplan(observed):
        return netplan.NAME, "%s configures the node" % netplan.yaml_files(observed)[0]
    if observed.active(networkd.UNIT) or observed.unit(networkd.UNIT).enabled == "enabled":
        return networkd.NAME, "systemd-networkd is enabled or running"
    if "ifquery" in observed.tools and observed.unit(ifupdown.UNIT).enabled == "enabled":
        return ifupdown.NAME, "networking.service is enabled"
    if unusable(networkd.NAME, observed) is None and not link.nm_managed:
        return networkd.NAME, "systemd-networkd is installed"
    if unusable(nm.NAME, observed) is None:
        return nm.NAME, "NetworkManager is running"
    if unusable(ifupdown.NAME, observed) is None:
        return ifupdown.NAME, "ifupdown is installed"
    return None, "no manager was found: none of systemd-networkd, ifupdown, NetworkManager and netplan is installed (and not masked)"


def unusable(backend: str, observed: Observed) -> Optional[str]:
    """Why a backend cannot be used on this node; None when it can."""
    if backend == networkd.NAME:
        state = observed.unit(networkd.UNIT).load
        return None if state == "loaded" else "%s is %s" % (networkd.UNIT, state or "unknown to systemd")
    if backend == nm.NAME:
        if not observed.active(nm.UNIT):
            return "%s is not running" % nm.UNIT
        return None if "nmcli" in observed.tools else "nmcli is not installed"
    if backend == netplan.NAME:
        if "netplan" not in observed.tools:
            return "netplan is not installed"
        return None if observed.active(nm.UNIT) else unusable(networkd.NAME, observed)
    return None if "ifquery" in observed.tools else "ifupdown is not installed"


def fights(rail: RailWish, backend: str, observed: Observed) -> List[str]:
    """Other managers that have the interface as well."""
    return ["%s is to be configured by %s, but %s; take it away from one of them (network_backend says which one to keep)" % (
        rail.netdev, backend, claim.evidence) for claim in claims(rail, observed) if claim.backend != backend]
