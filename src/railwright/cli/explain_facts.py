# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``railwright explain affinity`` and ``explain speed`` show: how near GPUs and HCAs are, and what nodes like this one can reach."""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
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


ABSENT = "-"


def show_speed(found: dict[str, Any]) -> None:
    """Collectives first, since jobs wait for them."""
    board, rails = found["board"] or "GPU", found["rails"]
    nvlink = f", NVLink {found['nvlink_gbs']:g} GB/s each way" if found["nvlink_gbs"] else ""
    console.say(f"  {found['gpus']} x {board}{nvlink}" if found["gpus"] else "  no GPU")
    console.say(f"  rails: {', '.join(_rail(rail) for rail in rails) if rails else 'none: no HCA has a port that is up'}")
    rows = []
    for row in found["rows"]:
        rows.append((row["collective"], console.count(row["nodes"], "node"), _gbs(row), row["algorithm"] or ABSENT, row["limit"]))
        if row["runs"] is not None:
            rows.append(("", "as it runs", _gbs(row["runs"]), row["runs"]["algorithm"] or ABSENT, row["runs"]["limit"]))
    if found["gpus"]:
        console.table(("collective", "over", "GB/s busbw", "algorithm", "limited by"), rows)
    if found["perftest"]:
        console.table(("ib_write_bw over", "memory", "Gb/s", "limited by"), _perftest(found["perftest"]))
    slow = found["without_gpudirect"]
    if slow is not None and slow["gbs"] is not None:
        console.say(f"  without GPUDirect RDMA: all_reduce over {slow['nodes']} nodes {_gbs(slow)} GB/s, limited by {slow['limit']}")
    alone = found["over_host_memory"]
    if alone is not None and alone["gbs"] is not None:
        console.say(f"  without peer access (SHM): all_reduce {_gbs(alone)} GB/s, limited by {alone['limit']}; over sockets less")
    if found["unread"]:
        console.say(f"  unread, and taken to limit nothing: {', '.join(found['unread'])}")


def _rail(rail: dict[str, Any]) -> str:
    return f"{rail['name']} of " + ("unknown rate" if rail["gbps"] is None else f"{rail['gbps']:g} Gb/s")


def _gbs(row: dict[str, Any]) -> str:
    return "unknown" if row["gbs"] is None else f"{row['gbs']:.1f}"


def _perftest(rows: list[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """One line for rails that are alike."""
    alike = grouped(((row["memory"], row["gbps"], row["limit"].replace(row["rail"], "the rail"),
                      row["runs"] and (row["runs"]["gbps"], row["runs"]["limit"])), row) for row in rows)
    lines = []
    for (memory, gbps, limit, slower), same in alike.items():
        name = same[0]["rail"] if len(same) == 1 else f"each of {len(same)} rails"
        lines.append((name, memory, ABSENT if gbps is None else f"{gbps:g}", same[0]["limit"] if len(same) == 1 else limit))
        if slower:
            lines.append(("", "as it runs", f"{slower[0]:g}", slower[1]))
    return lines
