# SPDX-License-Identifier: GPL-3.0-or-later
"""Bonds that RDMA ports run on, as the kernel's bonding driver sees them: mode, LACP partner, members. /proc/net/bonding, read by anybody.

Form: drivers/net/bonding/bond_procfs.c. Without CAP_NET_ADMIN the file lacks the partner's address; the aggregators of the members and
their churn states are there for everybody.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host

PROC, LIMIT, MEMBERS = "/proc/net/bonding", 64 * 1024, 16
LACP = "802.3ad"
NOBODY = "00:00:00:00:00:00"
_MODES = {"IEEE 802.3ad Dynamic link aggregation": LACP, "fault-tolerance (active-backup)": "active-backup"}


def observe_bonds(host: Host, hcas: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The bonds that are the interface of an RDMA port; a bond whose file cannot be read is left out."""
    netdevs = [(hca.get("name"), port.get("number"), port.get("netdev")) for hca in hcas for port in hca.get("ports") or []]
    texts = [(hca, port, name, host.read("%s/%s" % (PROC, name), LIMIT)) for hca, port, name in netdevs
             if name and sysfs_values.is_name(name)]
    return [dict(bond_of(text), name=name, hca=hca, port=port) for hca, port, name, text in texts if text]


def bond_of(text: str) -> Dict[str, Any]:
    """``partner``: None where it is not shown. Of each member ``up`` (its own link), ``aggregator``, ``churned`` (no LACP agreement)."""
    mode: Optional[str] = None
    partner: Optional[str] = None
    members: List[Dict[str, Any]] = []
    for line in lines_in(text):
        name, _colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if name == "Slave Interface" and len(members) < MEMBERS:
            members.append({"name": sysfs_values.name(value), "up": None, "aggregator": None, "churned": None})
        elif name == "Bonding Mode":
            mode = _MODES.get(value, sysfs_values.token(value))
        elif name == "Partner Mac Address":
            partner = sysfs_values.mac_address(value)
        elif members and name == "MII Status":
            members[-1]["up"] = value == "up"
        elif members and name == "Aggregator ID":
            members[-1]["aggregator"] = sysfs_values.integer(value)
        elif members and name == "Partner Churn State":
            members[-1]["churned"] = value == "churned"
    return {"mode": mode, "partner": partner, "members": members}
