# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain`` of NCCL's settings: a profile, a variable, or what becomes of them on hosts. No node is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from railwright.cli import console
from railwright.cli.nccl import explain as explain_variable
from railwright.cli.options import Format
from railwright.cli.session import judged_inventory

FOUND = "(found on the node)"
LEFT_OUT = "(left out)"
COLUMNS = ("variable", "value", "from", "why")


def explain(name: str, inventory: Path | None, limit: str | None, form: Format) -> None:
    """``profile``: all of them, or the hosts' own. In capitals: a variable. Else a profile, on the hosts in place of their own."""
    from railwright.nccl.explain import explanation
    from railwright.nccl.profiles import document, profile_named

    variable = name.isupper() and "-" not in name
    if name != "profile" and not variable:
        profile_named(name)  # refuses what is none
    if variable and (inventory is None or not explanation(name)["known"]):
        explain_variable(name, form)
    elif inventory is not None:
        _of_hosts(inventory, limit, None if variable or name == "profile" else name, name if variable else None, form)
    elif name == "profile":
        _show_all(form)
    else:
        found = document(profile_named(name))
        if form is Format.JSON:
            console.print_json(found)
        else:
            _show(found)


def _show_all(form: Format) -> None:
    from railwright.nccl.profiles import document, names, profile_named

    rows = [document(profile_named(item)) for item in names()]
    if form is Format.JSON:
        console.print_json(rows)
    else:
        console.table(("profile", "fabric", "for"), [(item["name"], ", ".join(item["fabrics"]), item["description"]) for item in rows])


def _of_hosts(inventory: Path, limit: str | None, profile: str | None, variable: str | None, form: Format) -> None:
    """Ends 64 when the inventory has errors, those that the named profile brings among them."""
    given = {} if profile is None else {"rdma_nccl_profile": profile}
    specs = judged_inventory(inventory, limit, form, given, dict.fromkeys(given, f"explain {profile}")).specs
    from railwright.nccl.profiles import of_host

    hosts = {host: of_host(spec) for host, spec in specs.items()}
    if variable is not None:
        for found in hosts.values():
            found["variables"] = [row for row in found["variables"] if row["name"] == variable]
    if form is Format.JSON:
        console.print_json(hosts)
        return
    for host, found in hosts.items():
        console.say(f"{host}: {found['path']} by profile {found['profile']}")
        rows = [(item["name"], _value(item), item["origin"], item["why"]) for item in found["variables"]]
        if rows:
            console.table(COLUMNS, rows)
        else:
            console.say("  nothing is set" if variable is None else f"  {variable} is not set")


def _value(row: dict[str, Any]) -> str:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import GID_INDEX

    if row["value"] is not None:
        return str(row["value"])
    return LEFT_OUT if row["origin"] == "override" or row["name"] == GID_INDEX else FOUND


def _show(found: dict[str, Any]) -> None:
    default = f" The default of fabric {', '.join(found['default_for'])}." if found["default_for"] else ""
    console.say(f"{found['name']}: {found['description']}{default}")
    console.say(f"  fabric: {', '.join(found['fabrics'])}")
    console.say(f"  source: {found['source']}")
    for line in _needs(found):
        console.say(f"  needs: {line}")
    rows = [(item["name"], item["value"], item["why"], item["source"]) for item in found["variables"]]
    rows += _from_elsewhere(found)
    if rows:
        console.table(("variable", "value", "why", "source"), rows)
    else:
        console.say("  nothing is set")
    if found["excludes"]:
        excluded = [(item["name"], ", ".join(item["values"]) or "any value", item["why"], item["source"]) for item in found["excludes"]]
        console.table(("must not be set", "to", "why", "source"), excluded)
    if found["corrected"]:
        console.table(("the source says", "here", "why"), [(item["said"], item["instead"], item["why"]) for item in found["corrected"]])


def _needs(found: dict[str, Any]) -> list[str]:
    needs, lines = found["needs"], []
    first, last = needs["nccl"]["first"], needs["nccl"]["last"]
    if first or last:
        lines.append(f"NCCL {first} to {last}" if first and last else f"NCCL {first} and later" if first else f"NCCL up to {last}")
    if needs["qos_profile"] is not None:
        lines.append(f"rdma_qos_profile: {needs['qos_profile']}")
    if needs["transport"] is not None:
        lines.append(f"{needs['transport']}, which is the transport and finds devices and GIDs by itself")
    return lines + list(needs["other"])


def _from_elsewhere(found: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What the profile leaves to the inventory and to the node."""
    rows = []
    if found["address_range"]:
        rows.append(("NCCL_IB_ADDR_RANGE", "(the rails' subnet)", "Where all rails of a host are in one.", "inventory"))
    if "roce" in found["fabrics"] and found["needs"]["transport"] is None:
        rows.append(("NCCL_IB_TC", "(the QoS profile's)", "One number for NCCL, the NIC's map and PFC.", "inventory"))
    rows += [(name, FOUND, "The rails' ports." if name.endswith("HCA") else "rdma_bootstrap_interface, or the default route's.", "node")
             for name in found["node_adds"]]
    for item in found["shapes"]:
        rows.append(("NCCL_IB_HCA", "=" + ",".join(item["hcas"]), f"{item['shape']}, on hosts without rails.", "profile"))
    return rows
