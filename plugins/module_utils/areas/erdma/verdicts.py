# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on eRDMA: does libibverbs know the devices, are there as many as the instance has, is every port active, which mode. Pure.

The number comes from the inventory (rdma_expect.hcas) or from the instance type, never from what is there; the rate of a port is
no subject at all: the driver prints 100 Gb/sec whatever the instance does.

Which mode runs is told by the driver's parameter; of the kernel's own driver, which has none, by the kind of its devices. Both are
asked where there are both: a device that does not follow the parameter was made by another driver than the loaded one.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...formats.outside import is_digits
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, unreadable, verdict
from ...rules.erdma_mode import LEAVE, LETTERS, NODE_TYPES, RAW_TYPES, WORDS, letter_of_type, mode_of
from ...rules.path_mtu import hca_facts
from ...spec.model import Spec
from ...types import Verdict

ACTIVE = "ACTIVE"  # sysfs: 4: ACTIVE, ibv_devinfo: PORT_ACTIVE
SINCE = 43  # rdma-core with the provider
CHECK = "erdma.mode"
DRIVER = "erdma"


def judge_devices(seen: Inspection) -> List[Verdict]:
    """Nothing on other fabrics, whatever the node has."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    if spec.fabric != "erdma":
        return []
    found = facts.get("erdma")
    return [_provider(node, found), _count(node, spec, facts, found)] + _ports(node, facts, found)


def _provider(node: str, found: Optional[Mapping[str, Any]]) -> Verdict:
    where = VerdictSubject(node, None, None, "libibverbs")
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
    known = spec["erdma_derived"]
    if known.get("devices") is None:
        return None, "how many eRDMA devices %s has is not known here; set rdma_expect.hcas" % name
    return int(known["devices"]), "%s, %s" % (name, known["source"])


def _count(node: str, spec: Spec, facts: Mapping[str, Any], found: Optional[Mapping[str, Any]]) -> Verdict:
    wanted, source = _expected(spec)
    devices = found["devices"] if found is not None else []
    count = len(devices)
    return decided(
        "erdma.count", VerdictSubject(node, None, None, "eRDMA devices"),
        (facts.get("hcas") is None, "unknown", wanted, None, UNREADABLE % "the list of RDMA devices"),
        (wanted is None, "skipped", None, count, "%d found; %s" % (count, source)),
        (count == wanted, "pass", wanted, count, "%s, as expected (%s)" % (", ".join(devices) or "none", source)),
        (True, "fail", wanted, count, "%d eRDMA devices, not %s (%s)%s" % (count, wanted, source, _why(found, wanted or 0))))


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
            state, netdev = port.get("state"), port.get("netdev")
            verdicts.append(decided(
                "erdma.port", VerdictSubject(node, name, port.get("number"), "%s (%s)" % (name, netdev or "no interface")),
                (state is None, "unknown", ACTIVE, None, UNREADABLE % "the port's state"),
                (state == ACTIVE, "pass", ACTIVE, state, "the port is active (PORT_ACTIVE)"),
                (True, "fail", ACTIVE, state, "the port is %s, not ACTIVE (PORT_ACTIVE): bring %s up; the port follows its interface" % (
                    state, netdev or "its interface"))))
    return verdicts


def judge_mode(seen: Inspection) -> List[Verdict]:
    node, spec, facts = seen.node, seen.spec, seen.facts
    mode = mode_of(spec, seen.identity)
    if mode is None:
        return []
    loaded = parameters(facts)
    letter, parameter = wire_letter(facts), (loaded or {}).get("compat_mode")
    wrong = sorted((name, RAW_TYPES[NODE_TYPES[other]]) for name, other in types_of(facts).items()
                   if parameter is not None and other is not None and other != parameter)
    odd = ", ".join("%s is `%s`, compat_mode is %s" % (name, kind, parameter) for name, kind in wrong)
    found = said(letter, parameter is not None, facts) if letter is not None else ""
    expected = "%s (compat_mode=%s)" % (mode, LETTERS[mode])
    more = "erdma_driver is leave, so railwright does not change it" if spec["erdma_driver"] == LEAVE else "apply reloads it, with consent"
    return [decided(
        CHECK, VerdictSubject(node, None, None, "eRDMA driver"),
        (loaded is None, "unknown", expected, None, "which kernel modules are loaded cannot be read on this node"),
        (loaded == {}, "fail", expected, "not loaded", "the driver erdma is not loaded: this node has no eRDMA device"),
        (odd, "fail", expected, odd, "the devices and the driver's parameter disagree: %s; load the driver again" % odd),
        (letter is None, "unknown", expected, None, "the kernel's own driver has no modes, and there is no device to tell by"),
        (letter == LETTERS[mode], "pass", expected, found, "the driver runs as %s" % found),
        (True, "fail", expected, found, "the driver runs as %s, not in mode %s; %s" % (found, mode, more)))]


def said(letter: str, parameter: bool, facts: Mapping[str, Any]) -> str:
    """What runs, and what tells it."""
    tool = (facts.get("erdma") or {}).get("eadm_version")
    sign = "compat_mode=%s" % letter if parameter else "node_type %s, the kernel's own driver" % RAW_TYPES[NODE_TYPES[letter]]
    return "%s (%s%s)" % (WORDS[letter].partition(" (")[0], sign, "; eadm: %s" % tool if tool else "")


def parameters(facts: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Of the loaded driver, {"compat_mode": letter or None}; {} where it is not loaded, None where nothing tells."""
    modules = facts.get("modules")
    if modules is None:
        return None
    module = modules.get(DRIVER)
    return {"compat_mode": (module.get("parameters") or {}).get("compat_mode")} if module is not None else {}


def types_of(facts: Mapping[str, Any]) -> Dict[str, Optional[str]]:
    """Letter by device of the driver, as its node_type tells."""
    return {str(hca.get("name")): letter_of_type(hca.get("node_type")) for hca in facts.get("hcas") or [] if hca.get("driver") == DRIVER}


def wire_letter(facts: Mapping[str, Any]) -> Optional[str]:
    """N or Y: what a node talks on the wire, whoever's driver it has. None: unknown, or its devices disagree."""
    loaded = parameters(facts)
    if loaded and loaded.get("compat_mode") in WORDS:
        return str(loaded["compat_mode"])
    letters = set(types_of(facts).values())
    return letters.pop() if len(letters) == 1 else None


def judge_modes(nodes: Mapping[str, Mapping[str, Any]]) -> List[Verdict]:
    """Over all nodes that have the driver: one kind of wire. A node by itself is judged above; here only the mix."""
    letters = {node: wire_letter(view["facts"]) for node, view in nodes.items() if parameters(view["facts"])}
    known = {node: letter for node, letter in letters.items() if letter is not None}
    if not letters:
        return []
    members = {letter: sorted(node for node in known if known[node] == letter) for letter in set(known.values())}
    larger_first = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    camps = "; ".join("%s on %s" % (WORDS[letter], ", ".join(nodes)) for letter, nodes in larger_first)
    return [decided(
        CHECK, VerdictSubject("", None, None, "eRDMA modes"),
        (len(known) < 2, "skipped", None, len(known), "%d node tells its mode: nothing to compare" % len(known)),
        (len(members) == 1, "pass", "one wire mode", camps, "%d nodes run as %s" % (len(known), WORDS[min(members, default="N")])),
        (True, "fail", "one wire mode", camps, "nodes in different modes cannot talk RDMA to each other: " + camps))]
