# SPDX-License-Identifier: GPL-3.0-or-later
"""The validated wishes of one host: what every area reads and nothing may change."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .keys import Keys


class Rail(NamedTuple):
    """One RDMA port of a host, matched by something that an update cannot rename."""

    name: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a rail
    match: str  # pci, mac or guid
    value: str  # normalised: 0000:1a:00.0, 52:54:00:aa:bb:cc, b8ce:f603:00ab:cdef
    address: Optional[str]  # CIDR, 10.10.0.11/24; None: the rail carries no address
    gateway: Optional[str]
    mtu: int  # the rail's own, else the site's


class Spec(Keys):
    """Every inventory key with its final value, by its field (``mtu`` holds rdma_mtu). Built by ``validate.py`` only.

    The mapping is complete (defaults included) and plain JSON, so that it travels to
    the node as one module argument: ``Spec(spec.as_dict())`` is the same Spec.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values: Dict[str, Any] = dict(values)
        self.fabric: str = self._values["fabric"]
        self.mtu: int = self._values["mtu"]
        self.rdma_stack: str = self._values["rdma_stack"]
        self.consent: Tuple[str, ...] = tuple(self._values["consent"])
        self.expect: Dict[str, Any] = dict(self._values["expect"])
        self.like: Spec = self  # differs at most in devices, and in addresses within the same subnets
        self._rails: Optional[Tuple[Rail, ...]] = None

    @property
    def rails(self) -> Tuple[Rail, ...]:
        if self._rails is None:
            self._rails = tuple(Rail(**rail) for rail in self._values["rails"])
        return self._rails

    def with_rails(self, rails: List[Dict[str, Any]]) -> "Spec":
        """The same wishes for another host, whose rails have other devices, and other addresses in the same subnets."""
        other = Spec.__new__(Spec)
        vars(other).update(vars(self), _values=dict(self._values, rails=rails), _rails=None)
        return other

    def source_routed(self, rail: Rail) -> bool:
        """Whether traffic from a rail's address is to leave by the rail only. Its gateway is of no use otherwise."""
        wanted = self._values["network_source_routing"]
        several = len([other for other in self.rails if other.address is not None]) > 1
        return rail.address is not None and (rail.gateway is not None or wanted == "true" or (wanted == "auto" and several))

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._values)

    def rail(self, name: str) -> Rail:
        return {rail.name: rail for rail in self.rails}[name]


class Finding(NamedTuple):
    """One thing wrong with an inventory, before any node is touched."""

    host: Optional[str]  # None: the whole site
    key: str  # dotted path: rdma_rails[1].match.mac
    value: Any
    message: str  # what is wrong
    allowed: str  # what would be right
    severity: str  # error or warning


def errors_of(findings: List[Finding]) -> List[Finding]:
    return [finding for finding in findings if finding.severity == "error"]
