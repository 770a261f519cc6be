# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright facts``: what is observed on every node, or in a captured tree."""

from typing import Any

import typer
from rich.text import Text

from railwright.cli import console
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat, Transport, TransportOption
from railwright.cli.trees import Sysroot, show_documents

WIDE = 128  # columns of a terminal that the table of twelve columns needs

HELP = """Print what is observed on each node. Nothing is judged and nothing is changed.

\b
Examples:
  railwright facts -i mycluster --format json
  railwright facts --sysroot capture/node1
"""


def command(
    inventory: OptionalInventory = None, limit: Limit = None, sysroot: Sysroot = None, form: OutputFormat = Format.TEXT,
    transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree

    raise typer.Exit(
        show_documents("facts", inventory, limit, sysroot, form, facts_of_tree, lambda host: host.facts, show_facts, transport))


def show_facts(facts: dict[str, Any]) -> None:
    """A table of HCAs and ports; the rest is in the JSON form."""
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import stack_summary
    from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import system

    console.say(f"  {system(facts)}")
    console.pairs({label: text for label, text in stack_summary(facts).items() if label != "kernel" or ";" in text})
    rows = [_row(hca, port) for hca in facts.get("hcas") or [] for port in hca.get("ports") or [{}]]
    if rows and console.out().width < WIDE:
        console.table(("HCA", "port", "what"), [_narrow_row(row) for row in rows])
    elif rows:
        console.table(("HCA", "port", "state", "phys", "Gb/s", "link layer", "MTU", "netdev", "GIDs", "type", "firmware", "PCI"), rows)
    else:
        console.say("  no RDMA device")


def _row(hca: dict[str, Any], port: dict[str, Any]) -> tuple[object, ...]:
    number, state, phys, rate, layer, active, mtu, netdev = (
        _shown(port.get(key))
        for key in ("number", "state", "phys_state", "rate_gbps", "link_layer", "active_mtu", "netdev_mtu", "netdev")
    )
    styled = console.styled(state, "ok" if state == "ACTIVE" else "fail")
    device = (_shown(hca.get(key)) for key in ("hca_type", "fw_ver", "pci_address"))
    return (hca.get("name"), number, styled, phys, rate, layer, f"{active}/{mtu}", netdev, len(port.get("gids") or []), *device)


def _narrow_row(row: tuple[object, ...]) -> tuple[object, ...]:
    """Twelve columns would be two letters wide each; three lines say the same on 60."""
    name, number, state, phys, rate, layer, mtu, netdev, gids, kind, firmware, pci = (console.styled(cell, "") for cell in row)
    lines = (f"{state} {phys}, {rate} Gb/s, {layer}", f"MTU {mtu}, {netdev}, GIDs {gids}", f"{kind} {firmware}, {pci}")
    return name, number, Text("\n".join(lines))


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
