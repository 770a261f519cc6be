# SPDX-License-Identifier: GPL-3.0-or-later
"""How much CPU reading a node takes, beside the start of the interpreter.

Reads the captured nodes with eight HCAs many times and prints the median in milliseconds.
Exit status 1 when one takes more than its budget: this runs on nodes that compute.
"""

import statistics
import sys
import time
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree

NODES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "nodes"
LARGE = ("ib8", "roce8-bond")
ROUNDS = 15
BUDGET_MS = 100.0


def cpu_ms(node: str) -> float:
    """Median CPU time (user and system) of reading one captured node."""
    times = []
    for _round in range(ROUNDS):
        start = time.process_time()
        facts = facts_of_tree(str(NODES / node))
        times.append((time.process_time() - start) * 1000)
        if len(facts["hcas"]) < 8:
            raise SystemExit(f"{node}: {len(facts['hcas'])} HCAs read, expected 8")
    return statistics.median(times)


def main() -> int:
    """Print one line for each node."""
    over = 0
    for node in LARGE:
        spent = cpu_ms(node)
        over += spent > BUDGET_MS
        print(f"facts of {node}: {spent:.1f} ms of CPU (budget {BUDGET_MS:.0f} ms, median of {ROUNDS})")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
