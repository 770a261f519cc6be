# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is to be run to the command line that runs it: nccl-tests' options, and the launchers' four ways to say the same. Pure.

OpenMPI 4 and 5 differ in where the out-of-band interface is named; MPICH's Hydra has flags of its own; Slurm places the
ranks itself; without any of them the binary drives all GPUs of one node.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

COLLECTIVES = {  # what people call it -> the binary
    "all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf", "alltoall": "alltoall_perf",
    "broadcast": "broadcast_perf", "reduce": "reduce_perf", "gather": "gather_perf", "scatter": "scatter_perf", "sendrecv": "sendrecv_perf",
    "hypercube": "hypercube_perf",
}
LAUNCHERS = ("local", "openmpi4", "openmpi5", "mpich", "slurm")


class Purpose(NamedTuple):
    """Options of a run by what it is for; sizes in bytes."""

    name: str
    begin: int
    end: int
    iterations: int
    warmup: int
    check: int  # how often values are compared; 0: never
    seconds: int  # longest time of one collective
    source: str


PURPOSES = (
    Purpose("quick", 1 << 20, 1 << 28, 20, 5, 1, 300, "choice: a minute to see that it runs at all"),
    Purpose("acceptance", 8, 1 << 34, 20, 5, 1, 1800, "NVIDIA/nccl-tests (-b 8 -e 8G -f 2), AZ (judged at 16 GiB)"),
    Purpose("soak", 1 << 30, 1 << 34, 200, 5, 1, 14400, "choice: large messages for hours find what a short run does not"),
)


class Sizes(NamedTuple):
    """What one collective is run with; ``gpus``: how many each process drives."""

    begin: int
    end: int
    factor: int
    iterations: int
    warmup: int
    check: int
    gpus: int


class Job(NamedTuple):
    """Who runs it: ``hosts`` in rank order, ``per_node`` processes on each, over the TCP ``interface`` (None: the launcher's choice)."""

    hosts: Tuple[str, ...]
    per_node: int
    interface: Optional[str]
    environment: Dict[str, str]
    mpi: Optional[str]  # path of mpirun, mpiexec or srun; None: found by name


def purpose(name):
    # type: (str) -> Purpose
    for row in PURPOSES:
        if row.name == name:
            return row
    raise KeyError(name)


def options_of(sizes):
    # type: (Sizes) -> List[str]
    """Options that every version since 2.0 has; plain bytes, as a unit after the number is refused (``-b 1B``)."""
    return ["-b", str(sizes.begin), "-e", str(sizes.end), "-f", str(sizes.factor), "-n", str(sizes.iterations), "-w", str(sizes.warmup),
            "-c", str(sizes.check), "-g", str(sizes.gpus)]


def hostfile(job, launcher):
    # type: (Job, str) -> str
    """Names and slots, in rank order: OpenMPI's form, or Hydra's."""
    joint = ":%d\n" if launcher == "mpich" else " slots=%d\n"
    return "".join(host + joint % job.per_node for host in job.hosts)


def command(launcher, job, program, hosts_path):
    # type: (str, Job, Sequence[str], str) -> List[str]
    """The whole command line; ``program`` is the binary with its options, ``hosts_path`` where ``hostfile`` was written."""
    makers = {"local": _local, "openmpi4": _openmpi, "openmpi5": _openmpi, "mpich": _hydra, "slurm": _slurm}
    return makers[launcher](launcher, job, list(program), hosts_path)


def _local(launcher, job, program, hosts_path):
    # type: (str, Job, List[str], str) -> List[str]
    return ["env"] + ["%s=%s" % item for item in sorted(job.environment.items())] + program


def _openmpi(launcher, job, program, hosts_path):
    # type: (str, Job, List[str], str) -> List[str]
    argv = [job.mpi or "mpirun", "--hostfile", hosts_path, "-np", str(len(job.hosts) * job.per_node), "--map-by",
            "ppr:%d:node" % job.per_node, "--bind-to", "none"]
    if job.interface is not None:
        argv += ["--mca", "btl_tcp_if_include", job.interface]
        # 5 has its runtime in PRRTE, which takes the same parameter under another prefix
        argv += (["--prtemca", "oob_tcp_if_include", job.interface] if launcher == "openmpi5" else
                 ["--mca", "oob_tcp_if_include", job.interface])
    # MPI carries the ranks' start and nothing else: NCCL moves the data, and UCX or hcoll would only probe the HCAs.
    argv += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "coll", "^hcoll"]
    for name, value in sorted(job.environment.items()):
        argv += ["-x", "%s=%s" % (name, value)]
    return argv + program


def _hydra(launcher, job, program, hosts_path):
    # type: (str, Job, List[str], str) -> List[str]
    argv = [job.mpi or "mpiexec", "-f", hosts_path, "-n", str(len(job.hosts) * job.per_node), "-ppn", str(job.per_node)]
    if job.interface is not None:
        argv += ["-iface", job.interface]
    for name, value in sorted(job.environment.items()):
        argv += ["-genv", name, value]
    return argv + program


def _slurm(launcher, job, program, hosts_path):
    # type: (str, Job, List[str], str) -> List[str]
    """The environment goes in front: --export would split values at their commas."""
    argv = ["env"] + ["%s=%s" % item for item in sorted(job.environment.items())]
    argv += [job.mpi or "srun", "--nodes", str(len(job.hosts)), "--nodelist", ",".join(job.hosts), "--ntasks-per-node", str(job.per_node),
             "--ntasks", str(len(job.hosts) * job.per_node), "--export", "ALL", "--kill-on-bad-exit=1"]
    return argv + program


def environment(settings, promised, debug_file=None):
    # type: (Mapping[str, str], str, Optional[str]) -> Dict[str, str]
    """NCCL's variables of a run: the operator's, and what makes a silent fallback an error.

    ``promised``: ib (NCCL's own RDMA transport), socket, or "" for no promise; ``debug_file``: where NCCL's log goes, as a
    pattern with %h and %p, so that it does not mix with the table.
    """
    found = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH"}
    if debug_file is not None:
        found["NCCL_DEBUG_FILE"] = debug_file
    if promised:
        found["NCCL_NET"] = {"ib": "IB", "socket": "Socket"}[promised]
    found.update(settings)
    return found
