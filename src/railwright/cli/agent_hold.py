# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright agent hold``: the switch that stops all acting, and the holds of single checks that fail on much of the fleet."""

import getpass
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import ALL
from railwright.agent.decide import Node
from railwright.agent.mass import Mass
from railwright.cli import console
from railwright.cli.agent_drain import holds, kept_holds
from railwright.cli.options import Format, Inventory, OutputFormat, option
from railwright.cli.session import Judged, Session, concluded, some_of
from railwright.exitcodes import InputError
from railwright.inventories import quoted

HELP = """Stop all acting by what agents find: no prolog refuses a job, no node is drained or given back. With codes, of these checks alone.

A file on each node (/etc/railwright/hold) stops its prolog at once; `agent drain` stops by what this controller keeps. Without a \
controller any means that puts the file there will do: `touch /etc/railwright/hold`. Ends 3 when a node was not reached; repeat it then.

\b
Examples:
  railwright agent hold -i mycluster --reason 'driver 595 marks every GPU'
  railwright agent hold gpu.nvlink -i mycluster --reason 'driver 595 marks every GPU'
  railwright agent hold -i mycluster --end
"""
TASK = "Set the hold"
LENGTH = 200

Codes = Annotated[list[str] | None, typer.Argument(metavar="[CODE…]", show_default=False, help="Checks to hold; none: all.")]
Reason = Annotated[str | None, option("--reason", metavar="TEXT", help="Why; needed to begin a hold.")]
End = Annotated[bool, typer.Option("--end", help="End the hold: of these checks, or of everything.")]
Kept = dict[str, Any]


def hold(inventory: Inventory, codes: Codes = None, reason: Reason = None, end: End = False, form: OutputFormat = Format.TEXT) -> None:
    from railwright.cli.agent import hear, judged_with_agents

    checked(codes or [])
    if not end and (not reason or not reason.isprintable() or len(reason) > LENGTH):
        raise InputError(f"--reason: is not one line of at most {LENGTH} characters; allowed: railwright agent hold --reason TEXT")
    session = Session("agent", inventory, None, form)
    judged = judged_with_agents(session)
    with holds(session) as kept:
        change(kept, codes or [], reason or "", end=end)
    # The files first, on all nodes: who was drained, and the model of a node, may take Ansible's time to learn.
    why, everywhere = str(kept.get("hold", {}).get("why") or reason or ""), first_codes(kept)
    left = put(session, judged, dict.fromkeys(judged.specs, everywhere), why)
    heard = hear(session, judged)
    goal = wanted(kept, heard.nodes)
    left += put(session, judged, {name: codes for name, codes in goal.items() if codes != everywhere and name not in left}, why)
    document = {"hold": kept.get("hold"), "fleet": kept.get("fleet", {}), "left": left,
                "drained": [node.name for node in heard.nodes if node.ours and node.closed]}
    conclusion = concluded(heard.outcome, lambda _host: {}, lambda _nodes: {"held": len(heard.nodes) - len(left)})
    session.finish(conclusion, lambda: show(judged, kept, heard.nodes, left), {"agent": document})


def checked(codes: list[str]) -> None:
    """Raises InputError for a code that no check has."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import did_you_mean
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.mode_entries import is_code
    from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE

    for code in codes:
        if not is_code(code):
            raise InputError(f"{code} is no check{did_you_mean(code, tuple(BY_CODE))}; allowed: a code of `railwright explain`")


def change(kept: Kept, codes: list[str], why: str, *, end: bool) -> None:
    """Change what the controller keeps of holds: ``hold`` (codes, why, by, at) and ``fleet`` (code -> model, text)."""
    before = set(kept.get("hold", {}).get("codes", ()))
    if end:
        left = sorted(before - set(codes)) if codes else []
        kept["fleet"] = {code: row for code, row in kept.get("fleet", {}).items() if codes and code not in codes}
        if ALL in left and codes:
            raise InputError("--end: everything is held, not single checks; allowed: railwright agent hold --end")
    else:
        left = sorted(before | set(codes)) if codes else [ALL]
    kept["hold"] = {"codes": left, "why": why, "by": getpass.getuser(), "at": time.time()} if left else {}


def wanted(kept: Mapping[str, Any], nodes: list[Node]) -> dict[str, list[str]]:
    """Return the codes of each node's hold file."""
    own, found = set(kept.get("hold", {}).get("codes", ())), {}
    for node in nodes:
        model = node.said["model"] if node.said is not None else None
        codes = own | {code for code, row in kept.get("fleet", {}).items() if row["model"] == model}
        found[node.name] = [ALL] if ALL in codes else sorted(codes)
    return found


def first_codes(kept: Mapping[str, Any]) -> list[str]:
    """Return the codes to hold on a node whose model is not known: those of every model."""
    codes = {*kept.get("hold", {}).get("codes", ()), *kept.get("fleet", {})}
    return [ALL] if ALL in codes else sorted(codes)


def fleet_codes(kept: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the codes that failed on much of a model, by model."""
    found: dict[str, list[str]] = {}
    for code, row in kept.get("fleet", {}).items():
        found.setdefault(str(row["model"]), []).append(code)
    return found


def hold_masses(session: Session, judged: Judged, masses: list[Mass], nodes: list[Node]) -> list[str]:
    """Hold each check that fails on much of a model, on all nodes of it. Return a line for each new one, and for nodes without it."""
    lines = []
    with holds(session) as kept:
        fleet = kept.setdefault("fleet", {})
        for item in (item for item in masses if item.acts and item.code not in fleet):
            fleet[item.code] = {"model": item.model, "text": item.text, "at": time.time()}
            lines.append(f"held: {item.text}; end it: railwright agent hold {item.code} -i {quoted(session.inventory)} --end")
    # Only added to: what somebody held on a node by hand stays.
    goal = wanted(kept, nodes)
    stale = {node.name: sorted({*goal[node.name], *node.said["held"]}) for node in nodes if node.said is not None and node.mode != "off"
             and ALL not in node.said["held"] and not set(goal[node.name]) <= set(node.said["held"])}  # fmt: skip
    stale = {name: [ALL] if ALL in codes else codes for name, codes in stale.items()}
    left = put(session, judged, stale, "; ".join(row["text"] for row in fleet.values())) if stale else []
    return [*lines, *(f"{name}: the hold did not arrive; the next run tries again" for name in left)]


def put(session: Session, judged: Judged, codes: Mapping[str, list[str]], why: str) -> list[str]:
    """Write the hold files over our own ssh, on many nodes at once. Return the nodes on which it is not as it should be."""
    from railwright.scan.questions import Question, module_step

    if not codes:
        return []
    answers: dict[str, dict[str, Any]] = {}
    plain = "".join(letter if letter.isprintable() else " " for letter in why)[:LENGTH]
    question = Question("rdma_check", TASK, lambda node, _spec: {"mode": "hold", "codes": codes.get(node, []), "why": plain}, module_step)
    session.ask_all(question, some_of(judged, list(codes)), answers.__setitem__)
    return sorted(name for name, wish in codes.items() if (answers.get(name) or {}).get("hold", {}).get("now") != (wish or []))


def show(judged: Judged, kept: Mapping[str, Any], nodes: list[Node], left: list[str]) -> None:
    codes = kept.get("hold", {}).get("codes", [])
    reached = len(nodes) - len(left)
    what = "everything is held" if ALL in codes else f"held: {first_of(codes, 8)}" if codes else "nothing is held"
    console.say(f"{what} on {console.count(reached, 'node')}")
    for code, row in kept.get("fleet", {}).items():
        console.say(f"{code} stays held on {row['model']}: {row['text']}")
    if left:
        console.say(console.styled("missed", "fail"), f"{first_of(left, 8)}: touch /etc/railwright/hold there, or repeat this")
    for node in nodes:
        if node.ours and node.closed:
            spec = judged.specs[node.name]
            console.say(console.styled(node.name, "node"), f"is drained by us; give it back: {give_back(spec['upgrade_scheduler'], node)}")


def give_back(scheduler: str, node: Node) -> str:
    """Return the scheduler's own command that opens a node."""
    name = str((node.drain or {}).get("node") or node.name)
    return {"slurm": f"scontrol update NodeName={name} State=RESUME", "kubernetes": f"kubectl uncordon {name}"}.get(
        scheduler, "upgrade_undrain_command of the inventory")


def held_text(session: Session) -> str:
    """Return why nothing may act now, or ''."""
    kept = kept_holds(session).get("hold") or {}
    return f"{kept['why']} (by {kept['by']})" if ALL in kept.get("codes", ()) else ""
