# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a plan may be carried out: its problems, the classes that need consent, and what all nodes' plans say together. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import WORDS
from ansible_collections.railwright.rdma.plugins.module_utils.types import needs_consent

SHOWN = 3  # nodes named before the rest is counted

DISRUPTION_MEANING = {
    "none": "nothing that runs notices",
    "restart": "a service is restarted",
    "link": "traffic on a rail may stop for seconds (MTU, address, link state)",
    "repair": "an interrupted run of the package manager is finished",
    "downgrade": "a package goes back to an older version",
    "reload": "kernel modules of the RDMA stack are reloaded; every RDMA user on the node is cut",
    "storage": "kernel modules are reloaded under file systems or block devices that are mounted over RDMA",
    "management": "the interface that the controller reaches the node over is touched",
    "secure_boot": "a key of the node's is put forward for Secure Boot; who confirms it at the console trusts all that it signs",
    "firmware": "firmware of a NIC is flashed, or its stored configuration changed",
    "reboot": "the node reboots",
}


def judged_plan(plan: dict[str, Any], consent: Sequence[str], mixed: str | None, *, consent_needed: bool) -> dict[str, Any]:
    """``refused``, and the failure where there is one. ``mixed``: what mixed_modes found."""
    refused = [change for change in plan["plan"] if needs_consent(change["disruption"], consent)]
    problems = [f"{item['area']}: {item['subject']}: {item['message']}" for item in plan.get("problems", [])]
    if problems or mixed is not None:
        return {"refused": refused, "failed": True, "msg": "; ".join(problems + ([mixed] if mixed is not None else []))}
    if refused and consent_needed:
        return {"refused": refused, "failed": True, "msg": refusal_text(refused)}
    return {"refused": refused}


def refusal_text(refused: list[dict[str, Any]]) -> str:
    """One line for every class: what it means, which changes need it, and how to give it."""
    classes = sorted({change["disruption"] for change in refused})
    needs = "; ".join(
        f"{name} ({DISRUPTION_MEANING[name]}): " + ", ".join(change["what"] for change in refused if change["disruption"] == name)
        for name in classes
    )
    wanted = ", ".join(classes)
    return f"refused without consent; nothing was changed. Needed: {needs}. To allow it, add {wanted} to rdma_consent in the inventory."


def mixed_modes(plans: Iterable[tuple[str, dict[str, Any] | None]]) -> str | None:
    """Why no node may be changed; None where all agree. ``plans``: each node with its plan, if it has one.

    Every plan says what its node will talk (``erdma``: mode and letter); what the inventory alone shows is lint's to say.
    """
    camps = grouped((letter, node) for node, plan in plans if (letter := planned_letter(plan)) is not None)
    if len(camps) < 2:
        return None
    parts = sorted(camps.items(), key=lambda item: (-len(item[1]), item[0]))
    return ("erdma: erdma_mode: nodes in different modes cannot talk RDMA to each other, and these would be: "
            f"{'; '.join(f'{WORDS[letter]} on {first_of(nodes, SHOWN)}' for letter, nodes in parts)}. Nothing was changed on any of them; "
            "set one erdma_mode for all (compat and ofed are one on the wire), and erdma_driver: leave on none that runs in another")


def planned_letter(plan: dict[str, Any] | None) -> str | None:
    """A node's own words, and nothing but a letter that we know."""
    found = (plan or {}).get("erdma")
    letter = found.get("letter") if isinstance(found, dict) else None
    return letter if isinstance(letter, str) and letter in WORDS else None
