# SPDX-License-Identifier: GPL-3.0-or-later
"""Inspect the interfaces and everything that says who manages them. Read-only.

Kernel files and managers' own state files come first; commands are asked for JSON or
for ``key=value`` properties, never for text that is meant for people.
"""

import ipaddress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...formats.outside import is_address, is_digits, json_value, lines_in, rows, whole
from ...formats.sysfs_values import integer
from ...host.host import Host
from ...observe.nics import interface_rows
from ..common.files import FileState, observe_file
from . import routes
from .managers import ifupdown, ini, netplan, networkd, nm
from .model import TABLES, DesiredInterface, LinkState, Observed, StaleRule, UnitState

UNITS = (networkd.UNIT, networkd.WAIT_UNIT, nm.UNIT, ifupdown.UNIT)
TOOLS = ("networkctl", "nmcli", "ifquery", "netplan")  # ifquery: EL has an ifup that is not ifupdown's
UDEV_DIRECTORY = "/etc/udev/rules.d"
WAIT_ONLINE = ("/usr/lib/systemd/systemd-networkd-wait-online", "/lib/systemd/systemd-networkd-wait-online")
IFF_UP = 1  # linux/if.h
Rules = Mapping[str, Mapping[int, Sequence[routes.Route]]]  # by family and table
RELOAD_SINCE = 244  # systemd NEWS: networkctl reload


def observe(host: Host, rails: Sequence[DesiredInterface]) -> Observed:
    tools = tuple(tool for tool in TOOLS if host.which(tool) is not None)
    addresses = interface_rows(host) or {}
    rules = {family: routes.parse_rules(_json(host, ("ip", "-j", family, "rule", "show"))) for family in routes.FAMILIES}
    # ``networkctl --version`` begins with ``systemd 252 (…)``.
    words = host.run(("networkctl", "--version")).out.split() if "networkctl" in tools else []
    systemd = int(words[1]) if len(words) > 1 and words[0] == "systemd" and is_digits(words[1]) else 0
    ranked = any(rail.metric is not None for rail in rails)
    return Observed(
        {rail.netdev: observe_link(host, rail, addresses.get(rail.netdev, {}), rules) for rail in rails},
        observe_units(host, UNITS), observe_files(host), tools, systemd >= RELOAD_SINCE,
        next((path for path in WAIT_ONLINE if host.exists(path)), None), stale_rules(rails, rules, addresses),
        connected=routes.parse_connected(_json(host, routes.CONNECTED_QUERY)) if ranked else (),
        networkd_metrics=systemd >= routes.NETWORKD_SINCE,
    )


def observe_units(host: Host, names: Sequence[str]) -> Dict[str, UnitState]:
    """Load, active and enabled state of units, in one call."""
    out = host.run(("systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState") + tuple(names)).out
    units: Dict[str, UnitState] = {}
    for name, block in zip(names, out.strip().split("\n\n")):
        values = dict(line.partition("=")[::2] for line in lines_in(block))
        units[name] = UnitState(values.get("LoadState", ""), values.get("ActiveState", ""), values.get("UnitFileState", ""))
    return units


def observe_files(host: Host) -> Dict[str, FileState]:
    found = ifupdown.observe_files(host)
    for directories, suffix in ((networkd.DIRECTORIES, ".network"), (nm.DIRECTORIES, ""), (netplan.DIRECTORIES, ".yaml")):
        for directory in directories:
            found += _below(host, directory, suffix)
    found += [state for state in _below(host, nm.IFCFG_DIRECTORY, "") if state.path.rpartition("/")[2].startswith("ifcfg-")]
    found += [observe_file(host, "%s/%s" % (directory, netplan.DROP_IN)) for directory in netplan.drop_in_directories(
        host.listdir(networkd.DIRECTORY))]
    found += [state for state in _below(host, UDEV_DIRECTORY, ".rules") if "railwright" in state.path]
    return {state.path: state for state in found if state.text is not None}


def observe_link(host: Host, rail: DesiredInterface, row: Dict[str, Any], rules: Rules) -> LinkState:
    base = "/sys/class/net/" + rail.netdev
    ifindex = host.line(base + "/ifindex")
    addresses = _global_addresses(row)
    networkd_state = _assignments(host.read("/run/systemd/netif/links/%s" % ifindex) if ifindex else None)
    device = ini.parse(host.read("/run/NetworkManager/devices/%s" % ifindex) or "") if ifindex else []
    return LinkState(
        ifindex, bool((integer(host.line(base + "/flags")) or 0) & IFF_UP), host.line(base + "/carrier") == "1",
        integer(host.line(base + "/mtu")) or None, whole(row.get("max_mtu"), 1), host.line(base + "/mode"),
        _assignments(host.read(base + "/uevent")).get("DEVTYPE"),
        tuple(map(_cidr, addresses)),
        tuple(_cidr(item) for item in addresses if item.get("family") == "inet" and item["prefixlen"] <= 30 and "broadcast" not in item),
        tuple(" ".join(route) for route in observe_routes(host, rail, rules)),
        networkd_state.get("NETWORK_FILE"),
        ini.value(device, "device", "managed") == "true", ini.value(device, "device", "connection-uuid"), ipv6_off(host, rail.netdev),
        routes.parse_foreign(_json(host, routes.foreign_query(rail.netdev)), TABLES),
        tuple((_cidr(item), str(item["metric"])) for item in addresses if isinstance(item.get("metric"), int)),
        tuple(_cidr(item) for item in addresses if item.get("noprefixroute") is True),
    )


def ipv6_off(host: Host, netdev: str) -> Optional[str]:
    if host.exists("/proc/sys/net/ipv4") and not host.exists("/proc/sys/net/ipv6"):
        return "this kernel runs without IPv6"
    if host.line("/proc/sys/net/ipv6/conf/%s/disable_ipv6" % netdev) == "1":
        return "net.ipv6.conf.%s.disable_ipv6 is 1" % netdev.replace(".", "/")
    return None


def observe_routes(host: Host, rail: DesiredInterface, rules: Rules) -> List[routes.Route]:
    """What the rail's own table holds, in both families: its address may have been of the other one.

    Asked by the rule first: a table nobody leads to is not in use.
    """
    found: List[routes.Route] = []
    for family in routes.FAMILIES:
        leading = rules[family].get(rail.table, [])
        if leading or any(routes.family_of(route) == family for route in routes.wanted_routes(rail)):
            # Exit 2 when the table does not exist yet: nothing there.
            told = _json(host, ("ip", "-j", family, "route", "show", "table", str(rail.table)))
            found += routes.parse_routes(told, rail.netdev) + list(leading)
    return found


def stale_rules(rails: Sequence[DesiredInterface], rules: Rules, addresses: Mapping[str, Dict[str, Any]]) -> Tuple[StaleRule, ...]:
    """Rules of a rail that is gone, or had another place in the list: no manager but networkd takes them away by itself."""
    tables = {rail.table for rail in rails}
    holders = {str(item["local"]): name for name, row in addresses.items() for item in _global_addresses(row)}
    return tuple(StaleRule(route[1], table, holders.get(route[1]))
                 for family in routes.FAMILIES for table, leading in sorted(rules[family].items())
                 for route in leading if table not in tables and is_address(route[1]))


def _global_addresses(row: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [item for item in rows(row.get("addr_info")) if item.get("scope") != "link" and _has_address(item)]


def _cidr(item: Dict[str, Any]) -> str:
    return str(ipaddress.ip_interface("%s/%d" % (item["local"], item["prefixlen"])))


def _has_address(item: Dict[str, Any]) -> bool:
    address, length = item.get("local"), item.get("prefixlen")
    if not isinstance(address, str) or not is_address(address) or not isinstance(length, int):
        return False
    return 0 <= length <= ipaddress.ip_address(address).max_prefixlen


def _json(host: Host, argv: Tuple[str, ...]) -> Any:
    result = host.run(argv)
    return json_value(result.out) if result.ok else None


def _below(host: Host, directory: str, suffix: str) -> List[FileState]:
    return [observe_file(host, "%s/%s" % (directory, name)) for name in host.listdir(directory) if name.endswith(suffix)]


def _assignments(text: Optional[str]) -> Dict[str, str]:
    return dict(line.partition("=")[::2] for line in lines_in(text or "") if "=" in line and not line.startswith("#"))
