# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain``: why a node gets what it gets: its path between HCAs and GPU memory, its speed, its NCCL settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from railwright.cli import console
from railwright.cli.completing import of_explain, of_node
from railwright.cli.explain_names import explain_host, explain_key
from railwright.cli.explain_path import USAGE, explain_path
from railwright.cli.nccl import explain as explain_variable
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat, Transport, TransportOption, option
from railwright.cli.session import judged_inventory
from railwright.cli.trees import Sysroot, show_documents
from railwright.exitcodes import InputError
from railwright.inventories import Given
from railwright.report.text import value_text

HELP = """Say why a node gets what it gets, by one name. Nothing is changed.

host NODE: each key of the inventory that the host has, its value, the file and line that it comes from, and what else is written and not \
in force. No node is contacted, here and below.

A key of the inventory (rdma_mtu): what it means; with an inventory what each host has. A check's code (port.flaps): what it judges, and \
what to do.

gpudirect: the path that the HCAs of each node take to GPU memory (DMA-BUF, nvidia_peermem or nv_peer_mem), why, and why not the others, \
with every piece of evidence and where it was read. It asks the nodes; with --sysroot a captured tree.

speed: what collectives and perftest can reach on each node and between nodes like it, and which part limits them. It asks the nodes; with \
--sysroot a captured tree. --nodes: how many nodes beside one and two.

path NODE:RAIL NODE:RAIL: a RoCE packet's way, from NCCL_IB_TC over host, switch ports and host: each hop's value, where it was read, and \
whether it agrees with the QoS profile. It asks both nodes; --switch gives it the switches' exports, and -o draws it as a page.

affinity: how near each GPU of a node is to each HCA, from the PCI tree. It asks the nodes; with --sysroot a captured tree.

profile: all NCCL profiles; with an inventory what /etc/nccl.conf of each host will hold and where each value comes from. The name of a \
profile: what it sets and why, what it needs and excludes, and what was corrected against its source; with an inventory what each host \
gets by it. A variable such as NCCL_IB_TC: what it means to NCCL; with an inventory what each host gets.

\b
Examples:
  railwright explain host node1 -i mycluster
  railwright explain rdma_mtu -i mycluster
  railwright explain port.flaps
  railwright explain gpudirect -i mycluster --limit node1
  railwright explain gpudirect --sysroot capture/node1
  railwright explain speed -i mycluster --nodes 16
  railwright explain path node1:rail0 node2:rail0 -i mycluster --switch leaf1=sonic:leaf1.json
  railwright explain affinity -i mycluster --limit node1
  railwright explain scnet
  railwright explain NCCL_IB_TC -i mycluster
"""
NAME_HELP = ("host, gpudirect, speed, path, affinity, profile, a key of the inventory, a check's code, the name of an NCCL profile (scnet, "
             "oci-h100 …), or a variable of NCCL.")
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP, show_default=False, autocompletion=of_explain)]
WORDS_HELP = "Of explain host: which; of explain path: from where to where."
Words = Annotated[list[str] | None, typer.Argument(metavar="[NODE|NODE:RAIL NODE:RAIL]", help=WORDS_HELP, show_default=False,
                                                 autocompletion=of_node)]
SWITCH_HELP = "Of explain path: what a switch on it says, NAME=OS:FILE; may be given several times."
Switches = Annotated[list[str] | None, option("--switch", metavar="NAME=OS:FILE", help=SWITCH_HELP)]
OUTPUT_HELP = "Of explain path: write it as a drawing, an HTML page that needs no network."
Output = Annotated[Path | None, option("-o", "--output", metavar="FILE", help=OUTPUT_HELP)]
All = Annotated[bool, typer.Option("--all", help="Of explain host: the keys that have their default too.")]
NODES_HELP = "Of explain speed: the ceilings over so many nodes too."
Nodes = Annotated[int | None, typer.Option("--nodes", metavar="N", min=2, max=100_000, help=NODES_HELP, show_default=False)]
NODES = 4
ASKED = ("gpudirect", "speed", "affinity")  # of nodes or a captured tree; the rest is known without
ABSENT = "-"


def command(
    name: Name, words: Words = None, inventory: OptionalInventory = None, limit: Limit = None, every: All = False,
    nodes: Nodes = None, switch: Switches = None, output: Output = None, form: OutputFormat = Format.TEXT, sysroot: Sysroot = None,
    transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    if name == "path":
        if (sysroot, limit, nodes, every) != (None, None, None, False):
            raise InputError(USAGE)
        explain_path(words or [], inventory, switch or [], form, transport, output)
    if output is not None:
        raise InputError(f"-o is for explain path, not for {name}")
    node = _one_node(name, words or [], switch or [], every=every)
    if nodes is not None and name != "speed":
        raise InputError(f"--nodes is for explain speed, not for {name}")
    if name in ASKED:
        _asked(name, inventory, limit, sysroot, form, transport, nodes or NODES)
    if sysroot is not None:
        raise InputError(f"--sysroot is for explain gpudirect, speed and affinity; {name} is explained without a node")
    if inventory is None and limit is not None:
        raise InputError("--limit chooses hosts of an inventory: give -i INVENTORY too")
    if name == "host":
        if node is None or inventory is None or limit is not None:
            raise InputError("explain host takes one host of an inventory; allowed: railwright explain host NODE -i INVENTORY")
        explain_host(node, inventory, form, every=every)
    _offline(name, inventory, limit, form)


def _one_node(name: str, words: list[str], switches: list[str], *, every: bool) -> str | None:
    """What stands behind any other name than path. Raises InputError."""
    if len(words) > 1 or switches:
        raise InputError(f"--switch is for explain path, not for {name}" if switches else USAGE)
    node = words[0] if words else None
    if name != "host" and (node is not None or every):
        what = "--all is for explain host" if every else "explain takes one name"
        raise InputError(f"{what}; allowed: railwright explain {node if name == 'profile' and node else name}")
    return node


def _asked(
    name: str, inventory: Given | None, limit: str | None, sysroot: Path | None, form: Format, transport: Transport, nodes: int,
) -> NoReturn:  # fmt: skip
    if name == "speed":
        from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.ceilings import explain_speed
        from railwright.cli.explain_facts import show_speed

        _of_facts(inventory, limit, sysroot, form, transport, lambda facts: explain_speed(facts, nodes), show_speed)
    if name == "affinity":
        from railwright.cli.explain_facts import affinity_of, show_affinity

        _of_facts(inventory, limit, sysroot, form, transport, affinity_of, show_affinity)
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain
    from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost

    def of_tree(tree: str) -> dict[str, Any]:
        return explain(TreeHost(tree), None)

    raise typer.Exit(show_documents("explain", inventory, limit, sysroot, form, of_tree, lambda host: host.explanation,
                                    show_explanation, transport))


def _of_facts(
    inventory: Given | None, limit: str | None, sysroot: Path | None, form: Format, transport: Transport,
    told: Callable[[dict[str, Any]], dict[str, Any]], show: Callable[[dict[str, Any]], None],
) -> NoReturn:  # fmt: skip
    """What follows from the facts of each node, or of a captured tree."""
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree

    raise typer.Exit(show_documents("facts", inventory, limit, sysroot, form, lambda tree: told(facts_of_tree(tree)),
                                    lambda host: None if host.facts is None else told(host.facts), show, transport))


def show_explanation(explanation: dict[str, Any]) -> None:
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


FOUND = "(found on the node)"
LEFT_OUT = "(left out)"
COLUMNS = ("variable", "value", "from", "why")


def _offline(name: str, inventory: Given | None, limit: str | None, form: Format) -> None:
    """A key, a check, or what is NCCL's."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
    from railwright.explained import check_document, check_named

    row = check_named(name)
    if name in BY_NAME:
        explain_key(name, inventory, limit, form)
    elif row is not None:
        if inventory is not None:
            raise InputError(f"{name} is a check's code, which is explained without an inventory")
        found = check_document(name, row)
        console.answer(form, found, lambda: console.fields(found))
    else:
        _nccl(name, inventory, limit, form)


def _nccl(name: str, inventory: Given | None, limit: str | None, form: Format) -> None:
    """``profile``: all of them, or the hosts' own. In capitals: a variable. Else a profile, on the hosts in place of their own."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import nccl_profile
    from railwright.explained import unknown_name
    from railwright.nccl.explain import explanation, profile_document

    variable, profile = name.isupper() and "-" not in name, nccl_profile(name)
    if name != "profile" and not variable and profile is None:
        raise unknown_name(name)
    if variable and (inventory is None or not explanation(name)["known"]):
        explain_variable(name, form)
    elif inventory is not None:
        _of_hosts(inventory, limit, None if variable or name == "profile" else name, name if variable else None, form)
    elif profile is None:
        _show_all(form)
    else:
        found = profile_document(profile)
        console.answer(form, found, lambda: _show_profile(found))


def _show_all(form: Format) -> None:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES
    from railwright.nccl.explain import profile_document

    rows = [profile_document(item) for item in NCCL_PROFILES]
    cells = [(item["name"], ", ".join(item["fabrics"]), item["description"]) for item in rows]
    console.answer(form, rows, lambda: console.table(("profile", "fabric", "for"), cells))


def _of_hosts(inventory: Given, limit: str | None, profile: str | None, variable: str | None, form: Format) -> None:
    """Ends 64 when the inventory has errors, those that the named profile brings among them."""
    given = {} if profile is None else {"rdma_nccl_profile": profile}
    specs = judged_inventory(inventory, limit, form, given, dict.fromkeys(given, f"explain {profile}")).specs
    from railwright.nccl.explain import of_host

    hosts = {host: of_host(spec) for host, spec in specs.items()}
    if variable is not None:
        for found in hosts.values():
            found["variables"] = [row for row in found["variables"] if row["name"] == variable]
    if form is Format.JSON:
        console.print_json(hosts)
        return
    for host, found in hosts.items():
        console.say(f"{host}: {found['path']} by profile {found['profile']}")
        rows = [(item["name"], _value(item), item["origin"], item["why"]) for item in found["variables"]]
        if rows:
            console.table(COLUMNS, rows)
        else:
            console.say("  nothing is set" if variable is None else f"  {variable} is not set")


def _value(row: dict[str, Any]) -> str:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import GID_INDEX

    if row["value"] is not None:
        return str(row["value"])
    return LEFT_OUT if row["origin"] == "override" or row["name"] == GID_INDEX else FOUND


def _show_profile(found: dict[str, Any]) -> None:
    default = f" The default of fabric {', '.join(found['default_for'])}." if found["default_for"] else ""
    console.say(f"{found['name']}: {found['description']}{default}")
    console.say(f"  fabric: {', '.join(found['fabrics'])}")
    console.say(f"  source: {found['source']}")
    for line in _needs(found):
        console.say(f"  needs: {line}")
    rows = [(item["name"], item["value"], item["why"], item["source"]) for item in found["variables"]]
    rows += _from_elsewhere(found)
    if rows:
        console.table(("variable", "value", "why", "source"), rows)
    else:
        console.say("  nothing is set")
    if found["excludes"]:
        excluded = [(item["name"], ", ".join(item["values"]) or "any value", item["why"], item["source"]) for item in found["excludes"]]
        console.table(("must not be set", "to", "why", "source"), excluded)
    if found["corrected"]:
        console.table(("the source says", "here", "why"), [(item["said"], item["instead"], item["why"]) for item in found["corrected"]])


def _needs(found: dict[str, Any]) -> list[str]:
    needs, lines = found["needs"], []
    first, last = needs["nccl"]["first"], needs["nccl"]["last"]
    if first or last:
        lines.append(f"NCCL {first} to {last}" if first and last else f"NCCL {first} and later" if first else f"NCCL up to {last}")
    if needs["qos_profile"] is not None:
        lines.append(f"rdma_qos_profile: {needs['qos_profile']}")
    if needs["transport"] is not None:
        lines.append(f"{needs['transport']}, which is the transport and finds devices and GIDs by itself")
    return lines + list(needs["other"])


def _from_elsewhere(found: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What the profile leaves to the inventory and to the node."""
    rows = []
    if found["address_range"]:
        rows.append(("NCCL_IB_ADDR_RANGE", "(the rails' subnet)", "Where all rails of a host are in one.", "inventory"))
    if "roce" in found["fabrics"] and found["needs"]["transport"] is None:
        rows.append(("NCCL_IB_TC", "(the QoS profile's)", "One number for NCCL, the NIC's map and PFC.", "inventory"))
    rows += [(name, FOUND, "The rails' ports." if name.endswith("HCA") else "rdma_bootstrap_interface, or the default route's.", "node")
             for name in found["node_adds"]]
    for item in found["shapes"]:
        rows.append(("NCCL_IB_HCA", "=" + ",".join(item["hcas"]), f"{item['shape']}, on hosts without rails.", "profile"))
    return rows
