# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU time of one ``observe_facts`` on a node with eight RoCE HCAs, as large as such nodes get.

Builds a tree with 255 GID slots and 55 counters a port, a modules.dep of 6,000 modules and 3,000
packages, and prints the CPU milliseconds of the fastest and the median run. The claim is "well
under 100 ms beside the start of the interpreter"; exit 1 when it does not hold.

    python -m benchmarks.facts [RUNS]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.fixtures.node_text import OS_RELEASE, dpkg_status, ibv_devinfo, proc_modules
from tests.fixtures.node_tree import ZERO, Device, Port, Tree, roce_gids

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts

LIMIT_MS = 100.0
HCAS, SLOTS, COUNTERS, MODULES, PACKAGES = 8, 255, 55, 6000, 3000
KERNEL = "6.1.0-40-amd64"


def build(root: Path) -> None:
    tree = Tree(root)
    tree.system(OS_RELEASE["debian12"], KERNEL, "bench", proc_modules({f"ib_module{number}": "" for number in range(150)}))
    tree.loopback()
    tree.routes("eth0")
    for number in range(HCAS):
        pci, mac, netdev = f"pci0000:{number:02x}/0000:{number:02x}:00.0", f"b8:ce:f6:00:10:{number:02x}", f"eth{number}"
        used = roce_gids(mac, netdev, f"10.10.{number}.11")[:-1]
        gids = used + tuple((index, ZERO, "", "") for index in range(len(used), SLOTS))
        counters = tuple((f"counter_{index}", str(index * 10**9)) for index in range(COUNTERS))
        port = Port(link_layer="Ethernet", gids=gids, counters=counters[:25], hw_counters=counters[25:])
        tree.hca(Device(f"mlx5_{number}", pci, "mlx5_core", f"b8ce:f603:0000:10{number:02x}", (port,)))
        tree.netdev(netdev, mac, 9000, pci, dev_port="0")
    tree.write("cmd/ibv_devinfo_-v", ibv_devinfo([(f"mlx5_{number}", 1, "4096 (5)", "Ethernet") for number in range(HCAS)]))
    tree.write(
        f"lib/modules/{KERNEL}/modules.dep",
        "".join(
            f"kernel/drivers/some/where/deep/module{number}.ko.xz: kernel/drivers/other/helper{number}.ko.xz\n" for number in range(MODULES)
        ),
    )
    tree.write("var/lib/dpkg/status", dpkg_status({f"package{number}": "1.0" for number in range(PACKAGES)} | {"rdma-core": "44.0-2"}))


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory) / "node")
        spent = []
        for _ in range(runs):
            start = time.process_time()
            facts = observe_facts(InspectedHost(TreeHost(str(Path(directory) / "node"))))
            spent.append((time.process_time() - start) * 1000)
    assert len(facts["hcas"]) == HCAS
    size = f"{HCAS} HCAs, {SLOTS} GID slots and {COUNTERS} counters a port"
    kept = median(spent) < LIMIT_MS
    judged = "" if kept else f"; more than the {LIMIT_MS:.0f} ms that are claimed"
    print(f"{size}: {min(spent):.1f} ms fastest, {median(spent):.1f} ms median of {runs}{judged}", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
