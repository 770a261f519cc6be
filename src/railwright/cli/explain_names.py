# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain`` of a host, a key of the inventory, or a check's code: no node is contacted."""

from collections.abc import Mapping
from typing import Any, NoReturn

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from railwright.cli import console
from railwright.cli.options import Format
from railwright.cli.session import opened
from railwright.exitcodes import ExitCode, InputError
from railwright.inventories import Given, inventories
from railwright.report.text import is_shortened, short

SHOWN = 5  # hosts named in a cell before the rest is counted


def explain_host(node: str, given: Given, form: Format, *, every: bool) -> NoReturn:
    """Ends 64 where the host has errors: what is in force is shown all the same."""
    inventory = opened(given, None, form)
    from railwright.explained import near
    from railwright.inventory import GROUP
    from railwright.inventory_origins import Origins
    from railwright.lint import build_specs, fold

    if node not in inventory.hosts:
        where = "is in the inventory, but not in" if node in inventory.groups["all"] else "is no host of"
        allowed = f"{near(node, inventory.hosts)}allowed: {first_of(list(inventory.hosts), SHOWN)}"
        raise InputError(f"{node}: {where} group {GROUP} of {inventories(given)}; {allowed}")
    specs, found = build_specs(inventory, (node,))
    rows = Origins(inventory, specs).keys(node)
    errors = [item for item in fold(inventory, found) if item.severity == "error"]
    groups = list(inventory.membership[node])
    document = {"host": node, "groups": groups, "keys": rows, "errors": [item.as_dict() for item in errors]}
    console.answer(form, document, lambda: _show_host(document, every=every))
    for item in errors:
        console.note(str(item))
    raise typer.Exit(ExitCode.USAGE if errors else ExitCode.OK)


def _show_host(found: Mapping[str, Any], *, every: bool) -> None:
    from railwright.inventory_origins import DEFAULT

    rows = found["keys"] if every else [row for row in found["keys"] if row["source"] != DEFAULT]
    console.say(console.styled(found["host"], "node"), f"in {', '.join(found['groups'])}")
    _table("key", [(row["key"], row) for row in rows])
    if len(rows) < len(found["keys"]):
        console.say(f"  {console.count(len(found['keys']) - len(rows), 'more key')} by default: --all")


def _table(first: str, rows: list[tuple[str, Mapping[str, Any]]]) -> None:
    """What is in force, and below each what is not."""
    lost = console.styled("  not in force", "dim")
    cells: list[tuple[Any, Any, str]] = []
    for name, row in rows:
        cells.append((name, row["value"], row["source"]))
        cells += [(lost, item["value"], f"{item['file']}:{item['line']}") for item in row["shadowed"]]
    console.table((first, "value", "from"), [(name, _shown(value), source) for name, value, source in cells])
    if any(is_shortened(value) for _name, value, _source in cells):
        console.say("  Values are shortened here; --format json has them whole.")


def _shown(value: Any) -> str:
    return "not set" if value is None else short(value)


def explain_key(name: str, given: Given | None, limit: str | None, form: Format) -> None:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
    from railwright.explained import key_document

    key = BY_NAME[name]
    document = key_document(key)
    if given is not None:
        inventory = opened(given, limit, form)
        from railwright.inventory_origins import Origins
        from railwright.lint import build_specs

        document["hosts"] = Origins(inventory, build_specs(inventory)[0]).folded(key)
    console.answer(form, document, lambda: _show_key(document))


def _show_key(found: Mapping[str, Any]) -> None:
    hosts = found.get("hosts", [])
    shown = {name: _shown(found[name]) for name in ("default", "example") if found[name] is not None}
    console.fields({**{name: value for name, value in found.items() if name != "hosts"}, **shown})
    if hosts:
        _table("hosts", [(first_of(row["hosts"], SHOWN), row) for row in hosts])
