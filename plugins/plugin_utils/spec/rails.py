# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``rdma_rails`` list of one host: shape, identifiers, addresses, and rails that get in each other's way.

What a rail is matched by, in the one form in which nodes report it: PCI ``0000:1a:00.0``, MAC ``52:54:00:aa:bb:cc``, GUID
``b8ce:f603:00ab:cdef``. Every form in use is taken (no PCI domain, dashes or dots in a MAC, 0x or colons in a GUID). A value that YAML has
already turned into a number is lost and must be quoted: YAML 1.1 reads ``0000:10:00.0`` as the base-60 number 600.0.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from .findings import Findings, did_you_mean
from .values import as_int, type_name

FORMS = {
    "pci": "a PCI address like 0000:1a:00.0",
    "mac": "a MAC address like 52:54:00:aa:bb:cc",
    "guid": "a GUID like b8ce:f603:00ab:cdef",
}
RAIL_KEYS = ("name", "match", "address", "gateway", "mtu")
RAIL_NAME = r"[a-z][a-z0-9_-]{0,11}"  # part of interface and file names; Linux allows an interface 15 characters
RAIL_NAME_FORM = "up to 12 lower case letters, digits, - and _, a letter first"
_RAIL_KEYS = frozenset(RAIL_KEYS)
DEVICE_WORDS = ("name", "netdev", "interface", "device", "ifname", "hca")
ADDRESS_FORM = "an address with prefix length, like 192.0.2.11/24 or 2001:db8::11/64"
MATCH_KINDS = tuple(FORMS)
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def check_rails(rails: list[Any], mtu: int | None, findings: Findings) -> list[dict[str, Any]]:
    """The rails in the form that ``model.Rail`` takes; incomplete when there are errors."""
    checked: list[dict[str, Any]] = []
    for index, rail in enumerate(rails):
        path = f"rdma_rails[{index}]"
        if not isinstance(rail, dict):
            findings.error(path, rail, f"must be a mapping, not {type_name(rail)}", "{name, match: {pci, mac or guid}, address}")
            continue
        for key in rail:
            if key not in RAIL_KEYS:
                findings.error(f"{path}.{key}", None, f"a rail has no key {key}{did_you_mean(str(key), RAIL_KEYS)}",
                               ", ".join(RAIL_KEYS))
        name = _check_name(rail, path, findings)
        kind, value = _check_match(rail, path, findings)
        address = _check_address(rail, path, findings)
        gateway = _check_gateway(rail, address, path, findings)
        own_mtu = _check_mtu(rail, path, findings)
        checked.append({
            "name": name, "index": index, "match": kind, "value": value, "address": address, "gateway": gateway,
            "mtu": own_mtu if own_mtu is not None else mtu,
        })
    _check_twice(checked, findings)
    return checked


Shape = tuple[tuple[Any, ...], ...]
_PREFIXES = {str(length): length for length in range(1, 33)}
# Up to 254 addresses have the network of the first of them, and none is the first or the last of a network that long.
_INNER = {f"{last}/{length}": str(length) for last in range(1, 255) for length in range(10, 25)}
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")


def unsuspicious_rails(rails: list[Any]) -> tuple[list[dict[str, Any]], Shape] | None:
    """What ``check_rails`` would make of them, quickly, and what is left when devices and addresses within their subnets are taken away;
    None where there is, or may be, a finding. A rail without an MTU of its own keeps None.
    """
    checked: list[dict[str, Any]] = []
    shape = []
    findings = Findings(None)
    for index, rail in enumerate(rails):
        match = rail.get("match") if isinstance(rail, dict) else None
        if not isinstance(match, dict) or len(match) != 1 or not rail.keys() <= _RAIL_KEYS:
            return None
        name, address = rail.get("name"), rail.get("address")
        kind, value = next(iter(match.items()))
        network = None if address is None else _quick_network(address)
        if address is not None and network is None:
            address = _check_address(rail, "", findings)
            network = network_of(address) if address is not None else None
        gateway = None if rail.get("gateway") is None else _check_gateway(rail, address, "", findings)
        mtu = None if rail.get("mtu") is None else _check_mtu(rail, "", findings)
        if not (kind == "mac" and isinstance(value, str) and _MAC.fullmatch(value) and value != "00:00:00:00:00:00"):
            kind, value = _known_match(kind, value) if isinstance(value, str) else (None, None)
        if findings.items or kind is None or not isinstance(name, str) or not _is_name(name):
            return None
        checked.append({"name": name, "index": index, "match": kind, "value": value, "address": address, "gateway": gateway, "mtu": mtu})
        shape.append((name, kind, network, gateway, mtu))
    addresses = [rail["address"].partition("/")[0] for rail in checked if rail["address"] is not None]
    seen = (*(rail["name"] for rail in checked), *(rail["value"] for rail in checked), *addresses)
    return (checked, tuple(shape)) if len(set(seen)) == len(seen) else None


@lru_cache(1024)  # the PCI addresses of one kind of machine
def _known_match(kind: Any, value: str) -> Any:
    return _check_match({"match": {kind: value}}, "", Findings(None))


@cache
def _is_name(name: str) -> bool:
    return re.fullmatch(RAIL_NAME, name) is not None


def _quick_network(value: Any) -> str | None:
    """Of an IPv4 address that any host may have, in its canonical form; None of anything else."""
    if not isinstance(value, str):
        return None
    head, _dot, end = value.rpartition(".")
    if end in _INNER:
        return _parsed_network(head + ".1", _INNER[end])
    text, _slash, prefix = value.partition("/")
    return _parsed_network(text, prefix)


@lru_cache(8192)
def _parsed_network(text: str, prefix: str) -> str | None:
    length = _PREFIXES.get(prefix)
    try:
        number = int.from_bytes(socket.inet_pton(socket.AF_INET, text), "big")
    except (OSError, ValueError):
        return None
    if length is None or not 0 < number >> 24 < 224 or number >> 24 == 127:
        return None
    size = 32 - length
    if size > 1 and number & ((1 << size) - 1) in (0, (1 << size) - 1):
        return None
    return _network(number >> size << size, length)


def network_of(address: str) -> str:
    """The subnet of a rail's address."""
    return _quick_network(address) or str(ipaddress.ip_interface(address).network)


@cache
def _network(number: int, length: int) -> str:
    return str(ipaddress.IPv4Network((number, length)))


def _check_name(rail: Mapping[str, Any], path: str, findings: Findings) -> str | None:
    name = rail.get("name")
    if "name" not in rail:
        findings.error(path, None, "has no name", RAIL_NAME_FORM)
    elif not isinstance(name, str) or not re.fullmatch(RAIL_NAME, name):
        findings.error(path + ".name", name, "is not the name of a rail", RAIL_NAME_FORM)
    else:
        return name
    return None


def _check_match(rail: Mapping[str, Any], path: str, findings: Findings) -> Any:
    match = rail.get("match")
    if not isinstance(match, dict):
        message = "has no match" if "match" not in rail else f"must be a mapping, not {type_name(match)}"
        findings.error(path if "match" not in rail else path + ".match", match, message, "match: {pci: ...}, {mac: ...} or {guid: ...}")
        return None, None
    kinds = [kind for kind in match if kind in MATCH_KINDS]
    unknown = [kind for kind in match if kind not in MATCH_KINDS]
    for kind in unknown:
        hint = "; device names change with updates" if kind in DEVICE_WORDS else did_you_mean(str(kind), MATCH_KINDS)
        findings.error(f"{path}.match.{kind}", match[kind], f"a rail is not matched by {kind}{hint}", "pci, mac or guid")
    if len(kinds) != 1:
        if not unknown or len(kinds) > 1:
            findings.error(path + ".match", ", ".join(kinds) or None, f"must have exactly one of pci, mac, guid; it has {len(kinds)}",
                           "pci, mac or guid")
        return None, None
    try:
        return kinds[0], normalise(kinds[0], match[kinds[0]])
    except IdentifierError as error:
        findings.error(f"{path}.match.{kinds[0]}", match[kinds[0]], str(error), FORMS[kinds[0]])
        return None, None


def _check_address(rail: Mapping[str, Any], path: str, findings: Findings) -> str | None:
    value = rail.get("address")
    if value is None:
        return None
    message = _address_problem(value)
    if message is not None:
        findings.error(path + ".address", value, message, ADDRESS_FORM)
        return None
    return str(ipaddress.ip_interface(value.strip()).with_prefixlen)


def _address_problem(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not {type_name(value)}"
    text = value.strip()
    address, slash, prefix = text.partition("/")
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "is not an IP address"
    if "%" in address:
        return "names a zone; a rail's address is the same on every interface"  # Python 3.9 and later take one
    if not slash:
        return "has no prefix length"
    if not re.fullmatch(r"[0-9]{1,3}", prefix) or int(prefix) > parsed.max_prefixlen:
        return "has a netmask where the prefix length belongs" if "." in prefix else "has no valid prefix length"
    return _interface_problem(ipaddress.ip_interface(text))


def _interface_problem(interface: Interface) -> str | None:
    """Well-formed, but nothing that one interface of a cluster can carry."""
    parsed, network = interface.ip, interface.network
    if parsed.is_multicast or parsed.is_loopback or parsed.is_unspecified or str(parsed) == "255.255.255.255":
        return "is not an address that an interface of a cluster can have"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.is_link_local:
            return "is link-local: every interface has such an address, and no other subnet reaches it"
        if parsed.ipv4_mapped is not None:
            return f"is an IPv4 address in the form of an IPv6 one; write {parsed.ipv4_mapped}"
    if network.prefixlen == 0:
        return "has prefix length 0: the rail would be the route to everything"
    reserved = reserved_address(interface, parsed)
    return f"is {reserved}" if reserved is not None else None


def reserved_address(interface: Interface, parsed: Any) -> str | None:
    """What an address of a subnet is that no host in it can have; RFC 4291, 2.6.1: an IPv6 subnet's first is any of its routers."""
    network = interface.network
    if network.max_prefixlen - network.prefixlen < 2:
        return None
    if parsed == network.network_address:
        return "the %s of %s" % ("subnet-router anycast address" if network.version == 6 else "network address", network)
    if network.version == 4 and parsed == network.broadcast_address:
        return f"the broadcast address of {network}"
    return None


def _check_gateway(rail: Mapping[str, Any], address: str | None, path: str, findings: Findings) -> str | None:
    value = rail.get("gateway")
    if value is None:
        return None
    key = path + ".gateway"
    try:
        gateway = ipaddress.ip_address(value.strip() if isinstance(value, str) else "")
    except ValueError:
        findings.error(key, value, "is not an IP address", "an address of the rail's subnet, without prefix length")
        return None
    if address is None:
        if rail.get("address") is None:
            findings.error(key, value, "is the gateway of a rail without an address", "an address, or no gateway")
        return None
    interface = ipaddress.ip_interface(address)
    reserved = reserved_address(interface, gateway)
    if gateway.version != interface.version:
        findings.error(key, value, f"is IPv{gateway.version}, and the rail's address is IPv{interface.version}",
                       f"an address in {interface.network}")
    elif gateway not in interface.network:
        findings.error(key, value, "is outside the rail's subnet", f"an address in {interface.network}")
    elif gateway == interface.ip:
        findings.error(key, value, "is the rail's own address", f"another address in {interface.network}")
    elif reserved is not None:
        findings.error(key, value, f"is {reserved}", f"a host address in {interface.network}")
    return str(gateway)


def _check_mtu(rail: Mapping[str, Any], path: str, findings: Findings) -> int | None:
    value = rail.get("mtu")
    if value is None:
        return None
    mtu = as_int(value)
    if mtu is None or not 1280 <= mtu <= 65520:
        findings.error(path + ".mtu", value, f"must be an integer, not {type_name(value)}" if mtu is None else "is out of range",
                       "an integer from 1280 to 65520")
        return None
    return mtu


def _check_twice(rails: list[dict[str, Any]], findings: Findings) -> None:
    """Two rails with one name, one device or one address cannot both be set up."""
    for field, key, words in (("name", "name", "the name"), ("value", "match", "the device"), ("address", "address", "the address")):
        seen: dict[str, dict[str, Any]] = {}
        for rail in rails:
            value = rail[field]
            if value is None:
                continue
            if field == "address":
                value = value.split("/")[0]
            if value in seen:
                path = f"rdma_rails[{rail['index']}].{key if field != 'value' else 'match.' + rail['match']}"
                other = seen[value]
                whose = f" ({other['name']})" if field != "name" and other["name"] else ""
                findings.error(path, rail[field], f"is {words} of rdma_rails[{other['index']}]{whose} too",
                               "a different one for each rail")
            seen.setdefault(value, rail)


class IdentifierError(ValueError):
    """Not of this kind; the text says what is wrong."""


def normalise(kind: str, value: Any) -> str:
    """The identifier as nodes report it. Raises IdentifierError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise IdentifierError("was read as a number by YAML (digits and colons are base 60); put quotes around it")
    if not isinstance(value, str):
        raise IdentifierError(f"must be text: {FORMS[kind]}")
    return NORMALISE[kind](value.strip().lower())


def _pci(text: str) -> str:
    found = re.match(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", text)
    if found is None or int(found.group(3), 16) > 0x1F:
        raise IdentifierError(f"is not {FORMS['pci']}")
    return f"{found.group(1) or '0000'}:{found.group(2)}:{found.group(3)}.{found.group(4)}"


def _mac(text: str) -> str:
    if re.match(r"^([0-9a-f]{2}[:-]){19}[0-9a-f]{2}$", text):
        raise IdentifierError("is the 20-byte address of an IPoIB interface, which changes with the queue pair; match by guid")
    if not re.match(r"^(([0-9a-f]{2}:){5}|([0-9a-f]{2}-){5})[0-9a-f]{2}$|^([0-9a-f]{4}\.){2}[0-9a-f]{4}$|^[0-9a-f]{12}$", text):
        raise IdentifierError(f"is not {FORMS['mac']}")
    digits = re.sub(r"[^0-9a-f]", "", text)
    if int(digits, 16) == 0:
        raise IdentifierError("is the empty MAC address")
    if int(digits[:2], 16) & 1:
        raise IdentifierError("is a multicast or broadcast MAC address; no interface has one")
    return ":".join(digits[index:index + 2] for index in range(0, 12, 2))


def _guid(text: str) -> str:
    if not re.match(r"^(0x)?[0-9a-f]{16}$|^([0-9a-f]{4}:){3}[0-9a-f]{4}$|^([0-9a-f]{2}[:-]){7}[0-9a-f]{2}$", text):
        raise IdentifierError(f"is not {FORMS['guid']}")
    digits = re.sub(r"[^0-9a-f]", "", text.removeprefix("0x"))
    if int(digits, 16) == 0:
        raise IdentifierError("is the empty GUID")
    return ":".join(digits[index:index + 4] for index in range(0, 16, 4))


NORMALISE: dict[str, Callable[[str], str]] = {"pci": _pci, "mac": _mac, "guid": _guid}
