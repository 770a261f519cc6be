# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright switch read``: the exports that ``switch check`` reads, from the switches themselves. Only reads."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, option, settings
from railwright.cli.session import bad_input, check_configuration, complete, echo, node_counts, present, require
from railwright.exitcodes import BY_STATUS, InputError, combine
from railwright.writing import make_directories, write_atomic

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.switches import Way
    from railwright.events import RunOutcome
    from railwright.inventories import Given
    from railwright.inventory import Inventory as Loaded

HELP = """Read the configuration of the inventory's switches into files, as `switch check` takes them. Nothing is configured.

The switches are the hosts of group rdma_switches, with ansible_network_os and ansible_connection. SONiC and Cumulus are asked over plain \
ssh; EOS, NX-OS and Onyx through their vendor's collection, if it is installed. One fixed command each, which only shows. The files are \
for the owner's eyes: a configuration holds secrets. Ends 0 when each has answered, 1 when one refused, 3 when one was not reached, 64 \
when a collection is missing.

\b
Examples:
  railwright switch read -i mycluster -o exports
  railwright switch check -i mycluster --os sonic exports/*.json
"""
GROUP = "rdma_switches"
LIBRARIES = ("pylibsshext", "paramiko")  # one of them is what ansible.netcommon.network_cli speaks ssh with
OUTPUT_HELP = "A directory for the exports: SWITCH.json of SONiC and NVUE, SWITCH.txt of the others. It is made where there is none."
Output = Annotated[Path, option("-o", "--output", metavar="DIR", help=OUTPUT_HELP)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace exports that are there.")]


def show_read(
    inventory: Inventory, limit: Limit = None, *, output: Output, overwrite: Overwrite = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    with bad_input(inventory, form):
        ways = _ways(inventory, limit)
        files = {name: output / f"{name}{'.txt' if way.module else '.json'}" for name, way in ways.items()}
        _expect_room(output, files, overwrite=overwrite)
    outcome, texts = _asked(inventory, ways)
    for name, text in texts.items():
        make_directories(output, 0o700)
        write_atomic(files[name], text)
    code = combine(BY_STATUS[host.status] for host in outcome.hosts.values())
    rows = {name: {"os": ways[name].os if name in ways else None, "status": host.status, "message": host.message,
                   "file": str(files[name]) if name in texts else None} for name, host in sorted(outcome.hosts.items())}  # fmt: skip
    document = {"switches": rows, "summary": {**node_counts(outcome), "exit_code": int(code)}}
    console.answer(form, document, lambda: _show(rows))
    raise typer.Exit(code)


def _ways(inventory: Given, limit: str | None) -> dict[str, Way]:
    """How each switch is asked. Raises InputError; no switch is contacted."""
    present(inventory)
    check_configuration()
    from ansible_collections.railwright.rdma.plugins.plugin_utils.switches import CLI_COMMAND
    from railwright.ansible_env import lacking
    from railwright.inventory import load_inventory

    loaded = load_inventory(inventory, limit, group=GROUP)
    ways = {name: _way(loaded, name) for name in loaded.hosts}
    missing = lacking({collection: None for way in ways.values() for collection in way.collections})
    if missing:
        whose = next(name for name, way in ways.items() if missing[0] in way.collections)
        raise InputError(f"{whose} is asked through the collection {missing[0]}, which is not installed; install it with: ansible-galaxy "
                         f"collection install {' '.join(missing)}")  # fmt: skip
    cli = next((name for name, way in ways.items() if way.module == CLI_COMMAND), None)
    if cli is not None and not any(map(importlib.util.find_spec, LIBRARIES)):
        raise InputError(f"{cli} is asked over network_cli, which needs ansible-pylibssh or paramiko beside Ansible; install it with: pip "
                         "install ansible-pylibssh")  # fmt: skip
    return ways


def _way(loaded: Loaded, name: str) -> Way:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.switches import way_of
    from railwright.inventory_index import is_host_name

    if not is_host_name(name):
        raise InputError(f"{name}: is no name for a host, and its export is named so; allowed: letters, digits, -, _ and .")
    if name in loaded.groups.get("rdma", ()):
        raise InputError(f"{name} is in group rdma and in group {GROUP}; allowed: one of the two")
    said = loaded.connection[name]
    os, connection = (getattr(said.get(key), "why", said.get(key)) for key in ("ansible_network_os", "ansible_connection"))
    try:
        return way_of(os, connection or "ssh")
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def _expect_room(output: Path, files: dict[str, Path], *, overwrite: bool) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"-o {output}: is no directory; allowed: one, or a new one")
    there = next((file for file in files.values() if file.exists() or file.is_symlink()), None)
    if there is not None and not overwrite:
        raise InputError(f"{there} exists already; allowed: --overwrite, or another directory")


def _asked(inventory: Given, ways: dict[str, Way]) -> tuple[RunOutcome, dict[str, str]]:
    """What became of each switch, and what those said that answered: it comes as a file, since results are shown and kept."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.scanned import kept_answer
    from railwright.progress import shown
    from railwright.run import run_playbook

    with TemporaryDirectory(prefix="railwright-") as private:
        said = echo if settings.debug else None
        with shown("switch read", console.err(), debug=settings.debug) as listener:
            outcome = run_playbook("switch_read", inventory, None, {"__railwright_switches": private}, listener, said, list(ways))
        complete(outcome, ways)
        kept = {name: kept_answer({"directory": private, "inventory_hostname": name}, "directory") for name in ways}
    texts = {name: answer["text"] for name, answer in kept.items() if answer}
    require(outcome, lambda host: host.name in texts, "answer")
    return outcome, texts


def _show(rows: dict[str, dict[str, Any]]) -> None:
    for name, row in rows.items():
        console.say(console.styled(name, "node"), console.styled(row["status"]), row["file"] or row["message"])
