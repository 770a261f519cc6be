# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts``: everything that is ever downloaded, to mirror it or to inspect it first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from railwright.cli import console
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat, option
from railwright.cli.session import judged_inventory
from railwright.exitcodes import ExitCode, InputError

if TYPE_CHECKING:
    from railwright.artifact_rows import Row

HELP = """List what railwright downloads: URL, version, how it is recognised, and where that was read. No node is touched.

With an inventory only what its hosts can come to need, in the releases that it asks for and with the pins that it gives; \
`path` is where a mirror keeps it, `from` the URL that it is taken from (see rdma_artifact_mirror). NCCL's wheels have the package index \
of the inventory in their URL, or the key's name, nccl_wheel_index, where it names none. An artifact whose pin is operator \
is refused until rdma_artifact_pins names its checksum or fingerprint.

--mirror DIR fetches every file of that list to its `path` below DIR; what is there and right is kept, what broke off is continued. \
Proxies: http_proxy, https_proxy, no_proxy.

\b
Examples:
  railwright artifacts --format json
  railwright artifacts -i mycluster
  railwright artifacts -i mycluster --mirror /srv/mirror
"""
Mirror = Annotated[Path | None, option("--mirror", metavar="DIR", help="Fill this directory with the files, as rdma_artifact_mirror "
                                                                       "takes them; 1 where one could not be had.")]


def command(
    inventory: OptionalInventory = None, limit: Limit = None, mirror: Mirror = None, form: OutputFormat = Format.TEXT,
) -> ExitCode:  # fmt: skip
    from railwright.artifact_rows import all_rows, rows_for

    if inventory is None and (limit is not None or mirror is not None):
        named = "--limit chooses hosts of an inventory" if limit is not None else "--mirror fetches what an inventory's hosts need"
        raise InputError(f"{named}: give -i INVENTORY too")
    rows = all_rows() if inventory is None else rows_for(list(judged_inventory(inventory, limit, form).specs.values()))
    if mirror is not None:
        return _fill(mirror, rows, form)
    if form is Format.JSON:
        console.print_json([row.as_dict() for row in rows])
        return ExitCode.OK
    cells = [(row.name, row.version, row.kind, " ".join(filter(None, (row.pin, row.value))), row.taken_from or row.url) for row in rows]
    if cells:
        console.table(("artifact", "version", "kind", "pin", "URL"), cells, indent=0)
    waiting = sum(row.value is None for row in rows)
    console.note(console.count(len(rows), "artifact") + (f"; {waiting} refused until rdma_artifact_pins names them" if waiting else ""))
    return ExitCode.OK


def _fill(directory: Path, rows: list[Row], form: Format) -> ExitCode:
    """One line a file as soon as it is there, or is known not to come."""
    from railwright.mirror.fill import FAILED, FETCHED, KEPT, LEFT_OUT, fill

    outcomes = []
    for outcome in fill(directory, rows):
        outcomes.append(outcome)
        if form is Format.TEXT:
            console.say(console.styled(outcome.state), f"{outcome.name}: {outcome.text}")
    if form is Format.JSON:
        console.print_json([outcome._asdict() for outcome in outcomes])
    states = [outcome.state for outcome in outcomes]
    console.note(f"{directory}: " + ", ".join(f"{states.count(state)} {state}" for state in (FETCHED, KEPT, LEFT_OUT, FAILED)))
    return ExitCode.FAILED if FAILED in states else ExitCode.OK
