# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain path NODE:RAIL NODE:RAIL``: a packet's way from one rail to another, hop by hop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from railwright.cli import console
from railwright.cli.options import Format, Transport
from railwright.cli.session import Session, overall, require
from railwright.cli.switch import READABLE, profile_of, read_export
from railwright.exitcodes import ExitCode, InputError, combine
from railwright.inventories import Given
from railwright.writing import new_file, write_output

if TYPE_CHECKING:
    from railwright.events import RunOutcome
    from railwright.path import End, Export, Step

USAGE = "explain path takes two rails of an inventory; allowed: railwright explain path NODE:RAIL NODE:RAIL -i INVENTORY"


def explain_path(
    ends: list[str], inventory: Given | None, switches: list[str], form: Format, transport: Transport, output: Path | None = None,
) -> NoReturn:  # fmt: skip
    """Ends 0 where every hop agrees, 1 where one breaks or is unknown, 3 where a node does not answer."""
    from railwright.path import first_break, steps
    from railwright.switch_hints.model import Chain

    if len(ends) != 2 or inventory is None:
        raise InputError(USAGE)
    if output is not None:
        new_file(output)
    places = [_place(text) for text in ends]
    exports = _exports(switches)
    session = Session("explain", inventory, ",".join(dict.fromkeys(node for node, _rail in places)), form)
    specs = session.judge().specs
    for (node, rail), text in zip(places, ends, strict=True):
        known = [one.name for one in specs[node].rails] if node in specs else []
        if rail not in known:
            raise InputError(f"{text}: {node} has no rail {rail}; allowed: {', '.join(known) or 'a node of the inventory'}")
    first = specs[places[0][0]]
    profile = profile_of(first)
    try:
        Chain.of(profile)
    except ValueError as error:
        raise InputError(f"rdma_qos_profile {error}") from error
    facts = session.scan("facts", transport)
    seen = session.scan("cabling", transport, {"cabling_seconds": 0}, lambda _judged: _cabling())
    require(facts, lambda host: host.facts is not None, "facts")
    require(seen, lambda host: host.cabling is not None, "cables")
    one, other = (_end(node, rail, facts, seen) for node, rail in places)
    mtu = next(rail.mtu or first.mtu for rail in first.rails if rail.name == places[0][1])
    found = steps(one, other, profile, mtu, exports)
    bad = first_break(found)
    own = [ExitCode.FAILED] if any(step.status != "pass" for step in found) else []
    code = combine([overall(facts, *own), overall(seen)])
    document = {"profile": profile.name, "first": None if bad is None else f"{bad.place}: {bad.hop}",
                "steps": [step._asdict() for step in found], "exit_code": int(code)}  # fmt: skip
    hosts = [host for outcome in (facts, seen) for host in outcome.hosts.values()]
    lost = {host.name: f"{host.status}: {host.message}" for host in hosts if host.status != "ok"}
    for name, why in sorted(lost.items()):
        console.note(f"{name}: {why}")
    if output is not None:
        from railwright.report.path_page import path_page

        write_output(output, path_page(found, profile.name, [f"{node} {rail}" for node, rail in places]))
    console.answer(form, document | {"lost": lost}, lambda: _show(found, profile.name))
    raise typer.Exit(code)


def _place(text: str) -> tuple[str, str]:
    node, _colon, rail = text.rpartition(":")
    if not node or not rail:
        raise InputError(f"{text}: {USAGE}")
    return node, rail


def _exports(switches: list[str]) -> dict[str, Export]:
    """By the switch's name."""
    exports: dict[str, Export] = {}
    for text in switches:
        name, export = _export(text)
        if name in exports:
            raise InputError(f"--switch {text}: {name} has an export already; allowed: one of each switch")
        exports[name] = export
    return exports


def _export(text: str) -> tuple[str, Export]:
    """NAME=OS:FILE, of SONiC also a dump of STATE_DB behind a comma."""
    from railwright.path import Export
    from railwright.switch_check import READERS, Unusable
    from railwright.switch_check.sonic import light

    name, equals, rest = text.partition("=")
    os, colon, file = rest.partition(":")
    if not (name and equals and colon and file) or os not in READERS:
        raise InputError(f"--switch {text}: allowed: NAME=OS:FILE, with OS of {', '.join(READERS)}, and {READABLE}")
    file, _comma, state = file.partition(",") if os == "sonic" and not Path(file).is_file() else (file, "", "")
    try:
        return name, Export(os, read_export(Path(file)), file, light(read_export(Path(state))) if state else {})
    except Unusable as error:
        raise InputError(f"--switch {name}: {state} {error}") from error


def _cabling() -> Any:
    from railwright.cli.cabling import question

    return question(0)


def _end(node: str, rail: str, facts: RunOutcome, seen: RunOutcome) -> End:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import Cable, cables_of
    from railwright.path import End

    told = seen.hosts[node].cabling if node in seen.hosts else None
    place: dict[str, Any] = next((row for row in (told or {}).get("rails", ()) if row["name"] == rail), {})
    cable = cables_of(**told).get(rail, Cable()) if told else Cable()  # which says that the node gave no answer
    return End(node, rail, (facts.hosts[node].facts if node in facts.hosts else None) or {}, place.get("hca"), place.get("port"), cable)


def _show(found: list[Step], profile: str) -> None:
    """A row for each hop; the place stands once."""
    rows, last = [], ""
    for step in found:
        rows.append(("" if step.place == last else console.styled(step.place, "node"), step.hop, console.styled(step.status),
                     f"{step.found}, not {step.expected}" if step.status in ("fail", "warn") else step.found, step.source))  # fmt: skip
        last = step.place
    console.table(("place", "hop", "agrees", f"what it does with {profile}", "read from"), rows)
