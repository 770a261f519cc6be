# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright cabling``: into which switch port each rail is plugged, against the inventory's plan; or a plan as a proposal."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster import cabling
from railwright.cli import console
from railwright.cli.changes import nodes_line
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Transport, TransportOption, option
from railwright.cli.session import Session, concluded, failed_headings, node_counts, require
from railwright.cli.verdicts import counts, show_verdicts
from railwright.exitcodes import ExitCode
from railwright.report.text import printable
from railwright.writing import new_file, write_output

HELP = """Say into which port of which switch each rail is plugged, as the switch says it, and hold it against rdma_cabling. Change \
nothing.

Ethernet: LLDP, as lldpd has heard it, or with --listen heard by ourselves; a switch speaks every 30 seconds. InfiniBand: the switch is \
asked along the cable. Without a plan: what differs from its like, and with -o the plan as a file. Ends 0 when every planned rail is in \
its port, 1 when one is not, or nobody knows, 3 when a node does not answer.

\b
Examples:
  railwright cabling -i mycluster --listen 65
  railwright cabling -i mycluster -o cabling.yml   # what is there now, as rdma_cabling of each host
"""
LISTEN_HELP = "How long to listen on ports of which lldpd tells nothing: two intervals are 65 seconds."
OUTPUT_HELP = "Write what is there as rdma_cabling of each host: a proposal for the inventory, which somebody reads first."
HEAD = "# What `railwright cabling` saw; no plan of anybody's. Read it, correct it, and copy it to each host's variables.\n"
Listen = Annotated[int, typer.Option("--listen", metavar="SECONDS", min=0, max=300, help=LISTEN_HELP)]
Output = Annotated[Path | None, option("-o", "--output", metavar="FILE", help=OUTPUT_HELP)]


def command(
    inventory: Inventory, limit: Limit = None, listen: Listen = 0, output: Output = None, form: OutputFormat = Format.TEXT,
    transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    session = Session("cabling", inventory, limit, form)
    if output is not None:
        new_file(output)
    judged = session.judge()
    outcome = session.scan("cabling", transport, {"cabling_seconds": listen}, lambda _judged: question(listen))
    require(outcome, lambda host: host.cabling is not None, "cables")
    plan = {name: cabling.planned_ends(spec["cabling"]) for name, spec in judged.specs.items()}
    cables = {name: {rail: cable for rail, cable in cabling.cables_of(**host.cabling).items() if rail in _rails(judged.specs[name])}
              for name, host in outcome.hosts.items() if host.cabling is not None}  # fmt: skip
    verdicts = [item._asdict() for item in cabling.judge_cabling(plan, cables)]
    unplanned = {node: {rail: cable for rail, cable in own.items() if rail not in plan[node]} for node, own in cables.items()}
    odd = cabling.oddities(unplanned)
    bad = [ExitCode.FAILED] if any(item["status"] != "pass" and item["node"] not in session.out_of_service for item in verdicts) else []
    end = concluded(outcome, lambda host: {"cables": _document(cables.get(host.name, {}))}, lambda _nodes: {"verdicts": counts(verdicts)},
                    codes=bad)
    if output is not None:
        _propose(output, cables)

    def show() -> None:
        failed_headings(outcome)
        if verdicts:
            show_verdicts(verdicts, passes=False)
        _show(unplanned)
        for line in odd:
            console.say(console.styled("odd", "warn"), printable(line))
        console.say(nodes_line(node_counts(outcome)))

    session.finish(end, show, {"verdicts": verdicts, "odd": odd}, verdicts=verdicts)


def question(listen: int) -> Any:
    from railwright.scan.questions import Question, module_step

    given = {"mode": "cabling", "seconds": listen}
    return Question("rdma_check", "Find the other end of every cable", lambda node, _spec: {**given, "node": node}, module_step)


def _rails(spec: Any) -> list[str]:
    return [rail.name for rail in spec.rails]


def _document(cables: dict[str, Any]) -> dict[str, Any]:
    return {rail: {"switch": list(cable.switches), "port": list(cable.ports), "why": cable.why} for rail, cable in cables.items()}


def _show(cables: cabling.Cables) -> None:
    rows = [(node, rail, cable.switches[0] if cable.switches else "unknown", cable.ports[0] if cable.ports else "", cable.why)
            for node, own in sorted(cables.items()) for rail, cable in own.items()]  # fmt: skip
    if rows:
        console.table(("node", "rail", "switch", "port", "why"), rows)


def _propose(output: Path, cables: cabling.Cables) -> None:
    """Only what a switch has said, and of that only what Ansible cannot take for a template."""
    import yaml

    ends, odd = cabling.proposed(cables)
    hosts = {node: {"rdma_cabling": {rail: end._asdict() for rail, end in own.items()}} for node, own in sorted(ends.items())}
    text = yaml.safe_dump({"all": {"hosts": hosts}}, sort_keys=False)
    write_output(output, HEAD + text)
    if odd or not hosts:
        console.note(f"-o {output}: left out, since a name there is none for an inventory: {first_of(odd)}" if odd
                     else f"-o {output}: no switch has said anything, so it is empty")  # fmt: skip
