# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright validate``: judge the nodes and the cluster, with real traffic."""

from __future__ import annotations

from typing import Annotated

import typer

from railwright.cli import console, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.cli.session import Session, heading, node_counts, node_document, overall, require
from railwright.events import RunOutcome

HELP = """Judge every node and the cluster: HCA and link state, GIDs, agreement, jumbo pings, real RDMA traffic.

Expectations come from the inventory, never from a node. Ends 0 when no verdict failed, 1 when one did, \
3 when a node does not answer.

\b
Examples:
  railwright validate -i mycluster
  railwright validate -i mycluster --no-perftest --format json
"""

PERFTEST_HELP = "Measure with ib_write_bw and ib_read_lat between nodes. Default: as the inventory says."
Perftest = Annotated[
    bool | None,
    typer.Option("--perftest/--no-perftest", help=PERFTEST_HELP, show_default=False),
]
All = Annotated[bool, typer.Option("--all", "-a", help="Show the verdicts that passed, too.")]


def settle(outcome: RunOutcome) -> None:
    """The role ends with an assertion for ansible-playbook's sake; here the verdicts themselves say what failed."""
    failing = {str(verdict.get("node") or "") for verdict in outcome.verdicts if verdict.get("status") == "fail"}
    for host in outcome.hosts.values():
        if host.status == "failed" and host.action.endswith("assert") and failing & {host.name, ""}:
            host.status, host.task, host.action, host.message = "ok", "", "", ""


def command(
    inventory: Inventory,
    limit: Limit = None,
    perftest: Perftest = None,
    every: All = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    session = Session("validate", inventory, limit, form)
    outcome = session.run("validate", {} if perftest is None else {"validate_perftest": perftest})
    settle(outcome)
    judged = {str(verdict.get("node")) for verdict in outcome.verdicts}
    require(outcome, lambda host: host.judged or host.name in judged, "verdicts")
    code = overall(outcome)
    nodes = {name: node_document(host) | {"problems": host.problems} for name, host in sorted(outcome.hosts.items())}
    summary = node_counts(outcome) | {"verdicts": verdicts.counts(outcome.verdicts), "exit_code": int(code)}
    session.store(nodes, outcome.verdicts, summary, code, traffic=outcome.traffic, reachability=outcome.reachability)
    if form is Format.JSON:
        document = {"nodes": nodes, "verdicts": verdicts.ordered(outcome.verdicts), "traffic": outcome.traffic}
        console.print_json({**document, "reachability": outcome.reachability, "summary": summary})
    else:
        for _name, host in sorted(outcome.hosts.items()):
            own = verdicts.counts(verdict for verdict in outcome.verdicts if verdict.get("node") == host.name)
            heading(host, ", ".join(f"{many} {status}" for status, many in own.items() if many), verdicts.worst(own))
        verdicts.show(outcome.verdicts, passes=every)
        console.say(nodes_line(node_counts(outcome)))
    raise typer.Exit(code)
