# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright facts``: what is observed on every node, or in a captured tree."""

from __future__ import annotations

from typing import Any

import typer
from rich.text import Text

from ansible_collections.railwright.rdma.plugins.module_utils.observe.summary import stack_summary
from ansible_collections.railwright.rdma.plugins.plugin_utils.summaries import system
from railwright.cli import console
from railwright.cli.captured import Sysroot, show_documents
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat

WIDE = 128  # columns of a terminal that the table of twelve columns needs

HELP = """Print what is observed on each node. Nothing is judged and nothing is changed.

\b
Examples:
  railwright facts -i mycluster --format json
  railwright facts --sysroot capture/node1
"""


def command(inventory: OptionalInventory = None, limit: Limit = None, sysroot: Sysroot = None, form: OutputFormat = Format.TEXT) -> None:
    raise typer.Exit(show_documents("facts", inventory, limit, sysroot, form, _of_tree, lambda host: host.facts, show))


def _of_tree(tree: str) -> dict[str, Any]:
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree

    return facts_of_tree(tree)


def show(facts: dict[str, Any]) -> None:
    """A table of HCAs and ports; the rest is in the JSON form."""
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
    state = port.get("state")
    return (
        hca.get("name"),
        _shown(port.get("number")),
        console.styled(_shown(state), "ok" if state == "ACTIVE" else "fail"),
        _shown(port.get("phys_state")),
        _shown(port.get("rate_gbps")),
        _shown(port.get("link_layer")),
        f"{_shown(port.get('active_mtu'))}/{_shown(port.get('netdev_mtu'))}",
        _shown(port.get("netdev")),
        len(port.get("gids") or []),
        _shown(hca.get("hca_type")),
        _shown(hca.get("fw_ver")),
        _shown(hca.get("pci_address")),
    )


def _narrow_row(row: tuple[object, ...]) -> tuple[object, ...]:
    """Twelve columns would be two letters wide each; three lines say the same on 60."""
    name, number, state, phys, rate, layer, mtu, netdev, gids, kind, firmware, pci = (console.styled(cell, "") for cell in row)
    lines = (f"{state} {phys}, {rate} Gb/s, {layer}", f"MTU {mtu}, {netdev}, GIDs {gids}", f"{kind} {firmware}, {pci}")
    return name, number, Text("\n".join(lines))


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
