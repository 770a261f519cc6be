# SPDX-License-Identifier: GPL-3.0-or-later
"""netplan: one YAML file for all rails, rendered by networkd or NetworkManager.

``netplan apply`` would configure every interface of the node again, the management
NIC among them; ``generate`` only writes the renderer's files, and the renderer is then
told about ours.
"""

import json
from typing import Dict, List, Sequence, Tuple

from ....types import Op, run
from ...common.files import FileState
from ..model import RULE_PRIORITY, DesiredInterface, Observed, Wanted, by_name, header
from ..routes import ANYWHERE, Route, family_of, wanted_routes
from . import networkd, nm

NAME = "netplan"
PATH = "/etc/netplan/60-railwright.yaml"
DIRECTORIES = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan", "/lib/netplan")
PREFIX = "railwright-"
DROP_IN = "railwright.conf"
_GENERATED = "10-netplan-%s%s.network"  # what netplan makes of a rail's definition, below /run


def files(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Dict[str, Wanted]:
    if not rails:
        return {}
    manager = renderer(rails, observed)
    found = {PATH: Wanted(text(rails, manager), 0o600)}  # netplan warns when others may read it
    for rail in rails:
        lines = networkd.address_lines(rail) if manager == "networkd" else []
        if lines:  # netplan has no metric for an address's route; of an address that is there twice networkd takes the later one
            found["%s/%s.d/%s" % (networkd.DIRECTORY, _GENERATED % (PREFIX, rail.rail), DROP_IN)] = Wanted(
                header((rail,)) + "\n".join(lines[1:]) + "\n", 0o644)
    return found


def drop_in_directories(names: Sequence[str]) -> List[str]:
    """Those of ours, of whichever rail, among what lies in networkd's directory."""
    start = (_GENERATED % (PREFIX, "")).partition(".")[0]
    return ["%s/%s" % (networkd.DIRECTORY, name) for name in names if name.startswith(start) and name.endswith(".network.d")]


def renderer(rails: Tuple[DesiredInterface, ...], observed: Observed) -> str:
    """The manager that runs; where both do, the one that already has the rails."""
    if not observed.active(nm.UNIT):
        return "networkd"
    if not observed.active(networkd.UNIT):
        return "NetworkManager"
    links = [observed.link(rail) for rail in rails]
    return "NetworkManager" if all(link.nm_managed and link.networkd_file is None for link in links) else "networkd"


def text(rails: Tuple[DesiredInterface, ...], manager: str) -> str:
    lines = ["network:", "  version: 2", "  ethernets:"]
    for rail in rails:
        lines += ["    " + line for line in _definition(rail, manager)]
    return header(rails) + "\n".join(lines) + "\n"


def _definition(rail: DesiredInterface, manager: str) -> List[str]:
    quoted = json.dumps  # a JSON string is a YAML string, whatever is in it
    # netplan matches the permanent MAC. A virtual interface has none, and the kernel changes part of an IPoIB one's.
    match = "name: " + quoted(rail.netdev) if by_name(rail) or rail.kind == "infiniband" else "macaddress: " + quoted(rail.mac)
    lines = [PREFIX + rail.rail + ":", "  renderer: " + manager, "  match:", "    " + match, "  mtu: %d" % rail.mtu]
    lines += ["  optional: true", "  dhcp4: false", "  dhcp6: false", "  accept-ra: false", "  link-local: [ipv6]"]
    if manager == "networkd":
        lines.append("  ignore-carrier: true")  # the other renderer does not know it
    if rail.mode is not None:
        lines.append("  infiniband-mode: " + rail.mode)
    if rail.address is not None:
        lines.append("  addresses: [%s]" % quoted(rail.address))
    routes = wanted_routes(rail)
    if routes:
        lines.append("  routes:")
        for route in routes[:-1]:  # the last is the rule
            target = ["    - to: " + quoted(route[0]), "      scope: link"]
            if len(route) > 1:
                target = ["    - to: " + quoted(ANYWHERE[family_of(route)]), "      via: " + quoted(route[2])]
            lines += [*target, "      table: %d" % rail.table]
        if manager == "networkd":
            lines += ["  routing-policy:", "    - from: " + quoted(routes[-1][1]), "      table: %d" % rail.table]
            lines.append("      priority: %d" % RULE_PRIORITY)
    if manager != "networkd":
        lines += _passed(rail, routes)
    return lines


def _passed(rail: DesiredInterface, routes: Sequence[Route]) -> List[str]:
    """The rule and the metric. netplan leaves routing-policy out of NetworkManager's keyfiles (seen: 0.106), so they are passed through."""
    family = "ipv6" if ":" in (rail.address or "") else "ipv4"
    passed = ["      %s.routing-rule1: %s" % (family, json.dumps(nm.rule(rail)))] if routes else []
    if rail.metric is not None and rail.address is not None:
        passed.append("      %s.route-metric: %s" % (family, json.dumps(str(rail.metric))))
    return ["  networkmanager:", "    passthrough:", *passed] if passed else []


def tell(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Tuple[Op, ...]:
    generate = (run(("netplan", "generate")),)
    if renderer(rails, observed) == "networkd":
        return generate + networkd.tell(rails, observed)
    ops = list(generate) + [run(("nmcli", "connection", "reload"))]
    for rail in rails:
        if observed.link(rail).carrier:
            ops.append(run(("nmcli", "connection", "up", "id", "netplan-" + PREFIX + rail.rail, "ifname", rail.netdev), (("true",),)))
    return tuple(ops)


def conflicts(rail: DesiredInterface, observed: Observed) -> List[str]:
    """Definitions of the same interface in other files, seen in what netplan generated from them."""
    found = networkd.earlier("/run/systemd/network/" + _GENERATED % (PREFIX, rail.rail), rail, observed)
    if renderer((rail,), observed) == "networkd":
        found += networkd.no_metric(rail, observed)
    for state in networkd.effective(observed):
        name = state.path.rpartition("/")[2]
        foreign = name.startswith("10-netplan-") and not name.startswith("10-netplan-" + PREFIX)
        if foreign and networkd.matches(state.text or "", rail.netdev, rail.mac, rail.kind):
            found.append(_message(name[len("10-netplan-"):-len(".network")], state, rail, observed))
    for profile in nm.profiles(observed):
        name = profile.path.rpartition("/")[2]
        if name.startswith("netplan-") and not name.startswith("netplan-" + PREFIX) and nm.claims(profile, rail):
            found.append(_message(name[len("netplan-"):].partition(".")[0], observed.state(profile.path), rail, observed))
    return found


def _message(identifier: str, state: FileState, rail: DesiredInterface, observed: Observed) -> str:
    holders = [source.path for source in observed.under(*DIRECTORIES) if source.path != PATH and "%s:" % identifier in (source.text or "")]
    return "netplan's %s in %s configures %s too; take it out there, %s replaces it" % (
        identifier, " or ".join(holders) or state.path, rail.netdev, PATH)


def yaml_files(observed: Observed) -> List[str]:
    return [state.path for state in observed.under(*DIRECTORIES) if state.path.endswith(".yaml") and state.text]
