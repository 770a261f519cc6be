# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that a verdict can be of: the one table of its code, what it expects, who says so, and the command that shows more.

docs/reference/checks.md has its tables from here, and a contract test refuses a code that is not here. Health has a file of its own
(catalogue/health.py), as every inspection of a node carries that one.
"""

from typing import Dict, Tuple

from .health import CHECKS as HEALTH
from .health import Check

# What shows more of the checks of a family, where a row has no command of its own; each of them only reads. {hca}, {port} and {pci} are of
# the verdict (checks/next_command.py).
FAMILIES: Dict[str, str] = {
    "aiacc": "cat /etc/nccl.conf; ldconfig -p | grep nccl",
    "cpu": "cat /proc/cmdline",
    "erdma": "dmesg | grep -i erdma; rdma link",
    "firmware": "mlxfwmanager --query -d {pci}",
    "gds": "/usr/local/cuda/gds/tools/gdscheck -p",
    "gpu": "nvidia-smi -q -i {pci}",
    "gpudirect": "lsmod | grep -i peer; dmesg | grep -i peer",
    "hca": "ibv_devinfo -d {hca}",
    "kernel": "uname -r; dkms status",
    "opensm": "systemctl status opensm; sminfo",
    "pci": "sudo lspci -vv -s {pci}",
    "port": "rdma link show {hca}/{port}; ibstat {hca}",
    "stack": "ofed_info -s; modinfo -n mlx5_core",
}
OTHERS = "journalctl -k -b -p warning"
_DRIVER = "cat /proc/driver/nvidia/version; modinfo -F version nvidia"
_MEASURED = "`unknown` with the reason where it could not be measured"

# By the table of docs/reference/checks.md that shows them.
SECTIONS: Dict[str, Tuple[Check, ...]] = {
    "rails": (
        Check("rail.device", "an RDMA device on the matched interface", "`rdma_rails[].match`", "one that is gone: `rxeN` with soft_roce, "
              "else the match"),
        Check("port.state", "`ACTIVE`", "floor", 'an InfiniBand port in `INIT` with `sm_lid` 0 says "no subnet manager"'),
        Check("port.phys_state", "`LinkUp`", "floor"),
        Check("port.link_layer", "`Ethernet` (roce, erdma), `InfiniBand`", "`rdma_fabric`, or `rdma_expect.link_layer`"),
        Check("port.rate", "at least this many Gb/s", "`rdma_expect.rate_gbps`", "eRDMA and Soft-RoCE report a constant: never judged, "
              "`unknown` if expected"),
        Check("port.active_mtu", "exactly `rdma_expect.active_mtu`; else at least what the MTU carries", "`rdma_expect.active_mtu`, else "
              "`rdma_mtu`", "9000 carries 4096, 1500 carries 1024; needs `ibv_devinfo`, else `unknown`"),
        Check("rail.mtu", "the rail's MTU", "`rdma_rails[].mtu`, else `rdma_mtu`", "not for an InfiniBand rail without an address; on "
              "eRDMA a wrong one can corrupt data (NCCL's LL128)"),
        Check("rail.address", "the rail's address with its prefix length", "`rdma_rails[].address`"),
        Check("rail.gid", "a RoCE v2 GID that holds the rail's address; on InfiniBand any GID", "`rdma_rails[].address`", "the index "
              "differs per NIC and is no expectation; `skipped` with `erdma_mode: default`, whose devices have none"),
        Check("nccl.gid", "the GID that NCCL takes on each HCA of its list is RoCE v2 and holds the rail's address",
              "`rdma_rails[].address`; the settings in `/etc/nccl.conf` and every NCCL that a job can load decide what it takes", "the GID "
              "of `NCCL_IB_GID_INDEX`, else the one that NCCL 2.21 finds. An older NCCL takes index 0: `fail`, or `warn` beside a newer "
              "one ([which nodes have none](profiles.md#the-gid-index))"),
        Check("qos.chain", "every link of the lossless chain, in order: NCCL_IB_TC, DSCP, trust, DSCP map, priority, PFC, ETS (if the "
              "profile has shares), ECN, CNP, RDMA-CM ToS, DCBX owner", "`rdma_qos_profile`", "the first link that breaks, later ones in "
              "its message; `warn` with `roce_qos_manage: false`; `unknown` where one cannot be read; `skipped` without RoCE or DCB "
              "([how to read it](../roce.md))"),
        Check("qos.boot", "inventory, settings file, its unit and the NIC agree", "`rdma_qos_profile`", "whether the chain is there again "
              "after a reboot and after openibd ([how](../roce.md)); each disagreement is named; `skipped` where `qos.chain` is, in "
              "containers and with `roce_qos_manage: false`"),
        Check("hca.fw_ver", "this firmware", "`rdma_expect.fw_ver`", "Soft-RoCE has none: `skipped`"),
        Check("hca.hca_type", "this type, like `MT4129`", "`rdma_expect.hca_type`"),
    ),
    "node": (
        Check("node.hcas", "this many RDMA devices, without the functions that manage NVSwitches", "`rdma_expect.hcas`", "`unknown` where "
              "nobody can tell which those are"),
        Check("gpu.count", "this many NVIDIA GPUs", "`rdma_expect.gpus`"),
        Check("gpu.near", "each GPU has a rail, and each rail a GPU, no further apart than `NCCL_NET_GDR_LEVEL` (`PXB`), or NVLink to a "
              "GPU that has", "NCCL: `src/graph/paths.cc`, `ncclTopoCheckGdr`", "`warn` only", "nvidia-smi topo -m"),
        Check("gpu.driver", "this driver is loaded: a version, or any of a branch", "`rdma_expect.gpu_driver`, else the driver that the "
              "inventory installs", "", _DRIVER),
        Check("gpu.driver_loaded", "the loaded module is the one on disk, and it drives every GPU", "floor: a GPU without a driver does "
              "nothing", "`skipped` where every GPU is bound to vfio-pci", _DRIVER),
        Check("gpu.nouveau", "not loaded", "floor", "", "lsmod | grep nouveau; cat /etc/modprobe.d/*nouveau*"),
        Check("gpu.fabricmanager", "runs, in exactly the driver's version, and the GPUs say the NVLink fabric is `Completed`, without an "
              "error; with NVLink 5 nvlsm, infiniband-diags and ib_umad too ([why](../drivers.md#nvlink-5))", "floor where the node has or "
              "manages an NVSwitch, or `gpu_driver_fabricmanager: true`", "else CUDA ends with error 802. Where another machine manages "
              "the NVSwitches, the GPUs alone are judged", "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric"),
        Check("gpu.imex", "nvidia-imex runs in the driver's version and has a channel", "floor on nodes of a rack (GB200, GB300)",
              "`skipped` with `gpu_driver_imex: false`; nothing is said of others", "systemctl status nvidia-imex; nvidia-imex-ctl -N"),
        Check("gpu.persistence", "on for every GPU", "`gpu_driver_persistence`", "only a warning where `gpu_driver_branch` is unset",
              "systemctl status nvidia-persistenced; nvidia-smi -q | grep -i persist"),
        Check("opensm.build", "not the distribution's opensm (3.3) where a port has 400 Gb/s or more: it does not work on an NDR fabric",
              "floor on hosts that run a subnet manager", "`warn` on slower ports"),
        Check("kernel.pinned", "the kernel of `rdma_kernel_version` runs, and the next boot starts it", "`rdma_kernel_version`", "nothing "
              "is said without it"),
        Check("kernel.newest", "the next boot starts the running kernel", "floor", "another one `fail`s when a DKMS module of the stack or "
              "the GPU driver is not built for it, and `warn`s when all are"),
        Check("erdma.mode", "the driver runs in the wanted mode, and its devices follow it ([modes](../erdma.md)); among nodes: compat and "
              "ofed are one mode on the wire, default is another", "`erdma_mode`; the other nodes", "`unknown` where the kernel's own "
              "driver has no device to tell by"),
        Check("stack.dkms", "every DKMS module of the wanted stack, the GPU driver and peer memory is installed for the running kernel",
              "floor", "`skipped` where DKMS has none", "dkms status"),
        Check("stack.modules", "the loaded modules are those of the wanted stack, and the ones on disk", "`rdma_stack`"),
        Check("stack.packages", "dpkg has finished with every package of the stack and the drivers", "floor", "", "dpkg --audit"),
        Check("stack.headers", "headers for the running and the next kernel", "floor where DKMS builds", "only a warning",
              "uname -r; ls /usr/src /lib/modules"),
        Check("stack.secure_boot", "off, or the key that DKMS signs with is enrolled", "floor where DKMS builds", "says where it waits for "
              "the console", "mokutil --sb-state; mokutil --list-enrolled"),
        Check("erdma.provider", "libibverbs can open eRDMA devices: the driver file and the library of the provider", "floor; fabric "
              "erdma"),
        Check("erdma.count", "this many eRDMA devices", "`rdma_expect.hcas`, else `erdma_instance_type`", "says what the PCI bus has where "
              "it fails"),
        Check("erdma.port", "`ACTIVE` on every eRDMA device, also on one that no rail names", "floor; fabric erdma"),
        Check("aiacc.nccl", "every NCCL that a job can load ([`nccl_libraries`](facts.md)) is 2.8 to 2.16, one verdict a file",
              "`rdma_nccl_profile: erdma-aiacc`", "`warn` where DeepNCCL has overwritten one"),
        Check("aiacc.plugin", "NCCL finds AIACC's `libnccl-net.so` and nothing sets NCCL_NET_PLUGIN; with another profile "
              "`NCCL_NET_PLUGIN=none` in nccl.conf turns it off", "`rdma_nccl_profile`", "`warn` for a package index's "
              "([AIACC](../aiacc.md))"),
        Check("node.memlock", "systemd's effective locked-memory default", "`host_tuning_memlock`", "", "systemctl show -p "
              "DefaultLimitMEMLOCK; ulimit -l"),
        Check("firewall.tcp", "all TCP of the cluster's nodes comes in on the bootstrap interface, by the rules of the kernel's input "
              "chains", "floor; `firewall_peers`, `rdma_bootstrap_interface`", "`unknown` where a rule cannot be judged, or nobody knows "
              "the nodes' addresses"),
        Check("firewall.roce", "UDP 4791 comes in on the rails of Soft-RoCE", "floor; fabric roce", "`skipped` for hardware HCAs, whose "
              "packets the host's firewall does not see: there ACLs of switches and security groups must let UDP 4791 pass"),
        Check("config.<area>", "no change in the plan of the area", "the inventory, as `railwright plan` shows it"),
    ),
    "alone": (
        Check("node.hangs", "every command answers in 5 s, and reading the node comes to an end", "choice", "`fail` where nothing ends "
              "what hangs: the process and where it is in the kernel are named; `warn` where it could be ended",
              "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
    ),
    "health": HEALTH,
    "machine": (
        Check("pci.link_speed", "the lower of what slot and device can do, for every HCA, GPU and PCIe switch above them", "floor",
              "`warn` for a GPU: one that is idle may lower its link"),
        Check("pci.link_width", "the same for the number of lanes", "floor"),
        Check("pci.above_4g", "every 64-bit BAR of a GPU lies above 4 GiB", "floor", "Above 4G Decoding in the BIOS"),
        Check("pci.sriov", "an SR-IOV capability", "`nic_firmware_config` with `SRIOV_EN` or `NUM_OF_VFS`, for the NICs of rails", "says "
              "how many virtual functions are enabled"),
        Check("pci.acs", "off on every bridge above GPUs and HCAs", "`pci_tuning_acs`; only a warning with `keep`", "bare metal with GPUs "
              "and HCAs", "sudo lspci -vvv | grep -i acsctl"),
        Check("pci.max_read_request", "this many bytes on the rails' HCAs", "`pci_tuning_max_read_request`", "needs root"),
        Check("pci.iommu", "passes DMA through, or is off", "`pci_tuning_iommu: passthrough`; else only a warning, with GPUs", "",
              "cat /proc/cmdline; dmesg | grep -i iommu"),
        Check("cpu.isolated", "the kernel keeps its own work off these CPUs now (`isolated`, `nohz_full`), and the node has them",
              "`pci_tuning_isolated_cpus`", "nothing is said where it is unset"),
        Check("pci.numa", "a NUMA node, where the machine has several", "floor; only a warning", "NPS, SNC, SRAT in the BIOS"),
        Check("firmware.version", "this version, running and in flash", "`nic_firmware_versions` by PSID", "one verdict a NIC that a rail "
              "is on, whatever its ports; a virtual function, and a container, are `skipped`"),
        Check("firmware.config", "this value in effect now", "`nic_firmware_config`", "the NICs of rails alone, as apply sets no others; "
              "parameters at their default are not in the facts; for those `config.nic_firmware` tells"),
    ),
    "gpudirect": (
        Check("gpudirect.path", "the path that the decision table names", "`gpudirect_path`, kernel, driver, stack, HCA", "`warn` when no "
              "path is known to work and `gpudirect_path` is `auto`"),
        Check("gpudirect.peermem", "loaded and registered with `ib_core`", "the path", "loaded and not registered fails on every path"),
        Check("gpudirect.dmabuf", "supported, per HCA and for CUDA", "the path", "asked, not computed; `unknown` when it cannot be asked"),
        Check("gpudirect.built", "built against this RDMA stack", "the path", "found on disk, before anything is loaded"),
        Check("gpudirect.traffic", "data from the memory of a GPU, per near pair of GPU and HCA", "`gpudirect_min_bandwidth_gbps`, else "
              "0.9 of `rdma_expect.rate_gbps`, else floor", "`unproven` where perftest is built without CUDA"),
    ),
    "gds": (
        Check("gds.path", "nvidia-fs loaded, and a storage driver registered with it", "NVIDIA (GPUDirect Storage); `warn` only",
              "`unknown` where cufile.json cannot be understood, or lets NVMe do without nvidia-fs"),
    ),
    "between": (
        Check("ping.mtu", "a packet of the full MTU, unfragmented, from the rail's interface and address to the same rail of a peer",
              "`rdma_mtu`, `rdma_rails[].address`"),
        Check("rail.route", "the kernel, told only the rail's address, sends to the same rail of the peers by the rail's interface",
              "floor"),
        Check("rail.duplicate", "nobody else answers for the rail's address (ARP, neighbour discovery; the kernel's `dadfailed`)",
              "`rdma_rails[].address`; Ethernet only"),
        Check("rail.swapped", "no two rails of a node lie crosswise against those of the other nodes; both rails are named", "floor",
              "`skipped` where the rails share a subnet"),
        Check("rail.segment", "a rail is on its own rail's network", "floor", "appears only where one is alone on the network of another"),
        Check("ssh.mesh", "the job user of each node logs into its peers without a password", "`ssh_mesh_state`, `ssh_mesh_user`",
              "`skipped` where no node has the mesh of role `ssh_mesh`"),
        Check("perftest.write_bw", "at least this average in Gb/s (`ib_write_bw`)", "`validate_min_bandwidth_gbps`, else by "
              "`rdma_expect.rate_gbps`; on eRDMA 0.85 of what the instance type gives one device"),
        Check("perftest.together", "the same, all rails of the pair at once", "the same; from GPU memory `gpudirect_min_bandwidth_gbps`, "
              "else 0.9 of the rate", "nodes with one rail have none"),
        Check("perftest.read_lat", "at most this average in microseconds (`ib_read_lat`)", "`validate_max_latency_us`"),
        Check("perftest.write_lat", "at most this average in microseconds (`ib_write_lat`)", "`validate_max_write_latency_us`, else 5 with "
              "`rdma_expect.rate_gbps`"),
        Check("perftest.server", "every server listens", "floor"),
        Check("perftest.rail", "the rail could be measured", "floor", _MEASURED),
        Check("port.errors", "no error counter grew during the measurement", "floor"),
        Check("port.discards", "no discard counter grew during the measurement", "floor", "`warn` if one did; `skipped` where the driver "
              "has none"),
        Check("qos.lossless", "no packet of a lossless priority lost during the measurement", "`rdma_qos_profile`", "only a warning on "
              "Soft-RoCE"),
        Check("qos.pause", "pauses on the lossless priorities only", "`rdma_qos_profile`", "`fail` where this NIC sent others, `warn` "
              "where it received them"),
        Check("qos.storm", "no pause of 200 ms", "`rdma_qos_profile`; SONiC's PFC watchdog (200 ms), mlx5's own storm counters", "`warn` "
              "where pauses took a tenth of the time, which is a choice"),
        Check("qos.cnp", "every mark answered with CNPs, every CNP heeded", "`rdma_qos_profile`", "`skipped` where nothing was marked"),
        Check("qos.ecn", "nothing: `skipped` with the number of marked packets", "a mark is congestion, no fault"),
    ),
    "cluster": (
        Check("cluster.stack", "name and version of the RDMA stack are the same", "nodes on which the inventory wants the same one"),
        Check("cluster.kernel", "the kernel release is the same", "the same nodes", "`warn` when major and minor version agree"),
        Check("cluster.gpu_driver", "version and flavour of the GPU driver are the same", "those of the same nodes that have GPUs"),
        Check("cluster.mtu", "the interface MTU is the same", "each rail of the nodes"),
        Check("cluster.active_mtu", "the path MTU is the same", "each rail of the nodes"),
        Check("cluster.link_layer", "the link layer is the same", "each rail of the nodes"),
        Check("cluster.hca_type", "the HCA type is the same", "each rail of the nodes", "PCI vendor and device where the driver tells no "
              "type"),
        Check("cluster.fw_ver", "the firmware is the same", "each rail of the nodes", "rails of one node that differ in the same way are "
              "one verdict, as for the HCA type"),
        Check("cluster.gid", "the kind of GID that holds the rail's address is the same", "each rail of the nodes"),
        Check("cluster.node_guid", "the node GUID of every HCA exists once", "all nodes"),
        Check("cluster.address", "every rail address exists once", "the inventory and the GID tables"),
        Check("cluster.node", "the node answered", "all nodes", "`unknown` where it gave no facts or was lost on the way: not judged and "
              "not failed; `railwright validate` exits 3 for it"),
        Check("cluster.outlier", "no figure is worse than the median by five scaled MADs and 3 % of bandwidth or 10 % of a time",
              "perftest over HCAs of one type and rate; `bench` ([which](../bench.md#among-their-like))", "`warn`; `skipped` under eight"),
        Check("cluster.agreement", "at least two nodes answered", "all nodes", "`skipped` else"),
    ),
    "bench": (
        Check("nccl.launch", "the launcher starts a probe in place of every rank", "floor", "the message holds the launcher's own line, "
              "and names the nodes that were silent"),
        Check("nccl.devices", "CUDA devices for the ranks of the node", "floor", "libcuda itself is asked; `no CUDA device on NODE: why`"),
        Check("nccl.complete", "the run ends by itself, prints rows and both last lines, and exits with 0", "floor", "exit status in "
              "words, and NCCL's warning where there is one"),
        Check("nccl.values", "no wrong value", "floor", "`skipped` without `nccl_tests_check`"),
        Check("nccl.busbw", "GB/s busbw on the largest sizes, the median of both halves", "`nccl_tests_min_busbw`, else a share of what "
              "such nodes can reach ([speed](../speed.md#floors)), on eRDMA the figure of the instance type", "`skipped` with the reason "
              "where no floor is known to be right; the average that nccl-tests prints is not judged"),
        Check("nccl.baseline", "the same figure against the run that somebody signed", "0.95 of `nccl_tests_baseline`", "`warn` and not "
              "judged where nodes, GPUs or versions are others than the baseline's"),
        Check("nccl.transport", "the network that the inventory promises, with GPUDirect RDMA; in a log alone RDMA between nodes",
              "`rdma_fabric`, `gpudirect_path`, `nccl_tests_network`; `nccl log --gdr`", "by NCCL's log; in a node P2P, `warn` for SHM; "
              "`fail` too where an HCA failed over; `unknown` for a network that nobody has read about, and where a log or a rank is "
              "missing"),
        Check("nccl.near", "each GPU uses the nearest of the HCAs that NCCL lists (PIX before PXB, PHB, NODE, SYS)", "PCI tree", "per "
              "node; a far HCA through the GPU beside it (PXN) is near; `fail` for far ones only, `warn` for near and far ones"),
        Check("nccl.versions", "driver, CUDA, NCCL, MPI and the programs' sha256 are the same on all nodes", "the other nodes"),
        Check("nccl.topo_file", "a topology or graph file that NCCL is told to read can be read by it", "`nccl_tests_environment`, "
              "`~/.nccl.conf`, `/etc/nccl.conf`, NCCL's default place", "read with the job user's rights and by NCCL's own grammar; NCCL "
              "passes over one that is missing without a word"),
        Check("nccl.straggler", "no rank comes 3 % of a call and 0.5 ms late to three of four calls of the largest size, by the rule of "
              "`ddp.straggler`", "the other ranks, by NCCL's inspector plugin (`nccl_tests_inspector`)", "`warn` with rank, node, GPU and "
              "how late; `unknown` where the plugin or a rank told nothing; `skipped` without it ([how](../bench.md#late-ranks))"),
        Check("nccl.leftovers", "nothing of the run is left when it has ended", "floor; only a warning", "what was left was ended"),
        Check("topology.agrees", "the PCI tree says what `nvidia-smi topo -m` says", "the driver's tool; only a warning"),
        Check("nccl.ranks", "every rank of each communicator is in the log, and all have one NCCL", "NCCL's own count", "by `nccl log` "
              "alone; `unknown` where a rank is missing or no line says how many there are"),
    ),
    "training": (
        Check("ddp.complete", "all steps, and torchrun ends with 0 on every node", "floor", "the message names the rank that was the "
              "cause, not those that lost it"),
        Check("ddp.values", "exact sums, broadcast parameters, mean gradients, on every rank", "floor", "`skipped` with one rank; "
              "`unknown` when the job ended before"),
        Check("ddp.throughput", "at least this many samples per second", "`ddp_benchmark_min_samples_per_s`", "`skipped` with the figure "
              "and p50, p75, p90, p95 where nothing is expected"),
        Check("ddp.straggler", "no rank comes 3 % of a step and 0.5 ms late to three of four all-reduces, among eight or more also five "
              "scaled MADs later than those in time", "the other ranks", "`warn` with rank, node, GPU, how late and its own work; "
              "`unknown` where a rank did not tell; `skipped` with one rank ([how](../bench.md#late-ranks))"),
        Check("ddp.versions", "torch, CUDA, NCCL and driver are the same on every rank", "the other ranks", "names the nodes of each "
              "version"),
        Check("ddp.repeatable", "the same bits on all ranks and in all rounds", "the other ranks and the first round", "names the GPU that "
              "computes other bits by itself; `unknown` in the first round, and without the training benchmark"),
        Check("gpu.dcgm", "every test of `dcgmi diag -r 3` passes", "NVIDIA, DCGM"),
        Check("gpu.present", "every GPU that was there before the round", "the round before", "by a [burn-in](../bench.md#burn-in) alone"),
    ),
}
BY_CODE: Dict[str, Check] = {row.check: row for rows in SECTIONS.values() for row in rows}


def command_of(code: str) -> str:
    """Of a code that is not in the table too: an answer may come from a newer node."""
    own = BY_CODE[code].command if code in BY_CODE else ""
    return own or FAMILIES.get(code.partition(".")[0], OTHERS)
