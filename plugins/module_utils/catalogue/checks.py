# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that a verdict can be of: the one table of its code, what it expects, who says so, and the command that shows more.

docs/reference/checks.md has its tables from here, and a contract test refuses a code that is not here. What a node needs to judge its
health is in health.py, which goes to nodes more often.
"""

from typing import Dict, NamedTuple, Tuple

from .health import BY_CHECK
from .xids import SOURCE as XID_CATALOGUE


class Check(NamedTuple):
    """``what``: holds where it passes. ``source``: the inventory's key that expects it, or who says so. ``threshold``: when it counts, and
    what else to know. ``command``: shows more; '': that of its family. ``why``: it matters, of health; the rest is in health.py."""

    check: str
    what: str
    source: str
    threshold: str = ""
    command: str = ""
    why: str = ""


def _health(check: str, source: str, threshold: str, why: str, command: str = "") -> Check:
    return Check(check, BY_CHECK[check].what, source, threshold, command, why)


# What shows more of the checks of a family, where a row has no command of its own; each of them only reads. {hca}, {port} and {pci} are of
# the verdict (checks/next_command.py).
FAMILIES: Dict[str, str] = {
    "aiacc": "cat /etc/nccl.conf; ldconfig -p | grep nccl",
    "erdma": "dmesg | grep -i erdma; rdma link",
    "firmware": "mlxfwmanager --query -d {pci}",
    "gpu": "nvidia-smi -q -i {pci}",
    "gpudirect": "lsmod | grep -i peer; dmesg | grep -i peer",
    "hca": "ibv_devinfo -d {hca}",
    "kernel": "uname -r; dkms status",
    "pci": "sudo lspci -vv -s {pci}",
    "port": "rdma link show {hca}/{port}; ibstat {hca}",
    "stack": "ofed_info -s; modinfo -n mlx5_core",
}
OTHERS = "journalctl -k -b -p warning"
_DRIVER = "cat /proc/driver/nvidia/version; modinfo -F version nvidia"

# By the table of docs/reference/checks.md that shows them.
SECTIONS: Dict[str, Tuple[Check, ...]] = {
    "rails": (
        Check("rail.device", "an RDMA device on the matched interface", "`rdma_rails[].match`", "one that is gone: `rxeN`, else the match"),
        Check("port.state", "`ACTIVE`", "floor", 'an InfiniBand port in `INIT` with `sm_lid` 0 says "no subnet manager"'),
        Check("port.phys_state", "`LinkUp`", "floor"),
        Check("port.link_layer", "`Ethernet` (roce, erdma), `InfiniBand`", "`rdma_fabric`, or `rdma_expect.link_layer`"),
        Check("port.rate", "at least this many Gb/s", "`rdma_expect.rate_gbps`", "a constant of eRDMA and Soft-RoCE is `unknown`"),
        Check("port.active_mtu", "`rdma_expect.active_mtu`; else at least what the MTU carries", "`rdma_expect.active_mtu`, `rdma_mtu`"),
        Check("rail.mtu", "the rail's MTU", "`rdma_rails[].mtu`, else `rdma_mtu`", "on eRDMA a wrong one can corrupt data (NCCL's LL128)"),
        Check("rail.address", "the rail's address with its prefix length", "`rdma_rails[].address`"),
        Check("rail.gid", "a RoCE v2 GID that holds the rail's address; on InfiniBand any GID", "`rdma_rails[].address`", "the index "
              "differs per NIC and is no expectation; `skipped` with `erdma_mode: default`"),
        Check("nccl.gid", "the GID that NCCL takes on each HCA of its list is RoCE v2 and holds the rail's address",
              "`rdma_rails[].address`, by `/etc/nccl.conf` and every NCCL that a job can load", "by `NCCL_IB_GID_INDEX`, else NCCL "
              "2.21's choice; `fail` where an older one takes index 0 ([which](profiles.md#the-gid-index))"),
        Check("qos.chain", "every link of the lossless chain, from NCCL_IB_TC to DCBX ([how to read it](../roce.md))", "`rdma_qos_profile`",
              "the first link that breaks; `warn` with `roce_qos_manage: false`; `skipped` without RoCE or DCB"),
        Check("qos.boot", "inventory, settings file, its unit and the NIC agree", "`rdma_qos_profile`", "the chain is there again after "
              "a reboot and after openibd ([how](../roce.md)); `skipped` where `qos.chain` is"),
        Check("hca.fw_ver", "this firmware", "`rdma_expect.fw_ver`", "Soft-RoCE has none: `skipped`"),
        Check("hca.hca_type", "this type, like `MT4129`", "`rdma_expect.hca_type`"),
    ),
    "node": (
        Check("node.hcas", "this many RDMA devices, NVSwitches' functions aside", "`rdma_expect.hcas`", "`unknown` where nobody can tell"),
        Check("gpu.count", "this many NVIDIA GPUs", "`rdma_expect.gpus`"),
        Check("gpu.near", "each GPU has a rail, each rail a GPU, no further apart than `NCCL_NET_GDR_LEVEL` (`PXB`), or NVLink to one "
              "that has", "NCCL: `src/graph/paths.cc`, `ncclTopoCheckGdr`", "`warn` only", "nvidia-smi topo -m"),
        Check("gpu.driver", "this driver is loaded, or one of this branch", "`rdma_expect.gpu_driver`, else the inventory's", "", _DRIVER),
        Check("gpu.driver_loaded", "the module on disk is loaded, and drives every GPU", "floor", "`skipped` with vfio-pci", _DRIVER),
        Check("gpu.nouveau", "not loaded", "floor", "", "lsmod | grep nouveau; cat /etc/modprobe.d/*nouveau*"),
        Check("gpu.fabricmanager", "runs, in the driver's version, and the GPUs call the fabric `Completed`; with NVLink 5 nvlsm, "
              "infiniband-diags and ib_umad too ([why](../drivers.md#nvlink-5))", "floor with NVSwitches, or `gpu_driver_fabricmanager: "
              "true`", "else CUDA ends with error 802; where another machine manages the NVSwitches, the GPUs alone are judged",
              "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric"),
        Check("gpu.imex", "nvidia-imex runs in the driver's version and has a channel", "floor on nodes of a rack", "`skipped` with "
              "`gpu_driver_imex: false`; nothing is said of others", "systemctl status nvidia-imex; nvidia-imex-ctl -N"),
        Check("gpu.persistence", "on for every GPU", "`gpu_driver_persistence`", "only a warning where `gpu_driver_branch` is unset",
              "systemctl status nvidia-persistenced; nvidia-smi -q | grep -i persist"),
        Check("opensm.build", "not the distribution's opensm (3.3), which fails on NDR", "floor where opensm runs", "`warn` below NDR",
              "systemctl status opensm; sminfo"),
        Check("kernel.pinned", "the kernel of `rdma_kernel_version` runs, and the next boot starts it", "`rdma_kernel_version`"),
        Check("kernel.newest", "the next boot starts this kernel", "floor", "another `fail`s without its DKMS modules, else `warn`s"),
        Check("erdma.mode", "the driver and its devices are in the wanted mode ([modes](../erdma.md)), and so are the other nodes",
              "`erdma_mode`; the other nodes", "`unknown` where no device tells; compat and ofed are one on the wire"),
        Check("stack.dkms", "every DKMS module of stack, GPU driver and peer memory is installed for this kernel", "floor", "`skipped` "
              "where DKMS has none", "dkms status"),
        Check("stack.modules", "the loaded modules are those of the wanted stack, and the ones on disk", "`rdma_stack`"),
        Check("stack.packages", "dpkg has finished with every package of the stack and the drivers", "floor", "", "dpkg --audit"),
        Check("stack.headers", "headers for this and the next kernel", "floor where DKMS builds", "only a warning", "ls /usr/src"),
        Check("stack.secure_boot", "off, or the key that DKMS signs with is enrolled", "floor where DKMS builds", "says where it waits "
              "for the console", "mokutil --sb-state"),
        Check("erdma.provider", "libibverbs can open eRDMA devices: the provider's driver file and library", "floor; fabric erdma"),
        Check("erdma.count", "this many eRDMA devices", "`rdma_expect.hcas`, else `erdma_instance_type`", "names what the PCI bus has"),
        Check("erdma.port", "`ACTIVE` on every eRDMA device, also on one that no rail names", "floor; fabric erdma"),
        Check("aiacc.nccl", "every NCCL that jobs can load ([`nccl_libraries`](facts.md)) is 2.8 to 2.16", "`rdma_nccl_profile`",
              "`warn` for one of DeepNCCL"),
        Check("aiacc.plugin", "NCCL finds AIACC's `libnccl-net.so`; other profiles turn it off ([AIACC](../aiacc.md))",
              "`rdma_nccl_profile`", "`warn` for another"),
        Check("node.memlock", "systemd's effective locked-memory default", "`host_tuning_memlock`", "", "systemctl show -p "
              "DefaultLimitMEMLOCK"),
        Check("firewall.tcp", "all TCP of the cluster's nodes comes in on the bootstrap interface", "floor; `firewall_peers`, "
              "`rdma_bootstrap_interface`", "`unknown` where a rule cannot be judged, or nobody knows the nodes' addresses"),
        Check("firewall.roce", "UDP 4791 comes in on the rails of Soft-RoCE", "floor; fabric roce", "`skipped` for hardware HCAs, which "
              "the host's firewall does not see: let UDP 4791 pass in switches' ACLs and security groups"),
        Check("config.<area>", "no change in the plan of the area", "the inventory, as `railwright plan` shows it"),
    ),
    "alone": (
        Check("node.hangs", "every command answers in 5 s, and reading the node ends", "choice", "`fail` where nothing ends what hangs, "
              "with its process; `warn` else", "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
    ),
    "health": (
        _health("node.kernel_log", "dmesg_restrict (kernel)", "unknown without root or group adm", "it has Xids and AER"),
        _health("gpu.xid", XID_CATALOGUE, "each by NVIDIA's action; where the "
                "GPU itself asks for nothing, and an application's own, only warn", "the driver's own word", "dmesg | grep -i xid; "
                "nvidia-smi -q"),
        _health("gpu.sxid", "NVIDIA Fabric Manager User Guide", "Fatal fails, Non-fatal warns", "NVLink between all GPUs of the node",
                "dmesg | grep -i sxid; systemctl status nvidia-fabricmanager"),
        _health("gpu.answers", "nvidia-smi(1)", "one silent GPU", "a GPU that is lost makes it fail or hang"),
        _health("gpu.recovery", "nvidia-smi(1), gpu_recovery_action", "anything but None", "made from all errors that the driver knows"),
        _health("gpu.ecc", "NVIDIA, GPU Memory Error Management", "1 fails; warns where the GPU asks for no recovery; SRAM threshold fails",
                "wrong results, lost jobs"),
        _health("gpu.remap", "NVIDIA, GPU Memory Error Management", "failed fails, pending warns", "bad memory is still in use"),
        _health("gpu.thermal", "nvidia-smi(1)", "hardware fails, software warns; no degree left to the limit warns", "the job waits for "
                "the slowest GPU"),
        _health("gpu.clocks", "nvidia-smi(1)", "power brake or slowdown active", "a power supply or cable that fails halves a GPU's clock"),
        _health("gpu.power", "the node's other GPUs", "differs from most of its kind", "one GPU with a lower limit slows the job"),
        _health("gpu.nvlink", "DCGM health watch of NVLink", "fewer links fail; recovery or replay errors warn", "NCCL falls back to PCIe"),
        _health("gpu.fabric", "nvidia-smi(1), fabric health", "degraded or unhealthy", "NVLink 5 goes on with less bandwidth"),
        _health("gpu.dcgm", "NVIDIA, DCGM: dcgmi health -c", "its Failure fails, its Warning warns; both warn where each GPU itself asks "
                "for nothing", "it watches between two looks", "dcgmi health -g 0 -c"),
        _health("gpu.jobless", "systemd.slice(5), nvidia-smi(1)", "only where slurmd or kubelet runs: in a user's slice, in no job, pod "
                "or container", "the next job has less memory than it needs", "nvidia-smi; ps -eo pid,user,lstart,args"),
        _health("gpu.mig", "the node's other GPUs", "differs, or pending", "a job gets slices in place of GPUs"),
        _health("pci.aer", "kernel, PCI AER; DCGM's limit of replays", "fatal fails, nonfatal warns, corrected warn beyond 8 a minute "
                "since boot", "a link that fails takes its device away", "dmesg | grep -i aer; sudo lspci -vv -s {pci}"),
        _health("hca.health", "mlx5 health.c", "failed without recovery fails, with recovery warns", "its traffic is lost meanwhile"),
        _health("port.flaps", "gpud: 3 in 12 h; Azure: 5 in 24 h", "3 in 12 hours fail, 1 warns; not in the first half hour, nor 10 "
                "minutes before the end of an apply", "each flap stops NCCL for seconds, or ends the job", "dmesg | grep -iE 'link (is "
                ")?(up|down)'"),
        _health("port.optics", "SFF-8636, CMIS: thresholds of the module", "alarm thresholds fail, warning thresholds warn", "errors, "
                "then flaps", "sudo mlxlink -d {hca} -m"),
        _health("port.ber", "InfiniBand vol. 2, IEEE 802.3; infiniband-diags", "symbol_error or uncorrectable blocks over the bits since "
                "boot, a day at least; recoveries beyond 10 a day", "retransmissions, then flaps", "sudo mlxlink -d {hca} -c"),
        _health("qos.storm", "SONiC's PFC watchdog (200 ms), mlx5's own storm counters", "tx_pause_storm_error_events of any time warns; "
                "in a measurement it fails, and pauses of a tenth of the time warn", "such a pause stops all hops", "ethtool -S $(ls "
                "/sys/class/infiniband/{hca}/device/net) | grep -i pause"),
        _health("port.cable", "the node's other ports; SFF-8024", "copper, active optical, transceiver: differs from most; length is "
                "only told", "one that was put in by mistake, or another reach", "sudo mlxlink -d {hca} -m"),
        _health("port.growth", "infiniband-diags, error_thresholds", "10 of a kind in an hour; 100 of another's making", "packets "
                "are sent again, or lost", "sudo mlxlink -d {hca} -m"),
        _health("port.fec", "the node's other ports", "differs from most of its kind", "ends that disagree lose blocks or the link"),
        _health("node.machine_check", "kernel, x86 MCE and APEI", "uncorrected fails, corrected warns", "wrong results or a crash to come"),
        _health("node.memory", "kernel, EDAC; mcelog.conf", "1 uncorrected fails; corrected warn beyond 100 a day since boot", "wrong "
                "results or a crash to come", "grep -r . /sys/devices/system/edac/mc/mc*/*_count"),
        _health("node.oom", "kernel", "1 since boot", "a job that dies without a word"),
        _health("node.hung", "kernel, hung_task_timeout_secs (120 s)", "1 since boot", "a device or a file system does not answer", "ps "
                "-eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
        _health("node.stuck", "proc(5): wchan", "state D in a function of the driver, twice in 2 s, without having run between; root "
                "sees all", "a driver or a server does not answer", "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
        _health("node.disk", "kernel", "read-only or full fails, I/O errors warn", "jobs and daemons fail in odd ways", "df -h; dmesg | "
                "grep -iE 'i/o error|read-only'"),
        _health("node.nfs", "kernel, net/sunrpc", "silent for 5 s, or the kernel's last word of it", "jobs hang where they touch it"),
        _health("node.clock", "timedatectl(1)", "NTPSynchronized=no", "logs, certificates and flaps of several nodes are compared by it",
                "timedatectl; chronyc tracking"),
    ),
    "machine": (
        Check("pci.link_speed", "what slot and device can do, for HCAs, GPUs, switches above them", "floor", "`warn` for GPUs: idle ones"),
        Check("pci.link_width", "the same for the number of lanes", "floor"),
        Check("pci.above_4g", "every 64-bit BAR of a GPU lies above 4 GiB", "floor", "Above 4G Decoding in the BIOS"),
        Check("pci.sriov", "an SR-IOV capability", "`nic_firmware_config` with `SRIOV_EN` or `NUM_OF_VFS`", "says how many are enabled"),
        Check("pci.acs", "off on every bridge above GPUs and HCAs", "`pci_tuning_acs`; only a warning with `keep`", "bare metal", "sudo "
              "lspci -vvv | grep -i acsctl"),
        Check("pci.max_read_request", "this many bytes on the rails' HCAs", "`pci_tuning_max_read_request`", "needs root"),
        Check("pci.iommu", "passes DMA through, or is off", "`pci_tuning_iommu: passthrough`; else only a warning, with GPUs", "", "cat "
              "/proc/cmdline; dmesg | grep -i iommu"),
        Check("cpu.isolated", "the kernel keeps its own work off these CPUs (`isolated`, `nohz_full`)", "`pci_tuning_isolated_cpus`", "",
              "cat /proc/cmdline"),
        Check("pci.numa", "a NUMA node, where the machine has several", "floor; only a warning", "NPS, SNC, SRAT in the BIOS"),
        Check("firmware.version", "this version, running and in flash", "`nic_firmware_versions` by PSID", "virtual ones are `skipped`"),
        Check("firmware.config", "this value in effect now", "`nic_firmware_config`", "the NICs of rails; for defaults "
              "`config.nic_firmware` tells"),
    ),
    "gpudirect": (
        Check("gpudirect.path", "the path that the decision table names", "`gpudirect_path`, kernel, driver, HCA", "`warn` without one"),
        Check("gpudirect.peermem", "loaded and registered with `ib_core`", "the path", "loaded and not registered fails on every path"),
        Check("gpudirect.dmabuf", "supported, per HCA and for CUDA", "the path", "asked, not computed; `unknown` when it cannot be asked"),
        Check("gpudirect.built", "built against this RDMA stack", "the path", "found on disk, before anything is loaded"),
        Check("gpudirect.traffic", "data from the memory of a GPU, per near pair of GPU and HCA", "`gpudirect_min_bandwidth_gbps`, else "
              "0.9 of `rdma_expect.rate_gbps`, else floor", "`unproven` where perftest is built without CUDA"),
    ),
    "gds": (
        Check("gds.path", "nvidia-fs loaded, and a storage driver registered with it", "NVIDIA (GPUDirect Storage); `warn` only",
              "`unknown` where cufile.json cannot be understood, or lets NVMe do without it", "/usr/local/cuda/gds/tools/gdscheck -p"),
    ),
    "between": (
        Check("ping.mtu", "a packet of the full MTU, unfragmented, from the rail to the same rail of a peer", "`rdma_mtu`"),
        Check("rail.route", "the kernel, told only the rail's address, sends to the peers by the rail's interface", "floor"),
        Check("rail.duplicate", "nobody else answers for the rail's address (ARP, ND)", "`rdma_rails[].address`; Ethernet only"),
        Check("rail.swapped", "no two rails of a node lie crosswise to those of others", "floor", "`skipped` where rails share a subnet"),
        Check("rail.segment", "a rail is on its own rail's network", "floor", "appears only where one is alone on the network of another"),
        Check("ssh.mesh", "the job user logs into peers without password", "`ssh_mesh_state`, `ssh_mesh_user`", "`skipped` without one"),
        Check("perftest.write_bw", "at least this average in Gb/s (`ib_write_bw`)", "`validate_min_bandwidth_gbps`, else by "
              "`rdma_expect.rate_gbps`; on eRDMA 0.85 of the instance type's"),
        Check("perftest.together", "the same, all rails of the pair at once", "the same; `gpudirect_min_bandwidth_gbps`", "with two rails"),
        Check("perftest.read_lat", "at most this average in microseconds (`ib_read_lat`)", "`validate_max_latency_us`"),
        Check("perftest.write_lat", "at most this average in microseconds (`ib_write_lat`)", "`validate_max_write_latency_us`, else 5"),
        Check("perftest.server", "every server listens", "floor"),
        Check("perftest.rail", "the rail could be measured", "floor", "`unknown` with the reason if not"),
        Check("port.errors", "no error counter grew during the measurement", "floor"),
        Check("port.discards", "no discard counter grew during the measurement", "floor", "`warn`"),
        Check("qos.lossless", "no packet of a lossless priority lost during the measurement", "`rdma_qos_profile`", "`warn` on Soft-RoCE"),
        Check("qos.pause", "pauses on lossless priorities only", "`rdma_qos_profile`", "on others: `warn` received, `fail` sent"),
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
        Check("cluster.hca_type", "the HCA type is the same", "each rail of the nodes", "else PCI vendor and device"),
        Check("cluster.fw_ver", "the firmware is the same", "each rail of the nodes", "rails of a node that differ alike are one verdict"),
        Check("cluster.gid", "the kind of GID that holds the rail's address is the same", "each rail of the nodes"),
        Check("cluster.node_guid", "the node GUID of every HCA exists once", "all nodes"),
        Check("cluster.address", "every rail address exists once", "the inventory and the GID tables"),
        Check("cluster.node", "the node answered", "all nodes", "`unknown`, not failed; `railwright validate` exits 3 for it"),
        Check("cluster.outlier", "no figure is worse than the median by five scaled MADs and 3 % of bandwidth or 10 % of a time",
              "perftest over HCAs of one type and rate; `bench` ([which](../bench.md#among-their-like))", "`warn`; `skipped` under eight"),
        Check("cluster.agreement", "at least two nodes answered", "all nodes", "`skipped` else"),
    ),
    "bench": (
        Check("nccl.launch", "the launcher starts a probe in place of every rank", "floor", "names the nodes that were silent"),
        Check("nccl.devices", "CUDA devices for the ranks of the node", "floor", "libcuda itself is asked; `no CUDA device on NODE: why`"),
        Check("nccl.complete", "the run ends by itself with 0, and prints rows and both last lines", "floor", "exit status in words"),
        Check("nccl.values", "no wrong value", "floor", "`skipped` without `nccl_tests_check`"),
        Check("nccl.busbw", "GB/s busbw on the largest sizes, the median of both halves", "`nccl_tests_min_busbw`, else a share of what "
              "such nodes reach ([speed](../speed.md#floors))", "`skipped` where no floor is known to be right"),
        Check("nccl.baseline", "the same figure against the signed run", "0.95 of `nccl_tests_baseline`", "other nodes or versions `warn`"),
        Check("nccl.transport", "the network that the inventory promises, with GPUDirect RDMA; in a log alone RDMA between nodes",
              "`rdma_fabric`, `gpudirect_path`, `nccl_tests_network`; `nccl log --gdr`", "by NCCL's log; in a node P2P, `warn` for SHM; "
              "`fail` where an HCA failed over; `unknown` for what nobody has read about, and where a log or rank is missing"),
        Check("nccl.near", "each GPU uses the nearest of the HCAs that NCCL lists (PIX before PXB, PHB, NODE, SYS)", "PCI tree", "a far "
              "HCA through the GPU beside it (PXN) is near; `fail` for far ones only, `warn` for near and far ones"),
        Check("nccl.versions", "driver, CUDA, NCCL, MPI and the programs' sha256 are the same on all nodes", "the other nodes"),
        Check("nccl.topo_file", "a topology or graph file that NCCL is told to read can be read by it", "`nccl_tests_environment`, "
              "nccl.conf, NCCL's default place", "by NCCL's own grammar and the job user's rights"),
        Check("nccl.straggler", "no rank comes late to three of four calls of the largest size ([how](../bench.md#late-ranks))", "the "
              "other ranks, by NCCL's inspector plugin", "`warn` with rank, node, GPU, how late; needs `nccl_tests_inspector`"),
        Check("nccl.leftovers", "nothing of the run is left when it has ended", "floor; only a warning", "what was left was ended"),
        Check("topology.agrees", "the PCI tree says what `nvidia-smi topo -m` says", "the driver's tool; only a warning"),
        Check("nccl.ranks", "every rank of each communicator is in the log, and all have one NCCL", "NCCL's own count", "by `nccl log`; "
              "`unknown` where one is missing or nothing says how many there are"),
    ),
    "training": (
        Check("ddp.complete", "all steps, and torchrun ends with 0 on every node", "floor", "names the rank that was the cause"),
        Check("ddp.values", "exact sums, broadcast parameters, mean gradients, on every rank", "floor", "`skipped` with one rank"),
        Check("ddp.throughput", "at least this many samples per second", "`ddp_benchmark_min_samples_per_s`", "else `skipped`"),
        Check("ddp.straggler", "no rank comes 3 % of a step and 0.5 ms late to three of four all-reduces ([how](../bench.md#late-ranks))",
              "the other ranks", "among eight or more also by five scaled MADs; `warn` with rank, node, GPU, how late and its own work"),
        Check("ddp.versions", "torch, CUDA, NCCL and driver are the same on every rank", "the other ranks", "names the nodes of each"),
        Check("ddp.repeatable", "the same bits on all ranks and in all rounds", "the other ranks", "names the GPU that differs"),
        Check("gpu.present", "every GPU that was there before the round", "the round before", "by a [burn-in](../bench.md#burn-in) alone"),
    ),
}
BY_CODE: Dict[str, Check] = {row.check: row for rows in SECTIONS.values() for row in rows}


def command_of(code: str) -> str:
    """Of a code that is not in the table too: an answer may come from a newer node."""
    own = BY_CODE[code].command if code in BY_CODE else ""
    return own or FAMILIES.get(code.partition(".")[0], OTHERS)
