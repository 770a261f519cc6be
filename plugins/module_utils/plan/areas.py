# SPDX-License-Identifier: GPL-3.0-or-later
"""Every area: one row each, in the order in which a plan lists and applies them. Nothing else lists areas.

Repositories bring packages, the kernel comes before what is built for it, packages bring tools and modules, the RDMA stack
comes before the GPU driver (nvidia-peermem is built against it), modules make devices; the netdev must have its MTU
before the RDMA link on it is made, since the link's MTU follows it; what names devices (NCCL) comes last.
"""

from types import ModuleType
from typing import Any, Callable, List, NamedTuple, Tuple

from ..areas.erdma import erdma
from ..areas.erdma.device_verdicts import judge_devices
from ..areas.erdma.mode_verdicts import judge_mode
from ..areas.firewall import firewall
from ..areas.firewall.verdicts import judge_firewall
from ..areas.gpu import containers, cuda, gpu_driver, gpudirect
from ..areas.gpu.gpu_driver_verdicts import judge_gpus
from ..areas.gpu.gpudirect_verdicts import judge_gpudirect
from ..areas.kernel import kernel, kernel_modules
from ..areas.kernel.verdicts import judge_kernel
from ..areas.nccl import aiacc, environment, library, mpi
from ..areas.nccl.aiacc_verdicts import judge_aiacc
from ..areas.nccl.gid_verdicts import judge_nccl_gid
from ..areas.network import ipoib, network, rxe
from ..areas.network.verdicts import judge_interfaces, judge_soft_roce
from ..areas.qos import roce_qos
from ..areas.qos.boot_verdicts import judge_boots
from ..areas.qos.chain_verdicts import judge_chains
from ..areas.stack import dkms, packages, repositories, stack
from ..areas.stack.verdicts import judge_builds, judge_packages, judge_stack
from ..areas.system import cpu, limits, nic_firmware, opensm, pci, sysctl
from ..areas.system.limits import judge_memlock
from ..areas.system.nic_firmware_verdicts import judge_firmware
from ..areas.system.pci_verdicts import judge_platform
from ..host.host import Host
from ..rules.comparisons import Inspection
from ..spec.model import Spec
from ..types import CRITICAL, MAJOR, MINOR, Change, Identity, Problem, Verdict


def no_conflicts(desired: Any, observed: Any) -> List[Problem]:
    """For an area that nothing found on a node can make impossible."""
    return []


def no_notes(desired: Any, observed: Any) -> List[str]:
    """For an area that leaves nothing out."""
    return []


class Area(NamedTuple):
    """One slice of a node's state; see docs/architecture.md for what each function promises."""

    name: str
    severity: str  # one of SEVERITIES: how much it hurts that a live setting of it has drifted
    needs: Tuple[str, ...]  # areas that a live change of it needs in the running kernel
    confirmed: bool  # a change of it can cut the connection: the node reverts it unless the controller confirms it
    judges: Tuple[Callable[[Inspection], List[Verdict]], ...]
    settles: Tuple[str, ...]  # its verdicts that a change of it puts right; the others say what no change of ours can
    desired: Callable[[Spec, Identity], Any]
    observe: Callable[[Host, Any], Any]
    plan: Callable[[Any, Any], List[Change]]
    problems: Callable[[Spec, Identity, Any], List[Problem]]
    conflicts: Callable[[Any, Any], List[Problem]]
    notes: Callable[[Any, Any], List[str]]

    def verdicts(self, seen: Inspection) -> List[Verdict]:
        """What the node's facts say about what the area sets, and about what it needs."""
        return [item for judge in self.judges for item in judge(seen)]


def area(
    module: ModuleType, severity: str, *, needs: Tuple[str, ...] = (), confirmed: bool = False,
    judges: Tuple[Callable[[Inspection], List[Verdict]], ...] = (), settles: Tuple[str, ...] = (),
) -> Area:
    made: Any = module
    return Area(
        made.NAME, severity, needs, confirmed, judges, settles, made.desired, made.observe, made.plan, made.problems,
        getattr(made, "conflicts", no_conflicts), getattr(made, "notes", no_notes))


# What breaks jobs now is critical, what slows them or breaks at the next boot is major.
AREAS: Tuple[Area, ...] = (
    area(repositories, MINOR),  # the next installation may be another one
    area(kernel, MAJOR, judges=(judge_kernel,), settles=("kernel.pinned",)),  # jobs run; what is built for the pinned one does not fit
    area(packages, MAJOR, judges=(judge_packages,), settles=("stack.packages",)),
    area(dkms, CRITICAL, judges=(judge_builds,), settles=("stack.dkms",)),  # modules for the running kernel
    area(stack, CRITICAL, needs=("dkms",), judges=(judge_stack,), settles=("stack.modules",)),
    area(erdma, CRITICAL, needs=("dkms", "stack"), judges=(judge_devices, judge_mode), settles=("erdma.mode",)),
    area(kernel_modules, CRITICAL, needs=("dkms", "stack", "erdma")),
    area(gpu_driver, CRITICAL, needs=("dkms", "stack"), judges=(judge_gpus,),
         settles=("gpu.persistence", "gpu.driver", "gpu.driver_loaded", "gpu.fabricmanager")),
    area(cuda, MAJOR),
    area(library, MAJOR),
    area(aiacc, MAJOR, judges=(judge_aiacc,), settles=("aiacc.plugin",)),
    area(mpi, MAJOR),
    area(gpudirect, CRITICAL, needs=("dkms", "stack", "gpu_driver"), judges=(judge_gpudirect,),  # copies through host memory, or fails
         settles=("gpudirect.path", "gpudirect.peermem")),
    area(nic_firmware, MAJOR, judges=(judge_firmware,), settles=("firmware.version", "firmware.config")),
    area(pci, MAJOR, judges=(judge_platform,), settles=("pci.acs", "pci.max_read_request", "pci.iommu")),
    area(network, CRITICAL, confirmed=True, judges=(judge_interfaces,), settles=("rail.mtu", "rail.address")),
    area(firewall, CRITICAL, confirmed=True, judges=(judge_firewall,),  # a bootstrap that hangs
         settles=("firewall.tcp", "firewall.roce")),
    area(rxe, CRITICAL, needs=("kernel_modules",), judges=(judge_soft_roce,), settles=("rail.device",)),
    area(ipoib, CRITICAL, needs=("stack", "kernel_modules"), confirmed=True),
    area(roce_qos, CRITICAL, confirmed=True, judges=(judge_chains, judge_boots),  # drops in a lossless class
         settles=("qos.chain", "qos.boot")),
    area(limits, MAJOR, judges=(judge_memlock,), settles=("node.memlock",)),
    area(sysctl, MAJOR),
    area(cpu, MAJOR),
    area(environment, MAJOR, judges=(judge_nccl_gid,), settles=("nccl.gid",)),
    area(containers, MINOR, needs=("gpu_driver",)),
    area(opensm, CRITICAL, needs=("stack", "kernel_modules")),  # no fabric without one
)
BY_NAME = {row.name: row for row in AREAS}
CONFIRMED_AREAS = frozenset(row.name for row in AREAS if row.confirmed)
