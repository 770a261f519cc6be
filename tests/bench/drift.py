# SPDX-License-Identifier: GPL-3.0-or-later
"""What drift costs the controller, beside `ansible -m ping` and beside an ordinary playbook in check mode, on loopback nodes.

    python -m tests.bench.drift [--nodes 100] [--check-nodes 40] [--rounds 3] [--pipelining] [--output build/bench/drift.json]

Four commands; ping and drift take turns ROUNDS times and the median of each counts, the other two, which take many minutes, come once:

    ping     ansible -m ansible.builtin.ping
    drift    railwright drift --format json: the figure that is held against the others; linting the inventory, the history, the record
             and the report are in it
    play     ansible-playbook railwright.rdma.drift: the same without the command line, for comparison
    check    ansible-playbook --check of check.yml, on CHECK_NODES of the nodes

The same inventory, forks, empty ansible.cfg and real ssh with checked host keys for all of them (loopback.py). What is measured is the
user and system time of the command and everything it starts, ssh clients included; neither sshd nor what runs on a node (meter.py).

Ansible's main process looks a thousand times a second whether a fork is done, and ten thousand times while all forks are busy: the
time that nodes need costs the controller too. Here the nodes share this machine's cores, so on a busy machine all four figures grow;
a check on fewer nodes than forks would be spared most of it, and therefore has more.

check.yml is equivalent in this sense: it holds a template for every file, a sysctl for every key and one package task for all packages
that drift compares *and finds different* on these nodes; what drift compares and finds equal, and everything an ordinary playbook has
no module for (addresses, MTU, device and NCCL state), is drift's alone. Loops instead of a task each, which is cheaper. The start of
its process is taken off before the rest is scaled to all nodes.

--pipelining switches Ansible's pipelining on for all four; drift uses it by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from ansible.release import __version__ as ansible_version
from tests.bench.loopback import nodes
from tests.bench.meter import ROOT, Cost, measure
from tests.lib.ssh_world import NoSshd

from railwright.ansible_env import collection_root, forks

OVER_PING, OVER_DRIFT = 1.5, 10.0  # what is claimed: at most, and at least
ONCE = ("play", "check")
DRIFTED = 2  # exit status of `railwright drift`
PLAYBOOK = ROOT / "tests" / "bench" / "check.yml"
BIN = Path(sys.executable).parent


class Failed(RuntimeError):
    """A command that did not do what is measured."""


def main() -> int:
    options = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="rw-bench-") as name, nodes(options.nodes, Path(name)) as inventory:
            document = bench(options, inventory, Path(name))
    except (NoSshd, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output}: {document['nodes']} nodes: ping {document['ping_cpu_s']} s, drift {document['drift_cpu_s']} s, "
          f"check {document['check_cpu_s']} s; drift/ping {document['drift_over_ping']}, check/drift {document['check_over_drift']}")
    return 0 if document["drift_over_ping"] <= OVER_PING and document["check_over_drift"] >= OVER_DRIFT else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.drift")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--check-nodes", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipelining", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "drift.json")
    return parser.parse_args()


def bench(options: argparse.Namespace, inventory: Path, scratch: Path) -> dict[str, Any]:
    environment = clean(os.environ, scratch, pipelining=options.pipelining)
    given, few = str(inventory), min(options.check_nodes, options.nodes)
    check = [f"{BIN}/ansible-playbook", "-i", given, str(PLAYBOOK)]
    commands = {
        "ping": [f"{BIN}/ansible", "-i", given, "rdma", "-m", "ansible.builtin.ping"],
        "drift": [f"{BIN}/railwright", "drift", "-i", given, "--format", "json"],
        "play": [f"{BIN}/ansible-playbook", "-i", given, "railwright.rdma.drift"],
        "check": [*check, "--check", "--limit", f"rdma[0:{few - 1}]", "-e", f"@{scratch / 'items.json'}"],
    }
    spent: dict[str, list[float]] = {name: [] for name in commands}
    findings: dict[str, Any] = {}
    for turn in range(options.rounds):
        for name, argv in commands.items():
            if turn and name in ONCE:
                continue
            cost = measure(argv, environment, scratch)
            spent[name].append(cost.cpu_s)
            print(f"{name}: {cost.cpu_s:.1f} s CPU, {cost.wall_s:.0f} s", flush=True)
            if name == "drift":
                findings = answers(cost, options.nodes)
                (scratch / "items.json").write_text(json.dumps(items(next(iter(findings.values())))), encoding="utf-8")
            elif cost.status != 0:
                raise Failed(f"{name} ended {cost.status}: {' '.join(cost.output.split())[-400:]}")
    middle = {name: median(values) for name, values in spent.items()}
    start = measure([*check, "--syntax-check"], environment, scratch).cpu_s
    middle["check"] = start + max(0.0, middle["check"] - start) * options.nodes / few
    return document(options, few, middle, findings)


def clean(environ: Mapping[str, str], scratch: Path, *, pipelining: bool) -> dict[str, str]:
    """Ansible's own defaults, whatever the operator has; ``railwright drift`` fills in what it always does."""
    (scratch / "ansible.cfg").write_text("", encoding="ascii")
    found = {name: value for name, value in environ.items() if not name.startswith("ANSIBLE_")}
    return found | {
        "ANSIBLE_CONFIG": str(scratch / "ansible.cfg"), "ANSIBLE_HOME": str(scratch / "home"), "XDG_STATE_HOME": str(scratch / "state"),
        "ANSIBLE_FORKS": str(forks()), "ANSIBLE_COLLECTIONS_PATH": str(collection_root()), "LC_ALL": "C.UTF-8",
        "PATH": f"{BIN}{os.pathsep}{found.get('PATH', os.defpath)}", **({"ANSIBLE_PIPELINING": "True"} if pipelining else {}),
    }


def answers(cost: Cost, count: int) -> dict[str, list[dict[str, Any]]]:
    """The findings by node. Every node must have answered: one that failed costs less."""
    start = cost.output.find('{\n  "nodes"')
    if cost.status not in (0, DRIFTED) or start < 0:
        raise Failed(f"drift ended {cost.status}: {' '.join(cost.output.split())[-400:]}")
    found = json.JSONDecoder().raw_decode(cost.output[start:])[0]
    if found["summary"]["ok"] != count:
        raise Failed(f"drift: {found['summary']['ok']} of {count} nodes answered")
    return {name: node["findings"] for name, node in found["nodes"].items()}


def items(findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What an ordinary playbook would have to hold to find the same differences."""
    wanted: dict[str, list[Any]] = {"bench_packages": [], "bench_files": [], "bench_sysctls": []}
    for finding in findings:
        kind, _, rest = str(finding["what"]).partition(" ")
        if finding["kind"] != "setting" or finding["expected"] is None:
            continue
        if kind == "package":
            wanted["bench_packages"].append(rest)
        elif kind == "file":
            wanted["bench_files"].append({"path": rest.split(" ")[0], "text": str(finding["expected"])})
        elif kind == "sysctl":
            wanted["bench_sysctls"].append({"key": rest, "value": str(finding["expected"])})
    return wanted


def document(options: argparse.Namespace, few: int, spent: Mapping[str, float], findings: Mapping[str, list[Any]]) -> dict[str, Any]:
    one = next(iter(findings.values()))
    return {
        "nodes": options.nodes, "rounds": options.rounds, "forks": forks(), "pipelining": options.pipelining, "check_nodes": few,
        **{f"{name}_cpu_s": round(value, 2) for name, value in spent.items()},
        "drift_over_ping": round(spent["drift"] / spent["ping"], 2),
        "play_over_ping": round(spent["play"] / spent["ping"], 2),
        "check_over_drift": round(spent["check"] / spent["drift"], 1),
        "findings": len(one), "checked": {name.removeprefix("bench_"): len(found) for name, found in items(one).items()},
        "ansible_core": ansible_version, "python": platform.python_version(), "cores": len(os.sched_getaffinity(0)),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


if __name__ == "__main__":
    sys.exit(main())
