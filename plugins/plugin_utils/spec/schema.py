# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of every inventory key: name, type, default, what is allowed, why, source.

Everything else is generated from it (``tools/generate.py``): argument specs and
defaults of the roles, the reference page, the tables in the roles' READMEs. Site keys
start with ``rdma_``, a role's keys with the role's name.

Sources: ERC, ALI, NCCL, OCI, AZ, LSR, NVIDIA … are the abbreviations that
docs/reference/sources.md resolves. "choice" marks a default that no source gives.
"""

from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

from .key import ROLES, Key
from .keys_agent import AGENT, SERVICE
from .keys_drivers import CUDA, FINGERPRINT, FINGERPRINT_FORM, GPU_DRIVER, GPUDIRECT, NIC_FIRMWARE, PCI_TUNING, URL, URL_FORM
from .keys_fabric import ERDMA, FIREWALL, ROCE_QOS, SSH_MESH
from .keys_jobs import AI_ENVIRONMENT, AIACC, CONTAINERS, DDP_BENCHMARK, MPI, NCCL, NCCL_TESTS, UPGRADE

__all__ = ("BY_NAME", "FABRICS", "KEYS", "ROLES", "ROLE_KEYS", "SITE")
FABRICS = ("roce", "infiniband", "erdma")
STACKS = ("auto", "inbox", "soft_roce", "doca", "mlnx_ofed")

NAME = r"^[a-z][a-z0-9_-]*$"
PACKAGE = r"^[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9]+)?$"
CONF_PATH = r"^(/(?!\.\.?(/|$))[A-Za-z0-9._-]+)+\.conf$"  # no . or .. on the way, and no /etc/passwd at its end
INTERFACE = r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,14}$"  # NCCL ignores a one-letter value (src/misc/socket.cc)

SITE = (
    Key("rdma_fabric", "str", None, "What the rails are made of.", "the operator's choice of hardware; there is no default",
        choices=FABRICS, required=True, example="roce"),
    Key("rdma_mtu", "int", None,
        "Netdev MTU of every rail. There is no default on purpose: 9000 is right for RoCE and dangerous on eRDMA, which needs 8500 (jumbo "
        "frames) or 1400. On InfiniBand it is the MTU of IPoIB: at most 4092 in datagram mode, 65520 in connected mode.",
        "ALI (eRDMA 8500 or 1400; NCCL's LL128 can corrupt data with another), NVIDIA (RoCE: 9000 on hosts, 9216 on switches)",
        minimum=1280, maximum=65520, required=True, example=9000),
    Key("rdma_stack", "str", "auto",
        "Where drivers and libraries come from: doca (DOCA-OFED), mlnx_ofed (24.10 LTS, the last), the distribution (inbox), or the "
        "distribution plus a software RoCE device on each rail (soft_roce). auto is doca where the node has an NVIDIA HCA and its system a "
        "DOCA repository, else inbox.",
        "usual practice (DOCA-OFED is the successor; 3.2 LTS), NVIDIA (DMA-BUF works with inbox from kernel 5.12 on: then inbox is enough)",
        choices=STACKS),
    Key("rdma_rails", "list", [],
        "The RDMA ports of a host, in rail order, each {name, match: {pci or mac or guid}, address, gateway, mtu}. A rail is matched by "
        "something that an update cannot rename; address is CIDR; gateway and mtu are optional.",
        "rdma-core's udev rules rename devices (mlx5_0, rocep26s0); see docs/reference/inventory.md", elements="dict",
        form="a list of {name, match: {pci, mac or guid}, address}",
        example=[{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.11/28"}]),
    Key("rdma_leaves", "list", [],
        "Groups of the inventory, each with the nodes behind one leaf switch. `railwright isolate` tells a slow switch from slow nodes by "
        "them.",
        "choice: most inventories have such groups (racks, pods, scalable units)", elements="str", form="a list of groups of the inventory",
        example=["rack1", "rack2"]),
    Key("rdma_leaf_per_rail", "bool", False,
        "Whether each rail of such a group has a leaf switch of its own (a rail-optimised fabric), and not all of them one.",
        "NVIDIA (DGX SuperPOD reference architecture: rail-optimised); choice of false"),
    Key("rdma_site_bench", "str", "auto",
        "Whether the playbook `railwright.rdma.site` ends with nccl-tests: auto where all nodes have GPUs, true, false.",
        "choice: nodes without GPUs have nothing to measure there", choices=("auto", "true", "false")),
    Key("rdma_nccl_profile", "str", None,
        "Set of NCCL variables, of a fabric or a cloud; `railwright explain profile` lists them. Unset: the fabric's own (roce, "
        "infiniband, erdma-native).", "docs/reference/profiles.md", pattern=NAME, form="the name of a profile"),
    Key("rdma_qos_profile", "str", None,
        "DSCP, priority and CNP marking of RoCE traffic; NCCL_IB_TC is derived from it. Unset: dscp26-prio3 on roce, none elsewhere.",
        "docs/reference/profiles.md", pattern=NAME, form="the name of a profile, custom, or none"),
    Key("rdma_qos_custom", "dict", {},
        "The profile of rdma_qos_profile: custom: tc (the traffic class byte, 0 to 255) or dscp (0 to 63), priority, lossless (the "
        "priorities that PFC pauses), cnp_dscp, cnp_priority, ets (eight percents). Only tc or dscp is needed.",
        "docs/reference/profiles.md", form="a mapping of tc or dscp, priority, lossless, cnp_dscp, cnp_priority, ets",
        example={"tc": 106, "lossless": [3]}),
    Key("rdma_consent", "list", [],
        "Disruption classes that apply may cause without asking. A plan that needs another class is refused before anything changes.",
        "choice: nothing that cuts traffic happens unless the inventory says so", choices=DISRUPTIONS[1:], elements="str",
        example=["link"]),
    Key("rdma_expect", "dict", {},
        "What validation expects of every rail: rate_gbps, link_layer, active_mtu, fw_ver, hca_type; and of every node: hcas and gpus (how "
        "many), gpu_driver (a branch or a version). A key left out is not judged. Expectations are never learned from a node.",
        "choice: an expectation taken from the node it judges can never fail", example={"rate_gbps": 400, "hcas": 8}),
    Key("rdma_accept_eol", "bool", False, "Go on with an operating system that its vendor no longer maintains (CentOS 7, Ubuntu 18.04).",
        "choice: no security updates means refused unless somebody says so"),
    Key("rdma_bootstrap_interface", "str", None,
        "Interface for NCCL's bootstrap (NCCL_SOCKET_IFNAME). Unset: the node's management interface.",
        "NCCL (NCCL_SOCKET_IFNAME: any interface that all ranks reach)", pattern=INTERFACE, form="an interface name of 2 to 15 characters",
        example="eno1"),
    Key("rdma_artifact_mirror", "str", None,
        "Base URL of a mirror that stands in for every vendor host: https://HOST/PATH is taken from MIRROR/HOST/PATH. `railwright "
        "artifacts` lists what it must hold.", "choice: air-gapped sites need one place to name", pattern=URL, form=URL_FORM,
        example="http://mirror.example.com/railwright"),
    Key("rdma_artifact_pins", "dict", {},
        "Checksums and fingerprints that the operator pins, {artifact: sha256 or fingerprint}. An artifact whose pin in the "
        "catalogue is operator is refused until it is named here.", "choice: a hash that nobody here computed or read is not written down",
        example={"nv_peer_mem": "0" * 64}),
    Key("rdma_reboot_timeout_s", "int", 1200, "How long apply waits for a node that it rebooted.",
        "choice: servers with much memory and many PCIe devices take ten minutes and more", minimum=30, maximum=7200),
    Key("rdma_kernel_version", "str", None,
        "Kernel that the nodes are to run, as `uname -r` prints it: installed with its headers, chosen for the next boot, and booted with "
        "consent to reboot. An older one is fine: kernels are installed side by side and none is removed. Unset: the kernel is left as it "
        "is.", "usual practice (kernel and headers before the stack); LSR and AZ (the stack is built for one kernel)",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$", form="a kernel release as `uname -r` prints it, in quotes",
        example="6.1.0-48-amd64"),
    Key("rdma_mok_password_hash", "str", None,
        "One-time password, as its SHA-512 hash (`mokutil --generate-hash`), by which whoever sits at a node's console confirms the key "
        "that DKMS signs modules with. Set, apply has that key enrolled on nodes with Secure Boot, with consent to secure_boot. Keep it in "
        "a vault.", "mokutil(1): --hash-file; choice: a password that nobody but the operator ever has",
        pattern=r"^\$6\$[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{86}$",
        form="a hash of SHA-512 as `mokutil --generate-hash` prints it ($6$salt$hash), in quotes"),
    Key("rdma_confirm_timeout_s", "int", 120,
        "How long a node waits, after a change of its networking (MTU, addresses, routes, QoS, firewall), for the controller to confirm it "
        "over a fresh connection. Without it the node takes the change back by itself.", "netplan-try(8): 120 seconds", minimum=20,
        maximum=900),
    Key("rdma_ssh_post_quantum", "bool", False,
        "Whether a node is read over our own ssh only where the key exchange is post-quantum (mlkem768x25519, OpenSSH 9.9 and newer). "
        "Any other node is then read by Ansible, whose OpenSSH has sntrup761x25519 too.",
        "choice: a look has no secret of the inventory's in what it sends but the wishes; openssh.com/pq.html"),
    Key("rdma_keep_code", "bool", True,
        "Whether apply leaves the code of inspections on each node, below /usr/local/libexec/railwright, so that they neither send nor "
        "compile it. A new railwright brings new code: one change on each node, of severity minor.",
        "choice: half of an inspection's CPU time, for a file of 1.2 MB on each node; docs/security.md"),
)

PREFLIGHT = (
    Key("preflight_min_free_mb", "int", 1024, "Free space in MiB that / and /var must have before anything is installed.",
        "choice: the inbox packages take some 100 MiB; the rest is the package cache and restore points", minimum=0, maximum=1048576),
    Key("preflight_max_clock_skew_s", "int", 30,
        "Largest difference in seconds between a node's clock and the controller's. Repository metadata from the future is refused by "
        "package managers, and logs of a skewed node cannot be compared.", "choice", minimum=1, maximum=86400),
    Key("preflight_python_package", "str", "python3", "Package that brings Python to a node that has none.",
        "the package has this name in Debian, Ubuntu, EL 8 to 10, SLES 15, Alibaba Cloud Linux 3", pattern=PACKAGE, form="a package name"),
)

RDMA_STACK = (
    Key("rdma_stack_extra_packages", "list", [], "Packages to install beside the stack's own.", "choice", elements="str", pattern=PACKAGE,
        form="a list of package names", example=["ucx"]),
    Key("rdma_stack_packages_state", "str", "present",
        "present installs what is missing; latest also upgrades (pinned packages stay at their version).",
        "choice: an upgrade of the stack is a decision, not a side effect", choices=("present", "latest")),
    Key("rdma_stack_pins", "dict", {},
        "Exact versions, {package: version} as the package manager prints them. A node with another version has drifted.",
        "choice: nothing is pinned until the site pins it", example={"rdma-core": "44.0-2"}),
    Key("rdma_stack_extra_modules", "list", [], "Kernel modules to load now and at every boot beside the fabric's own.", "choice",
        elements="str", pattern=r"^[A-Za-z0-9_-]+$", form="a list of module names", example=["rdma_ucm"]),
    Key("rdma_stack_version", "str", None,
        "Release of doca or mlnx_ofed, such as 3.2.3 or 24.10-4.1.4.0. Unset: the one that the catalogue pins.",
        "docs/reference/drivers.md", pattern=r"^[0-9]+\.[0-9][0-9.-]*$", form="a release, in quotes", example="3.2.3"),
    Key("rdma_stack_profile", "str", None,
        "Meta package of the vendor's stack: doca-ofed, doca-roce, doca-networking, doca-all; mlnx-ofed-all, mlnx-ofed-basic, …. Unset: "
        "doca-ofed or mlnx-ofed-all.", "usual practice", pattern=NAME, form="the name of a meta package", example="doca-ofed"),
    Key("rdma_stack_repository_url", "str", None,
        "Package repository of the vendor's stack for this system. Unset: the catalogue's (or the mirror's).", "docs/reference/drivers.md",
        pattern=URL, form=URL_FORM),
    Key("rdma_stack_repository_key_url", "str", None, "Where that repository's signing key is. Unset: the catalogue's (or the mirror's).",
        "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("rdma_stack_repository_fingerprint", "str", None, "Fingerprint that the signing key must have. Unset: the catalogue's.",
        "docs/reference/drivers.md", pattern=FINGERPRINT, form=FINGERPRINT_FORM),
    Key("rdma_stack_offline_package", "dict", {},
        "The vendor's repository as one package (doca-host), {url, sha256}: installed in place of a repository definition, for nodes "
        "without any mirror.", "NVIDIA (doca-host local repository package); AZ (pins it by sha256)",
        example={"url": "file:///srv/doca-host.deb", "sha256": "0" * 64}),
    Key("rdma_stack_allow_removal", "list", [],
        "Packages of others that a change of the stack may remove. Any other removal beside the stack's own packages is refused.",
        "choice: apt and dnf remove what stands in their way", elements="str", pattern=PACKAGE, form="a list of package names"),
    Key("rdma_stack_activation", "str", "restart",
        "How new kernel modules of the stack come into use: restart (openibd) or reboot. Either needs consent.",
        "NVIDIA (openibd restart); choice: a reboot is asked for", choices=("restart", "reboot")),
    Key("rdma_stack_kernel_hold", "bool", False,
        "Keep the kernel packages at their installed versions when the system is updated, so that no update leaves the stack without "
        "modules.", "LSR (dnf versionlock of the kernel before drivers); choice of false: security updates"),
    Key("rdma_stack_lock_wait_s", "int", 300, "How long to wait for another run of apt or dnf on the node.", "choice", minimum=1,
        maximum=3600),
)

NETWORK = (
    Key("network_backend", "str", "auto", "What configures the rails' interfaces. auto finds the one that owns each interface.",
        "systemd-networkd, ifupdown, NetworkManager and netplan are what the supported systems ship",
        choices=("auto", "networkd", "ifupdown", "networkmanager", "netplan")),
    Key("network_manage_addresses", "bool", True,
        "Set the rails' addresses. false: something else does (DHCP, a cloud agent); only MTU and link are managed, addresses are judged.",
        "choice"),
    Key("network_source_routing", "str", "auto",
        "A routing table and a rule for each rail, so that traffic from a rail's address leaves by that rail. auto: where the host has "
        "more than one rail with an address; true: always; false: only rails with a gateway, which has no other use.",
        "ip-rule(8); kernel (ip-sysctl, arp_filter: answers by the right interface need source based routing); choice of auto",
        choices=("auto", "true", "false")),
    Key("network_ipoib_mode", "str", "datagram", "Transport of IPoIB interfaces (InfiniBand rails with an address).",
        "kernel (Documentation/infiniband/ipoib.rst): datagram is the default and the one with checksum and segmentation offload",
        choices=("datagram", "connected")),
    Key("network_opensm", "bool", None, "Run a subnet manager on the host. Unset: the hosts of inventory group opensm do.",
        "choice: most fabrics have one in a switch or UFM"),
)

HOST_TUNING = (
    Key("host_tuning_memlock", "str", "unlimited",
        "Locked memory limit of login sessions and systemd services: unlimited, or KiB. RDMA pins every registered buffer.",
        "AZ and LSR (memlock unlimited in limits.d and DefaultLimitMEMLOCK=infinity)", pattern=r"^(unlimited|[1-9][0-9]{3,})$",
        form="unlimited, or at least 1000 KiB"),
    Key("host_tuning_nofile", "int", 1048576, "Open file limit of login sessions and systemd services.",
        "LSR (90-hpc-limits.conf: nofile 1048576)", minimum=1024, maximum=1073741816),
    Key("host_tuning_sysctls", "dict", {},
        "Sysctls to set beside the catalogue's or instead of them, {name: value}; null leaves a catalogue row out.",
        "docs/reference/profiles.md lists the catalogue with a source for each row", example={"vm.zone_reclaim_mode": 0}),
    Key("host_tuning_governor", "str", "performance", "CPU frequency governor, where the node has one. keep leaves it alone.",
        "OCI (checks scaling_governor=performance), DGX nv-cpu-governor",
        choices=("performance", "schedutil", "ondemand", "conservative", "powersave", "keep")),
    Key("host_tuning_irqs", "str", "keep",
        "local: interrupts of the rails' HCAs go to the CPUs of their own NUMA node, now and after a reboot, and irqbalance, which moves "
        "them, is stopped. keep leaves both alone.",
        "ESnet (fasterdata: interrupt binding), NVIDIA (mlnx_affinity); choice of keep: mlx5 takes local CPUs first by itself",
        choices=("local", "keep")),
    Key("host_tuning_numa_balancing", "bool", False,
        "Automatic NUMA balancing, where the kernel has it. It unmaps pages to sample accesses, which disturbs pinned buffers.",
        "NVIDIA tuning guide (kernel.numa_balancing=0)"),
)

NCCL_ENV = (
    Key("nccl_overrides", "dict", {},
        "NCCL variables on top of the profile, {NAME: value}; null leaves a profile's variable out. Names and values are checked against "
        "NCCL 2.30.7.", "docs/reference/profiles.md", example={"NCCL_DEBUG": "WARN"}),
    Key("nccl_gid_index", "str", "auto",
        "NCCL_IB_GID_INDEX, which is one number for all HCAs of a node. auto: NCCL finds it (since 2.21); where an older one is in use it "
        "is written only if all HCAs of the node share it. A number is checked against the GID table of every HCA: RoCE v2, with the "
        "rail's address.", "NCCL (src/transport/net_ib/connect.cc); ERC (the index differs between the NICs of one node)",
        pattern=r"^(auto|1?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])$", form="auto, or an index of the GID table, 0 to 255"),
    Key("nccl_profile_path", "str", "/etc/profile.d/railwright-nccl.sh", "Where login shells get the variables.",
        "profile.d(5) convention: read by login shells alone, so the second file is needed too",
        pattern=r"^/etc/profile\.d/[A-Za-z0-9._-]+\.sh$", form="a path like /etc/profile.d/NAME.sh"),
    Key("nccl_conf_path", "str", "/etc/nccl.conf",
        "NCCL's own file, the only one that reaches systemd units and mpirun without a login shell.",
        "NCCL (src/misc/param.cc reads /etc/nccl.conf)", pattern=CONF_PATH,
        form="an absolute path like /etc/NAME.conf, with no . or .. on the way"),
)

VALIDATE = (
    Key("validate_perftest", "bool", True,
        "Measure bandwidth and latency between pairs of nodes (ib_write_bw, ib_read_lat, ib_write_lat), rail by rail and all at once.",
        "choice"),
    Key("validate_min_bandwidth_gbps", "number", None,
        "Average ib_write_bw in Gb/s that every rail must reach, alone and with all others. Unset: with rdma_expect.rate_gbps 0.98 of what "
        "the headers of the active MTU leave of it, 0.96 of the rate at 4096 and 0.91 at 1024; else measured and reported, not judged.",
        "OCI (96 of 100G, 192 of 200G, 384 of 400G; 375 with B300, 350 with MI300X); ERC (eRDMA: by instance type, 108 measured)",
        minimum=0, maximum=10000, example=384),
    Key("validate_max_latency_us", "number", None,
        "Average ib_read_lat in microseconds that no rail may exceed. Unset: measured and reported, not judged.",
        "choice: published limits are for ib_write_lat, and a read is a round trip; ERC (eRDMA about 16 us)", minimum=0, maximum=1000000,
        example=10),
    Key("validate_max_write_latency_us", "number", None,
        "Average ib_write_lat in microseconds that no rail may exceed. Unset: 5 with rdma_expect.rate_gbps; else measured and reported, "
        "not judged.", "OCI (5 us; 9 with GB200 and GB300), imbue (4.2 us for 99 % of all writes)", minimum=0, maximum=1000000, example=9),
    Key("validate_perftest_seconds", "int", 10, "How long one bandwidth test runs.", "AZ (ib_write_bw -D 10)", minimum=1, maximum=600),
    Key("validate_perftest_iterations", "int", 1000, "Iterations of one latency test.", "perftest (default of ib_read_lat)", minimum=5,
        maximum=1000000),
    Key("validate_perftest_message_bytes", "int", 1048576, "Message size of a bandwidth test.", "AZ (ib_write_bw -s 1048576)", minimum=2,
        maximum=8388608),
    Key("validate_perftest_qps", "int", 2, "Queue pairs of a bandwidth test.", "AZ and OCI (ib_write_bw -q 2)", minimum=1, maximum=128),
    Key("validate_port", "int", 18515, "First TCP port of perftest's exchange; every rail takes four ports from here on.",
        "perftest (default port 18515)", minimum=1024, maximum=65000),
    Key("validate_ping_peers", "int", 4, "How many peers a node pings on every rail with full-size frames and DF.",
        "kayobe (network-connectivity.yml pings one random peer); choice of 4: all pairs grow with the square", minimum=1, maximum=4096),
    Key("validate_timeout_s", "int", 60, "Longest time that one test may take, server start included.", "choice", minimum=5, maximum=3600),
)

KEYS: tuple[Key, ...] = (
    SITE + SERVICE + PREFLIGHT + RDMA_STACK + ERDMA + GPU_DRIVER + CUDA + GPUDIRECT + NIC_FIRMWARE + PCI_TUNING + NETWORK + FIREWALL
    + ROCE_QOS + HOST_TUNING + NCCL_ENV + CONTAINERS + SSH_MESH + VALIDATE + AGENT + AI_ENVIRONMENT + NCCL + MPI + NCCL_TESTS
    + DDP_BENCHMARK + AIACC + UPGRADE)
BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}  # every name that an inventory may set
ROLE_KEYS: dict[str, tuple[str, ...]] = {role: tuple(key.name for key in KEYS if key.owner == role) for role in ROLES}
