# SPDX-License-Identifier: GPL-3.0-or-later
"""A subnet manager on the hosts that are to run one: unit ``opensm`` enabled and running, of a vendor's stack ``opensmd``.

Other hosts are left alone: a subnet manager that somebody runs there is not ours to
stop. Starting one disturbs nothing: in a fabric that has a master it stands by.

In a container modules belong to the machine below. Where that has no management
datagrams (ib_umad), systemd skips the unit's start without an error, so it is enabled
and not asked to run (see ``notes``).

Debian's unit only starts ``opensm@GUID`` for each port that it finds, and stays active where it found none (it ran before the driver), or
where they died. So an active unit says nothing: one of its instances has to be.

Debian enables it for network-online.target, which is reached only where some other unit wants it. So multi-user.target is to want it too.

The distributions' opensm (3.3) brings the links of an NDR fabric up, and traffic over its switches fails all the same.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.stacks import NDR, vendor_stack
from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.processes import unit_installed
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided
from ...spec.model import Spec
from ...types import Change, Identity, Problem, Verdict, run
from ..common.units import DIRECTORY, TARGET, enabled_unit, running_unit, systemctl, wanting
from ..network.evidence import observe_units
from ..network.model import RUNNING, UnitState
from ..network.persistent import ENABLED

NAME = "opensm"
UNIT = "opensm.service"
TEMPLATE, INSTANCES = "opensm@.service", "opensm@*.service"
VENDORS_UNIT = "opensmd.service"  # of an init script; MLNX_OFED's package and guides
UMAD = "/sys/class/infiniband_mad/abi_version"  # the ConditionPathExists of Debian's unit
SELDOM = "network-online.target.wants"
# ``disable`` would take Debian's own link away as well.
WANTED = run(("systemctl", "add-wants", TARGET, UNIT),
             (("rm", "-f", "--", "%s/%s.wants/%s" % (DIRECTORY, TARGET, UNIT)), ("systemctl", "daemon-reload")))
WHY = "an InfiniBand port stays INIT until a subnet manager has configured it"
SOURCE = "opensm(8); inventory: network_opensm, group opensm"


NDR_GBPS = 400.0  # of a port of four lanes
UNFIT = ("the distribution's opensm does not work on an NDR fabric (Quantum-2): links come up, and MPI and IPoIB fail (linux-rdma/opensm "
         "38). NVIDIA's does: opensm of DOCA or MLNX_OFED (rdma_stack), mlnxsm, or a switch's or UFM's")


class Desired(NamedTuple):
    enabled: bool
    container: bool
    unit: str = UNIT  # of the package that is wanted
    unfit: bool = False  # the distribution's, with HCAs that NDR fabrics are made of
    ports: bool = False  # the node has InfiniBand ports, so an instance must be there


class Observed(NamedTuple):
    """``umad``: the node has the kernel's side of management datagrams. ``name``: of the unit, as the node has it.

    ``instances``: the states of those that systemd knows; None for a unit that is the subnet manager itself, and where nobody answered.
    ``seldom``: it is enabled for a target that not every boot reaches, and for no other.
    """

    unit: UnitState
    umad: bool
    name: str = UNIT
    instances: Optional[Tuple[str, ...]] = None
    seldom: bool = False


def desired(spec: Spec, identity: Identity) -> Desired:
    vendor = vendor_stack(spec, identity) is not None
    unfit = not vendor and any(hca.device_id in NDR and hca.link_layer == "InfiniBand" for hca in identity.hcas)
    ports = any(hca.link_layer == "InfiniBand" for hca in identity.hcas)
    return Desired(bool(spec["network_opensm"]), identity.has("container"), VENDORS_UNIT if vendor else UNIT, unfit, ports)


def observe(host: Host, desired: Desired) -> Observed:
    if not desired.enabled:
        return Observed(UnitState("", "", ""), False)
    # From a package, or to be made by systemd of an init script.
    there = [unit for unit in (desired.unit, UNIT, VENDORS_UNIT)
             if unit_installed(host, unit) or host.exists("/etc/init.d/" + unit[:-len(".service")])]
    name = there[0] if there else desired.unit
    unit = observe_units(host, (name,)).get(name, UnitState("", "", ""))
    starter = name == UNIT and unit.active in RUNNING and unit_installed(host, TEMPLATE)
    return Observed(unit, host.exists(UMAD), name, observe_instances(host) if starter else None, wanting(host, name) == {SELDOM})


def observe_instances(host: Host) -> Optional[Tuple[str, ...]]:
    """A pattern finds the units that systemd has in memory: those that run, and those that failed. None where it does not answer."""
    answer = host.run(("systemctl", "show", "--property=ActiveState", INSTANCES))
    if not answer.ok:  # silence is no sign that a subnet manager has died
        return None
    return tuple(line.partition("=")[2] for line in lines_in(answer.out) if line.startswith("ActiveState="))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.enabled:
        return []
    changes: List[Change] = []
    if observed.unit.enabled not in ENABLED:
        ops = (systemctl("enable", UNIT), WANTED) if observed.name == UNIT else ()
        changes.append(enabled_unit(NAME, observed.name, WHY, SOURCE, ops))
    elif observed.seldom:
        why = "%s; it is enabled for %s alone, which a boot reaches only where something else wants it" % (WHY, SELDOM[:-len(".wants")])
        again = enabled_unit(NAME, observed.name, why, SOURCE, (WANTED,))
        changes.append(again._replace(what="unit %s started at every boot" % observed.name))
    if observed.unit.active not in RUNNING and can_run(desired, observed):
        changes.append(running_unit(NAME, observed.name, WHY, SOURCE))
    elif is_idle(desired, observed):
        again = running_unit(NAME, observed.name, WHY + "; %s is active, and no %s is" % (observed.name, TEMPLATE), SOURCE)
        changes.append(again._replace(what="subnet manager of unit %s running" % observed.name,
                                      ops=(run(("systemctl", "restart", observed.name)),)))
    return changes


def is_idle(desired: Desired, observed: Observed) -> bool:
    """The unit is active, and nothing of it runs: every instance has failed, or there is none although there are ports."""
    states = observed.instances
    return states is not None and not any(state in RUNNING for state in states) and (bool(states) or desired.ports)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.enabled and spec.fabric != "infiniband":
        return [Problem(NAME, UNIT, "a subnet manager is for InfiniBand, and rdma_fabric is %s: take it out of group opensm" % spec.fabric)]
    return []


def notes(desired: Desired, observed: Observed) -> List[str]:
    if not desired.enabled:
        return []
    said = ["opensm: " + UNFIT] if desired.unfit else []
    return said if can_run(desired, observed) else [
        *said, "opensm: this container has no %s, the unit cannot run here; it is enabled only" % UMAD]


def can_run(desired: Desired, observed: Observed) -> bool:
    """On a machine kernel_modules loads ib_umad before; in a container it is there or it is not."""
    return observed.umad or not desired.container


def judge_opensm(seen: Inspection) -> List[Verdict]:
    """On the hosts that are to run one: whether what is installed can manage a fabric of the speed that this host's ports have."""
    if not seen.spec["network_opensm"]:
        return []
    packages = seen.facts.get("packages")
    version = str((packages or {}).get("opensm") or "")
    rates = [port.get("rate_gbps") for hca in seen.facts.get("hcas") or [] for port in hca.get("ports") or []
             if port.get("link_layer") == "InfiniBand"]
    ndr = any(rate is not None and rate >= NDR_GBPS for rate in rates)
    expected = "a version of NVIDIA's"
    return [decided(
        "opensm.build", VerdictSubject(seen.node, None, None, "subnet manager"),
        (packages is None, "unknown", expected, None, UNREADABLE % "the list of installed packages"),
        (not version, "skipped", expected, None, "no package opensm on this node"),
        (not version.startswith("3."), "pass", expected, version, "opensm %s is not the distribution's" % version),
        (ndr, "warn", expected, version, "opensm is %s: %s" % (version, UNFIT)),
        (not rates or None in rates, "unknown", expected, None, UNREADABLE % "the rate of every InfiniBand port"),
        (True, "pass", None, version, "opensm %s, and no port of this host is NDR's" % version))]
