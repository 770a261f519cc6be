# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright validate``: judge the nodes and the cluster, with real traffic."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from railwright.cli import console, one_line, verdicts
from railwright.cli.changes import nodes_line
from railwright.cli.drift import DriftForm, DriftFormat, Output, check_output, machine_form, print_result
from railwright.cli.options import Format, Inventory, Limit, Transport, TransportOption, option, settings
from railwright.cli.rollout import Batch, Canary, MaxFailures, MaxUnavailable, asked, in_batches
from railwright.cli.session import Conclusion, Session, concluded, heading, node_counts, require
from railwright.drift import verdicts_as_prometheus
from railwright.events import RunOutcome
from railwright.exitcodes import InputError

HELP = """Judge every node and the cluster: HCA and link state, GIDs, agreement, jumbo pings, real RDMA traffic.

Expectations come from the inventory, never from a node. Ends 0 when no verdict failed, 1 when one did, \
3 when a node does not answer.

\b
Examples:
  railwright validate -i mycluster
  railwright validate -i mycluster --no-perftest --format json
  railwright validate -i mycluster --area qos --area nccl --batch 10%
  railwright validate -i mycluster --format prometheus -o /var/lib/node_exporter/railwright-validate.prom
"""

PERFTEST_HELP = "Measure with perftest between nodes, rail by rail and all at once. Default: as the inventory says."
Perftest = Annotated[bool | None, option("--perftest/--no-perftest", help=PERFTEST_HELP)]
AREA_HELP = "Only checks of this family, by the word before the dot of their code: port, qos, gpu, perftest ... May be repeated."
Families = Annotated[list[str] | None, option("--area", metavar="FAMILY", help=AREA_HELP)]
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
    inventory: Inventory, limit: Limit = None, area: Families = None, perftest: Perftest = None, every: All = False,
    form: DriftForm = DriftFormat.TEXT, output: Output = None, batch: Batch = None, canary: Canary = None,
    max_failures: MaxFailures = None, max_unavailable: MaxUnavailable = None, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    check_output(form, output)
    session = Session("validate", inventory, limit, Format.JSON if form is DriftFormat.JSON else Format.TEXT)
    families = known_families(area or [])
    if perftest is None and families and "perftest" not in families:
        perftest = False
    extra = {} if perftest is None else {"validate_perftest": perftest}
    said = asked(batch, canary, max_failures, max_unavailable)
    outcome = in_batches(session, said, lambda part: judged_by_validate(part, extra, transport))
    if families:
        outcome.verdicts = [verdict for verdict in outcome.verdicts if str(verdict.get("check")).partition(".")[0] in families]
    end = conclusion(outcome)
    more = {"traffic": outcome.traffic, "reachability": outcome.reachability}
    document = {"verdicts": verdicts.ordered(outcome.verdicts), **more}
    run = session.store(end, outcome.verdicts, **more) or session.record(end, outcome.verdicts, **more)
    if form is DriftFormat.TEXT and settings.one_line:
        one_line.show(end.nodes, outcome.verdicts, passes=every)
    elif form is DriftFormat.TEXT:
        _show(outcome, every=every)
    else:
        prometheus = partial(verdicts_as_prometheus, run.nodes, run.verdicts, verb="validate")
        print_result(machine_form(form, run, prometheus, {"nodes": end.nodes, **document, "summary": end.summary}), output)
    raise typer.Exit(end.code)


def known_families(names: list[str]) -> frozenset[str]:
    """Raises InputError for what no check's code begins with."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE

    allowed = sorted({code.partition(".")[0] for code in BY_CODE})
    if (unknown := next((name for name in names if name not in allowed), None)) is not None:
        raise InputError(f"--area {unknown}: no check's code begins so; allowed: {', '.join(allowed)}")
    return frozenset(names)


def conclusion(outcome: RunOutcome) -> Conclusion:
    """Of a verb that gives verdicts."""
    return concluded(outcome, lambda host: {"problems": host.problems}, lambda _nodes: {"verdicts": verdicts.counts(outcome.verdicts)})


def _show(outcome: RunOutcome, *, every: bool) -> None:
    for _name, host in sorted(outcome.hosts.items()):
        own = verdicts.counts(verdict for verdict in outcome.verdicts if verdict.get("node") == host.name)
        heading(host, ", ".join(f"{many} {status}" for status, many in own.items() if many), verdicts.worst(own))
    verdicts.show_verdicts(outcome.verdicts, passes=every)
    console.say(nodes_line(node_counts(outcome)))
