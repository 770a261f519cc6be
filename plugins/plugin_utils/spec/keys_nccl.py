# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for the final proof: the NCCL library, MPI, nccl-tests and the training benchmark. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key
from .keys_drivers import URL, URL_FORM

VERSION = r"^[0-9][A-Za-z0-9.+:~_-]*$"
VERSION_FORM = "a version, in quotes"
PATH = r"^/(?!.*(?:^|/)\.\.(?:/|$))[A-Za-z0-9_.+@/-]+$"
PATH_FORM = "an absolute path of letters, digits and _.+@-, without .."
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
_ENVIRONMENT = "names of variables and their values, as text"

NCCL = (
    Key("nccl_install", "nccl", "str", "none",
        "Where the NCCL library comes from: NVIDIA's CUDA repository, the distribution, the wheel of PyPI, or its source, built on the "
        "node. none: what is there is used. Nodes without an NVIDIA GPU are skipped.",
        "choice: many sites bring NCCL with containers", choices=("none", "repository", "distribution", "wheel", "source")),
    Key("nccl_version", "nccl", "str", None, "Version of NCCL, such as 2.30.7. Unset: the one that the catalogue pins.",
        "docs/reference/drivers.md", pattern=VERSION, form=VERSION_FORM, example="2.30.7"),
    Key("nccl_archive", "nccl", "str", None,
        "The wheel or the source archive as a file on the controller, for sites without a way out. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/nccl.tar.gz"),
    Key("nccl_wheel_index", "nccl", "str", None,
        "Where nccl_install: wheel takes it from: the URL below which the Python Package Index, or a copy of it, keeps its files (in "
        "a file's link what stands before /packages/). Not needed with nccl_archive, nor with rdma_artifact_mirror, which stands in for it "
        "(MIRROR/nccl_wheel_index/PATH).", "choice: which package index a site trusts is for the site to say",
        pattern=r"^(?!.*/simple/?$)" + URL[1:], form=URL_FORM + ", and not pip's /simple", example="https://mirror.example.com/pypi"),
    Key("nccl_prefix", "nccl", "str", "/opt/railwright/nccl", "Directory below which a wheel or a build is put, by version.", "choice",
        pattern=PATH, form=PATH_FORM),
    Key("nccl_hold", "nccl", "bool", True, "Keep the packages of NCCL at the pinned version when the system is updated.",
        "AZ (apt-mark hold), LSR (versionlock)"),
)

MPI = (
    Key("mpi_install", "mpi", "str", "none",
        "Which MPI starts the ranks: Open MPI or MPICH of the distribution, or HPC-X. none: the one that is there is used.",
        "choice: sites have an MPI of their own more often than not", choices=("none", "openmpi", "mpich", "hpcx")),
    Key("mpi_version", "mpi", "str", None,
        "Version of the packages, or of HPC-X. Unset: the distribution's newest, or the catalogue's HPC-X.",
        "docs/reference/drivers.md", pattern=VERSION, form=VERSION_FORM, example="4.1.4-3+b1"),
    Key("mpi_archive", "mpi", "str", None, "HPC-X's archive as a file on the controller. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/hpcx.tbz"),
    Key("mpi_prefix", "mpi", "str", None,
        "Where an MPI of the site is installed, with bin/mpirun in it. Unset: HPC-X below /opt/railwright/hpcx, else the one on PATH.",
        "choice", pattern=PATH, form=PATH_FORM, example="/opt/openmpi-5.0.8"),
)

NCCL_TESTS = (
    Key("nccl_tests_install", "nccl_tests", "str", "build",
        "build: nccl-tests is built on one node and brought to every other. prebuilt: the programs lie in nccl_tests_path already.",
        "choice: a build fits the CUDA, NCCL and MPI that are there", choices=("build", "prebuilt")),
    Key("nccl_tests_version", "nccl_tests", "str", None, "Release of nccl-tests. Unset: the one that the catalogue pins.",
        "docs/reference/drivers.md", pattern=VERSION, form=VERSION_FORM, example="2.19.6"),
    Key("nccl_tests_archive", "nccl_tests", "str", None,
        "The source archive as a file on the controller. Unset: downloaded, or from the mirror. Held to the same checksum either way.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/nccl-tests.tar.gz"),
    Key("nccl_tests_path", "nccl_tests", "str", None,
        "prebuilt: directory of all_reduce_perf and the others, on every node. build: directory below which builds are put, by version; "
        "unset: /opt/railwright/nccl-tests.", "choice", pattern=PATH, form=PATH_FORM, example="/opt/nccl-tests/build"),
    Key("nccl_tests_shared", "nccl_tests", "bool", False,
        "nccl_tests_path is one directory that all nodes share: the build is put there once and not copied.",
        "choice: clusters with a shared file system"),
    Key("nccl_tests_nfs", "nccl_tests", "str", None,
        "SERVER:/EXPORT that is mounted on nccl_tests_path of every node. Unset: nothing is mounted.", "choice",
        pattern=r"^[A-Za-z0-9_.:\[\]-]+:/[A-Za-z0-9_./-]*$", form="SERVER:/EXPORT", example="nfs1:/export/nccl-tests"),
    Key("nccl_tests_launcher", "nccl_tests", "str", "auto",
        "Who starts the ranks: Slurm's srun, mpirun over ssh, or the program itself (local: each node by itself). auto: mpirun where there "
        "is more than one node, else local.", "choice", choices=("auto", "local", "mpi", "slurm")),
    Key("nccl_tests_ranks", "nccl_tests", "str", "gpu",
        "gpu: a rank for each GPU. node: one process a node that drives all its GPUs (-g N).",
        "NVIDIA/nccl-tests (README: multi-process, multi-node)", choices=("gpu", "node")),
    Key("nccl_tests_user", "nccl_tests", "str", None,
        "The user that the jobs run as; the same on every node. Unset: ssh_mesh_user, else the user that Ansible logs in as.", "choice",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$", form="a user name of at most 32 characters, without blanks", example="mpi"),
    Key("nccl_tests_purpose", "nccl_tests", "str", "quick",
        "quick: a minute to see that it runs at all. acceptance: every size up to 16 GiB. soak: large messages for hours.",
        "choice; NVIDIA/nccl-tests (-b 8 -e 8G -f 2), AZ (judged at 16 GiB)", choices=("quick", "acceptance", "soak")),
    Key("nccl_tests_collectives", "nccl_tests", "list", ["all_reduce"],
        "Which collectives to run: all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter, sendrecv, "
        "hypercube.",
        "choice: all_reduce is what thresholds are known for", elements="str",
        pattern=r"^(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|gather|scatter|sendrecv|hypercube)$",
        form="a list of all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter, sendrecv, hypercube"),
    Key("nccl_tests_begin", "nccl_tests", "str", None,
        "Smallest message (-b): bytes, or with K, M or G. 1B is refused: nccl-tests rejects a B. Unset: as the purpose says.",
        "NVIDIA/nccl-tests (src/util.cu parses digits and one of K, M, G)", pattern=r"^[1-9][0-9]{0,14}[KMGkmg]?$",
        form="bytes as digits, or digits with K, M or G (binary), in quotes; nccl-tests rejects a B", example="8"),
    Key("nccl_tests_end", "nccl_tests", "str", None,
        "Largest message (-e): bytes, or with K, M or G. Unset: as the purpose says, and less where GPU memory is too small.",
        "NVIDIA/nccl-tests (src/util.cu)", pattern=r"^[1-9][0-9]{0,14}[KMGkmg]?$",
        form="bytes as digits, or digits with K, M or G (binary), in quotes; nccl-tests rejects a B", example="16G"),
    Key("nccl_tests_factor", "nccl_tests", "int", 2, "Each size is the one before times this (-f).", "NVIDIA/nccl-tests (README: -f 2)",
        minimum=2, maximum=1024),
    Key("nccl_tests_iterations", "nccl_tests", "int", None, "Timed iterations of each size (-n). Unset: as the purpose says.",
        "NVIDIA/nccl-tests (default 20)", minimum=1, maximum=1000000),
    Key("nccl_tests_warmup", "nccl_tests", "int", None, "Untimed iterations before them (-w). Unset: as the purpose says.",
        "NVIDIA/nccl-tests (-w)", minimum=0, maximum=100000),
    Key("nccl_tests_check", "nccl_tests", "bool", True,
        "Compare values (-c). Without it a run can show speed, never that data arrived whole.",
        "NVIDIA/nccl-tests (-c, default 1)"),
    Key("nccl_tests_timeout_s", "nccl_tests", "int", None,
        "Longest time of one collective in seconds; then it is ended on every node. Unset: as the purpose says.", "choice",
        minimum=10, maximum=604800),
    Key("nccl_tests_min_busbw", "nccl_tests", "dict", {},
        "GB/s busbw that a collective must reach on the largest sizes, by its name. Missing: all_reduce has the catalogue's figure or 0.85 "
        "of the NICs' rate; others are reported, not judged.", "docs/bench.md", example={"all_reduce": 340}),
    Key("nccl_tests_algorithm", "nccl_tests", "str", None,
        "NCCL_ALGO of the runs. Unset: Ring for two nodes, so that the NICs are judged and not a tree; else NCCL's choice.",
        "nccl-tests issues 196 and 290 (two nodes: a tree's busbw can exceed the NICs')",
        choices=("Ring", "Tree", "NVLS", "NVLSTree", "any")),
    Key("nccl_tests_network", "nccl_tests", "str", "promised",
        "promised: between nodes NCCL must use RDMA, with GPUDirect where gpudirect_path is not none; a silent fallback is an error. "
        "rdma: GPUDirect is not asked for. any: whatever NCCL chooses.", "NCCL (NCCL_NET; plugin/net.cc fails where it is not there)",
        choices=("promised", "rdma", "any")),
    Key("nccl_tests_environment", "nccl_tests", "dict", {}, "More variables of the runs; these win over /etc/nccl.conf.",
        "NCCL (src/misc/param.cc: the environment comes first)", form=_ENVIRONMENT, example={"NCCL_IB_QPS_PER_CONNECTION": "4"}),
    Key("nccl_tests_slurm_options", "nccl_tests", "list", [], "More options of srun, such as --partition=gpu.", "choice", elements="str",
        pattern=r"^--[a-z][a-z0-9-]*(=[!-~]*)?$", form="a list of long options, --NAME or --NAME=VALUE", example=["--partition=gpu"]),
    Key("nccl_tests_slurm_host", "nccl_tests", "str", None,
        "Node of the inventory on which srun is called. Unset: the first one of the run.", "choice", pattern=NAME, form="a node's name",
        example="node1"),
)

DDP_BENCHMARK = (
    Key("ddp_benchmark_python", "ddp_benchmark", "str", None,
        "The Python that has torch: a name on PATH, or an absolute path. Unset: that of the environment where ai_environment_kind keeps "
        "one, else python3.",
        "choice", pattern=r"^(python[0-9.]*|/[A-Za-z0-9_.+@/-]+)$", form="a name such as python3, or an absolute path",
        example="/opt/torch/bin/python3"),
    Key("ddp_benchmark_backend", "ddp_benchmark", "str", "nccl",
        "nccl, or gloo on nodes without GPUs, which proves the launch and no speed.", "PyTorch (torch.distributed)",
        choices=("nccl", "gloo")),
    Key("ddp_benchmark_processes", "ddp_benchmark", "int", None, "Processes a node. Unset: one for each GPU; with gloo one.",
        "PyTorch (torchrun --nproc-per-node)", minimum=1, maximum=64),
    Key("ddp_benchmark_steps", "ddp_benchmark", "int", 100, "Timed training steps.", "choice: five of 100 steps are slower than p95",
        minimum=10, maximum=1000000),
    Key("ddp_benchmark_warmup", "ddp_benchmark", "int", 10, "Untimed steps before them.", "choice", minimum=1, maximum=10000),
    Key("ddp_benchmark_batch", "ddp_benchmark", "int", 64, "Samples of one step on each rank.", "choice", minimum=1, maximum=65536),
    Key("ddp_benchmark_port", "ddp_benchmark", "int", 29500, "TCP port of the rendezvous on the first node.",
        "PyTorch (torchrun --master-port)", minimum=1024, maximum=65535),
    Key("ddp_benchmark_timeout_s", "ddp_benchmark", "int", 900, "Longest time of the whole benchmark in seconds.", "choice", minimum=30,
        maximum=86400),
    Key("ddp_benchmark_environment", "ddp_benchmark", "dict", {},
        "More variables of the ranks, beside those of nccl_tests_environment; these win over them and over /etc/nccl.conf.",
        "NCCL (src/misc/param.cc: the environment comes first)", form=_ENVIRONMENT, example={"NCCL_DEBUG": "INFO"}),
    Key("ddp_benchmark_min_samples_per_s", "ddp_benchmark", "number", None,
        "Samples per second that the whole job must reach. Unset: the figure is reported, not judged.",
        "choice: no figure fits two clusters", minimum=0, example=50000),
    Key("ddp_benchmark_user", "ddp_benchmark", "str", None, "The user it runs as. Unset: as nccl_tests_user.", "choice",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$", form="a user name of at most 32 characters, without blanks", example="train"),
)

PROOF_ROLES = ("nccl", "mpi", "nccl_tests", "ddp_benchmark")
PROOF_KEYS = NCCL + MPI + NCCL_TESTS + DDP_BENCHMARK
