# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright switch``: the switch side of the inventory's QoS profile, to review. No node and no switch is contacted."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from railwright.cli import console
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, option
from railwright.cli.session import bad_input, judged_inventory
from railwright.exitcodes import InputError

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

HELP = """Print the switch's commands for the inventory's QoS profile. Text to review; nothing is sent anywhere.

DSCP map, lossless priority, PFC and its watchdog, ECN, the strict queue of CNP, buffers and MTU, in the platform's own syntax; \
as comments what differs from its defaults, where its traps are, and which show commands tell whether it holds. Hosts with different \
profiles get a text each. InfiniBand and eRDMA have no QoS profile: one line says so. No node need answer.

\b
Examples:
  railwright switch hints -i mycluster --os sonic
  railwright switch hints -i mycluster --os eos --limit rack3 > rack3.txt
"""


class SwitchOs(StrEnum):
    """The platforms; ``railwright.switch_hints.PLATFORMS`` has the same, but this file is read for every --help."""

    SONIC = "sonic"
    NVUE = "nvue"
    ONYX = "onyx"
    EOS = "eos"
    NXOS = "nxos"


OsOption = Annotated[SwitchOs, option("--os", help="Of the switch: sonic, nvue (Cumulus Linux 5), onyx, eos or nxos.")]

WITHOUT = {
    "infiniband": "The fabric is InfiniBand: it has no QoS profile, and no Ethernet switch to set. Flow control is by credits.",
    "erdma": "The fabric is eRDMA: it has no QoS profile. DSCP, PFC and ECN are the cloud's own, and no switch is yours to set.",
    "roce": "rdma_qos_profile is none: nothing to tell a switch. without PFC and ECN, RoCE drops packets under load.",
}


DIFFER = ("rdma_qos_profile", "rdma_qos_custom")  # one fabric has one of each, so lint calls it an error; switches of two fabrics need both


def show_hints(inventory: Inventory, os: OsOption, limit: Limit = None, form: OutputFormat = Format.TEXT) -> None:
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


ABOUT, VERBS = "The switch side of the fabric.", {"hints": (show_hints, HELP)}
