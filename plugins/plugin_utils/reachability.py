# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reached whom on which rail, as the report shows it: counts a rail, and a matrix rail by rail for pairs of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from .cluster.reach import rail_by_mac, rail_names

PAIRS = 64  # with their matrix; in a large cluster those with a failure are of interest
SEEN = ("full", "small", "none", "unknown")


def reachability(nodes: Mapping[str, Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``{"rails": [{"rail", "asked", "full", "small", "none", "unknown"}], "pairs": [{"node", "peer", "cells": [{"rail", "peer_rail",
    "seen"}]}], "pairs_left_out"}``. ``heard``: by ARP or neighbour discovery, where the ping of this interface had failed."""
    by_mac = rail_by_mac(nodes)
    counts: dict[str, Counter[str]] = {name: Counter() for name in rail_names(nodes)}
    pairs: dict[tuple[str, str], list[dict[str, str]]] = {}
    for node in sorted(results):
        for ping in results[node]["pings"]:
            result = seen(ping)
            counts[ping["name"]][result] += 1
            cells = pairs.setdefault((node, ping["peer"]), [])
            cells.append({"rail": ping["name"], "peer_rail": ping["name"], "seen": result})
            macs = {mac for heard in ping["heard"].values() for mac in heard}
            others = {by_mac[mac][1] for mac in macs if by_mac.get(mac, ("", ""))[0] == ping["peer"]} - {ping["name"]}
            cells += [{"rail": ping["name"], "peer_rail": other, "seen": "heard"} for other in sorted(others)]
    # Sorted in a stable way: failures first, then by name.
    order = sorted(pairs, key=lambda pair: (all(cell["seen"] == "full" for cell in pairs[pair]), pair))
    shown = [{"node": node, "peer": peer, "cells": pairs[node, peer]} for node, peer in order[:PAIRS]]
    rails = [{"rail": name, "asked": found.total(), **{what: found[what] for what in SEEN}} for name, found in counts.items() if found]
    return {"rails": rails, "pairs": shown, "pairs_left_out": len(order) - len(shown)}


def seen(ping: Mapping[str, Any]) -> str:
    if ping["full"] is None:
        return "unknown"
    return "full" if ping["full"] else "small" if ping["small"] else "none"


def reachability_lines(document: Mapping[str, Any]) -> list[str]:
    """One line a rail."""
    return [f"{row['rail']}: {row['full']} of {row['asked']} pings between nodes came back at full MTU" for row in document["rails"]]
