# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright validate``: judge the nodes and the cluster, with real traffic."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from railwright.cli import console, one_line, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, TransportOption, option, settings
from railwright.cli.session import Conclusion, Session, concluded, heading, node_counts, require
from railwright.events import RunOutcome

HELP = """Judge every node and the cluster: HCA and link state, GIDs, agreement, jumbo pings, real RDMA traffic.

Expectations come from the inventory, never from a node. Ends 0 when no verdict failed, 1 when one did, \
3 when a node does not answer.

\b
Examples:
  railwright validate -i mycluster
  railwright validate -i mycluster --no-perftest --format json
"""

PERFTEST_HELP = "Measure with perftest between nodes, rail by rail and all at once. Default: as the inventory says."
Perftest = Annotated[bool | None, option("--perftest/--no-perftest", help=PERFTEST_HELP)]
All = Annotated[bool, typer.Option("--all", "-a", help="Show the verdicts that passed, too.")]


def judged_by_validate(
    session: Session, extra_vars: Mapping[str, Any] | None = None, transport: Transport = Transport.ANSIBLE
) -> RunOutcome:  # fmt: skip
    """One run of the playbook, each node with verdicts or failed.

    The role ends with an assertion for ansible-playbook's sake; here the verdicts themselves say what failed.
    """
    outcome = session.run_after_scan("validate", transport, extra_vars)
    failing = {str(verdict.get("node") or "") for verdict in outcome.verdicts if verdict.get("status") == "fail"}
    for host in outcome.hosts.values():
        if host.status == "failed" and host.action.endswith("assert") and failing & {host.name, ""}:
            host.status, host.task, host.action, host.message = "ok", "", "", ""
    judged = {str(verdict.get("node")) for verdict in outcome.verdicts}
    require(outcome, lambda host: host.judged or host.name in judged, "verdicts")
    return outcome


def command(
    inventory: Inventory, limit: Limit = None, perftest: Perftest = None, every: All = False, form: OutputFormat = Format.TEXT,
    transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    session = Session("validate", inventory, limit, form)
    outcome = judged_by_validate(session, {} if perftest is None else {"validate_perftest": perftest}, transport)
    end = conclusion(outcome)
    more = {"traffic": outcome.traffic, "reachability": outcome.reachability}
    document = {"verdicts": verdicts.ordered(outcome.verdicts), **more}
    show = partial(one_line.show, end.nodes, outcome.verdicts, passes=every) if settings.one_line else partial(_show, outcome, every=every)
    session.finish(end, show, document, verdicts=outcome.verdicts, **more)


def conclusion(outcome: RunOutcome) -> Conclusion:
    """Of a verb that gives verdicts."""
    return concluded(outcome, lambda host: {"problems": host.problems}, lambda _nodes: {"verdicts": verdicts.counts(outcome.verdicts)})


def _show(outcome: RunOutcome, *, every: bool) -> None:
    for _name, host in sorted(outcome.hosts.items()):
        own = verdicts.counts(verdict for verdict in outcome.verdicts if verdict.get("node") == host.name)
        heading(host, ", ".join(f"{many} {status}" for status, many in own.items() if many), verdicts.worst(own))
    verdicts.show_verdicts(outcome.verdicts, passes=every)
    console.say(nodes_line(node_counts(outcome)))
