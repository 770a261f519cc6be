# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright switch pauses``: who pauses whom, and where the congestion begins. No node and no switch is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import End, planned_ends, same_switch
from railwright.cli import console
from railwright.cli.options import Format, Inventory, OutputFormat, option
from railwright.cli.session import bad_input, judged_inventory
from railwright.cli.top import recorded
from railwright.exitcodes import ExitCode, InputError

PAUSES = """Say who pauses whom, and where the congestion begins, by two exports of each switch's counters; no switch is contacted.

Pauses, drops and ECN marks between the two, of sonic, eos or nxos; rails are found by rdma_cabling. --hosts: what the hosts counted \
meanwhile. A host that pauses its switch is a slow receiver. Ends 0 when nobody pauses anybody, 1 when somebody does or no port is known.

\b
Examples:
  railwright switch pauses -i mycluster --switch leaf1=sonic:before.json:after.json --hosts job.jsonl
  railwright switch pauses -i mycluster --switch leaf1=eos:1.json:2.json --switch spine1=nxos:1.txt:2.txt --link leaf1:Eth9/1=spine1:Eth1/1
"""
Switches = Annotated[list[str], option("--switch", metavar="NAME=OS:BEFORE:AFTER", help="Two exports of each switch's counters.")]
Hosts = Annotated[Path | None, option("--hosts", metavar="FILE", help="What `railwright top --record` wrote meanwhile.")]
Links = Annotated[list[str] | None, option("--link", metavar="SWITCH:PORT=SWITCH:PORT", help="A cable of two switches; once for each.")]
ROWS = 40  # of a table in text; JSON has all
WHY = {"host": "a slow receiver, it pauses {}", "unknown": "nobody named it; it pauses {}", "unread switch": "or beyond it: not read",
       "switch": "what leaves it by {}"}  # fmt: skip


def show_pauses(inventory: Inventory, switch: Switches, hosts: Hosts = None, link: Links = None, form: OutputFormat = Format.TEXT) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import site_profile
    from railwright.cli.switch import WITHOUT
    from railwright.switch_pauses import begins, circles, egress, joined, pauses, rails_of

    specs = judged_inventory(inventory, None, form).specs
    first = next(iter(specs.values()))
    profile = site_profile(first["qos_profile"], first["qos_custom"])
    if profile is None:
        raise InputError(WITHOUT[first.fabric])
    with bad_input(inventory, form):
        rails, span = rails_of(() if hosts is None else recorded(hosts, "--hosts"))
        if hosts is not None and not rails:
            raise InputError(f"--hosts {hosts}: has no rail; allowed: what `railwright top --record` wrote")
        try:
            counted, unknown = _counted(switch, profile.priority)
            cables = joined(counted, {node: planned_ends(spec["cabling"]) for node, spec in specs.items()}, _links(link or []), rails)
        except ValueError as error:
            raise InputError(str(error)) from error
    lost = [one for pair in cables for one in pair if None in one.own[:2] and one.kind in (("switch", "host") if hosts else ("switch",))]
    unknown = {one.place: f"its pauses are not in {hosts if one.kind == 'host' else 'the exports'}" for one in lost} | unknown
    found, leaving = pauses(cables), egress(cables)
    known = sum(None not in row[:2] for own in counted.values() for row in own.values())
    places, rounds, code = begins(found, leaving), circles(found), ExitCode.FAILED if found or not known else ExitCode.OK
    rows = [(one.place, to.place, one.own.marks, one.own.drops_out) for one, to in leaving]
    document = {"priority": profile.priority, "pauses": [pause._asdict() for pause in found], "circles": rounds, "unknown": unknown,
                "begins": [dict(zip(("who", "kind", "places"), place, strict=True)) for place in places],
                "ports": {name: {port: row._asdict() for port, row in own.items()} for name, own in counted.items()},
                "egress": [dict(zip(("port", "to", "marks", "drops"), row, strict=True)) for row in rows],
                "recorded": list(span), "summary": {"ports": known, "pauses": len(found), "exit_code": int(code)}}  # fmt: skip

    def show() -> None:
        if span:
            console.say("hosts", " to ".join(span))
        _table(("pauses", "whom", "sent", "received", "ends"), [(pause.who_at, pause.whom_at, pause.sent, pause.got,
               console.styled("odd", "warn") if pause.odd else "") for pause in found])  # fmt: skip
        _table(("leaves by", "to", "ECN marks", "drops"), rows)
        for who, kind, at in places:
            part = "; not all of its ports are known" if any(name.startswith(f"{who} ") for name in unknown) else ""
            console.say(console.styled("begins", "fail"), f"{who}: {WHY[kind].format(first_of(at, 3) or 'an unknown port')}{part}")
        for way in rounds:
            console.say(console.styled("circle", "fail"), " pauses ".join(way))
        for why in dict.fromkeys(unknown.values()):
            console.say(console.styled("unknown"), f"{first_of([at for at, its in unknown.items() if its == why], 3)}: {why}")
        if not found:
            console.say(f"nobody pauses anybody, on {console.count(known, 'port')}" if known else "no port is known")

    console.answer(form, document, show)
    raise typer.Exit(code)


def _counted(switches: list[str], priority: int) -> tuple[dict[str, Any], dict[str, str]]:
    """What the ports of each switch counted; and of which nobody knows, and why."""
    from railwright.cli.switch import read_export
    from railwright.switch_pauses import READERS, grown, read

    counted: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for text in switches:
        name, _equals, rest = text.partition("=")
        os, *files = rest.split(":")
        if not name or os not in READERS or len(files) != 2 or any(same_switch(name, known) for known in counted):
            raise InputError(f"--switch {text}: allowed: NAME=OS:BEFORE:AFTER, once for each switch, with OS of {', '.join(READERS)}")
        if len({Path(file).resolve() for file in files}) == 1:
            raise InputError(f"--switch {text}: BEFORE and AFTER are one file; allowed: two exports, of two times")
        counted[name], own = grown(*(read(os, read_export(Path(file)), priority, file) for file in files))
        unknown |= {f"{name} {port}": why for port, why in own.items()}
    return counted, unknown


def _links(texts: list[str]) -> list[tuple[End, End]]:
    links = [tuple(End(*end.partition(":")[::2]) for end in text.partition("=")[::2]) for text in texts]
    for text, (one, other) in zip(texts, links, strict=True):
        if not all((*one, *other)) or same_switch(one.switch, other.switch):
            raise InputError(f"--link {text}: allowed: SWITCH:PORT=SWITCH:PORT, of two switches")
    return [(one, other) for one, other in links]


def _table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    if rows:
        console.table(columns, [["not read" if cell is None else cell for cell in row] for row in rows[:ROWS]])
    if len(rows) > ROWS:
        console.say(f"  and {len(rows) - ROWS} more: --format json")
