# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent costs a node with eight GPUs and HCAs in an hour: CPU time with all that it starts, and memory of its largest process.

    python -m tests.bench.agent [--minutes 60] [--tree doca8] [--output build/bench/agent.json]

Each minute the command of the agent's own unit, with the code as an apply leaves it (compiled, packed), on a captured tree: files are read,
commands are a recording, so NVML is not asked. What NVML costs was measured on GPUs (docs/agent.md).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.meter import ROOT, spent
from tests.lib.profile_trees import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import agent, node_code
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import code_digest, packed_code
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec

SHARE, MEMORY_MB = 0.005, 40
MAIN = "from railwright_node.agent.main import main\n"
# What getrusage(2) has of a child begins with the memory of the process that forked it: VmHWM (proc(5)) begins at exec.
ON_TREE = """import atexit
from railwright_node.agent import main as command
from railwright_node.host.host import TreeHost
command.Host = lambda: TreeHost(%r)
atexit.register(lambda: open(%r, "a").write(open("/proc/self/status").read()))
main = command.main
"""


def starter(directory: Path, tree: Tree) -> Path:
    """As the area writes it, but for the host that is looked at."""
    desired = node_code.Desired(code_digest(), base64.b64encode(packed_code()).decode("ascii"))
    code, script = directory / "code", directory / "agent"
    code.write_text(node_code.compiled(desired), encoding="ascii")
    settings = {"mode": "observe", "flaps": 3, "textfile": "/var/lib/textfile", "values": nobodys_spec().as_dict()}
    head, found, tail = agent.starter_text(str(code), settings).partition(MAIN)
    assert found
    script.write_text(head + ON_TREE % (str(tree.root), str(directory / "memory")) + tail, encoding="utf-8")
    return script


def minute(script: Path) -> int:
    """One start of the service's command; how many looks were whole."""
    argv = ["nice", "-n", "19", sys.executable, str(script)]
    ended = subprocess.run([*argv, "look"], check=False).returncode
    if ended == 0:
        return 0
    assert ended == 75, ended
    for command in ("whole", "look"):
        subprocess.run([*argv, command], check=True)
    return 1


def bench(minutes: int, name: str, directory: Path) -> dict[str, Any]:
    tree = Tree(name, directory)
    script = starter(directory, tree)
    began, whole, looks = time.monotonic(), 0, []
    for number in range(minutes):
        time.sleep(max(0.0, began + 60 * number - time.monotonic()))
        tree.put("/proc/uptime", f"{86400 + time.monotonic() - began:.2f} 0.00\n")
        before = spent()
        whole += minute(script)
        looks.append(spent() - before)
    seconds = 60.0 * minutes
    memory = [int(line.split()[1]) for line in (directory / "memory").read_text().splitlines() if line.startswith("VmHWM:")]
    status = json.loads((tree.root / "run/railwright/agent/status.json").read_text(encoding="utf-8"))
    return {"tree": name, "minutes": minutes, "whole": whole, "cpu_s": round(sum(looks), 2), "share": round(sum(looks) / seconds, 5),
            "look_ms_median": round(1000 * sorted(looks)[len(looks) // 2], 1), "look_ms_largest": round(1000 * max(looks), 1),
            "rss_mb": round(max(memory) / 1024, 1), "findings": len(status["findings"]),
            "python": platform.python_version(), "load": [round(each, 1) for each in os.getloadavg()]}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agent")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--tree", default="doca8")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "agent.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rw-bench-") as name:
        document = bench(options.minutes, options.tree, Path(name))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output}: {document}")
    if document["share"] > SHARE or document["rss_mb"] > MEMORY_MB:
        print(f"bench: claimed were at most {SHARE} of a core and {MEMORY_MB} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
