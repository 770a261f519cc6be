# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe settings between HCAs and GPUs: ACS, MaxReadReq, relaxed ordering, kernel arguments.

Registers hold until the next reset of the device, so every setting is made twice: now, by setpci with the old value as its undo,
and at every boot by a unit of ours. In a virtual machine registers and ACS belong to the hypervisor, in a container the kernel
belongs to the machine below: nothing is done there, and ``notes`` say so.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...host.host import Host
from ...observe import pci as bus
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import PCI, PRESENT, Change, Identity, Problem, Subject, run
from ..common.files import HEADER
from ..common.package_changes import package_change
from ..common.units import DIRECTORY, Unit, UnitState, observe_unit, plan_unit, removed_unit, systemctl
from ..kernel import kernel_args

UNIT = "railwright-pci.service"
SETPCI = ("setpci",)
WHY = "PCI registers are forgotten at a reset"
SOURCE = "choice: NVIDIA's and OCI's scripts set them once; this is for the boots after that"
_PLACE = {"debian": "/usr/bin/setpci", "redhat": "/usr/sbin/setpci", "suse": "/sbin/setpci"}  # until the package is there
NAME = "pci_tuning"
ACS_WHY = "with ACS on, what a GPU and an HCA send each other goes up to the root complex and back instead of straight through the switch"
ACS_SOURCE = "NVIDIA (NCCL troubleshooting: PCI Access Control Services)"
READ_WHY = "small read requests leave PCIe bandwidth of the NIC unused"
READ_SOURCE = "NCO (MaxReadReq 4096 with setpci CAP_EXP+08.w)"


class Rail(NamedTuple):
    """A PCI function that carries a rail."""

    pci: str
    label: str
    name: str  # of the rail


class Desired(NamedTuple):
    acs: bool  # clear ACS above ``functions``
    functions: Tuple[str, ...]  # GPUs and HCAs
    read_request: int  # 0: leave it alone
    relaxed: bool
    rails: Tuple[Rail, ...]
    arguments: Optional[kernel_args.Wanted]
    left_out: Tuple[str, ...]
    family: str


class Bridge(NamedTuple):
    pci: str
    config: Optional[bus.ConfigSpace]
    passes: Tuple[str, ...]  # functions below it that belong to a virtual machine


class Observed(NamedTuple):
    bridges: Tuple[Bridge, ...]
    rails: Tuple[Tuple[Rail, Optional[bus.ConfigSpace]], ...]
    setpci: Optional[str]
    locked: bool
    config_acs: bool  # the kernel was told which ACS bits to set
    unit: UnitState
    arguments: Optional[kernel_args.State]


def desired(spec: Spec, identity: Identity) -> Desired:
    hcas = tuple(hca.pci for hca in identity.hcas if hca.pci is not None)
    functions = tuple(gpu.pci for gpu in identity.gpus) + hcas
    rails = tuple(rail_functions(spec, identity))
    notes: List[str] = []
    acs = spec["pci_tuning_acs"] == "disable" and bool(hcas)
    passthrough = spec["pci_tuning_iommu"] == "passthrough"
    if identity.has("container"):
        if acs or rails or passthrough or further_arguments(spec):
            notes.append("PCIe registers and kernel arguments are left alone: in a container they belong to the machine below")
        return Desired(False, functions, 0, False, (), None, tuple(notes), identity.platform.family)
    if identity.virtual is not None:
        if acs or rails:
            notes.append("ACS, MaxReadReq and relaxed ordering are left alone: in a virtual machine (%s) they are the hypervisor's; with "
                         "GPUs passed through, ACS must stay on there and ATS_ENABLED on the NICs is the way" % identity.virtual)
        if passthrough:
            notes.append("pci_tuning_iommu: a virtual machine (%s) has no say in what its host's IOMMU does" % identity.virtual)
        acs, passthrough, rails = False, False, ()
    elif acs and not identity.gpus:
        notes.append("ACS is left alone: no GPU on this node")
        acs = False
    wanted = kernel_args.Wanted(passthrough, further_arguments(spec), identity.arch)
    return Desired(acs, functions, spec["pci_tuning_max_read_request"], spec["pci_tuning_relaxed_ordering"] == "enable", rails, wanted,
                   tuple(notes), identity.platform.family)


def further_arguments(spec: Spec) -> Tuple[str, ...]:
    """nohz_full moves RCU's callbacks too; managed_irq keeps the interrupts of NICs away that nothing else can move."""
    isolated = spec["pci_tuning_isolated_cpus"]
    words = () if isolated is None else ("isolcpus=managed_irq,domain,%s" % isolated, "nohz_full=%s" % isolated)
    return words + (("preempt=full",) if spec["pci_tuning_preemption"] == "full" else ()) + tuple(spec["pci_tuning_kernel_args"])


def rail_functions(spec: Spec, identity: Identity) -> List[Rail]:
    """The functions of the rails: an HCA's, all members of a bond, with Soft-RoCE the interface's own. Each once."""
    found: List[Rail] = []
    for target in match_rails(spec, identity)[0]:
        members = [nic.pci for nic in identity.nics if target.nic is not None and nic.bond == target.nic.name]
        own = target.hca.pci if target.hca is not None else None
        if own is None and target.nic is not None:
            own = target.nic.pci
        for address in [own] + members:
            if address is not None and address not in [rail.pci for rail in found]:
                found.append(Rail(address, target.label, target.rail.name))
    return found


def observe(host: Host, desired: Desired) -> Observed:
    passed = bus.passed_through(host) if desired.acs else ()
    paths = {address: bus.path_above(host, address) for address in passed}
    bridges = tuple(
        Bridge(bridge, bus.config_of(host, bridge), tuple(address for address in passed if bridge in paths[address]))
        for bridge in sorted(bus.bridges_above(host, desired.functions))) if desired.acs else ()
    return Observed(
        bridges, tuple((rail, bus.config_of(host, rail.pci)) for rail in desired.rails), host.which("setpci"), bool(bus.pci_locked(host)),
        any(word.startswith("pci=") and "config_acs" in word for word in bus.command_line(host)),
        observe_unit(host, Unit(UNIT, "", "multi-user.target", host.exists("%s/%s" % (DIRECTORY, UNIT)))),
        kernel_args.observe(host, desired.arguments) if desired.arguments is not None else None)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes: List[Change] = []
    lines: List[str] = []
    for bridge in observed.bridges if desired.acs and not observed.config_acs else ():
        if bridge.passes or bridge.config is None or bridge.config.acs is None:
            continue
        control = bridge.config.acs.control
        register = Register(bridge.pci, bridge.config, "ECAP_ACS+0x6.w", 0xFFFF)
        lines.append(register.line(0))
        if control:
            what, before = "ACS of bridge " + bridge.pci, list(bus.acs_names(control))
            changes.append(register.change(what, before, [], control, 0, ACS_WHY, ACS_SOURCE))
    for rail, config in observed.rails:
        found, more = plan_rail(desired, rail, config)
        changes += found
        lines += more
    if (changes or lines) and observed.setpci is None:
        changes.insert(0, package_change(NAME, "pciutils", None, PRESENT, "brings setpci", "pciutils"))
    if lines:
        text = unit_text(lines, observed.setpci or _PLACE.get(desired.family, "/usr/sbin/setpci"))
        changes += plan_unit(NAME, Unit(UNIT, text, "multi-user.target", True), observed.unit, WHY, SOURCE)
    elif observed.unit.file.text is not None or observed.unit.enabled:
        changes.append(removed_unit(NAME, UNIT, "nothing is left that it would set; live values stay until the next reset", SOURCE,
                                    (systemctl("disable", UNIT),)))
    if desired.arguments is not None and observed.arguments is not None:
        changes += kernel_args.plan(NAME, desired.arguments, observed.arguments, "pci_tuning_iommu and the other kernel arguments")
    return changes


class Register(NamedTuple):
    """One 16-bit register of one function, in setpci's words."""

    pci: str
    config: bus.ConfigSpace
    name: str
    mask: int

    def argument(self, value: int) -> str:
        return "%s=%04x" % (self.name, value) if self.mask == 0xFFFF else "%s=%04x:%04x" % (self.name, value, self.mask)

    def line(self, value: int) -> str:
        """For the unit. The device's id is given too: after a change of hardware another function may have this address."""
        return "-s %s -d %04x:%04x %s" % (self.pci, self.config.vendor, self.config.device, self.argument(value))

    def change(
        self, what: str, before: object, after: object, old: int, new: int, why: str, source: str, rail: Optional[str] = None
    ) -> Change:
        start = SETPCI + ("-s", self.pci)
        op = run(start + (self.argument(new),), (start + (self.argument(old & self.mask),),))
        return Change(NAME, what, before, after, "none", why, source, (op,), Subject(PCI, self.pci), rail=rail)


def unit_text(lines: Sequence[str], setpci: str) -> str:
    """One line a register. The dash: a device that is gone must not keep the others from being set; validation judges the live values.

    A restart of openibd unloads the drivers and may reset the devices: systemd then restarts what is part of it, after it.
    """
    return HEADER + """[Unit]
Description=PCI registers of GPUs and HCAs: ACS, MaxReadReq, relaxed ordering (railwright)
After=systemd-udev-settle.service systemd-modules-load.service openibd.service
PartOf=openibd.service

[Service]
Type=oneshot
RemainAfterExit=yes
%s
[Install]
WantedBy=multi-user.target
""" % "".join("ExecStart=-%s %s\n" % (setpci, line) for line in lines)


def plan_rail(desired: Desired, rail: Rail, config: Optional[bus.ConfigSpace]) -> Tuple[List[Change], List[str]]:
    """Changes of one function, and its lines of the unit."""
    changes: List[Change] = []
    lines: List[str] = []
    if config is None or config.express is None:
        return changes, lines
    express = config.express
    where = "%s at %s" % (rail.label, rail.pci)
    if desired.read_request:
        register = Register(rail.pci, config, "CAP_EXP+08.w", bus.DEVCTL_READ_REQUEST)
        code = bus.read_request_code(desired.read_request)
        lines.append(register.line(code))
        if express.max_read_request != desired.read_request:
            changes.append(register.change("MaxReadReq of " + where, express.max_read_request, desired.read_request, express.control, code,
                                           READ_WHY, READ_SOURCE, rail.name))
    if desired.relaxed:
        register = Register(rail.pci, config, "CAP_EXP+08.w", bus.DEVCTL_RELAXED)
        lines.append(register.line(bus.DEVCTL_RELAXED))
        if not express.relaxed_ordering:
            changes.append(register.change("relaxed ordering of " + where, False, True, express.control, bus.DEVCTL_RELAXED,
                                           "pci_tuning_relaxed_ordering: enable", "PCI Express Base Specification (Device Control)",
                                           rail.name))
    return changes, lines


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    found: List[Problem] = []
    wrong = [change.what for change in plan(desired, observed) if change.ops and change.ops[0].argv[:1] == SETPCI]
    if wrong and observed.locked:
        found.append(Problem(NAME, "kernel lockdown", "%s cannot be set: the kernel is locked down (Secure Boot) and forbids writing PCI "
                             "registers. Turn Secure Boot off in the BIOS, or set pci_tuning_acs: keep and pci_tuning_max_read_request: 0"
                             % ", ".join(wrong)))
    if desired.arguments is not None and observed.arguments is not None:
        found += kernel_args.conflicts(NAME, desired.arguments, observed.arguments)
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    said = list(desired.left_out)
    if desired.acs and observed.config_acs:
        said.append("ACS is left alone: the kernel's argument pci=config_acs says which bits this node wants")
        return said
    for bridge in observed.bridges:
        if bridge.passes:
            said.append("ACS of bridge %s is left alone: %s below it belongs to a virtual machine (vfio-pci)" % (
                bridge.pci, ", ".join(bridge.passes)))
        elif bridge.config is None or not bridge.config.complete:
            said.append("ACS of bridge %s cannot be read" % bridge.pci)
    said += ["%s (%s) has no PCI Express capability that can be read: MaxReadReq is left alone" % (rail.pci, rail.label)
             for rail, config in observed.rails if desired.read_request and (config is None or config.express is None)]
    return said
