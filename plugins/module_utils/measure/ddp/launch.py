# SPDX-License-Identifier: GPL-3.0-or-later
"""torchrun's command line and environment on one node. Pure.

Static rendezvous: the first node of the inventory is rank 0, listens on the chosen port of its bootstrap address, and nothing is
elected. Options are spelt with underscores, which torch 1.13 and every later version know. NCCL reads /etc/nccl.conf by itself; only
the interface is set here, as every node has its own.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..nccl_tests.collect import debug_file
from ..nccl_tests.launch import nccl_environment

SCRIPT = "ddp_benchmark.py"
PREFIX = "ddp-"  # of the names of runs
LOG, RANK_LOGS = "torchrun.log", "ranks"
NCCL_LOG = "ddp"  # of the names of NCCL's logs
RENDEZVOUS_S = 300  # nodes are started a few at a time (Ansible's forks)
# cuBLAS: one fixed workspace (cuBLAS's "Results reproducibility"). NVLS adds in the switch, in another order at each call (nccl#1497).
# Devices are numbered as nvidia-smi numbers them: who differs is named by that.
REPEATABLE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_NVLS_ENABLE": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
PATIENCE_S = 120  # a step takes milliseconds: a rank that waits so long waits for one that is dead


class Share(NamedTuple):
    """One node's part of the plan, in words of torchrun."""

    run: str
    user: str
    python: str
    nodes: int
    node_rank: int
    processes: int
    first_rank: int
    master: str
    port: int
    interface: Optional[str]
    environment: Dict[str, str]  # the operator's
    backend: str
    steps: int
    warmup: int
    batch: int
    timeout_s: int
    old_torch: bool
    repeatable: bool


def share_from(item: Mapping[str, Any]) -> Share:
    """Of the module's argument. Raises KeyError for a part that is missing."""
    return Share(**{name: item[name] for name in Share._fields})


def is_old(torch: str) -> bool:
    return torch.startswith(("0.", "1."))


def command(share: Share, directory: str) -> List[str]:
    argv = [share.python, "-m", "torch.distributed.run", "--nnodes", str(share.nodes), "--node_rank", str(share.node_rank),
            "--nproc_per_node", str(share.processes), "--master_addr", share.master, "--master_port", str(share.port),
            "--max_restarts", "0", "--monitor_interval", "1", "--rdzv_conf", "timeout=%d" % min(RENDEZVOUS_S, share.timeout_s),
            "--log_dir", "%s/%s" % (directory, RANK_LOGS)]
    if share.old_torch:
        # torch 1.x under Python 3.11 takes its own default, "0", for no value at all (Debian 12's does) and stops. A list of local ranks is
        # understood; what is redirected is also shown, so that nothing changes should there be a ninth one.
        argv += ["--redirects", "9:1", "--tee", "9:1"]
    more = ["--repeatable"] if share.repeatable else []
    return argv + ["%s/%s" % (directory, SCRIPT), "--directory", directory, "--backend", share.backend, "--steps", str(share.steps),
                   "--warmup", str(share.warmup), "--batch", str(share.batch), "--patience", str(min(PATIENCE_S, share.timeout_s)), *more]


def torchrun_environment(share: Share, directory: str) -> Dict[str, str]:
    """``TMPDIR``: torchrun makes directories there and leaves them."""
    found = {"OMP_NUM_THREADS": "1", "TMPDIR": directory, "PYTHONDONTWRITEBYTECODE": "1"}
    if share.backend == "nccl":  # by which way the gradients go is judged, as of nccl-tests
        found.update(nccl_environment({}, "", debug_file(directory, NCCL_LOG)))
    if share.interface is not None:
        found["NCCL_SOCKET_IFNAME"] = "=" + share.interface  # without the sign it is the beginning of a name: eth1 is eth10 too
        found["GLOO_SOCKET_IFNAME"] = share.interface
    if share.repeatable:
        found.update(REPEATABLE)
    found.update({str(name): str(value) for name, value in share.environment.items()})
    return found
