# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on eRDMA of one node: does libibverbs know the devices, are there as many as the instance has, is every port active. Pure.

The number comes from the inventory (rdma_expect.hcas) or from the instance type, never from what is there; the rate of a port is
no subject at all: the driver prints 100 Gb/sec whatever the instance does.
"""

from typing import Any, List, Mapping, Optional, Tuple

from ...catalogue.erdma_instances import erdma_instance
from ...formats.outside import is_digits
from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...rules.path_mtu import hca_facts
from ...spec.model import Spec
from ...types import Verdict

ACTIVE = "ACTIVE"  # sysfs: 4: ACTIVE, ibv_devinfo: PORT_ACTIVE
SINCE = 43  # rdma-core with the provider


def judge_devices(seen: Inspection) -> List[Verdict]:
    """Nothing on other fabrics, whatever the node has."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    if spec.fabric != "erdma":
        return []
    found = facts.get("erdma")
    return [_provider(node, found), _count(node, spec, facts, found)] + _ports(node, facts, found)


def _provider(node: str, found: Optional[Mapping[str, Any]]) -> Verdict:
    where = Where(node, None, None, "libibverbs")
    expected = "the provider erdma"
    if found is None:
        return unreadable("erdma.provider", where, expected, "anything of eRDMA")
    provider = found["provider"]
    package = " ".join(str(provider[key]) for key in ("package", "version") if provider.get(key)) or None
    if provider["known"]:
        return verdict("erdma.provider", where, "pass", expected, package, "%s has it: %s" % (package or "a package", provider["library"]))
    said = "no program can open an eRDMA device: " + _missing(provider, package)
    return verdict("erdma.provider", where, "fail", expected, package, said)


def _missing(provider: Mapping[str, Any], package: Optional[str]) -> str:
    if package is None:
        return "libibverbs is not installed"
    if provider["library"] is not None or provider["driver_file"]:
        absent = "liberdma-rdmav*.so" if provider["library"] is None else "/etc/libibverbs.d/erdma.driver"
        return "%s is there without %s; install the package again" % (package, absent)
    head = str(provider["version"] or "").partition(":")[2] or str(provider["version"] or "")
    major = head.partition(".")[0]
    if is_digits(major) and int(major) < SINCE:
        return "%s is older than %d, which brought it; take Alibaba's packages (erdma_repository)" % (package, SINCE)
    return "%s was built without it, or is half installed; install it again, or take Alibaba's packages (erdma_repository)" % package


def _expected(spec: Spec) -> Tuple[Optional[int], str]:
    """(how many devices, where from), or (None, why nobody knows)."""
    if spec.expect.get("hcas") is not None:
        return int(spec.expect["hcas"]), "rdma_expect.hcas"
    name = spec["erdma_instance_type"]
    if name is None:
        return None, "the inventory expects nothing (erdma_instance_type, rdma_expect.hcas)"
    row = erdma_instance(name)
    if row is None or row.devices is None:
        return None, "how many eRDMA devices %s has is not known here; set rdma_expect.hcas" % name
    return row.devices, "%s, %s" % (name, row.source)


def _count(node: str, spec: Spec, facts: Mapping[str, Any], found: Optional[Mapping[str, Any]]) -> Verdict:
    where = Where(node, None, None, "eRDMA devices")
    wanted, source = _expected(spec)
    if facts.get("hcas") is None:
        return unreadable("erdma.count", where, wanted, "the list of RDMA devices")
    devices = found["devices"] if found is not None else []
    count = len(devices)
    if wanted is None:
        return verdict("erdma.count", where, "skipped", None, count, "%d found; %s" % (count, source))
    if count == wanted:
        return verdict("erdma.count", where, "pass", wanted, count, "%s, as expected (%s)" % (", ".join(devices) or "none", source))
    said = "%d eRDMA devices, not %d (%s)%s" % (count, wanted, source, _why(found, wanted))
    return verdict("erdma.count", where, "fail", wanted, count, said)


def _why(found: Optional[Mapping[str, Any]], wanted: int) -> str:
    """What the PCI bus adds: a device that no driver has, or one that the instance was not given."""
    functions = found["functions"] if found is not None else []
    if found is not None and functions is not None and len(functions) > len(found["devices"]):
        return ": the PCI bus has %d, and the driver %s" % (
            len(functions), "did not bind them all" if found["driver"]["loaded"] else "is not loaded")
    if functions is not None and len(functions) < wanted:
        return ": the PCI bus has %d; is eRDMA switched on for every network interface of the instance?" % len(functions)
    return ""


def _ports(node: str, facts: Mapping[str, Any], found: Optional[Mapping[str, Any]]) -> List[Verdict]:
    """Every device, also one that no rail names: NCCL and a container see them all."""
    verdicts: List[Verdict] = []
    for name in (found or {}).get("devices") or []:
        for port in (hca_facts(facts, name) or {}).get("ports") or []:
            subject = "%s (%s)" % (name, port.get("netdev") or "no interface")
            where = Where(node, name, port.get("number"), subject)
            state = port.get("state")
            if state is None:
                verdicts.append(unreadable("erdma.port", where, ACTIVE, "the port's state"))
            elif state == ACTIVE:
                verdicts.append(verdict("erdma.port", where, "pass", ACTIVE, state, "the port is active (PORT_ACTIVE)"))
            else:
                said = "the port is %s, not ACTIVE (PORT_ACTIVE): bring %s up; the port follows its interface" % (
                    state, port.get("netdev") or "its interface")
                verdicts.append(verdict("erdma.port", where, "fail", ACTIVE, state, said))
    return verdicts
