# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of the rails' HCAs on the CPUs of their own NUMA node, and no irqbalance that moves them away.

The mask of an interrupt is all local CPUs: the kernel gives each the least loaded of them. One that is on some of them alone, as mlx5
spreads its own, stays there. In a container interrupts belong to the machine below.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...formats.outside import is_digits
from ...formats.sysfs_values import cpu_list, natural_key
from ...host.host import Host
from ...observe.devices import PCI_DEVICES
from ...spec.model import Spec
from ...types import UNIT, Change, Identity, Subject, set_value
from ..common.files import HEADER
from ..common.units import DaemonState, Unit, UnitState, observe_daemon, observe_unit, plan_unit, removed_unit, systemctl
from .pci import Rail, rail_functions

NAME = "irqs"
BOOT_UNIT = "railwright-irqs.service"
IRQBALANCE = "irqbalance.service"
MASK = "/proc/irq/%s/smp_affinity_list"
WHY = "an interrupt on the other NUMA node makes each completion cross the processors' link"
SOURCE = "ESnet (fasterdata: interrupt binding), NVIDIA (mlnx_affinity)"


class Desired(NamedTuple):
    rails: Tuple[Rail, ...]  # (): nothing is wanted on this node
    container: bool


class Function(NamedTuple):
    """``masks``: the CPUs of each interrupt by number, None where it cannot be read."""

    rail: Rail
    local: Optional[str]
    masks: Tuple[Tuple[str, Optional[str]], ...]


class Observed(NamedTuple):
    functions: Tuple[Function, ...]
    irqbalance: Optional[DaemonState]
    unit: UnitState


def desired(spec: Spec, identity: Identity) -> Desired:
    container = identity.has("container")
    wanted = spec["host_tuning_irqs"] == "local" and not container
    return Desired(tuple(rail_functions(spec, identity)) if wanted else (), container)


def observe(host: Host, desired: Desired) -> Observed:
    functions = tuple(_function(host, rail) for rail in desired.rails)
    return Observed(functions, observe_daemon(host, IRQBALANCE) if desired.rails else None,
                    observe_unit(host, Unit(BOOT_UNIT, "", "multi-user.target", False)))


def _function(host: Host, rail: Rail) -> Function:
    place = "%s/%s/" % (PCI_DEVICES, rail.pci)
    numbers = sorted((name for name in host.listdir(place + "msi_irqs") if is_digits(name)), key=natural_key)
    return Function(rail, host.line(place + "local_cpulist"), tuple((number, host.line(MASK % number)) for number in numbers))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.rails:
        if desired.container or (observed.unit.file.text is None and not observed.unit.enabled):
            return []
        return [removed_unit(NAME, BOOT_UNIT, "host_tuning_irqs is keep; interrupts stay where they are", SOURCE,
                             (systemctl("disable", BOOT_UNIT),))]
    changes: List[Change] = []
    state = observed.irqbalance
    if state is not None and (state.active or (state.installed and state.enabled)):
        ops = ((systemctl("disable", IRQBALANCE),) if state.enabled else ()) + ((systemctl("stop", IRQBALANCE),) if state.active else ())
        changes.append(Change(NAME, "unit irqbalance.service off", False, True, "none", "it moves interrupts every ten seconds, also to "
                              "the other NUMA node", SOURCE, ops, Subject(UNIT, IRQBALANCE)))
    changes += [change for function in observed.functions for change in _moved(function)]
    return changes + plan_unit(NAME, Unit(BOOT_UNIT, unit_text(desired.rails), "multi-user.target", False), observed.unit,
                               WHY + " (after a reboot)", SOURCE)


def _moved(function: Function) -> List[Change]:
    local = cpu_list(function.local)
    wrong = [number for number, mask in function.masks if local and not (cpu_list(mask) or local) <= local]
    if not wrong:
        return []
    return [Change(NAME, "interrupts of " + function.rail.label, "%d on other CPUs" % len(wrong), "on CPUs %s" % function.local, "none",
                   WHY, SOURCE, tuple(set_value(MASK % number, str(function.local)) for number in wrong), rail=function.rail.name)]


def notes(desired: Desired, observed: Observed) -> List[str]:
    return ["irqs: PCI does not say which CPUs are near %s; its interrupts are left alone" % function.rail.label
            for function in observed.functions if not cpu_list(function.local)]


def unit_text(rails: Tuple[Rail, ...]) -> str:
    """The driver makes interrupts anew at each start of the stack. ``$$`` is systemd's spelling of ``$``."""
    return HEADER + """[Unit]
Description=Interrupts of the rails on their own NUMA node (railwright)
After=network-online.target openibd.service
PartOf=openibd.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for device in %s; do for irq in /sys/bus/pci/devices/$$device/msi_irqs/*; do \\
  cat /sys/bus/pci/devices/$$device/local_cpulist > /proc/irq/$${irq##*/}/smp_affinity_list || true; done; done'

[Install]
WantedBy=multi-user.target
""" % " ".join(rail.pci for rail in rails)
