# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain affinity``: how near each GPU of a node is to each HCA, in the words of ``nvidia-smi topo -m``."""

from typing import Any

from railwright.cli import console


def affinity_of(facts: dict[str, Any]) -> dict[str, Any]:
    return {"rows": facts.get("affinity"), "gpus": len(facts.get("gpus") or []), "hcas": len(facts.get("hcas") or [])}


def show_affinity(found: dict[str, Any]) -> None:
    """A GPU a line: the nearest HCAs first, then the others by their distance."""
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.affinity import CLASSES

    rows = found["rows"]
    if not rows:
        missing = "no GPU" if not found["gpus"] else "no HCA" if not found["hcas"] else "no HCA that is a PCI function"
        console.say("  unknown: the node did not say" if rows is None else f"  {missing}")
        return
    lines = []
    for gpu in dict.fromkeys(row["gpu"] for row in rows):
        by_class: dict[str, list[str]] = {}
        for row in [row for row in rows if row["gpu"] == gpu]:
            names = by_class.setdefault(row["path"] if row["path"] in CLASSES else "unknown", [])
            if row["hca"] not in names:
                names.append(row["hca"])
        order = sorted(by_class, key=lambda name: CLASSES.index(name) if name in CLASSES else len(CLASSES))
        told = [f"{name}: {' '.join(by_class[name])}" for name in order]
        lines.append((gpu, told[0], "; ".join(told[1:]) or "-"))
    console.table(("GPU", "nearest", "farther"), lines)
    console.say("  PIX: one switch; PXB: several; PHB: one host bridge; NODE, SYS: over the CPUs")
