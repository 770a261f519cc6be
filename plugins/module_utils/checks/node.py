# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on one node: every rail (link, rate, path MTU, GID, firmware), its HCAs, how near GPUs are, what is left of the plan. Pure."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..areas.network.verdicts import judge_devices, judge_duplicates, ports_of
from ..catalogue.drivers import hides_nvswitches
from ..formats.text import first_of, join_names
from ..observe.affinity import nearest
from ..observe.devices import MELLANOX
from ..rules.comparisons import UNREADABLE, Inspection, VerdictSubject, at_least, decided, equal, no_expectation, unreadable, verdict
from ..rules.erdma_mode import DEFAULT
from ..rules.path_mtu import as_int, gids_holding, hca_facts, is_iwarp, netdev_facts, path_mtu_for, port_facts, roce_gid_index
from ..spec.match import RailTarget
from ..spec.model import Spec
from ..types import NO_DEVICE, Change, Identity, Problem, Verdict
from .area_verdicts import AREA_VERDICTS
from .functions import judge_functions, judge_switches
from .health import judge_health
from .peers import CONSTANT_RATE, peer_verdicts, with_peers

HEALTH = "hca"  # the area of what no area sets
# What a port of each fabric says in its link_layer file.
LINK_LAYER = {"roce": "Ethernet", "infiniband": "InfiniBand", "erdma": "Ethernet"}
SOFTWARE = ("rdma_rxe", "siw")
NO_CARRIER = ("down", "lowerlayerdown", "notpresent")  # operstate of an interface (RFC 2863)


def judge_node(seen: Inspection) -> List[Tuple[str, Verdict]]:
    """Everything that the facts of one node can answer, each verdict with its area: first what areas set, then health, which none does.

    Peer ports judge what the inventory does not expect.
    """
    alone = ("port.width",) if seen.spec["qos_profile"] else ("port.width", "qos.peers")  # with a profile qos.chain says it
    rails = with_peers(judge_rails(seen), peer_verdicts(seen), over=("skipped",), alone=alone)
    return judge_machine(seen) + [(HEALTH, item) for item in rails]


def judge_machine(seen: Inspection) -> List[Tuple[str, Verdict]]:
    """Everything but the links, GIDs and firmware of rails."""
    verdicts = [(row.area, item) for row in AREA_VERDICTS for item in row.judge(seen)]
    hcas = seen.facts.get("hcas")
    where = VerdictSubject(seen.node, None, None, "HCAs")
    unread = seen.identity.unread_functions if hides_nvswitches(seen.identity.gpus) else ()
    if unread and hcas is not None:  # some may manage NVSwitches, and those are no HCAs
        what = "which HCAs manage NVSwitches (VPD of %s)" % first_of(unread, 4)
        count = unreadable("node.hcas", where, seen.spec.expect.get("hcas"), what)
    else:
        count = equal("node.hcas", where, seen.spec.expect.get("hcas"), len(hcas) if hcas is not None else None,
                      "rdma_expect.hcas", "number of HCAs")
    health = [count] + ([] if seen.spec.rdma_stack == "soft_roce" else judge_devices(seen))
    health += judge_duplicates(seen) + judge_functions(seen) + judge_switches(seen) + judge_nearness(seen) + judge_bonds(seen)
    health += judge_gds(seen) + judge_health(seen)
    return verdicts + [(HEALTH, item) for item in health]


def judge_bonds(seen: Inspection) -> List[Verdict]:
    """Warn of a member without a link, of a bond over HCAs whose others have one: the bond's RDMA device stays ACTIVE, at half its rate.

    A bond that the kernel's bonding file was read of is judged by that (health_settings.py).
    """
    found = []
    known = {bond.get("name") for bond in (seen.facts.get("health") or {}).get("bonds") or []}
    pcis = {hca.pci for hca in seen.identity.hcas}
    states = {nic: netdev_facts(seen.facts, nic.name).get("operstate") for nic in seen.identity.nics if nic.bond is not None}
    for bond in sorted({str(nic.bond) for nic in states if nic.pci in pcis} - known):
        members = {nic.name: state for nic, state in states.items() if nic.bond == bond}
        dark = [name for name, state in sorted(members.items()) if state in NO_CARRIER]
        for name in dark if "up" in members.values() else ():
            text = "%s has no link, and %s runs on %d of its %d members: inspect cable, transceiver and switch port" % (
                name, bond, len(members) - len(dark), len(members))
            where = VerdictSubject(seen.node, None, None, "%s, member %s" % (bond, name))
            found.append(verdict("port.bond", where, "warn", "up", members[name], text))
    return found


def judge_gds(seen: Inspection) -> List[Verdict]:
    """GPUDirect Storage, where nvidia-fs is installed: a storage driver must be able to reach GPU memory. Else nothing is said of it.

    It warns: an image may hold nvidia-fs for nobody, and no key says that a site wants it.
    """
    found = (seen.facts.get("gpudirect") or {}).get("gds")
    if not found or not seen.identity.gpus:
        return []
    loaded, version, storage, config = found.get("loaded"), found.get("version"), found.get("storage"), found.get("config") or {}
    where, expected = VerdictSubject(seen.node, None, None, "GPUDirect Storage"), "nvidia-fs loaded, with a storage driver registered"
    slow = "; where that cannot be, cuFile copies through the CPU's memory without a word (allow_compat_mode)"
    return [decided(
        "gds.path", where,
        (not isinstance(loaded, bool), "unknown", expected, None, "/proc/modules cannot be read on this node"),
        (not loaded and config.get("use_pci_p2pdma") is True, "unknown", expected, "not loaded",
         "nvidia-fs is installed and not loaded; cufile.json lets NVMe do without it (use_pci_p2pdma): gdscheck -p says whether it can"),
        (not loaded, "warn", expected, "not loaded",
         "nvidia-fs is installed and not loaded: cuFile copies through the CPU's memory, or refuses"),
        (not version or not isinstance(storage, list), "unknown", expected, "loaded", "/proc/driver/nvidia-fs cannot be read on this node"),
        (not storage, "warn", expected, "nothing registered",
         "nvidia-fs %s is loaded, and no storage driver registered with it: none on this node is built for it" % version),
        (bool(config) and config.get("read") is not True, "unknown", expected, None, "/etc/cufile.json is there and cannot be understood"),
        (True, "pass", expected, "loaded", "nvidia-fs %s is loaded, registered: %s%s" % (
            version, join_names(storage or []), slow if config.get("allow_compat_mode") is True else "")))]


def judge_rails(seen: Inspection) -> List[Verdict]:
    """The health of every rail that has a device."""
    verdicts: List[Verdict] = []
    for target, where, port in ports_of(seen):
        hca = hca_facts(seen.facts, where.hca) or {}
        verdicts += _link(where, seen.spec, hca, port) + [
            _active_mtu(where, seen.spec, target.rail.mtu, port),
            _gid(where, seen.spec, target, hca, port),
            _firmware(where, seen.spec, hca),
            equal("hca.hca_type", where, seen.spec.expect.get("hca_type"), hca.get("hca_type"), "rdma_expect.hca_type", "HCA type"),
        ]
    return verdicts


def _firmware(where: VerdictSubject, spec: Spec, hca: Mapping[str, Any]) -> Verdict:
    if hca.get("driver") in SOFTWARE:
        return verdict("hca.fw_ver", where, "skipped", None, None, "%s is software: it has no firmware" % hca.get("driver"))
    return equal("hca.fw_ver", where, spec.expect.get("fw_ver"), hca.get("fw_ver"), "rdma_expect.fw_ver", "firmware")


def _link(where: VerdictSubject, spec: Spec, hca: Mapping[str, Any], port: Mapping[str, Any]) -> List[Verdict]:
    layer = spec.expect.get("link_layer") or LINK_LAYER[spec.fabric]
    return [
        _state(where, port),
        equal("port.phys_state", where, "LinkUp", port.get("phys_state"), "", "physical state"),
        equal("port.link_layer", where, layer, port.get("link_layer"), "rdma_expect.link_layer", "link layer"),
        _rate(where, spec.expect.get("rate_gbps"), hca, port),
    ] + _width(where, hca, port)


def _state(where: VerdictSubject, port: Mapping[str, Any]) -> Verdict:
    state = port.get("state")
    if state == "INIT" and port.get("link_layer") == "InfiniBand" and as_int(port.get("sm_lid")) == 0:
        return verdict("port.state", where, "fail", "ACTIVE", "INIT",
                       "no subnet manager: the link is up, but nobody gave the port a LID (sm_lid 0); start opensm or the switch's")
    return equal("port.state", where, "ACTIVE", state, "", "state")


def _rate(where: VerdictSubject, floor: Optional[float], hca: Mapping[str, Any], port: Mapping[str, Any]) -> Verdict:
    constant = CONSTANT_RATE.get(str(hca.get("driver")))
    if constant is None:
        return at_least("port.rate", where, floor, port.get("rate_gbps"), "rdma_expect.rate_gbps", "rate in Gb/s")
    if floor is None:
        return verdict("port.rate", where, "skipped", None, port.get("rate_gbps"), constant + "; judge the measured bandwidth instead")
    return verdict("port.rate", where, "unknown", floor, port.get("rate_gbps"), constant + "; set validate_min_bandwidth_gbps instead")


def _width(where: VerdictSubject, hca: Mapping[str, Any], port: Mapping[str, Any]) -> List[Verdict]:
    """Every InfiniBand HCA of NVIDIA's has four lanes a port, and a splitter cable leaves two: one lane is a damaged cable or port.

    On Ethernet one lane is also what 25 and 100 Gb/s links have by design (mlx5_core, port.c: ethtool to IB width), so peers judge it.
    Source: NVIDIA, ConnectX-4 to ConnectX-8 user manuals (supported link widths), 2026-11-29.
    """
    lanes = port.get("lanes")
    if port.get("link_layer") == "InfiniBand" and lanes == 1 and hca.get("vendor_id") == MELLANOX:
        return [verdict("port.width", where, "fail", 4, 1, "the link has one lane of four: replace the cable, inspect both ports")]
    return []


def _active_mtu(where: VerdictSubject, spec: Spec, rail_mtu: int, port: Mapping[str, Any]) -> Verdict:
    """Exactly what the inventory expects, else at least what the rail's MTU in the inventory makes possible."""
    found = as_int(port.get("active_mtu"))
    wanted = spec.expect.get("active_mtu")
    if wanted is not None:
        return equal("port.active_mtu", where, wanted, found, "rdma_expect.active_mtu", "active_mtu")
    if spec.fabric == "infiniband":  # the subnet manager's partition decides, not the netdev
        return no_expectation("port.active_mtu", where, "rdma_expect.active_mtu", found)
    floor = path_mtu_for(rail_mtu)
    if floor is None:
        return verdict("port.active_mtu", where, "fail", "a netdev MTU of at least 352", found,
                       "an MTU of %d carries no RDMA path at all" % rail_mtu)
    return at_least("port.active_mtu", where, floor, found, "rdma_mtu", "active_mtu")


def _gid(where: VerdictSubject, spec: Spec, target: RailTarget, hca: Mapping[str, Any], port: Mapping[str, Any]) -> Verdict:
    """RoCE needs a RoCE v2 GID that holds the rail's address; InfiniBand needs any GID."""
    gids = port.get("gids")
    if gids is None:
        return unreadable("rail.gid", where, "RoCE v2", "the GID table")
    if spec.fabric == "infiniband":
        status, text = ("pass", "port GID") if gids else ("fail", "the GID table is empty")
        return verdict("rail.gid", where, status, "a port GID", gids[0].get("gid") if gids else None, text)
    address = target.rail.address
    if address is None:
        return no_expectation("rail.gid", where, "rdma_rails[%d].address" % target.rail.index, None)
    if is_iwarp({"hcas": [hca]}, str(hca.get("name"))) and spec["erdma_mode"] == DEFAULT:
        return verdict("rail.gid", where, "skipped", None, gids[0].get("gid") if gids else None,
                       "erdma_mode default is iWARP-like: RDMA-CM connects by the address, no GID holds it")
    expected = "RoCE v2 GID with %s" % address.split("/")[0]
    holding = gids_holding(port, address)
    found = next(("index %s: %s" % (entry.get("index"), entry.get("gid")) for entry in holding if entry.get("type") == "RoCE v2"), None)
    types = ", ".join(str(entry.get("type")) for entry in holding)
    hint = "; eRDMA has it only with compat_mode=Y" if hca.get("driver") == "erdma" else ""
    return decided(
        "rail.gid", where,
        (found, "pass", expected, found, "GID %s" % str(found).partition(":")[0]),
        (any(entry.get("type") is None for entry in holding), "unknown", expected, None, UNREADABLE % "the type of the GID"),
        (holding, "fail", expected, types, "the address is in the GID table, but only as %s" % types),
        (True, "fail", expected, None, "no GID holds the rail's address: is it on %s?%s" % (target.netdev, hint)))


def judge_plan(
    node: str, areas: Sequence[str], changes: Sequence[Change], problems: Sequence[Problem], targets: Sequence[RailTarget]
) -> List[Verdict]:
    """Drift is a verdict: ``config.<area>`` fails once for every change that ``apply`` would make.

    The plan is the one that ``railwright plan`` shows, so the two cannot disagree.
    """
    places = {target.rail.name: (target.hca.name if target.hca else None, target.port) for target in targets}
    verdicts = [
        verdict("config." + change.area, VerdictSubject(node, *places.get(change.rail or "", (None, None)), subject=change.what), "fail",
                change.after, change.before, change.why) for change in changes]
    verdicts.extend(
        verdict("config." + item.area, VerdictSubject(node, None, None, item.subject), "fail", None, None, item.message)
        for item in problems if item.code != NO_DEVICE)  # rail.device says it
    dirty = {change.area for change in changes} | {item.area for item in problems}
    verdicts.extend(
        verdict("config." + area, VerdictSubject(node, None, None, area), "pass", "no change", "no change", "as the inventory wants it")
        for area in areas if area not in dirty)
    return verdicts


def rail_views(seen: Inspection) -> List[Dict[str, Any]]:
    """The rails as the controller needs them for pings, perftest and the cluster's verdicts: names and places only."""
    views: List[Dict[str, Any]] = []
    facts, exchange = seen.facts, management_address(seen.identity, seen.facts)
    for target in seen.targets:
        port = port_facts(facts, target.hca.name, target.port) if target.hca is not None else None
        gid_index = None
        iwarp = target.hca is not None and is_iwarp(facts, target.hca.name)
        gid_needed = seen.spec.fabric != "infiniband" and not iwarp
        if port is not None and target.rail.address is not None and gid_needed:
            gid_index = roce_gid_index(port, target.rail.address)
        views.append({
            "name": target.rail.name,
            "label": target.label,
            "address": target.rail.address.split("/")[0] if target.rail.address else None,
            "mtu": target.rail.mtu,
            "netdev": target.netdev,
            "hca": target.hca.name if target.hca else None,
            "port": target.port,
            "gid_index": gid_index,
            "gid_needed": gid_needed,
            "rdma_cm": iwarp,
            "exchange": exchange,
        })
    return views


def management_address(identity: Identity, facts: Mapping[str, Any]) -> Optional[str]:
    """An IPv4 address of the interface that the node's peers reach it by when no rail has one (InfiniBand without IPoIB)."""
    nics = sorted((nic for nic in identity.nics if nic.uplink is not None), key=lambda nic: nic.uplink or 0)
    return next((str(address.partition("/")[0]) for nic in nics for address in netdev_facts(facts, nic.name).get("addresses") or []
                 if ":" not in address), None)


# Whether each GPU of a node has a rail that NCCL would reach without the CPU, and each rail such a GPU.
#
# NCCL uses GPUDirect RDMA between a GPU and an HCA that are no further apart than NCCL_NET_GDR_LEVEL, PXB unless somebody says otherwise
# (ncclTopoCheckGdr in its src/graph/paths.cc), and copies through host memory beyond it. Its PHB is what nvidia-smi calls PHB or NODE. A
# GPU that is far itself may hand its data over NVLink to one that is near (PXN). A GPU that is part of its CPU (Grace) counts the HCAs of
# that CPU as near (NCCL_NET_GDR_C2C).

LEVEL = "NCCL_NET_GDR_LEVEL"
PXB = "PXB"  # NCCL's own level
_STEPS = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 3, "SYS": 4}
_NEARER = ("LOC", "NVL", "NVB", "C2C")  # than any HCA is
_NUMBERS = {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 4}  # of NCCL before 2.5, still read


def judge_nearness(seen: Inspection) -> List[Verdict]:
    """One verdict ``gpu.near`` a node that has GPUs; it warns, since a job may be meant to go through host memory."""
    if not seen.identity.gpus:
        return []
    where = VerdictSubject(seen.node, None, None, "GPUs and rails")
    variables = ((seen.facts.get("nccl") or {}).get("conf") or {}).get("variables") or {}
    if variables.get("NCCL_TOPO_FILE"):
        return [verdict("gpu.near", where, "skipped", None, None, "NCCL takes the distances from NCCL_TOPO_FILE, not from the PCI tree")]
    rows = seen.facts.get("affinity")
    if rows is None:
        return [unreadable("gpu.near", where, PXB, "the PCI tree")]
    rails = {(where.hca, where.port) for _target, where, _port in ports_of(seen)}
    rows = [row for row in rows if (row.get("hca"), row.get("port")) in rails]
    lost = sorted({str(row.get("gpu")) for row in rows if row.get("path") not in _STEPS})
    if lost:
        return [unreadable("gpu.near", where, PXB, "how far %s and the rails are apart in the PCI tree" % first_of(lost, 4))]
    if not rows:
        return [verdict("gpu.near", where, "skipped", None, None, "no rail of this node is a PCI function")]
    return [_judged(seen, where, rows, str(variables.get(LEVEL) or PXB))]


def _judged(seen: Inspection, where: VerdictSubject, rows: List[Dict[str, Any]], level: str) -> Verdict:
    allowed = _allowed(level, seen.facts.get("arch"))
    if allowed is None:
        return verdict("gpu.near", where, "unknown", None, level, "%s=%s in nccl.conf is no distance that NCCL knows" % (LEVEL, level[:20]))
    gpus = {gpu: _best(rows, "gpu", gpu) for gpu in sorted({row["gpu"] for row in rows})}
    rails = {hca: _best(rows, "hca", hca) for hca in sorted({row["hca"] for row in rows})}
    far = [gpu for gpu, path in gpus.items() if _STEPS[path] > allowed]
    linked = any(gpu.get("nvlinks") for gpu in seen.facts.get("gpus") or [])
    if linked and len(far) < len(gpus):
        far = []
    far += [hca for hca, path in rails.items() if _STEPS[path] > allowed]
    if not far:
        return verdict("gpu.near", where, "pass", level, gpus, "each GPU and each rail has one of the other kind within %s" % level)
    paths = sorted({{**gpus, **rails}[one] for one in far})
    if seen.identity.virtual not in (None, "container") and len({row["path"] for row in rows}) == 1:
        flat = "in this virtual machine each GPU and rail is %s apart, whatever the machine below has: NCCL_TOPO_FILE tells NCCL" % paths[0]
        return verdict("gpu.near", where, "unknown", level, gpus, flat)
    words = "%s: nothing of the other kind is nearer than %s, and NCCL uses GPUDirect RDMA up to %s: data goes through host memory" % (
        first_of(far, 4), " or ".join(paths), level)
    return verdict("gpu.near", where, "warn", level, gpus, words)


def _best(rows: List[Dict[str, Any]], key: str, name: str) -> str:
    return str(nearest(row["path"] for row in rows if row[key] == name))


def _allowed(level: str, arch: Any) -> Optional[int]:
    """The largest step; None for a word that NCCL does not know."""
    if level in _NUMBERS:
        return _NUMBERS[level]
    word = {"P2C": PXB, "PXN": PXB}.get(level, level)
    steps = _STEPS.get(word) if word != "NODE" else None
    if word in _NEARER:
        return 0
    return max(steps, _STEPS["PHB"]) if steps is not None and arch == "aarch64" else steps
