# SPDX-License-Identifier: GPL-3.0-or-later
"""Every area, in the order in which a plan lists and applies them.

Repositories bring packages, the kernel comes before what is built for it, packages bring tools and modules, the RDMA stack
comes before the GPU driver (nvidia-peermem is built against it), modules make devices; the netdev must have its MTU
before the RDMA link on it is made, since the link's MTU follows it; what names devices (NCCL) comes last.
"""

from typing import Any, Callable, List, NamedTuple, Tuple

from ..areas.erdma import erdma
from ..areas.firewall import firewall
from ..areas.gpu import containers, cuda, gpu_driver, gpudirect
from ..areas.kernel import kernel, kernel_modules
from ..areas.nccl import aiacc, environment, library, mpi
from ..areas.network import ipoib, network, rxe
from ..areas.qos import roce_qos
from ..areas.stack import dkms, packages, repositories, stack
from ..areas.system import cpu, limits, nic_firmware, opensm, pci, sysctl
from ..host.host import Host
from ..spec.model import Spec
from ..types import Change, Identity, Problem


def no_conflicts(desired: Any, observed: Any) -> List[Problem]:
    """For an area that nothing found on a node can make impossible."""
    return []


def no_notes(desired: Any, observed: Any) -> List[str]:
    """For an area that leaves nothing out."""
    return []


class Area(NamedTuple):
    """One slice of a node's state; see docs/architecture.md for what each function promises."""

    name: str
    desired: Callable[[Spec, Identity], Any]
    observe: Callable[[Host, Any], Any]
    plan: Callable[[Any, Any], List[Change]]
    problems: Callable[[Spec, Identity, Any], List[Problem]]
    conflicts: Callable[[Any, Any], List[Problem]] = no_conflicts
    notes: Callable[[Any, Any], List[str]] = no_notes


AREAS: Tuple[Area, ...] = (
    Area(repositories.NAME, repositories.desired, repositories.observe, repositories.plan, repositories.problems, repositories.conflicts,
         repositories.notes),
    Area(kernel.NAME, kernel.desired, kernel.observe, kernel.plan, kernel.problems, kernel.conflicts, kernel.notes),
    Area(packages.NAME, packages.desired, packages.observe, packages.plan, packages.problems, packages.conflicts, packages.notes),
    Area(dkms.NAME, dkms.desired, dkms.observe, dkms.plan, dkms.problems, dkms.conflicts, dkms.notes),
    Area(stack.NAME, stack.desired, stack.observe, stack.plan, stack.problems, stack.conflicts, stack.notes),
    Area(erdma.NAME, erdma.desired, erdma.observe, erdma.plan, erdma.problems, erdma.conflicts, erdma.notes),
    Area(kernel_modules.NAME, kernel_modules.desired, kernel_modules.observe, kernel_modules.plan, kernel_modules.problems,
         kernel_modules.conflicts, kernel_modules.notes),
    Area(gpu_driver.NAME, gpu_driver.desired, gpu_driver.observe, gpu_driver.plan, gpu_driver.problems, gpu_driver.conflicts,
         gpu_driver.notes),
    Area(cuda.NAME, cuda.desired, cuda.observe, cuda.plan, cuda.problems, cuda.conflicts, cuda.notes),
    Area(library.NAME, library.desired, library.observe, library.plan, library.problems, library.conflicts,
         library.notes),
    Area(aiacc.NAME, aiacc.desired, aiacc.observe, aiacc.plan, aiacc.problems, aiacc.conflicts, aiacc.notes),
    Area(mpi.NAME, mpi.desired, mpi.observe, mpi.plan, mpi.problems, mpi.conflicts, mpi.notes),
    Area(gpudirect.NAME, gpudirect.desired, gpudirect.observe, gpudirect.plan, gpudirect.problems, gpudirect.conflicts, gpudirect.notes),
    Area(nic_firmware.NAME, nic_firmware.desired, nic_firmware.observe, nic_firmware.plan, nic_firmware.problems, nic_firmware.conflicts,
         nic_firmware.notes),
    Area(pci.NAME, pci.desired, pci.observe, pci.plan, pci.problems, pci.conflicts,
         pci.notes),
    Area(network.NAME, network.desired, network.observe, network.plan, network.problems, network.conflicts),
    Area(firewall.NAME, firewall.desired, firewall.observe, firewall.plan, firewall.problems, firewall.conflicts, firewall.notes),
    Area(rxe.NAME, rxe.desired, rxe.observe, rxe.plan, rxe.problems),
    Area(ipoib.NAME, ipoib.desired, ipoib.observe, ipoib.plan, ipoib.problems),
    Area(roce_qos.NAME, roce_qos.desired, roce_qos.observe, roce_qos.plan, roce_qos.problems, roce_qos.conflicts, roce_qos.notes),
    Area(limits.NAME, limits.desired, limits.observe, limits.plan, limits.problems, limits.conflicts),
    Area(sysctl.NAME, sysctl.desired, sysctl.observe, sysctl.plan, sysctl.problems, sysctl.conflicts, sysctl.notes),
    Area(cpu.NAME, cpu.desired, cpu.observe, cpu.plan, cpu.problems, cpu.conflicts),
    Area(environment.NAME, environment.desired, environment.observe, environment.plan, environment.problems, environment.conflicts,
         environment.notes),
    Area(containers.NAME, containers.desired, containers.observe, containers.plan, containers.problems, containers.conflicts,
         containers.notes),
    Area(opensm.NAME, opensm.desired, opensm.observe, opensm.plan, opensm.problems, opensm.conflicts, opensm.notes),
)
