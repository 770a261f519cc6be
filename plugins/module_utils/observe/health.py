# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``health`` of the facts: what tells, in one look and without a wish, that a node should take no jobs. Passive and bounded.

Each command has five seconds, and is run only where there is something to ask about. What needs root and has it not is None, with the
reason beside it where a reader would wonder.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Pattern, Sequence, Tuple

from ..formats.outside import lines_in, number, rows, whole
from ..formats.program_output import one_line
from ..formats.sysfs_values import integer, is_name, pci_address, token
from ..host.disk import MOUNTS, mount_of, plain_path
from ..host.host import Host
from ..host.kernel_ring import uptime
from ..types import Identity
from .bonding import observe_bonds
from .devices import CLASS_NET, attribute, pci_attribute
from .gpu_health import TIMED_OUT, observe_gpu_health
from .kernel_log import observe_log
from .mlxlink import observe_infiniband
from .nics import interface_rows
from .processes import boot_time, observe_processes

SECONDS = 5.0
EDAC = "/sys/devices/system/edac/mc"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
CGROUPS, CGROUPS_READ = "/sys/fs/cgroup", 128
RESTORE = "/var/lib/railwright/restore"  # apply/journal.py, which no observer may import
TAINT = "/proc/sys/kernel/tainted"
RUNS = 20
MEMORIES, MOUNTS_ASKED, FUNCTIONS = 64, 16, 256
PLACES = tuple("/" + name for name in ("", "var", "tmp"))
ANYBODYS = PLACES[2]  # anybody can fill it
CLOCK = ("timedatectl", "show", "-p", "NTPSynchronized", "--value")
NETWORK_FILES = ("nfs", "nfs4")
_DIMM = re.compile(r"(?:dimm|rank)[0-9]{1,3}\Z")
_ERRORS = re.compile(r"^([A-Za-z0-9_]{1,40}) ([0-9]{1,18})$", re.MULTILINE)
AER_FILES = (("corrected", "aer_dev_correctable"), ("nonfatal", "aer_dev_nonfatal"), ("fatal", "aer_dev_fatal"))
HARMLESS = "UnsupReq"  # what a bus scan provokes: advisory, and on healthy machines too


def observe_health(host: Host, identity: Identity, facts: Mapping[str, Any]) -> Dict[str, Any]:
    """``facts``: those already observed of the same node: gpus, hcas."""
    container = identity.virtual == "container"
    gpu = observe_gpu_health(host, identity.gpus, facts.get("gpus") or [], container)
    return {
        "boot": boot_time(host),
        "up_hours": up_hours(host),
        "taint": whole(host.line(TAINT), 0),
        "applies": observe_applies(host),
        "log": observe_log(host),
        "gpu": gpu,
        "processes": None if container else observe_processes(host, (gpu or {}).get("gpus") or []),
        "ports": observe_ports(host, facts.get("hcas") or []) + observe_infiniband(host, facts.get("hcas") or []),
        "aer": observe_aer(host, facts),
        "memory": [] if container else observe_memory(host),
        "clock": clock_synchronised(host) if identity.has("systemd") and not container else None,
        "mounts": observe_mounts(host),
        "disks": observe_disks(host),
        "bonds": observe_bonds(host, facts.get("hcas") or []),
        "duplicates": observe_duplicates(host),
        "clocksource": observe_clocksource(host),
        "rdma_limits": [] if container else observe_rdma_limits(host),
    }


def observe_applies(host: Host) -> List[int]:
    """When the last applies ended, in seconds since the epoch."""
    return [int(when) for when in (host.mtime("%s/%s" % (RESTORE, name)) for name in host.listdir(RESTORE)[-RUNS:]) if when]


def up_hours(host: Host) -> Optional[int]:
    seconds = uptime(host)
    return int(seconds // 3600) if seconds < float("inf") else None


def observe_aer(host: Host, facts: Mapping[str, Any]) -> Dict[str, Any]:
    """The kernel's own counters of PCIe errors since boot of GPUs, HCAs and the bridges above them: how many tell, and those of any."""
    functions: List[str] = []
    for device in list(facts.get("gpus") or []) + list(facts.get("accelerators") or []) + list(facts.get("hcas") or []):
        link = device.get("link") or {}
        functions += [address for address in [device.get("pci") or device.get("pci_address")] + list(link.get("path") or []) if address]
    rows: List[Dict[str, Any]] = [
        dict({name: _aer_count(pci_attribute(host, address, file)) for name, file in AER_FILES}, pci=address)
        for address in [name for name in dict.fromkeys(functions) if pci_address(name)][:FUNCTIONS]]
    read = [row for row in rows if any(row[name] is not None for name, _file in AER_FILES)]
    return {"read": len(read), "counted": [row for row in read if any(row[name] for name, _file in AER_FILES)],
            "unread": [row["pci"] for row in read if any(row[name] is None for name, _file in AER_FILES)]}


def _aer_count(text: Optional[str]) -> Optional[int]:
    """Return the sum of a file's counters; None unless each line is one, but that a count beside a broken line is still an error."""
    rows = _ERRORS.findall(text or "")
    count = sum(int(count) for name, count in rows if not name.startswith("TOTAL_") and name != HARMLESS)
    return count if rows and (count or len(rows) == len((text or "").strip().split("\n"))) else None


def observe_memory(host: Host) -> List[Dict[str, Any]]:
    """What the memory controllers have counted since their driver was loaded (EDAC)."""
    names = [name for name in host.listdir(EDAC) if name.startswith("mc") and is_name(name)][:MEMORIES]
    return [{"controller": name, "corrected": integer(attribute(host, "%s/%s/ce_count" % (EDAC, name))),
             "uncorrected": integer(attribute(host, "%s/%s/ue_count" % (EDAC, name))),
             "dimms": _faulty_dimms(host, "%s/%s" % (EDAC, name))} for name in names]


def _faulty_dimms(host: Host, controller: str) -> List[str]:
    """The labels of a controller's DIMMs (or ranks) with an error, by their place on the board where the firmware tells it."""
    names = [name for name in host.listdir(controller) if _DIMM.match(name)][:MEMORIES]
    faulty = [name for name in names if any(
        (integer(attribute(host, "%s/%s/dimm_%s_count" % (controller, name, kind))) or 0) > 0 for kind in ("ce", "ue"))]
    return [token((attribute(host, "%s/%s/dimm_label" % (controller, name)) or "").strip()) or name for name in faulty]


def observe_duplicates(host: Host) -> Dict[str, List[str]]:
    """By interface the IPv6 addresses that the kernel does not use, because another machine has them (ip-address(8): dadfailed)."""
    links = interface_rows(host) or {}
    found = {name: [token(str(item.get("local"))) for item in rows(link.get("addr_info")) if item.get("dadfailed") is True]
             for name, link in links.items()}
    return {name: [address for address in addresses if address] for name, addresses in found.items() if addresses}


def observe_clocksource(host: Host) -> Dict[str, Optional[str]]:
    return {"current": token((attribute(host, CLOCKSOURCE) or "").strip())}


def observe_rdma_limits(host: Host) -> List[Dict[str, Any]]:
    """Cgroups of the two upper levels that may use no RDMA handle or object of a device (cgroup-v2.rst: RDMA Interface Files)."""
    upper = [name for name in host.listdir(CGROUPS) if is_name(name)][:CGROUPS_READ]
    lower = ["%s/%s" % (name, inner) for name in upper if name.endswith(".slice")
             for inner in host.listdir("%s/%s" % (CGROUPS, name)) if is_name(inner) and inner.endswith(".slice")]
    found = []
    for name in (upper + lower)[:CGROUPS_READ]:
        lines = [line.split() for line in lines_in(attribute(host, "%s/%s/rdma.max" % (CGROUPS, name)) or "")]
        devices = [line[0] for line in lines if line and is_name(line[0]) and {"hca_handle=0", "hca_object=0"} & set(line[1:])]
        if devices:
            found.append({"cgroup": name, "devices": devices})
    return found


def clock_synchronised(host: Host) -> Optional[bool]:
    if host.which(CLOCK[0]) is None:
        return None
    return {"yes": True, "no": False}.get(host.run(CLOCK, SECONDS).out.strip())


def observe_mounts(host: Host) -> Dict[str, Any]:
    """NFS mounts, and those of which statfs(2) did not answer in its time: a child waits, and not we."""
    lines = [(line.split(" "), line.partition(" - ")[2].split(" ")[0]) for line in lines_in(host.read(MOUNTS) or "")]
    mounted = [plain_path(fields[4]) for fields, kind in lines if kind in NETWORK_FILES and len(fields) > 5]
    points = list(dict.fromkeys(point for point in mounted if point.startswith("/")))[:MOUNTS_ASKED]
    if not points:
        return {"asked": [], "silent": [], "unread": []}
    answer = host.run(("stat", "-f", "-c", "%n", "--") + tuple(points), SECONDS)
    told = answer.out.split("\n")
    quiet = [point for point in points if point not in told]
    # It hangs at the first one; of those behind it nothing is known.
    return {"asked": points, "silent": quiet[:1] if answer.rc == TIMED_OUT else [], "unread": quiet if answer.rc != TIMED_OUT else []}


def observe_disks(host: Host) -> List[Dict[str, Any]]:
    """File systems that a node cannot do without and that take nothing of a user's: ``full`` or ``read-only``. Not of a captured tree."""
    found: List[Dict[str, Any]] = []
    for place in PLACES if host.live else ():
        state = host.filesystem(place)
        if state is None:
            continue
        if mount_of(host, place).read_only:  # the file system's own word: a service may see its whole machine read-only
            found.append({"place": place, "state": "read-only"})
        elif (state.f_blocks and not state.f_bavail) or (state.f_files and not state.f_ffree):
            found.append({"place": place, "state": "full", "anybodys": place == ANYBODYS})
    return found


# What one look at a NIC's port can tell: its transceiver against the module's own limits, its FEC, how often its carrier went. Only ports
# of HCAs with a physical function, a carrier and an interface are asked; virtual and soft ones have no module. The flags of a module are
# latched until somebody reads them (SFF-8636, CMIS), so two looks would differ: the values are held against the thresholds. Without
# CAP_NET_ADMIN the kernel refuses the module. Forms: ethtool's sff-common.c, qsfp.c, cmis.c and netlink/fec.c.

ETHTOOL = "ethtool"
PORTS, LANES, OUTPUT = 16, 16, 64 * 1024
STORMY = "mlx5_core"  # the driver that counts the storms of its pauses
DRIVERS = ("mlx5_core", "mlx4_core", "bnxt_en", "ice", "i40e", "irdma", "ionic", "bnxt_re")
# A value of ethtool -m, its name here, and how its thresholds are called there.
_VALUES = (("Module temperature", "temperature", "Module temperature"), ("Module voltage", "voltage", "Module voltage"),
           ("Laser tx bias current", "tx_bias", "Laser bias current"), ("Laser bias current", "tx_bias", "Laser bias current"),
           ("Transmit avg optical power", "tx_power", "Laser output power"), ("Laser output power", "tx_power", "Laser output power"),
           ("Rcvr signal avg optical power", "rx_power", "Laser rx power"),
           ("Receiver signal average optical power", "rx_power", "Laser rx power"))
_LIMITS = ("high alarm", "low alarm", "high warning", "low warning")
_CHANNEL = re.compile(r"^(.{4,60}?) ?\((?:Channel|Chan) ([0-9]{1,2})\)$")
_AMOUNT = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,6})?) (?:degrees C|V|mA|mW)\b")
# The module first; then FEC with its counts, and the link. Of mlx5 also its counters (by the kernel's documentation of them): bits that FEC
# has put right, and of how many bytes, without what fills the gaps between packets.
_QUESTIONS: Tuple[Tuple[str, ...], ...] = (("-m",), ("-I", "--show-fec"), ())
_COUNTERS = ("-S",)
# Words of each answer, and what is not known without them.
_ANSWERS: Dict[Tuple[str, ...], Tuple[str, List[str]]] = {
    _QUESTIONS[0]: ("Identifier", ["module"]), _QUESTIONS[1]: ("Active FEC", ["fec", "uncorrectable_blocks"]), (): ("", []),
    _COUNTERS: ("NIC statistics", ["pause_storms"])}
_CODE = re.compile(r"0x[0-9a-f]{2} \(.{1,80}\)\Z")
_MODE = re.compile(r"([0-9]{2,7})base[A-Za-z0-9-]{1,8}/(?:Full|Half)\Z")


def _forms(**forms: str) -> List[Tuple[str, Pattern[str]]]:
    return [(name, re.compile(r"^[ \t]{0,8}%s$" % form, re.MULTILINE)) for name, form in forms.items()]


_FEC = re.compile(r"(?:Auto|Off|None|RS|BaseR|LLRS)(?: (?:Auto|Off|None|RS|BaseR|LLRS)){0,5}\Z")  # netlink/fec.c
_WORDS = _forms(fec=r"Active FEC encodings?:(.{0,40})", autoneg=r"Auto-negotiation: (on|off)")
_COUNTS = _forms(**{name: r"%s: ?(.{0,40})" % word for name, word in (
    ("lanes", "Lanes"), ("corrected_blocks", "corrected_blocks"), ("uncorrectable_blocks", "uncorrectable_blocks"),
    ("pause_storms", "tx_pause_storm_error_events"), ("corrected_bits", "rx_corrected_bits_phy"), ("received_bytes", "rx_bytes_phy"))})


def observe_ports(host: Host, hcas: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Those that tell anything. ``module``: None where it has none, or nobody may read it. ``carrier_downs``: since the driver's start.
    ``unread``: what ethtool did not answer, or answered in another form than the documented one."""
    found: List[Dict[str, Any]] = []
    answers = host.which(ETHTOOL) is not None
    for hca, port in [(each, port) for each in hcas for port in each.get("ports") or []][:PORTS]:
        netdev = port.get("netdev")
        if not netdev or not is_name(netdev) or port.get("link_layer") != "Ethernet" or port.get("state") != "ACTIVE":
            continue
        if hca.get("driver") not in DRIVERS or (hca.get("link") or {}).get("virtual_function"):
            continue
        questions = _QUESTIONS + ((_COUNTERS,) if hca["driver"] == STORMY else ())
        answers, told = _asked(host, netdev, questions if answers else ())
        told["carrier_downs"] = integer(attribute(host, "%s/%s/carrier_down_count" % (CLASS_NET, netdev)))
        if any(value is not None for name, value in told.items() if name != "unread"):
            found.append(dict(told, hca=hca.get("name"), port=port.get("number"), netdev=netdev))
    return found


def _asked(host: Host, netdev: str, questions: Sequence[Tuple[str, ...]]) -> Tuple[bool, Dict[str, Any]]:
    """First whether it answered in its time: a driver that hangs for one port hangs for the others too."""
    module, text, answers = None, "", bool(questions)
    unread = []
    for options in questions if answers else ():
        done = host.run((ETHTOOL,) + tuple(options) + (netdev,), SECONDS)
        if done.ok and options == _QUESTIONS[0]:
            module = module_of(done.out[:OUTPUT])
        elif done.ok:
            text += done.out[:OUTPUT] + "\n"
        unread += _ANSWERS[options][1] if not (done.ok and _ANSWERS[options][0] in done.out) else []
        if done.rc == TIMED_OUT:
            answers = False
            break
    told = {name: match.group(1).strip() for name, form in _WORDS + _COUNTS for match in [form.search(text)] if match is not None}
    found: Dict[str, Any] = {"fec": told.get("fec") if _FEC.match(told.get("fec", "")) else None, "autoneg": told.get("autoneg")}
    found.update((name, whole(told.get(name), 0)) for name, _form in _COUNTS)
    unread += ["module"] if answers and (module is None or module["unread"]) else []
    unread += [name for name in told if found[name] is None]
    return answers, dict(found, module=module, max_gbps=most_supported(text), unread=sorted(set(unread)))


def most_supported(text: str) -> Optional[float]:
    """The fastest link mode that the port itself supports, in Gb/s, as ``ethtool NETDEV`` lists them; whatever cable and switch can do.

    The list goes on in lines without a name: ``Supported link modes: 100000baseCR4/Full``, ``400000baseCR8/Full`` (mlx5: eth_proto_cap).
    """
    speeds, listed = [], False
    for line in lines_in(text[:OUTPUT]):
        name, colon, value = line.partition(":")
        listed = name.strip() == "Supported link modes" if colon else listed
        speeds += [int(found.group(1)) for found in map(_MODE.match, (value if colon else line).split()) if listed and found is not None]
    return max(speeds) / 1000.0 if speeds else None


def module_of(text: str) -> Optional[Dict[str, Any]]:
    """``values``: each with its lane (0: of the whole module), ``limits``: by the same names. None for what is no such answer."""
    rows = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines_in(text)) if colon]
    fields: Dict[str, str] = {}
    for name, value in rows:
        fields.setdefault(name, value)
    if "Identifier" not in fields:
        return None
    limits: Dict[str, Dict[str, float]] = {}
    for _name, ours, prefix in _VALUES:
        known = {limit: _amount(fields.get("%s %s threshold" % (prefix, limit))) for limit in _LIMITS}
        given = {limit: value for limit, value in known.items() if value is not None}
        if any(given.values()):  # all zeros: the module has none
            limits[ours] = given
    names = {name: ours for name, ours, _prefix in _VALUES}
    thresholds = ["%s %s threshold" % (prefix, limit) for _name, _ours, prefix in _VALUES for limit in _LIMITS]
    unread = [name for name in thresholds if name in fields and _amount(fields[name]) is None]
    values: List[Dict[str, Any]] = []
    for name, value in rows:
        lane, amount = _CHANNEL.match(name[:80]), _amount(value)
        what = names.get(lane.group(1) if lane is not None else name)
        if what is not None and amount is not None and len(values) < 4 * LANES:
            values.append({"kind": what, "lane": int(lane.group(2)) if lane is not None else 0, "value": amount})
        unread += [name] if what is not None and amount is None else []
    length = next((fields[name] for name in ("Cable assembly length", "Length (Copper or Active cable)") if name in fields), None)
    return {"vendor": token(fields.get("Vendor name")), "part": token(fields.get("Vendor PN")), "serial": token(fields.get("Vendor SN")),
            "kind": _kind(fields), "length": token(length),
            "technology": token(fields.get("Transmitter technology")), "values": values, "limits": limits,
            "unread": [one_line(name, 60) for name in unread[:LANES]]}


def _amount(text: Optional[str]) -> Optional[float]:
    match = _AMOUNT.match(text or "")
    return number(match.group(1)) if match is not None else None


def _kind(fields: Mapping[str, str]) -> Optional[str]:
    """By what it sends with and what it ends in (SFF-8024, table 4-3): many a copper cable has no separable connector either. Each is a
    number with its meaning."""
    sends, ends = fields.get("Transmitter technology", ""), fields.get("Connector", "")
    if any(_CODE.match(fields[name]) is None for name in ("Transmitter technology", "Connector") if name in fields):
        return None
    if "opper" in sends + ends:
        return "copper cable"
    return "active optical cable" if "No separable connector" in ends else "optical transceiver" if sends or ends else None
