# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain profile``: an NCCL profile, or what becomes of it on the hosts of an inventory. No node is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat
from railwright.cli.session import bad_input, findings_document, present
from railwright.exitcodes import InputError

HELP = """Say what an NCCL profile sets and why, what it needs and excludes, and what was corrected against its source.

Without a name every profile is listed. With an inventory: what /etc/nccl.conf of each host will hold and where each value comes from \
(profile, QoS profile, inventory, override, node), with the named profile in place of its own. No node is contacted.

\b
Examples:
  railwright explain profile
  railwright explain profile scnet
  railwright explain profile -i mycluster --limit node1
"""
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Such as scnet or oci-h100.", show_default=False)]
FOUND = "(found on the node)"
LEFT_OUT = "(left out)"


def profile(name: Name = None, inventory: OptionalInventory = None, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
    from railwright.nccl.profiles import document, names, profile_named

    row = profile_named(name) if name is not None else None
    if inventory is not None:
        _of_hosts(inventory, limit, name, form)
    elif limit is not None:
        raise InputError("--limit chooses hosts of an inventory: give -i INVENTORY too")
    elif row is not None:
        found = document(row)
        if form is Format.JSON:
            console.print_json(found)
        else:
            _show(found)
    else:
        rows = [document(profile_named(item)) for item in names()]
        if form is Format.JSON:
            console.print_json(rows)
        else:
            console.table(("profile", "fabric", "for"), [(item["name"], ", ".join(item["fabrics"]), item["description"]) for item in rows])


def _of_hosts(inventory: Path, limit: str | None, name: str | None, form: Format) -> None:
    """Ends 64 when the inventory has errors, those that the named profile brings among them."""
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

    specs: dict[str, Spec] = {}
    with bad_input(inventory, form):
        present(inventory)
        from railwright.ansible_start import check_configuration

        check_configuration()
        from railwright.inventory import load, override
        from railwright.lint import judge
        from railwright.lint.lint import build_specs
        from railwright.nccl.profiles import of_host

        loaded = load(inventory, limit)
        if name is not None:
            loaded = override(loaded, {"nccl_profile": name}, {"nccl_profile": f"explain profile {name}"})
        findings = judge(loaded)
        specs, _own = build_specs(loaded)
    for finding in findings:
        console.note(str(finding))
    errors = [item for item in findings if item.severity == "error"]
    if errors:
        if form is Format.JSON:
            console.print_json(findings_document(findings))
        raise InputError(f"{inventory}: {console.count(len(errors), 'error')}; no node was contacted")
    if form is Format.JSON:
        console.print_json({host: of_host(spec) for host, spec in specs.items()})
        return
    for host, spec in specs.items():
        found = of_host(spec)
        console.say(f"{host}: {found['path']} by profile {found['profile']}")
        rows = [(item["name"], _value(item), item["origin"], item["why"]) for item in found["variables"]]
        if rows:
            console.table(("variable", "value", "from", "why"), rows)
        else:
            console.say("  nothing is set")


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
        lines.append(f"qos_profile: {needs['qos_profile']}")
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
    rows += [(name, FOUND, "The rails' ports." if name.endswith("HCA") else "bootstrap_interface, or the default route's.", "node")
             for name in found["node_adds"]]
    for item in found["shapes"]:
        rows.append(("NCCL_IB_HCA", "=" + ",".join(item["hcas"]), f"{item['shape']}, on hosts without rails.", "profile"))
    return rows
