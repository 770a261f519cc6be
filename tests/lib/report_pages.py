# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of five kinds for report.html: validate (a bad rail, a hostile node), drift with its history, bench, isolate, a failed apply."""

from __future__ import annotations

import random
from typing import Any

from tests.lib.searches import run_of, searched_document
from tests.lib.simulated_fabric import Fault, Noise
from tests.lib.small_fleets import fleet_of

from bench_documents import document, one_run, stored_run
from railwright.runs import Run, save_run

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"]  # fmt: skip
RAILS = 8
CHECKS = (("port.state", "ACTIVE"), ("port.rate", 400), ("port.active_mtu", 4096), ("rail.gid", "RoCE v2"))
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>{{ 7*7 }}\u202e</td></tr>'


def names(count: int) -> list[str]:
    return [f"gpu{number + 1:03d}" for number in range(count)]


def run(verb: str, nodes: dict[str, Any], at: str = "20260101T120000Z", **more: Any) -> Run:
    started = f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[9:11]}:{at[11:13]}:00+00:00"
    return Run(f"{at}-{verb}-0000abcd", verb, "/srv/mycluster", None, started, "0.1.0", finished=started, exit_code=1, nodes=nodes, **more)


def verdict(node: str, rail: int, check: tuple[str, Any], status: str = "pass", found: Any = None, message: str = "") -> dict[str, Any]:
    return {"check": check[0], "node": node, "hca": f"mlx5_{rail}", "port": 1, "subject": f"rail{rail} (ens{rail}f0)", "status": status,
            "expected": check[1], "found": check[1] if status == "pass" else found, "message": message or check[0]}  # fmt: skip


def validated(count: int, seed: int = 1) -> Run:
    """One node in 25 has something, a hundredth does not answer; rail5 of gpu002 runs at 100 of 400 Gb/s."""
    draw = random.Random(seed)
    verdicts = [verdict(node, rail, check) for node in names(count) for rail in range(RAILS) for check in CHECKS]
    for at in draw.sample(range(len(verdicts)), max(1, count // 25)):
        verdicts[at] |= {"status": draw.choice(("warn", "unknown", "fail")), "found": None, "message": "is not as it should be"}
    verdicts.append(verdict("gpu002", 5, ("port.rate", 400), "fail", 100, "runs at 100 Gb/s, a quarter of its rate: reseat the cable"))
    verdicts.append(verdict("gpu001", 0, ("rail.gid", HOSTILE), "fail", HOSTILE, HOSTILE))
    lost = set(draw.sample(names(count)[2:], count // 100))
    nodes = {node: {"status": "unreachable" if node in lost else "ok", "message": "no route to host" if node in lost else ""}
             for node in names(count)}  # fmt: skip
    leaves = {node: {f"rail{rail}": f"leaf{place // 100 + 1}{'ab'[rail % 2]}" for rail in range(RAILS)}
              for place, node in enumerate(names(count))}  # fmt: skip
    return run("validate", nodes, verdicts=verdicts, leaves=leaves)


def drifted() -> Run:
    """The last of three, stored like those before."""
    for day, areas in ((1, "network network qos"), (2, "qos"), (3, "qos limits")):
        findings = [{"area": area, "what": f"something of {area}", "severity": "major", "why": "it differs", "expected": 1, "found": 2}
                    for area in areas.split()]  # fmt: skip
        last = run("drift", {"gpu001": {"status": "ok", "findings": findings}, "gpu002": {"status": "ok", "findings": []}},
                   f"2026010{day}T120000Z")  # fmt: skip
        save_run(last)
    return last


def benched() -> Run:
    """Two nodes with four GPUs and four rails; rail2 of n2 counted errors."""
    paths = [{"gpu": f"0000:{bus:02x}:00.0", "hca": f"mlx5_{rail}", "port": 1, "path": "PIX" if near else "SYS", "near": near}
             for rail in range(4) for place, bus in enumerate((0x1B, 0x3D, 0x9A, 0xBA)) for near in (place == rail,)]  # fmt: skip
    measured, topology = one_run(ceiling=400.0, limit="8 NICs x 400 Gb/s"), {node: {"matrix": paths} for node in ("n1", "n2")}
    one = stored_run("20260103T000000Z-bench", document(measured, topology=topology))
    one.nodes["n2"] = {"status": "ok"}
    one.leaves = {node: {f"rail{rail}": f"leaf{rail + 1}" for rail in range(4)} for node in ("n1", "n2")}
    one.verdicts = [verdict(node, rail, ("port.errors", "no growth")) for node in ("n1", "n2") for rail in range(4)]
    one.verdicts[6] |= {"status": "fail", "found": "symbol_error +12", "message": "12 symbol errors while nccl-tests ran"}
    return one


def five_kinds() -> dict[str, Run]:
    """By kind. Drift's history is stored below XDG_STATE_HOME."""
    faults = [Fault("rail", 0.1, "node17", "rail2"), Fault("node", 0.7, "node5")]
    change = {"key": "k", "area": "network", "what": "MTU of rail0", "before": 1500, "after": 9000, "disruption": "link", "why": "jumbo"}
    return {
        "validate": validated(8), "drift": drifted(), "bench": benched(),
        "isolate": run_of(searched_document(fleet_of(32, "perftest", per_leaf=8), faults, Noise(outliers=0, launches=0))),
        "apply": run("apply", {"gpu001": {"status": "failed", "message": HOSTILE, "changes": [change]}, "gpu002": {"status": "ok"}}),
    }  # fmt: skip
