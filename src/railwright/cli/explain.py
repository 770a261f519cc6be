# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain``: why a node gets what it gets: its path between HCAs and GPU memory; its NCCL settings (``explain_nccl``)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from railwright.cli import console, explain_nccl
from railwright.cli.captured import Sysroot, show_documents
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat
from railwright.exitcodes import InputError
from railwright.report.text import value_text

HELP = """Say why a node gets what it gets, by one name. Nothing is changed.

gpudirect: the path that the HCAs of each node take to GPU memory (DMA-BUF, nvidia_peermem or nv_peer_mem), why, and why not the others, \
with every piece of evidence and where it was read. It asks the nodes; with --sysroot a captured tree.

profile: all NCCL profiles; with an inventory what /etc/nccl.conf of each host will hold and where each value comes from. The name of a \
profile: what it sets and why, what it needs and excludes, and what was corrected against its source; with an inventory what each host \
gets by it. A variable such as NCCL_IB_TC: what it means to NCCL; with an inventory what each host gets. No node is contacted.

\b
Examples:
  railwright explain gpudirect -i mycluster --limit node1
  railwright explain gpudirect --sysroot capture/node1
  railwright explain scnet
  railwright explain NCCL_IB_TC -i mycluster
"""
NAME_HELP = "gpudirect, profile, the name of an NCCL profile (scnet, oci-h100 …), or a variable of NCCL."
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP, show_default=False)]
ABSENT = "-"


def command(
    name: Name, inventory: OptionalInventory = None, limit: Limit = None, sysroot: Sysroot = None, form: OutputFormat = Format.TEXT
) -> None:
    if name == "gpudirect":
        raise typer.Exit(show_documents("explain", inventory, limit, sysroot, form, _of_tree, lambda host: host.explanation, show))
    if sysroot is not None:
        raise InputError(f"--sysroot is for explain gpudirect; {name} is explained without a node")
    if inventory is None and limit is not None:
        raise InputError("--limit chooses hosts of an inventory: give -i INVENTORY too")
    explain_nccl.explain(name, inventory, limit, form)


def _of_tree(tree: str) -> dict[str, Any]:
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain_tree

    return explain_tree(tree)


def show(explanation: dict[str, Any]) -> None:
    """The path and the reason, then the alternatives, then what it rests on."""
    path, problem = str(explanation.get("path")), explanation.get("problem")
    console.say("  path:", console.styled(path, "fail" if problem else "dim" if path == "none" else "ok"))
    console.say(f"  because: {explanation.get('reason')}")
    if problem:
        console.say("  problem:", console.styled(problem, "fail"))
    refused = explanation.get("refused") or []
    if refused:
        rows = [(item.get("path"), "no" if item.get("certain") else "not chosen", item.get("why")) for item in refused]
        console.table(("alternative", "possible", "why not"), rows)
    evidence = explanation.get("evidence") or []
    if explanation.get("gpus") and evidence:
        rows = [(row.get("what"), _shown(row.get("value")), row.get("source")) for row in evidence]
        console.table(("evidence", "value", "read from"), rows)


def _shown(value: Any) -> str:
    return ABSENT if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else value_text(value)
