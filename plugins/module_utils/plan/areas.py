# SPDX-License-Identifier: GPL-3.0-or-later
"""Every area: one row each, in the order in which a plan lists and applies them. Nothing else lists areas.

Repositories bring packages, the kernel comes before what is built for it, packages bring tools and modules, the RDMA stack
comes before the GPU driver (nvidia-peermem is built against it), modules make devices; the netdev must have its MTU
before the RDMA link on it is made, since the link's MTU follows it; what names devices (NCCL) comes last.
"""

from types import ModuleType
from typing import Any, Callable, List, NamedTuple, Tuple

from ..areas.erdma import erdma
from ..areas.firewall import firewall
from ..areas.gpu import containers, cuda, gdrcopy, gpu_driver, gpudirect
from ..areas.kernel import kernel, kernel_modules, secure_boot
from ..areas.nccl import aiacc, environment, library, mpi
from ..areas.network import ipoib, lldp, network, rxe
from ..areas.qos import roce_qos
from ..areas.stack import dkms, packages, repositories, stack
from ..areas.system import agent, cpu, irqs, job_user, limits, nic_firmware, node_code, opensm, pci, sysctl
from ..host.host import Host
from ..spec.model import Spec
from ..types import AT_BOOT, CRITICAL, MAJOR, MINOR, Change, Identity, Problem


class Area(NamedTuple):
    """One slice of a node's state; see docs/architecture.md for what each function promises."""

    name: str
    severity: str  # one of SEVERITIES: how much it hurts that a live setting of it has drifted
    needs: Tuple[str, ...]  # areas that a live change of it needs in the running kernel
    desired: Callable[[Spec, Identity], Any]
    observe: Callable[[Host, Any], Any]
    plan: Callable[[Any, Any], List[Change]]
    problems: Callable[[Spec, Identity, Any], List[Problem]]
    conflicts: Callable[[Any, Any], List[Problem]]
    notes: Callable[[Any, Any], List[str]]


def area(module: ModuleType, severity: str, *, needs: Tuple[str, ...] = ()) -> Area:
    made: Any = module
    return Area(
        made.NAME, severity, needs, made.desired, made.observe, made.plan,
        *(getattr(made, name, lambda *_nothing: []) for name in ("problems", "conflicts", "notes")))


# What breaks jobs now is critical, what slows them or breaks at the next boot is major.
AREAS: Tuple[Area, ...] = (
    area(repositories, MINOR),  # the next installation may be another one
    area(secure_boot, MAJOR),  # nothing that is built now would load
    area(kernel, MAJOR),  # jobs run; what is built for the pinned one does not fit
    area(packages, MAJOR),
    area(dkms, CRITICAL),  # modules for the running kernel
    area(stack, CRITICAL, needs=("dkms",)),
    area(erdma, CRITICAL, needs=("dkms", "stack")),
    area(kernel_modules, CRITICAL, needs=("dkms", "stack", "erdma")),
    area(gpu_driver, CRITICAL, needs=("dkms", "stack")),
    area(cuda, MAJOR),
    area(library, MAJOR),
    area(aiacc, MAJOR),
    area(mpi, MAJOR),
    area(gpudirect, CRITICAL, needs=("dkms", "stack", "gpu_driver")),  # copies through host memory, or jobs that fail
    area(gdrcopy, MAJOR, needs=("gpu_driver",)),
    area(nic_firmware, MAJOR),
    area(pci, MAJOR),
    area(network, CRITICAL),
    area(firewall, CRITICAL),  # a bootstrap that hangs
    area(rxe, CRITICAL, needs=("kernel_modules",)),
    area(ipoib, CRITICAL, needs=("stack", "kernel_modules")),
    area(lldp, MINOR),  # nobody knows where a rail is plugged in
    area(roce_qos, CRITICAL),  # drops in a lossless class
    area(limits, MAJOR),
    area(job_user, MINOR),  # no benchmark can run
    area(sysctl, MAJOR),
    area(cpu, MAJOR),
    area(irqs, MAJOR),
    area(node_code, MINOR),  # inspections cost more
    area(agent, MINOR),  # nobody remembers
    area(environment, MAJOR),
    area(containers, MINOR, needs=("gpu_driver",)),
    area(opensm, CRITICAL, needs=("stack", "kernel_modules")),  # no fabric without one
)
BY_NAME = {row.name: row for row in AREAS}


def severity_of_change(change: Change) -> str:
    """As its area's row says, but what is only for the next boot (a file, an enabled unit) is never critical."""
    severity = BY_NAME[change.area].severity if change.area in BY_NAME else MAJOR
    return MAJOR if change.when == AT_BOOT and severity == CRITICAL else severity


def severity_of_verdict(area: str, status: str) -> str:
    """A verdict that warns is minor whatever it is about; what no area sets (a cable, a dead HCA) is critical."""
    if status == "warn":
        return MINOR
    return BY_NAME[area].severity if area in BY_NAME else CRITICAL
