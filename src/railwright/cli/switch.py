# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright switch``: the switch side of the inventory's QoS profile: a text to review, and what switches are configured to do. No node
is contacted, and no switch but by ``read`` (``switch_read.py``)."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import End, planned_ends, same_switch
from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, option
from railwright.cli.session import bad_input, judged_inventory
from railwright.cli.switch_read import HELP as READ
from railwright.cli.switch_read import show_read
from railwright.cli.top import recorded
from railwright.exitcodes import ExitCode, InputError
from railwright.reading import read_bounded

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.inventories import Given
    from railwright.switch_check import Checked, Odd

HELP = """Print the switch's commands for the inventory's QoS profile. Text to review; nothing is sent anywhere.

DSCP map, lossless priority, PFC and its watchdog, ECN, the strict queue of CNP, buffers and MTU, in the platform's own syntax; \
as comments what differs from its defaults, where its traps are, and which show commands tell whether it holds. Hosts with different \
profiles get a text each. InfiniBand and eRDMA have no QoS profile: one line says so. No node need answer. --diff FILE: of a switch's \
export, only what that switch lacks, a line for each hop that does not hold.

\b
Examples:
  railwright switch hints -i mycluster --os sonic
  railwright switch hints -i mycluster --os eos --limit rack3 > rack3.txt
  railwright switch hints -i mycluster --os sonic --diff leaf1.json
"""


CHECK = """Hold exports of switches against the inventory's QoS profile, hop by hop as a packet goes; no switch is contacted.

MTU, trust, DSCP to class, class to priority group and queue, headroom, PFC, ECN, scheduling, CNP, watchdog: of each port the first \
hop that breaks the chain, and the line to change; and what holds, and is not as on most ports of these switches. Without --port: every \
port that is up. Ends 0 when no chain is broken, 1 when one is.

\b
Examples:
  railwright switch check -i mycluster --os sonic leaf1.json leaf2.json   # each a switch's config_db.json
  railwright switch check -i mycluster --os sonic leaf1.json --port Ethernet0 --format json
"""


class SwitchOs(StrEnum):
    """The platforms; ``railwright.switch_hints.PLATFORMS`` has the same, but this file is read for every --help."""

    SONIC = "sonic"
    NVUE = "nvue"
    ONYX = "onyx"
    EOS = "eos"
    NXOS = "nxos"


OsOption = Annotated[SwitchOs, option("--os", metavar="OS", help="Of the switches: sonic, nvue (Cumulus Linux 5), onyx, eos or nxos.")]

WITHOUT = {
    "infiniband": "The fabric is InfiniBand: it has no QoS profile, and no Ethernet switch to set. Flow control is by credits.",
    "erdma": "The fabric is eRDMA: it has no QoS profile. DSCP, PFC and ECN are the cloud's own, and no switch is yours to set.",
    "roce": "rdma_qos_profile is none: nothing to tell a switch. without PFC and ECN, RoCE drops packets under load.",
}


SHOWN = 2  # ports named in a row
DIFFER = ("rdma_qos_profile", "rdma_qos_custom")  # one fabric has one of each, so lint calls it an error; switches of two fabrics need both


DIFF_HELP = "A switch's export: print only what it lacks."
Diff = Annotated[Path | None, option("--diff", metavar="FILE", help=DIFF_HELP)]


def show_hints(inventory: Inventory, limit: Limit = None, *, os: OsOption, diff: Diff = None, form: OutputFormat = Format.TEXT) -> None:
    if diff is not None:
        _show_lacks(os.value, diff, inventory, limit, form)
        return
    specs = list(judged_inventory(inventory, limit, form, tolerated=DIFFER).specs.values())
    with bad_input(inventory, form):
        texts = _texts(os.value, specs)
    said = None if texts else WITHOUT[specs[0].fabric]
    if form is Format.JSON:
        console.print_json({"os": os.value, "hints": texts, "message": said})
        return
    if said is not None:
        console.say(said)
    for index, text in enumerate(texts):
        if index:
            console.out().line()
        for line in text["lines"]:
            console.say(line)


def profile_of(spec: Spec) -> QosProfile:
    """Raises InputError where the fabric has none."""
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import site_profile

    found = site_profile(spec["qos_profile"], spec["qos_custom"])
    if found is None:
        raise InputError(WITHOUT[spec.fabric])
    return found


def _texts(os: str, specs: list[Spec]) -> list[dict[str, Any]]:
    """A text for each profile of these hosts; none where they have none."""
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import site_profile
    from railwright.switch_hints import hints

    chosen = Counter(site_profile(spec["qos_profile"], spec["qos_custom"]) for spec in specs)
    found: list[dict[str, Any]] = []
    for profile, nodes in chosen.items():
        if profile is not None:
            try:
                found.append({"profile": profile.name, "nodes": nodes, "lines": hints(os, profile)})
            except ValueError as error:
                raise InputError(f"rdma_qos_profile {error}") from error
    return found


READABLE = "SONiC's config_db.json, `nv config show -o json`, running-config of EOS (text or JSON), NX-OS, Onyx"
FILES_HELP = f"A switch's export each: {READABLE}."
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help=FILES_HELP)]
Ports = Annotated[list[str] | None, option("--port", metavar="NAME", help="Only this port; may be given several times.")]


def show_check(
    files: Files, inventory: Inventory, limit: Limit = None, *, os: OsOption, port: Ports = None, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    from railwright.switch_check import odd_ports

    found, name = checked_files(os.value, files, inventory, limit, form, port or [])
    odd = odd_ports(found)
    broken = sum(one.first is not None for rows in found.values() for one in rows)
    code = ExitCode.FAILED if broken else ExitCode.OK
    documents = {name: {"ports": {one.port: _document(one) for one in rows}} for name, rows in found.items()}
    summary = {"ports": sum(map(len, found.values())), "broken": broken, "exit_code": int(code)}
    document = {"os": os.value, "profile": name, "switches": documents, "odd": [item._asdict() for item in odd], "summary": summary}
    console.answer(form, document, lambda: _show(found, odd, name))
    raise typer.Exit(code)


def checked_files(
    os: str, files: list[Path], inventory: Given, limit: str | None, form: Format, ports: list[str],
) -> tuple[dict[str, list[Checked]], str]:  # fmt: skip
    """The ports of each file, and the name of the inventory's profile. Raises InputError."""
    from railwright.switch_check import Unusable, check

    specs = list(judged_inventory(inventory, limit, form).specs.values())
    profile = profile_of(specs[0])
    mtu = max(rail.mtu or spec.mtu for spec in specs for rail in spec.rails) if any(spec.rails for spec in specs) else specs[0].mtu
    found = {}
    with bad_input(inventory, form):
        for file in files:
            try:
                found[str(file)] = check(os, read_export(file), profile, mtu, ports)
            except (Unusable, ValueError) as error:
                raise InputError(f"{file}: {error}") from error
    return found, profile.name


def _show_lacks(os: str, file: Path, inventory: Given, limit: str | None, form: Format) -> None:
    """Each line once, with the ports that need it; in a packet's order."""
    from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
    from railwright.switch_hints import PLATFORMS

    found, name = checked_files(os, [file], inventory, limit, form, [])
    lacks = grouped(((hop, line.replace(one.port, "PORT")), one.port) for one in found[str(file)] for hop, line in one.lines.items())
    rows: list[dict[str, Any]] = [{"hop": hop, "line": line, "ports": ports} for (hop, line), ports in lacks.items()]

    def show() -> None:
        mark = PLATFORMS[os].comment
        for row in rows:
            console.say(f"{mark} {row['hop']}, on {_ports(row['ports'])}")
            console.say(row["line"] or f"{mark} the platform's own: no command sets it")
        console.say(f"{mark} {file} lacks {console.count(len(rows), 'line') if rows else 'nothing'} for {name}")

    console.answer(form, {"os": os, "profile": name, "lacks": rows}, show)


def read_export(path: Path) -> str:
    """Raises InputError for what is no file of a size that an export has."""
    from railwright.switch_check import LIMIT

    return read_bounded(path, str(path), LIMIT, f"is larger than any export: more than {LIMIT >> 20} MiB").decode("utf-8", "replace")


def _document(one: Checked) -> dict[str, Any]:
    return {"first": None if one.first is None else one.first.hop,
            "hops": [{"hop": hop.hop, "status": hop.status, "expected": hop.expected, "found": hop.found,
                      "line": one.lines.get(hop.hop) or one.advice.get(hop.hop)}
                     for hop in one.hops]}  # fmt: skip


def _show(found: dict[str, list[Checked]], odd: list[Odd], profile: str) -> None:
    """Ports with the same fault are one row; of each port the hops in a packet's order. What is unlike the others last."""
    for file, rows in found.items():
        bad = sum(one.first is not None for one in rows)
        console.say(console.styled(file, "node"), f"{console.count(len(rows), 'port')}, the chain of {profile} is broken on {bad}")
        groups: dict[tuple[str, ...], list[str]] = {}
        for one in rows:
            for hop in (hop for hop in one.hops if hop.status != "pass"):
                place = "first" if hop is one.first else ""
                line = (one.lines.get(hop.hop) or one.advice.get(hop.hop, "")).replace(one.port, "PORT")
                groups.setdefault((hop.hop, hop.status, place, hop.expected, hop.found, line), []).append(one.port)
        if groups:
            cells = [(console.styled(f"{status} {place}".strip(), status), hop, _ports(ports), expected, seen, line)
                     for (hop, status, place, expected, seen, line), ports in groups.items()]  # fmt: skip
            console.table(("result", "hop", "ports", "expected", "found", "change"), cells)
    for item in odd:
        console.say(console.styled("odd", "warn"), f"{item.switch} {_ports(item.ports)}: {item.hop}: {item.found}; on {item.like} of "
                    f"{item.total} ports: {item.usual}")  # fmt: skip


def _ports(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > SHOWN else ", ".join(names)


PAUSES = """Say who pauses whom, and where the congestion begins, by two exports of each switch's counters; no switch is contacted.

Pauses, drops and ECN marks between the two, of sonic, eos or nxos; rails are found by rdma_cabling. --hosts: what the hosts counted \
meanwhile. A host that pauses its switch is a slow receiver. Ends 0 when nobody pauses anybody, 1 when somebody does or a \
port is unknown.

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
    from railwright.switch_pauses import begins, circles, egress, joined, pauses, rails_of

    specs = judged_inventory(inventory, None, form).specs
    profile = profile_of(next(iter(specs.values())))
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
    places, rounds, code = begins(found, leaving), circles(found), ExitCode.FAILED if found or unknown or not known else ExitCode.OK
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
    from railwright.switch_pauses import READERS, grown, read

    counted: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for text in switches:
        name, _equals, rest = text.partition("=")
        os, *files = rest.split(":")
        if not name or os not in READERS or len(files) != 2 or any(same_switch(name, known) for known in counted):
            raise InputError(f"--switch {text}: allowed: NAME=OS:BEFORE:AFTER, once for each switch, with OS of {', '.join(READERS)}")
        if len(set(map(realpath, files))) == 1:
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


ABOUT = "The switch side of the fabric."
VERBS = {"hints": (show_hints, HELP), "check": (show_check, CHECK), "read": (show_read, READ), "pauses": (show_pauses, PAUSES)}
