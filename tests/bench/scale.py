# SPDX-License-Identifier: GPL-3.0-or-later
"""What drift costs the controller on a thousand nodes, beside `ansible -m ping` on a hundred; on ten thousand simulated ones; and lint.

    python -m tests.bench.scale [--nodes 1000] [--ping-nodes 100] [--simulated 10000] [--output build/bench/scale.json]

Nodes, inventory, environment and meter are those of tests/bench/drift.py: a real sshd an address, checked host keys, Ansible's own
defaults. CPU time and memory are the driving tree's alone. The nodes' own work, which takes far longer here, is done by this machine's
cores too, but is not counted.

The simulated ones (simulated.py) cost no ssh: a drift in its text form, whose fleet view is in it, and its report, on two cores; the
time of both is held against the limit, and the larger memory. A figure that misses its limit is said, and ends the command with 1; all
are written before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.release import __version__ as ansible_version
from tests.bench import simulated as standin
from tests.bench.drift import BIN, DRIFTED, Failed, answers, clean
from tests.bench.loopback import inventory, nodes
from tests.bench.meter import ROOT, Cost, measure
from tests.lib.node_trees import NODES
from tests.lib.ssh_world import NoSshd

AT_MOST = {"drift_cpu_s": 20.0, "drift_rss_mb": 400.0, "simulated_cpu_s": 60.0, "simulated_rss_mb": 1000.0}  # for the defaults below
AT_LEAST = {"ping_over_drift_per_node": 10.0}
CORES = 2  # for the simulated nodes
RAILS = 8


def main() -> int:
    options = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="rw-bench-") as name, nodes(options.nodes, Path(name)) as site:
            document = bench(options, site, Path(name))
    except (NoSshd, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output}: {', '.join(f'{key} {document[key]}' for key in ('nodes', 'simulated_nodes', *AT_MOST, *AT_LEAST))}")
    found = missed(document)
    for line in found:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if found else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--ping-nodes", type=int, default=100)
    parser.add_argument("--simulated", type=int, default=10_000)
    parser.add_argument("--linted", type=int, default=20_000)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "scale.json")
    return parser.parse_args()


def bench(options: argparse.Namespace, site: Path, scratch: Path) -> dict[str, Any]:
    environment = clean(os.environ, scratch, pipelining=False)
    few = min(options.ping_nodes, options.nodes)
    port = json.loads((site / "group_vars" / "all" / "site.yml").read_text(encoding="utf-8"))["ansible_port"]
    pinged = inventory(scratch, few, port, "few")
    ping = told("ping", measure([f"{BIN}/ansible", "-i", str(pinged), "rdma", "-m", "ansible.builtin.ping"], environment, scratch))
    if ping.status != 0:
        raise Failed(f"ping ended {ping.status}: {' '.join(ping.output.split())[-400:]}")
    drift = told("drift", measure([f"{BIN}/railwright", "drift", "-i", str(site), "--format", "json"], environment, scratch))
    answers(drift, options.nodes)
    return {**figures(options.nodes, drift, few, ping), **simulated(options.simulated, environment, scratch),
            **linted(options.linted, environment, scratch)}


def simulated(count: int, environment: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Drift and report of nodes that are not there."""
    two = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:CORES]))]
    program = [*two, sys.executable, "-m", "tests.bench.simulated", str(NODES)]
    drift = told("simulated drift", measure([*program, "drift", "-i", str(standin.inventory(scratch, count))], environment, scratch))
    if f"{count} nodes, " not in drift.output or drift.status != DRIFTED:
        raise Failed(f"the simulated drift ended {drift.status}: {' '.join(drift.output.split())[-400:]}")
    report = told("simulated report", measure([*program, "report", "-o", str(scratch / "report")], environment, scratch))
    if report.status != 0:
        raise Failed(f"the report ended {report.status}: {' '.join(report.output.split())[-400:]}")
    return {
        "simulated_nodes": count, "simulated_cpu_s": round(drift.cpu_s + report.cpu_s, 1), "simulated_drift_cpu_s": round(drift.cpu_s, 1),
        "simulated_report_cpu_s": round(report.cpu_s, 1), "simulated_wall_s": round(drift.wall_s + report.wall_s),
        "simulated_rss_mb": round(max(drift.rss_mb, report.rss_mb)),
    }


def linted(count: int, environment: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Lint of an inventory that writes every host and its eight rails out, as a generator of inventories does."""
    site = scratch / "lint"
    (site / "group_vars" / "all").mkdir(parents=True)
    (site / "group_vars" / "all" / "site.yml").write_text("rdma_fabric: roce\nrdma_mtu: 9000\n", encoding="utf-8")
    lines = ["all:", "  children:", "    rdma:", "      hosts:"]
    for host in range(count):
        high, low = divmod(host + 1, 250)
        lines += [f"        gpu{host:05d}:", f"          ansible_host: 192.168.{high}.{low}", "          rdma_rails:"]
        mac = f"{host >> 8 & 255:02x}:{host & 255:02x}"
        lines += [f"            - {{name: rail{rail}, match: {{mac: '06:00:00:{rail:02x}:{mac}'}}, "
                  f"address: 10.{rail * 16}.{high}.{low}/12}}" for rail in range(RAILS)]
    (site / "hosts.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lint = told("lint", measure([f"{BIN}/railwright", "lint", "-i", str(site)], environment, scratch))
    if lint.status != 0 or "no findings" not in lint.output:
        raise Failed(f"lint ended {lint.status}: {' '.join(lint.output.split())[-400:]}")
    return {"lint_hosts": count, "lint_cpu_s": round(lint.cpu_s, 1), "lint_rss_mb": round(lint.rss_mb)}


def told(name: str, cost: Cost) -> Cost:
    print(f"{name}: {cost.cpu_s:.1f} s CPU, {cost.rss_mb:.0f} MB, {cost.wall_s:.0f} s", flush=True)
    return cost


def figures(count: int, drift: Cost, few: int, ping: Cost) -> dict[str, Any]:
    return {
        "nodes": count, "drift_cpu_s": round(drift.cpu_s, 2), "drift_rss_mb": round(drift.rss_mb), "drift_wall_s": round(drift.wall_s),
        "ping_nodes": few, "ping_cpu_s": round(ping.cpu_s, 2), "ping_rss_mb": round(ping.rss_mb),
        "ping_over_drift_per_node": round(ping.cpu_s / few / (drift.cpu_s / count), 1),
        "ways": next((line for line in drift.output.splitlines() if line.startswith("railwright: ") and " by " in line), ""),
        "ansible_core": ansible_version, "python": platform.python_version(), "cores": len(os.sched_getaffinity(0)),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def missed(document: Mapping[str, Any]) -> list[str]:
    """What is claimed, and not so."""
    high = [f"{key} is {document[key]}; claimed: at most {limit:g}" for key, limit in AT_MOST.items() if document.get(key, 0) > limit]
    return high + [f"{key} is {document[key]}; claimed: at least {limit:g}" for key, limit in AT_LEAST.items() if document[key] < limit]


if __name__ == "__main__":
    sys.exit(main())
