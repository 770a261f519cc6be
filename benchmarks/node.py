# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU seconds of one drift inspection on the node itself: what it imports, what it reads, which commands it runs.

The node is the tree ``doca8`` (eight GPUs, eight HCAs, everything installed) with an inventory that fits, and with the 6,000 modules and
3,000 packages that such a node has beside. Each command is a real process where the tree has its tool. The same inspection is made in two
ways, in turns: with the host that reads once, and with a plain one, as every inspection was made before there was the other. Medians of
RUNS. The import is that of a fresh interpreter without bytecode, as on a node: the files of ours that module rdma_check brings.

    python -m benchmarks.node [RUNS]

``look_cpu_s`` is one whole drift where an apply has left our code: a Python that starts as entry/boot.py does and imports the installed
bytecode, and the inspection; the least of RUNS, since what else runs here makes it more. It is to be below LOOK on a machine at rest.

The claim: reading and commands cost at most LIMIT of what they cost with a plain host; exit 1 when that does not hold.
"""

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from tests.fixtures.node_text import dpkg_status
from tests.lib.node_trees import NODES
from tests.lib.profile_trees import spec_of

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.node_code import Desired, compiled
from ansible_collections.railwright.rdma.plugins.module_utils.entry import check
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result, TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.plugin_utils import node_code

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "bench" / "node.json"
TREE, LIMIT, LOOK = "doca8", 0.6, 0.35
MODULES, PACKAGES = 6000, 3000
READS = ("read_bytes", "listdir", "readlink", "status", "which", "read", "line", "exists", "mode", "mtime", "size", "free_bytes")
IMPORT = """
import sys, time
begin = time.process_time()
from ansible_collections.railwright.rdma.plugins.module_utils.entry import check, facts
spent = time.process_time() - begin
ours = [name for name in sys.modules if name.startswith("ansible_collections.railwright.rdma.plugins.module_utils.")]
print(spent, len([name for name in ours if not (sys.modules[name].__file__ or "").endswith("__init__.py")]))
"""
INSTALLED = """
import sys
at, sys.argv = sys.argv[1], ["-c"]
import gc; gc.disable()
exec(sys.stdin.read().rpartition("if __name__")[0])
sys.meta_path.insert(0, Sources(installed(at)))
import railwright_node.entry.inspection, railwright_node.entry.check
os._exit(0)
"""


class Meter:
    """CPU seconds and calls by kind, of the outermost call: a command of a host that reads once is also one of the host below it."""

    def __init__(self) -> None:
        self.spent = {"reads": 0.0, "commands": 0.0}
        self.asked = {"reads": 0, "commands": 0}
        self.inside = False

    def around(self, host: type[Host]) -> None:
        for name in (*READS, "run"):
            setattr(host, name, self._metered(getattr(host, name), "commands" if name == "run" else "reads"))

    def _metered(self, ask: Callable[..., Any], kind: str) -> Callable[..., Any]:
        clock = cpu if kind == "commands" else time.process_time  # reading starts no process

        def metered(*arguments: Any, **named: Any) -> Any:
            if self.inside:
                return ask(*arguments, **named)
            self.inside = True
            begin = clock()
            try:
                return ask(*arguments, **named)
            finally:
                self.spent[kind] += clock() - begin
                self.asked[kind] += 1
                self.inside = False

        return metered


def cpu() -> float:
    """Ours, and that of the commands that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Node(TreeHost):
    """The tree, without what a tree costs and a node does not: where a path lies is known, and a recorded command is a process."""

    places: ClassVar[dict[tuple[str, str], str]] = {}
    recorded: ClassVar[dict[str, str | None]] = {}

    def path(self, path: str) -> str:
        if ("path", path) not in self.places:
            self.places["path", path] = super().path(path)
        return self.places["path", path]

    def _resolve(self, path: str) -> str:
        if ("resolved", path) not in self.places:
            self.places["resolved", path] = super()._resolve(path)
        return self.places["resolved", path]

    def which(self, tool: str) -> str | None:
        if tool not in self.recorded:
            self.recorded[tool] = super().which(tool)
        return Host.which(self, tool) or self.recorded[tool]

    def run(self, argv: Any, timeout: float = 30.0, *_more: Any) -> Result:
        recording = "/cmd/" + recording_name(argv)
        if self.exists(recording):
            return Host.run(self, ("cat", self.path(recording)), timeout)
        return Host.run(self, ("false",), timeout) if self.which(argv[0]) else Result(127, "", "")


def build(root: Path) -> None:
    """The tree with as many modules and packages as a node has."""
    shutil.copytree(NODES / TREE, root, symlinks=True)
    (index,) = root.glob("lib/modules/*-85-*/modules.dep")
    with index.open("a", encoding="ascii") as file:
        file.writelines(f"kernel/drivers/some/where/deep/module{number}.ko.zst: kernel/drivers/other/helper{number}.ko.zst\n"
                        for number in range(MODULES))
    with (root / "var/lib/dpkg/status").open("a", encoding="ascii") as file:
        file.write("\n" + dpkg_status({f"package{number}": "1.0" for number in range(PACKAGES)}))


def inspection(root: Path, *, once: bool) -> dict[str, float]:
    meter = Meter()
    kinds: tuple[type[Host], ...] = (type("Metered", (Node,), {}), type("MeteredOnce", (InspectedHost,), {}))
    for kind in kinds:
        meter.around(kind)
    check.InspectedHost = kinds[1] if once else lambda host: host
    spec, node = spec_of(TREE), kinds[0](str(root))
    begin = cpu()
    found = check.observe_drift(node, "node1", spec)
    whole = cpu() - begin
    assert found["judged"]
    rest = whole - sum(meter.spent.values())
    return {**{f"{kind}_s": seconds for kind, seconds in meter.spent.items()}, "rest_s": rest, **meter.asked}


def imported() -> tuple[float, int]:
    """CPU seconds and files of ours."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/nonexistent"}
    told = subprocess.run([sys.executable, "-c", IMPORT], env=environment, capture_output=True, text=True, check=True).stdout.split()
    return float(told[0]), int(told[1])


def installed(path: Path) -> float:
    """CPU seconds of a Python that starts and imports the installed code."""
    begin = cpu()
    subprocess.run([sys.executable, "-I", "-c", INSTALLED, str(path)], input=node_code.boot_text(), text=True, check=True)
    return cpu() - begin


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(median(run[name] for run in runs), 4) for name in runs[0]}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / TREE
        build(root)
        inspection(root, once=True)  # fills what belongs to the tree and the interpreter
        code = Path(directory) / "code"
        code.write_text(compiled(Desired(node_code.code_digest(), b64encode(node_code.packed_code()).decode("ascii"))), encoding="ascii")
        turns = [(inspection(root, once=True), inspection(root, once=False), imported(), installed(code)) for _ in range(count)]
    once, plain = medians([turn[0] for turn in turns]), medians([turn[1] for turn in turns])
    ratios = {f"{kind}_over_plain": round(once[f"{kind}_s"] / plain[f"{kind}_s"], 2) for kind in ("reads", "commands")}
    start = min(turn[3] for turn in turns)
    look = start + min(sum(turn[0][f"{kind}_s"] for kind in ("reads", "commands", "rest")) for turn in turns)
    document = {
        "look_cpu_s": round(look, 3), "start_installed_s": round(start, 3),
        "tree": TREE, "runs": count, "import_s": round(median(turn[2][0] for turn in turns), 3), "imported": turns[0][2][1],
        **once, "plain": plain, **ratios, "python": platform.python_version(), "cores": len(os.sched_getaffinity(0)),
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    kept = max(ratios.values()) <= LIMIT
    print(f"{OUTPUT.relative_to(ROOT)}: CPU of one drift on a node: import {document['import_s']} s ({document['imported']} files), reads "
          f"{once['reads_s']} s, commands {once['commands_s']} s, the rest {once['rest_s']} s; of what a plain host needs: reads "
          f"{ratios['reads_over_plain']}, commands {ratios['commands_over_plain']}{'' if kept else f', more than {LIMIT}'}; with "
          f"installed code {look:.3f} s in all, {start:.3f} of them to start (goal: {LOOK} s in all)", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
