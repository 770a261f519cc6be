# SPDX-License-Identifier: GPL-3.0-or-later
"""Which verdicts an area gives: a row beside that of ``plan/areas.py``, so that what only plans carries no verdicts to the node.

The verdicts are over the facts, so that what the inventory leaves alone is judged as well, and a captured document of facts can be.
"""

from typing import Callable, List, NamedTuple, Tuple

from ..areas.erdma import erdma
from ..areas.erdma.verdicts import judge_devices, judge_mode
from ..areas.firewall import firewall
from ..areas.firewall.openings import judge_firewall
from ..areas.gpu import gpu_driver, gpudirect
from ..areas.gpu.gpu_driver_verdicts import judge_gpus
from ..areas.gpu.gpudirect_evidence import judge_gpudirect
from ..areas.kernel import kernel
from ..areas.kernel.kernel import judge_kernel
from ..areas.nccl import aiacc, environment
from ..areas.nccl.aiacc import judge_aiacc
from ..areas.nccl.gid_index import judge_nccl_gid
from ..areas.nccl.hca_list import judge_hca_list
from ..areas.nccl.net_plugin import judge_net_plugin
from ..areas.network import network, rxe
from ..areas.network.verdicts import judge_interfaces, judge_soft_roce
from ..areas.qos import roce_qos
from ..areas.qos.verdicts import judge_boots, judge_chains
from ..areas.stack import dkms, packages, stack
from ..areas.stack.verdicts import judge_builds, judge_packages, judge_stack
from ..areas.system import limits, nic_firmware, opensm, pci
from ..areas.system.limits import judge_memlock
from ..areas.system.nic_firmware import judge_firmware
from ..areas.system.opensm import judge_opensm
from ..areas.system.pci_verdicts import judge_platform
from ..rules.comparisons import Inspection
from ..types import Verdict


class AreaVerdicts(NamedTuple):
    """``settles``: the checks that a change of the area puts right; drift then names the change alone."""

    area: str
    judge: Callable[[Inspection], List[Verdict]]
    settles: Tuple[str, ...]


AREA_VERDICTS: Tuple[AreaVerdicts, ...] = (
    AreaVerdicts(kernel.NAME, judge_kernel, ("kernel.pinned",)),
    AreaVerdicts(packages.NAME, judge_packages, ("stack.packages",)),
    AreaVerdicts(dkms.NAME, judge_builds, ("stack.dkms",)),
    AreaVerdicts(stack.NAME, judge_stack, ("stack.modules",)),
    AreaVerdicts(erdma.NAME, judge_devices, ()),
    AreaVerdicts(erdma.NAME, judge_mode, ("erdma.mode",)),
    AreaVerdicts(gpu_driver.NAME, judge_gpus, ("gpu.persistence", "gpu.driver", "gpu.driver_loaded", "gpu.fabricmanager")),
    AreaVerdicts(aiacc.NAME, judge_aiacc, ("aiacc.plugin",)),
    AreaVerdicts(gpudirect.NAME, judge_gpudirect, ("gpudirect.path", "gpudirect.peermem")),
    AreaVerdicts(nic_firmware.NAME, judge_firmware, ("firmware.version", "firmware.config")),
    AreaVerdicts(pci.NAME, judge_platform, ("pci.acs", "pci.max_read_request", "pci.iommu")),
    AreaVerdicts(network.NAME, judge_interfaces, ("rail.mtu", "rail.address")),
    AreaVerdicts(firewall.NAME, judge_firewall, ("firewall.tcp", "firewall.roce")),
    AreaVerdicts(rxe.NAME, judge_soft_roce, ("rail.device",)),
    AreaVerdicts(roce_qos.NAME, judge_chains, ("qos.chain",)),
    AreaVerdicts(roce_qos.NAME, judge_boots, ("qos.boot",)),
    AreaVerdicts(opensm.NAME, judge_opensm, ()),
    AreaVerdicts(limits.NAME, judge_memlock, ("node.memlock",)),
    AreaVerdicts(environment.NAME, judge_nccl_gid, ("nccl.gid",)),
    AreaVerdicts(environment.NAME, judge_hca_list, ("nccl.hcas",)),
    AreaVerdicts(environment.NAME, judge_net_plugin, ()),
)
SETTLED = {(row.area, check) for row in AREA_VERDICTS for check in row.settles}
