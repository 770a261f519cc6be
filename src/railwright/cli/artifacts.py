# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts``: everything that is ever downloaded, to mirror it or to inspect it first."""

from railwright.cli import console
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat
from railwright.cli.session import judged_inventory
from railwright.exitcodes import InputError

HELP = """List what railwright downloads: URL, version, how it is recognised, and where that was read. No node is touched.

With an inventory only what its hosts can come to need, in the releases that it asks for and with the pins that it gives; \
`path` is where a mirror keeps it, `from` the URL that it is taken from (see rdma_artifact_mirror). NCCL's wheels have the package index \
of the inventory in their URL, or the key's name, nccl_wheel_index, where it names none. An artifact whose pin is operator \
is refused until rdma_artifact_pins names its checksum or fingerprint.

\b
Examples:
  railwright artifacts --format json
  railwright artifacts -i mycluster
"""


def command(inventory: OptionalInventory = None, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
    from railwright.artifact_rows import all_rows, rows_for

    if inventory is None and limit is not None:
        raise InputError("--limit chooses hosts of an inventory: give -i INVENTORY too")
    rows = all_rows() if inventory is None else rows_for(list(judged_inventory(inventory, limit, form).specs.values()))
    if form is Format.JSON:
        console.print_json([row.as_dict() for row in rows])
        return
    cells = [(row.name, row.version, row.kind, " ".join(filter(None, (row.pin, row.value))), row.taken_from or row.url) for row in rows]
    if cells:
        console.table(("artifact", "version", "kind", "pin", "URL"), cells, indent=0)
    waiting = sum(row.value is None for row in rows)
    console.note(console.count(len(rows), "artifact") + (f"; {waiting} refused until rdma_artifact_pins names them" if waiting else ""))
