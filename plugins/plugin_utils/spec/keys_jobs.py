# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for what jobs use, from NCCL to containers, and for rolling upgrades under them. ``schema.py`` joins them."""

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import RELEASE
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL, GROUPS

from .key import USER, USER_FORM, Key
from .keys_drivers import URL, URL_FORM

COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube",
)
# What a floor or a baseline has figures of: a collective over all nodes, or over a group of them.
FIGURES = COLLECTIVES + tuple(f"{name}/{group}" for name in COLLECTIVES for group in GROUPS if group != ALL)
VERSION = r"^[0-9][A-Za-z0-9.+:~_-]*$"
VERSION_FORM = "a version, in quotes"
PATH = r"^/(?!.*(?:^|/)\.\.(?:/|$))[A-Za-z0-9_.+@/-]+$"
PATH_FORM = "an absolute path of letters, digits and _.+@-, without .."
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
HOST = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
HOST_FORM = "a name of letters, digits and . _ -"
MESSAGE_SIZE = r"^[1-9][0-9]{0,14}[KMGkmg]?$"
MESSAGE_FORM = "bytes as digits, or digits with K, M or G (binary), in quotes; nccl-tests rejects a B"
REQUIREMENT = r"^[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?$"
TORCH = r"^[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}(\+(cpu|cu[0-9]{3}))?$"
COMMAND_FORM = "a list of words, the first one a program; {node} and {reason} stand for what they say"
_ENVIRONMENT = "names of variables and their values, as text"

NCCL = (
    Key("nccl_install", "str", "none",
        "Where the NCCL library comes from: NVIDIA's CUDA repository, the distribution, the wheel of PyPI, or its source, built on the "
        "node. none: what is there is used. Nodes without an NVIDIA GPU are skipped.", "choice: many sites bring NCCL with containers",
        choices=("none", "repository", "distribution", "wheel", "source")),
    Key("nccl_version", "str", None, "Version of NCCL, such as 2.30.7. Unset: the one that the catalogue pins.",
        "docs/reference/drivers.md", pattern=VERSION, form=VERSION_FORM, example="2.30.7"),
    Key("nccl_archive", "str", None,
        "The wheel or the source archive as a file on the controller, for sites without a way out. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/nccl.tar.gz"),
    Key("nccl_wheel_index", "str", None,
        "Where nccl_install: wheel takes it from: the URL below which the Python Package Index, or a copy of it, keeps its files (in a "
        "file's link what stands before /packages/). Not needed with nccl_archive, nor with rdma_artifact_mirror, which stands in for it "
        "(MIRROR/nccl_wheel_index/PATH).", "choice: which package index a site trusts is for the site to say",
        pattern=r"^(?!.*/simple/?$)" + URL[1:], form=URL_FORM + ", and not pip's /simple", example="https://mirror.example.com/pypi"),
    Key("nccl_prefix", "str", "/opt/railwright/nccl", "Directory below which a wheel or a build is put, by version.", "choice",
        pattern=PATH, form=PATH_FORM),
    Key("nccl_hold", "bool", True, "Keep the packages of NCCL at the pinned version when the system is updated.",
        "AZ (apt-mark hold), LSR (versionlock)"),
)

MPI = (
    Key("mpi_install", "str", "none",
        "Which MPI starts the ranks: Open MPI or MPICH of the distribution, or HPC-X. none: the one that is there is used.",
        "choice: sites have an MPI of their own more often than not", choices=("none", "openmpi", "mpich", "hpcx")),
    Key("mpi_version", "str", None, "Version of the packages, or of HPC-X. Unset: the distribution's newest, or the catalogue's HPC-X.",
        "docs/reference/drivers.md", pattern=VERSION, form=VERSION_FORM, example="4.1.4-3+b1"),
    Key("mpi_archive", "str", None, "HPC-X's archive as a file on the controller. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/hpcx.tbz"),
    Key("mpi_prefix", "str", None,
        "Where an MPI of the site is installed, with bin/mpirun in it. Unset: HPC-X below /opt/railwright/hpcx, else the one on PATH.",
        "choice", pattern=PATH, form=PATH_FORM, example="/opt/openmpi-5.0.8"),
)

NCCL_TESTS = (
    Key("nccl_tests_install", "str", "build",
        "build: nccl-tests is built on one node and brought to every other. prebuilt: the programs lie in nccl_tests_path already.",
        "choice: a build fits the CUDA, NCCL and MPI that are there", choices=("build", "prebuilt")),
    Key("nccl_tests_version", "str", None, "Release of nccl-tests. Unset: the one that the catalogue pins.", "docs/reference/drivers.md",
        pattern=VERSION, form=VERSION_FORM, example="2.19.6"),
    Key("nccl_tests_archive", "str", None,
        "The source archive as a file on the controller. Unset: downloaded, or from the mirror. Held to the same checksum either way.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/nccl-tests.tar.gz"),
    Key("nccl_tests_path", "str", None,
        "prebuilt: directory of all_reduce_perf and the others, on every node. build: directory below which builds are put, by version; "
        "unset: /opt/railwright/nccl-tests.", "choice", pattern=PATH, form=PATH_FORM, example="/opt/nccl-tests/build"),
    Key("nccl_tests_shared", "bool", False,
        "nccl_tests_path is one directory that all nodes share: the build is put there once and not copied.",
        "choice: clusters with a shared file system"),
    Key("nccl_tests_nfs", "str", None, "SERVER:/EXPORT that is mounted on nccl_tests_path of every node. Unset: nothing is mounted.",
        "choice", pattern=r"^[A-Za-z0-9_.:\[\]-]+:/[A-Za-z0-9_./-]*$", form="SERVER:/EXPORT", example="nfs1:/export/nccl-tests"),
    Key("nccl_tests_launcher", "str", "auto",
        "Who starts the ranks: Slurm's srun, mpirun over ssh, or the program itself (local: each node by itself). auto: mpirun where there "
        "is more than one node, else local.", "choice", choices=("auto", "local", "mpi", "slurm")),
    Key("nccl_tests_ranks", "str", "gpu", "gpu: a rank for each GPU. node: one process a node that drives all its GPUs (-g N).",
        "NVIDIA/nccl-tests (README: multi-process, multi-node)", choices=("gpu", "node")),
    Key("nccl_tests_user", "str", None,
        "The user that the jobs run as; the same on every node. Unset: ssh_mesh_user, else the user that Ansible logs in as.", "choice",
        pattern=USER, form=USER_FORM, example="mpi"),
    Key("nccl_tests_purpose", "str", "quick",
        "quick: a minute to see that it runs at all. acceptance: every size up to 16 GiB, and by topology. soak: large messages for hours.",
        "choice; NVIDIA/nccl-tests (-b 8 -e 8G -f 2), AZ (judged at 16 GiB)", choices=("quick", "acceptance", "soak")),
    Key("nccl_tests_collectives", "list", None,
        f"Which collectives to run: {', '.join(COLLECTIVES)}. Unset: all_reduce, and for acceptance alltoall too.",
        "choice: all_reduce is what thresholds are known for; in alltoall everybody talks to everybody, so that paths collide",
        elements="str", pattern=f"^({'|'.join(COLLECTIVES)})$", form="a list of " + ", ".join(COLLECTIVES),
        example=["all_reduce", "alltoall"]),
    Key("nccl_tests_groups", "list", None,
        "Which nodes run together. node: each by itself. leaf: those of each leaf of rdma_leaves. across: one node of each leaf. rail: all "
        "nodes over one rail after the other. all: all nodes. Unset: all, and for acceptance every group that the nodes have.",
        "choice: a figure over all nodes does not say where it is lost", choices=GROUPS, elements="str", example=["node", "all"]),
    Key("nccl_tests_begin", "str", None,
        "Smallest message (-b): bytes, or with K, M or G. 1B is refused: nccl-tests rejects a B. Unset: as the purpose says.",
        "NVIDIA/nccl-tests (src/util.cu parses digits and one of K, M, G)", pattern=MESSAGE_SIZE, form=MESSAGE_FORM, example="8"),
    Key("nccl_tests_end", "str", None,
        "Largest message (-e): bytes, or with K, M or G. Unset: as the purpose says, and less where GPU memory is too small.",
        "NVIDIA/nccl-tests (src/util.cu)", pattern=MESSAGE_SIZE, form=MESSAGE_FORM, example="16G"),
    Key("nccl_tests_factor", "int", 2, "Each size is the one before times this (-f).", "NVIDIA/nccl-tests (README: -f 2)", minimum=2,
        maximum=1024),
    Key("nccl_tests_iterations", "int", None, "Timed iterations of each size (-n). Unset: as the purpose says.",
        "NVIDIA/nccl-tests (default 20)", minimum=1, maximum=1000000),
    Key("nccl_tests_warmup", "int", None, "Untimed iterations before them (-w). Unset: as the purpose says.", "NVIDIA/nccl-tests (-w)",
        minimum=0, maximum=100000),
    Key("nccl_tests_check", "bool", True, "Compare values (-c). Without it a run can show speed, never that data arrived whole.",
        "NVIDIA/nccl-tests (-c, default 1)"),
    Key("nccl_tests_timeout_s", "int", None,
        "Longest time of one collective in seconds; then it is ended on every node. Unset: as the purpose says.", "choice", minimum=10,
        maximum=604800),
    Key("nccl_tests_min_busbw", "dict", {},
        "GB/s busbw that a collective must reach on the largest sizes, by its name, or over a group of nodes by NAME/GROUP such as "
        "all_reduce/leaf. Missing: a share of what such nodes can reach, where published figures give one; else it is not judged.",
        "docs/speed.md", example={"all_reduce": 340}),
    Key("nccl_tests_baseline", "dict", {},
        "A golden run that somebody signed, as railwright bench --save-baseline writes it: later runs must reach 0.95 of it while nodes, "
        "GPUs and versions are the same.", "docs/bench.md", form="what railwright bench --save-baseline writes"),
    Key("nccl_tests_algorithm", "str", None,
        "NCCL_ALGO of the runs. Unset: Ring for two nodes, so that the NICs are judged and not a tree; else NCCL's choice.",
        "nccl-tests issues 196 and 290 (two nodes: a tree's busbw can exceed the NICs')",
        choices=("Ring", "Tree", "NVLS", "NVLSTree", "any")),
    Key("nccl_tests_network", "str", "promised",
        "promised: between nodes NCCL must use RDMA, with GPUDirect where gpudirect_path is not none; a silent fallback is an error. rdma: "
        "GPUDirect is not asked for. any: whatever NCCL chooses. The training benchmark is judged by it too.",
        "NCCL (NCCL_NET; plugin/net.cc fails where it is not there)",
        choices=("promised", "rdma", "any")),
    Key("nccl_tests_environment", "dict", {}, "More variables of the runs; these win over /etc/nccl.conf.",
        "NCCL (src/misc/param.cc: the environment comes first)", form=_ENVIRONMENT, example={"NCCL_IB_QPS_PER_CONNECTION": "4"}),
    Key("nccl_tests_inspector", "str", None,
        "NCCL's inspector plugin on every node: with it late ranks are named (nccl.straggler). Unset: no rank is timed.",
        "NVIDIA/nccl (plugins/profiler/inspector, since 2.28)", pattern=PATH, form=PATH_FORM,
        example="/opt/nccl/lib/libnccl-profiler-inspector.so"),
    Key("nccl_tests_slurm_options", "list", [], "More options of srun, such as --partition=gpu.", "choice", elements="str",
        pattern=r"^--[a-z][a-z0-9-]*(=[!-~]*)?$", form="a list of long options, --NAME or --NAME=VALUE", example=["--partition=gpu"]),
    Key("nccl_tests_slurm_host", "str", None, "Node of the inventory on which srun is called. Unset: the first one of the run.", "choice",
        pattern=NAME, form="a node's name", example="node1"),
)

DDP_BENCHMARK = (
    Key("ddp_benchmark_python", "str", None,
        "The Python that has torch: a name on PATH, or an absolute path. Unset: that of the environment where ai_environment_kind keeps "
        "one, else python3.", "choice", pattern=r"^(python[0-9.]*|/[A-Za-z0-9_.+@/-]+)$",
        form="a name such as python3, or an absolute path", example="/opt/torch/bin/python3"),
    Key("ddp_benchmark_backend", "str", "nccl", "nccl, or gloo on nodes without GPUs, which proves the launch and no speed.",
        "PyTorch (torch.distributed)", choices=("nccl", "gloo")),
    Key("ddp_benchmark_processes", "int", None, "Processes a node. Unset: one for each GPU; with gloo one.",
        "PyTorch (torchrun --nproc-per-node)", minimum=1, maximum=64),
    Key("ddp_benchmark_steps", "int", 100, "Timed training steps.", "choice: five of 100 steps are slower than p95", minimum=10,
        maximum=1000000),
    Key("ddp_benchmark_warmup", "int", 10, "Untimed steps before them.", "choice", minimum=1, maximum=10000),
    Key("ddp_benchmark_batch", "int", 64, "Samples of one step on each rank.", "choice", minimum=1, maximum=65536),
    Key("ddp_benchmark_repeatable", "bool", False,
        "The same bits at every run, and each rank's checksums of them; slower. bench --purpose burn-in sets it.",
        "PyTorch (notes on reproducibility: costs speed)"),
    Key("ddp_benchmark_port", "int", 29500, "TCP port of the rendezvous on the first node.", "PyTorch (torchrun --master-port)",
        minimum=1024, maximum=65535),
    Key("ddp_benchmark_timeout_s", "int", 900, "Longest time of the whole benchmark in seconds.", "choice", minimum=30, maximum=86400),
    Key("ddp_benchmark_environment", "dict", {},
        "More variables of the ranks, beside those of nccl_tests_environment; these win over them and over /etc/nccl.conf.",
        "NCCL (src/misc/param.cc: the environment comes first)", form=_ENVIRONMENT, example={"NCCL_DEBUG": "INFO"}),
    Key("ddp_benchmark_min_samples_per_s", "number", None,
        "Samples per second that the whole job must reach. Unset: the figure is reported, not judged.",
        "choice: no figure fits two clusters", minimum=0, example=50000),
    Key("ddp_benchmark_user", "str", None, "The user it runs as. Unset: as nccl_tests_user.", "choice", pattern=USER, form=USER_FORM,
        example="train"),
)

AI_ENVIRONMENT = (
    Key("ai_environment_kind", "str", "none",
        "What the environment is: venv (of a Python that the node has), or conda (whose Python comes with it). none: none is made. Nodes "
        "without an NVIDIA GPU are skipped, unless ai_environment_torch asks for a build without CUDA (+cpu).",
        "choice: many sites bring torch with containers", choices=("none", "venv", "conda")),
    Key("ai_environment_path", "str", "/opt/railwright/ai",
        "Directory below which environments are put, each in one of its own. The link current leads to the one that is asked for.",
        "choice", pattern=PATH, form=PATH_FORM),
    Key("ai_environment_python", "str", None,
        "venv: version of the node's Python, such as 3.12. Unset: its python3. conda: what ai_environment_conda_explicit has.",
        "choice: the system's own is the one that is maintained with it", pattern=r"^3\.[0-9]{1,2}$", form="3.MINOR, in quotes",
        example="3.12"),
    Key("ai_environment_torch", "str", None,
        "Version of torch as its wheel has it: 2.9.1 of PyPI, 2.9.1+cu126 or 2.9.1+cpu of PyTorch's own index. Needed where an environment "
        "is made.", "docs/ai-environment.md", pattern=TORCH, form="a release like 2.9.1, 2.9.1+cu126 or 2.9.1+cpu, in quotes",
        example="2.9.1"),
    Key("ai_environment_requirements", "str", None,
        "The lock: a file on the controller in pip's form, every package with NAME==VERSION and --hash=sha256:…, dependencies too. Unset: "
        "the wheels of ai_environment_wheels that fit the node are the lock, with their checksums as the controller computes them.",
        "pip (hash-checking mode)", pattern=PATH, form=PATH_FORM, example="/srv/railwright/torch.lock"),
    Key("ai_environment_wheels", "str", None,
        "Directory of wheels on the controller. They are copied to the node and no package index is asked.",
        "choice: nodes often have no way out", pattern=PATH, form=PATH_FORM, example="/srv/railwright/wheels"),
    Key("ai_environment_index_url", "str", None,
        "Package index that the nodes take the locked wheels from, such as https://download.pytorch.org/whl/cu126.",
        "choice: which package index a site trusts is for the site to say", form="an http or https URL without user and password in it",
        example="https://mirror.example.com/simple"),
    Key("ai_environment_extra_index_urls", "list", [],
        "Further indexes, for what the first one does not have. The lock's checksums hold for them too.", "pip (--extra-index-url)",
        elements="str", form="a list of http or https URLs without user and password in them", example=["https://mirror.example.com/more"]),
    Key("ai_environment_packages", "list", [],
        "Packages that the environment must have beside torch, NAME or NAME==VERSION. The lock must have them, and the environment is "
        "asked for them before it is used.", "choice", elements="str", pattern=REQUIREMENT, form="a list of NAME or NAME==VERSION",
        example=["numpy==2.1.3"]),
    Key("ai_environment_conda_installer", "str", None,
        "conda: the installer as a file on the controller (Miniforge3-VERSION-Linux-x86_64.sh). It is only a tool and goes away again.",
        "choice: Miniconda's terms are for the site to accept, Miniforge has none of that kind", pattern=PATH, form=PATH_FORM,
        example="/srv/railwright/Miniforge3.sh"),
    Key("ai_environment_conda_installer_sha256", "str", None, "conda: its checksum.",
        "choice: nothing is run as root that is not pinned", pattern=r"^[0-9a-f]{64}$", form="64 lower case hexadecimal digits",
        example="0" * 64),
    Key("ai_environment_conda_explicit", "str", None,
        "conda: the packages as a file on the controller, as conda list --explicit --sha256 writes it: @EXPLICIT and a URL with its "
        "checksum on every line. Python among them; torch too, or from the lock.", "conda (explicit specification files)", pattern=PATH,
        form=PATH_FORM, example="/srv/railwright/explicit.txt"),
    Key("ai_environment_owner", "str", "root", "The user that the environment belongs to. It is read by everybody.",
        "choice: what jobs use is not theirs to change", pattern=USER, form=USER_FORM),
)

AIACC = (
    Key("aiacc_install", "bool", None,
        "Install aiacc-nccl-plugin. Unset: exactly where rdma_nccl_profile is erdma-aiacc. Its package is not signed: nothing happens "
        "without a sha256 of yours in rdma_artifact_pins (aiacc_nccl_plugin_deb, aiacc_nccl_plugin_rpm).",
        "choice: with any other profile the plugin would take the place of the transport that the profile sets up"),
    Key("aiacc_version", "str", RELEASE,
        "Release of aiacc-nccl-plugin. One that the catalogue has no URL of needs aiacc_url or aiacc_archive.",
        "the guide to eRDMA, lines 44-46", pattern=r"^[0-9]+(\.[0-9]+){1,3}$", form="a release like 1.0.2, in quotes"),
    Key("aiacc_url", "str", None, "Where the rpm or deb is. Unset: the catalogue's place of the release (or the mirror's).",
        "docs/aiacc.md", pattern=URL, form=URL_FORM, example="https://mirror.example.com/aiacc-nccl-plugin-1.0.2.rpm"),
    Key("aiacc_archive", "str", None,
        "The rpm or deb as a file on the controller, for sites without a way out. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/aiacc-nccl-plugin-1.0.2.rpm"),
)

CONTAINERS = (
    Key("containers_runtime", "str", "auto",
        "What starts containers. auto: what is on the node, docker before podman before nerdctl; a docker that does not run comes last. "
        "none: nothing is set up for containers.", "choice: sites bring their own runtime",
        choices=("auto", "docker", "podman", "nerdctl", "none")),
    Key("containers_gpu", "str", "auto",
        "How a container gets the GPUs: a CDI specification, or the nvidia runtime of docker. auto: for `container flags` the first that "
        "the node has; apply sets up CDI where containers_toolkit_install is true, and nothing else. cdi and nvidia are set up with the "
        "toolkit that is on the node.", "NVIDIA (container toolkit: CDI is what it recommends)", choices=("auto", "cdi", "nvidia", "none")),
    Key("containers_image", "str", None, "Image that `container flags` puts in where --image says nothing.", "choice: a site's image",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", form="the name of an image, like registry.example.com/train:1",
        example="registry.example.com/train:1"),
    Key("containers_shm_size", "str", None,
        "Size of /dev/shm in a container. Unset: the host's own (--ipc=host); in a pod a memory volume without a limit of its own.",
        "the guide to eRDMA, line 94 has both; NCCL's and PyTorch's workers share memory there, and 64 MiB, the default, is too little",
        pattern=r"^[1-9][0-9]*[kmg]$", form="a number with k, m or g, like 16g", example="16g"),
    Key("containers_pod_interface", "str", "eth0",
        "Interface of a pod that has a network of its own: NCCL_SOCKET_IFNAME there. The host's NICs, and ib0, do not exist in it.",
        "Kubernetes (CNI: the first interface of a pod is eth0)", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,14}$",
        form="the name of an interface", example="eth0"),
    Key("containers_toolkit_install", "bool", False,
        "Install NVIDIA's container toolkit from the CUDA repository, on nodes with a GPU and a container runtime.",
        "choice: images of clouds bring it already"),
)

UPGRADE = (
    Key("upgrade_scheduler", "str", "none",
        "Who puts jobs on the nodes, so that a node is drained before it changes: slurm, kubernetes, or command (upgrade_drain_command, "
        "upgrade_drained_command, upgrade_undrain_command). none: nobody is asked, and a job on the node dies with its reboot.",
        "choice: which scheduler a site has cannot be guessed", choices=("none", "slurm", "kubernetes", "command")),
    Key("upgrade_scheduler_host", "str", "localhost",
        "Where scontrol, kubectl or the commands run: a host of the inventory, or localhost (the controller).",
        "choice: the controller is where an operator has kubectl; Slurm's sites name their login or controller node", pattern=HOST,
        form="the name of a host of the inventory, or localhost", example="slurm1"),
    Key("upgrade_node_name", "str", None, "The node's name at the scheduler. Unset: its name in the inventory.",
        "choice: most sites use one name for both", pattern=HOST, form=HOST_FORM, example="gpu-001"),
    Key("upgrade_drain_timeout_s", "int", 86400,
        "How long the jobs of a node may still run after its drain began. A node that is not empty by then fails and takes jobs again, "
        "since nothing was changed on it; its jobs go on. `railwright upgrade --resume` drains it anew.",
        "choice: a day, the time limit that most partitions give; Slurm itself waits without end (scontrol(1), State=DRAIN)", minimum=0,
        maximum=2592000),
    Key("upgrade_drain_command", "list", [], "upgrade_scheduler command: lets no new work come to {node}. Exit code 0: done.", "choice",
        elements="str", form=COMMAND_FORM, example=["/usr/local/sbin/drain", "{node}", "{reason}"]),
    Key("upgrade_drained_command", "list", [],
        "upgrade_scheduler command: says whether {node} is empty. Exit code 0: no work is left, 75: not yet, anything else: an error.",
        "sysexits.h (75 is EX_TEMPFAIL: try again later)", elements="str", form=COMMAND_FORM,
        example=["/usr/local/sbin/is-empty", "{node}"]),
    Key("upgrade_undrain_command", "list", [], "upgrade_scheduler command: lets work come to {node} again. Exit code 0: done.", "choice",
        elements="str", form=COMMAND_FORM, example=["/usr/local/sbin/undrain", "{node}"]),
    Key("upgrade_failure_domain", "str", None,
        "What the node shares with its neighbours: a rack, a power feed, a switch. Nodes of two domains are never upgraded at the same "
        "time. Unset: all nodes without one are one domain.", "usual practice (per-rack grouping of batches)", pattern=HOST, form=HOST_FORM,
        example="rack07"),
    Key("upgrade_max_unavailable", "str", "1",
        "How many nodes may be away at the same time, for the upgrade or for any other reason: a number, or a share of all nodes in "
        "quotes, rounded down and at least 1. With 1 no node has a partner, so that perftest between nodes proves nothing.",
        "NVIDIA Network Operator (maxParallelUpgrades 1)", pattern=r"^([1-9][0-9]{0,4}|([1-9][0-9]?|100)%)$",
        form="a number of nodes of at least 1, or a share like '10%'", example=4),
    Key("upgrade_canary", "list", [],
        "Nodes that are upgraded before all others, as many at a time as upgrade_max_unavailable says. Empty: the first node of the order.",
        "usual practice (canary batch)", elements="str", form="a list of hosts of group rdma", example=["node1"]),
    Key("upgrade_gate", "str", "validate",
        "What the nodes of a batch must pass before jobs come back: validate, nccl_tests (validate, then nccl-tests over the batch), or "
        "none.", "usual practice (validate, then resume)", choices=("none", "validate", "nccl_tests")),
    Key("upgrade_reboot", "str", "needed",
        "Whether a node that was changed reboots before it is validated: needed (where a change asks for it) or always, so that no node "
        "goes back to its jobs that was not seen to boot with the new set. Either needs consent to reboot.",
        "usual practice (reboot after stack and driver, before validation); choice of needed", choices=("needed", "always")),
)
