# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is to be run to the command that runs it: nccl-tests' options, and the launchers' four ways to say the same. Pure.

Variables have their names in the command line at most: everybody on the node reads command lines, and values may be secrets of the site.
Every launcher hands on what is in its own environment, where nobody but its user and root looks.

Open MPI 4 and 5 have different runtimes (ORTE, PRRTE), each with parameters of its own; MPICH's Hydra has flags of its own; Slurm
places the ranks itself; without any of them the binary drives all GPUs of one node. Run on Open MPI 4.1.4 and 5.0.7 and on
MPICH 4.0.2 and 4.2.1 (molecule/mpi).
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...host.host import SEARCH_PATH
from ...observe.mpi import hpcx_libraries, hpcx_variables

COLLECTIVES = {  # what people call it -> the binary
    "all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf", "alltoall": "alltoall_perf",
    "broadcast": "broadcast_perf", "reduce": "reduce_perf", "gather": "gather_perf", "scatter": "scatter_perf", "sendrecv": "sendrecv_perf",
    "hypercube": "hypercube_perf",
}
# Which nodes run together, narrow to wide: each by itself, those of a leaf, one of each leaf, all of them over one rail, all of them.
GROUPS = NODE, LEAF, ACROSS, RAIL, ALL = "node", "leaf", "across", "rail", "all"
LIBRARY_PATH = "LD_LIBRARY_PATH"
LAUNCHERS = ("local", "openmpi4", "openmpi5", "mpich", "slurm")
# Nobody is there to answer a question, and a node that is away must not hold the run up for minutes. MPI splits them at blanks.
SSH_OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=15")
# -iface is for Hydra alone. The library below MPICH (UCX, or libfabric's tcp) would take any network, rails that lead nowhere too.
MPICH_INTERFACE = ("FI_TCP_IFACE", "UCX_NET_DEVICES")


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
    collectives: Tuple[str, ...] = ("all_reduce",)  # where the inventory names none
    groups: Tuple[str, ...] = (ALL,)  # likewise


PURPOSES = (
    Purpose("quick", 1 << 20, 1 << 28, 20, 5, 1, 300, "choice: a minute to see that it runs at all"),
    Purpose("acceptance", 8, 1 << 34, 20, 5, 1, 1800, "NVIDIA/nccl-tests (-b 8 -e 8G -f 2), AZ (judged at 16 GiB)",
            ("all_reduce", "alltoall"), GROUPS),
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
    """Who runs it: ``hosts`` in rank order, ``per_node`` processes on each, over the TCP ``interface`` (None: the launcher's choice).

    ``interface`` is a name, or for Open MPI a network such as 192.0.2.0/24.
    """

    hosts: Tuple[str, ...]
    per_node: int
    interface: Optional[str]
    environment: Dict[str, str]
    mpi: Optional[str]  # path of mpirun, mpiexec or srun; None: found by name
    options: Tuple[str, ...] = ()  # more of srun
    marker: Optional[str] = None  # NAME=VALUE that Open MPI's daemons on the other nodes get too


class Command(NamedTuple):
    """What is started, and the variables that it is started with."""

    argv: List[str]
    environment: Dict[str, str]


def purpose(name: str) -> Purpose:
    return {row.name: row for row in PURPOSES}[name]


def collectives_of(named: Optional[Sequence[str]], purpose_name: str) -> Tuple[str, ...]:
    """Those that the inventory names, else those of the purpose."""
    return tuple(named or purpose(purpose_name).collectives)


def options_of(sizes: Sizes) -> List[str]:
    """Options that every version since 2.0 has; plain bytes, as a unit after the number is refused (``-b 1B``)."""
    return ["-b", str(sizes.begin), "-e", str(sizes.end), "-f", str(sizes.factor), "-n", str(sizes.iterations), "-w", str(sizes.warmup),
            "-c", str(sizes.check), "-g", str(sizes.gpus)]


def hostfile(job: Job, launcher: str) -> str:
    """Names and slots, in rank order: OpenMPI's form, or Hydra's."""
    joint = ":%d\n" if launcher == "mpich" else " slots=%d\n"
    return "".join(host + joint % job.per_node for host in job.hosts)


def command(launcher: str, job: Job, program: Sequence[str], hosts_path: str) -> Command:
    """``program`` is the binary with its options, ``hosts_path`` where ``hostfile`` was written."""
    makers = {"local": _local, "openmpi4": _openmpi, "openmpi5": _openmpi, "mpich": _hydra, "slurm": _slurm}
    return makers[launcher](launcher, job, list(program), hosts_path)


def _local(launcher: str, job: Job, program: List[str], hosts_path: str) -> Command:
    return Command(program, dict(job.environment))


def _openmpi(launcher: str, job: Job, program: List[str], hosts_path: str) -> Command:
    """Slots come from ``hostfile``, so more ranks than cores are fine. The daemons on the other nodes get the run's marker from the
    command that starts them: they outlive the ssh connection, and their environment is that of a login."""
    mpirun = job.mpi or "mpirun"
    runtime, agent, daemon, own = ("--prtemca", "plm_ssh_agent", "prted", "prte") if launcher == "openmpi5" else (
        "--mca", "plm_rsh_agent", "orted", "orte")
    values = _with_libraries(job.environment, hpcx_libraries(mpirun))
    values.update(hpcx_variables(mpirun, values.get("PATH", SEARCH_PATH)))
    argv = [mpirun, "--hostfile", hosts_path, "-np", str(len(job.hosts) * job.per_node), "--map-by",
            "ppr:%d:node" % job.per_node, "--bind-to", "none", runtime, agent, " ".join(("ssh",) + SSH_OPTIONS)]
    if job.marker is not None:
        argv += [runtime, own + "_launch_agent", "env %s %s" % (job.marker, daemon)]
    if job.interface is not None:
        argv += [runtime, "prte_if_include" if launcher == "openmpi5" else "oob_tcp_if_include", job.interface,
                 "--mca", "btl_tcp_if_include", job.interface]
    # MPI carries the ranks' start and nothing else: NCCL moves the data, and UCX or hcoll would only probe the HCAs.
    argv += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "coll", "^hcoll,ucc"]
    for name in sorted(values):
        argv += ["-x", name]
    return Command(argv + program, values)


def _hydra(launcher: str, job: Job, program: List[str], hosts_path: str) -> Command:
    """No launch agent is needed: Hydra's proxies stay children of their ssh connection and end with it, or with their ranks."""
    argv = [job.mpi or "mpiexec", "-launcher", "ssh", "-f", hosts_path, "-n", str(len(job.hosts) * job.per_node),
            "-ppn", str(job.per_node)]
    values = dict(job.environment)
    if job.interface is not None:
        argv += ["-iface", job.interface]
        for name in MPICH_INTERFACE:
            values.setdefault(name, job.interface)
    return Command(argv + ["-genvall"] + program, dict(values, HYDRA_LAUNCHER_EXTRA_ARGS=" ".join(SSH_OPTIONS)))


def _with_libraries(values: Mapping[str, str], directories: Sequence[str]) -> Dict[str, str]:
    """The variables, with directories behind those of LD_LIBRARY_PATH that are there."""
    found = dict(values)
    paths = [path for path in found.get(LIBRARY_PATH, "").split(":") if path]
    if directories:
        found[LIBRARY_PATH] = ":".join(paths + [path for path in directories if path not in paths])
    return found


def _slurm(launcher: str, job: Job, program: List[str], hosts_path: str) -> Command:
    """``--export ALL`` hands on what srun has."""
    argv = [
        job.mpi or "srun", "--nodes", str(len(job.hosts)), "--nodelist", ",".join(job.hosts), "--ntasks-per-node", str(job.per_node),
        "--ntasks", str(len(job.hosts) * job.per_node), "--export", "ALL", "--kill-on-bad-exit=1"]
    return Command(argv + list(job.options) + program, dict(job.environment))


def nccl_environment(settings: Mapping[str, str], promised: str, debug_file: Optional[str] = None) -> Dict[str, str]:
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
