# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware configuration and version of the rails' NVIDIA NICs, through mstflint's tools.

A parameter has three values: ``set`` changes the one for the next boot, and only a reset makes it current. So a parameter is
two Changes: the next boot's value (class firmware, undone by setting the old one again), and the reboot that loads it. A record
of the boot in which we set it tells a reboot that did not help (some parameters need the power off) from one that has not been.
A NIC is flashed only to the version that the inventory names for its board, only from the image that it pins.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...host.host import Host
from ...observe import firmware
from ...observe.firmware import CONFIG_TOOLS, FLASH_TOOLS, Config, argument_of, device_of, find_tool, same_value
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, no_expectation, unreadable, verdict
from ...spec.model import Spec
from ...types import AT_BOOT, FIRMWARE, NOW, PCI, PRESENT, Change, Identity, Op, Problem, Subject, Verdict, run, write_file
from ..common.package_changes import package_change
from .pci import Rail, rail_functions

IMAGES = "/var/lib/railwright/firmware"
FLASH_SECONDS = 1800.0  # minutes over PCIe configuration cycles, more on a busy machine; a flash must never be cut short
FLASH_SOURCE = "mstflint(1): burn, ri"
NAME = "nic_firmware"
DRIVERS = ("mlx5_core", "mlx4_core")
STATE = "/var/lib/railwright/nic-firmware"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SOURCE = "mstconfig(1): set changes the next boot's value"
WHY = "nic_firmware_config"
MACHINES = "in a container they belong to the machine below"
GUEST = "it is a virtual function, and the NIC's firmware is the hypervisor's"
REBOOT = "what is in flash runs after a reboot"
HIDDEN = "Some show only while ADVANCED_PCI_SETTINGS is 1 and loaded."


class Desired(NamedTuple):
    config: Tuple[Tuple[str, Any], ...]  # in the order of the inventory: some parameters need others first
    versions: Dict[str, str]
    images: Dict[str, Dict[str, str]]
    nics: Tuple[Rail, ...]  # of each NIC the first function that carries a rail
    left_out: Tuple[str, ...]


class Nic(NamedTuple):
    target: Rail
    guest: bool  # a virtual function
    psid: Optional[str]
    running: Optional[str]
    config: Optional[Config]  # None: not asked
    flash: Optional[str]  # the version there; None: nobody could be asked (no tool yet)
    image: Optional[str]  # SHA-256 of the image on the node
    records: Dict[str, str]  # parameter -> "BOOT_ID VALUE" of when we set it


class Observed(NamedTuple):
    nics: Tuple[Nic, ...]
    config_tool: Optional[str]
    flash_tool: Optional[str]
    boot: str


def desired(spec: Spec, identity: Identity) -> Desired:
    config = tuple(spec["nic_firmware_config"].items())
    wanted = bool(config or spec["nic_firmware_versions"])
    nics = rail_nics(spec, identity) if wanted else {}
    notes: List[str] = []
    if wanted and identity.has("container"):
        notes.append("firmware of NICs is left alone: " + MACHINES)
        nics = {}
    elif wanted and not nics:
        notes.append("firmware of NICs: no rail of this node is on an NVIDIA NIC")
    return Desired(config, dict(spec["nic_firmware_versions"]), dict(spec["nic_firmware_images"]), tuple(nics.values()), tuple(notes))


def rail_nics(spec: Spec, identity: Identity) -> Dict[str, Rail]:
    """The NVIDIA NICs that the area is for, by device; another one of the node's (storage, management) is nobody's here."""
    drivers = {nic.pci: nic.driver for nic in identity.nics}
    drivers.update({hca.pci: hca.driver for hca in identity.hcas})
    nics: Dict[str, Rail] = {}
    for rail in rail_functions(spec, identity):
        if drivers.get(rail.pci) in DRIVERS:
            nics.setdefault(device_of(rail.pci), rail)
    return nics


def observe(host: Host, desired: Desired) -> Observed:
    tools = find_tool(host, CONFIG_TOOLS), find_tool(host, FLASH_TOOLS)
    nics = tuple(_observe_nic(host, target, desired, tools) for target in desired.nics)
    return Observed(nics, tools[0], tools[1], host.line(BOOT_ID) or "")


def _observe_nic(host: Host, target: Rail, desired: Desired, tools: Tuple[Optional[str], Optional[str]]) -> Nic:
    if firmware.is_guest_function(host, target.pci):
        return Nic(target, True, None, None, None, None, None, {})
    psid, running = firmware.board_of(host, target.pci)
    names = tuple(name for name, _value in desired.config)
    config = firmware.query_config(host, tools[0], target.pci, names) if names and tools[0] is not None else None
    version = desired.versions.get(psid or "")
    flash = firmware.version_in_flash(host, tools[1], target.pci) if version is not None and tools[1] is not None else None
    image: Optional[str] = None
    if psid in desired.images and version not in (running, None):
        data = host.read_bytes(image_path(str(psid), str(version)), 256 * 1024 * 1024)
        import hashlib  # openssl's, for who has an image

        image = hashlib.sha256(data).hexdigest() if data is not None else None
    records = {name: (host.line(record_path(target.pci, name)) or "") for name in names}
    return Nic(target, False, psid, running, config, flash, image, records)


def _name_of(nic: Rail) -> str:
    return "NIC %s of %s" % (device_of(nic.pci), nic.label)


def record_path(address: str, name: str) -> str:
    return "%s/%s_%s" % (STATE, device_of(address).replace(":", "-"), name.replace("[", "-").replace("]", ""))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes: List[Change] = []
    for nic in observed.nics:
        if nic.guest:
            continue
        for name, wanted in desired.config:
            changes += _plan_parameter(nic, name, wanted, observed)
        changes += plan_flash(nic, desired, observed.flash_tool or FLASH_TOOLS[0])
    if any(not change.external for change in changes) and (observed.config_tool is None or observed.flash_tool is None):
        changes.insert(0, package_change(NAME, "mstflint", None, PRESENT, "brings mstconfig and mstflint", "mstflint"))
    return changes


def plan_flash(nic: Nic, desired: Desired, tool: str) -> List[Change]:
    """The image that is in flash is read out first and kept, so that a failed apply can restore it. The new one runs after a reset."""
    psid, running, flash, wanted = nic.psid or "", nic.running, nic.flash, desired.versions.get(nic.psid or "")
    if wanted is None or (running == wanted and flash in (None, wanted)):
        return []
    changes: List[Change] = []
    if flash != wanted:
        if psid not in desired.images:
            return []  # judged, not flashed; see notes and the verdict firmware.version
        kept = "%s/%s-%s.before.bin" % (IMAGES, nic.target.pci.replace(":", "-"), flash or running or "unknown")
        start = (tool, "-d", nic.target.pci)
        read = run(start + ("ri", kept), (("rm", "-f", kept),), FLASH_SECONDS)
        burn = run(start + ("-i", image_path(psid, wanted), "-y", "burn"), (start + ("-i", kept, "-y", "burn"),), FLASH_SECONDS)
        changes.append(_change(nic.target, "firmware %s in flash" % psid, flash or running, wanted, "nic_firmware_versions", FLASH_SOURCE,
                               (read, burn), Subject(FIRMWARE, psid)))
    if running != wanted:
        changes.append(_change(nic.target, "firmware %s in effect" % psid, running, wanted,
                               "nic_firmware_versions; the NIC runs what is in flash after a reset", FLASH_SOURCE))
    return changes


def image_path(psid: str, version: str) -> str:
    return "%s/%s-%s.bin" % (IMAGES, psid, version)


def _change(
    nic: Rail, what: str, before: Optional[str], after: str, why: str, source: str, ops: Tuple[Op, ...] = (),
    subject: Optional[Subject] = None,
) -> Change:
    """With ``ops`` what the next boot finds, without them that boot."""
    return Change(NAME, "%s on %s" % (what, _name_of(nic)), before, after, "firmware" if ops else "reboot", why, source, ops,
                  subject or Subject(PCI, nic.pci), AT_BOOT if ops else NOW, nic.name)


def _plan_parameter(nic: Nic, name: str, wanted: Any, observed: Observed) -> List[Change]:
    """Two changes at most: the value for the next boot, and the boot."""
    written = argument_of(wanted)
    tool = observed.config_tool or CONFIG_TOOLS[0]
    value = nic.config.values.get(name) if nic.config is not None else None
    if observed.config_tool is not None and (value is None or value.next is None or value.next.startswith("Array[")):
        return []  # see conflicts
    changes: List[Change] = []
    before, current = (value.next, value.current) if value is not None else (None, None)
    if value is None or not same_value(wanted, value.next):
        old = argument_of(before) if before is not None else None
        start = (tool, "-y", "-d", nic.target.pci, "set")
        # Before the tool is there nobody knows the old value. Then this change is for the plan to show: the package step comes
        # first, and what is applied is planned again, with the old value.
        undo = (start + ("%s=%s" % (name, old),),) if old is not None else ()
        record = write_file(record_path(nic.target.pci, name), "%s %s\n" % (observed.boot, written), 0o600)
        changes.append(_change(nic.target, name + " at next boot", before, written, WHY, SOURCE,
                               (run(start + ("%s=%s" % (name, written),), undo), record)))
    elif _rebooted_in_vain(nic, name, written, observed):
        return []  # another reboot would not help either; see notes, and the verdict firmware.config
    if changes or (current is not None and not same_value(wanted, current)):
        changes.append(_change(nic.target, name + " in effect", current, written, WHY + "; the firmware loads it at the next boot", SOURCE))
    return changes


def _rebooted_in_vain(nic: Nic, name: str, written: str, observed: Observed) -> bool:
    """We set it, the machine has been started since, and it is still not current."""
    boot, _space, value = nic.records.get(name, "").partition(" ")
    current = nic.config.values[name].current if nic.config is not None and name in nic.config.values else None
    return bool(boot and observed.boot and boot != observed.boot and value == written and current is not None
                and not same_value(written, current))


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """What a NIC's firmware does not know, what the tool could not do, and an image that is not the one that was pinned."""
    found: List[Problem] = []
    for nic in observed.nics:
        if nic.config is not None:
            found += _config_conflicts(nic, nic.config, desired)
        image = desired.images.get(nic.psid or "")
        if image is not None and nic.image is not None and nic.image != image["sha256"]:
            found.append(Problem(NAME, _name_of(nic.target), "the image for %s in %s has the SHA-256 %s, not %s of nic_firmware_images; "
                                 "remove it" % (nic.psid, IMAGES, nic.image, image["sha256"])))
    return found


def _config_conflicts(nic: Nic, config: Config, desired: Desired) -> List[Problem]:
    if config.failure is not None:
        return [Problem(NAME, _name_of(nic.target), "its configuration cannot be read: %s" % config.failure)]
    found: List[Problem] = []
    for name, _wanted in desired.config:
        value = config.values.get(name)
        if name in config.errors or value is None or value.next is None:
            known = "%s %s" % (nic.psid or "PSID unknown", nic.running or "version unknown")
            said = " (%s)" % config.errors[name] if name in config.errors else ""
            found.append(Problem(NAME, _name_of(nic.target), "its firmware, %s, has no parameter %s%s; take it out of nic_firmware_config, "
                                 "or update the firmware. %s" % (known, name, said, HIDDEN)))
        elif value.next.startswith("Array["):
            found.append(Problem(NAME, _name_of(nic.target), "%s is an array, %s; name its elements: %s[0] …" % (name, value.next, name)))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    said = list(desired.left_out)
    for nic in observed.nics:
        if nic.guest:
            said.append("firmware of %s is left alone: %s" % (_name_of(nic.target), GUEST))
            continue
        for name, wanted in desired.config:
            if nic.config is not None and name in nic.config.values and _rebooted_in_vain(nic, name, argument_of(wanted), observed):
                said.append("%s on %s is set to %s and still %s after a reboot: it needs the power off (a cold start), or mstfwreset" % (
                    name, _name_of(nic.target), argument_of(wanted), nic.config.values[name].current))
        version = desired.versions.get(nic.psid or "")
        if version is not None and version not in (nic.running, nic.flash) and nic.psid not in desired.images:
            said.append("firmware of %s is %s, not %s: nic_firmware_images has no image for %s, so it is judged and not flashed" % (
                _name_of(nic.target), nic.running, version, nic.psid))
    return said


def judge_firmware(seen: Inspection) -> List[Verdict]:
    """Each NIC that the area is for, once: two ports have one firmware. What the area leaves alone is not failed for what it is."""
    spec, verdicts = seen.spec, []
    checks = [("firmware.version", spec["nic_firmware_versions"]), ("firmware.config", spec["nic_firmware_config"])]
    hcas: Dict[str, Mapping[str, Any]] = {}
    for hca in seen.facts.get("hcas") or []:
        hcas.setdefault(device_of(hca.get("pci_address") or ""), hca)
    for device, rail in rail_nics(spec, seen.identity).items():
        hca = hcas.get(device, {})
        where = VerdictSubject(seen.node, hca.get("name"), None, "%s (%s)" % (hca.get("name", rail.label), device))
        why = MACHINES if seen.identity.has("container") else GUEST if hca and hca.get("firmware", {}) is None else None
        if why is not None:
            verdicts += [verdict(check, where, "skipped", None, None, why) for check, wanted in checks if wanted]
            continue
        stored = hca.get("firmware") or {}
        if spec["nic_firmware_versions"]:
            verdicts.append(_version(where, spec, hca, stored.get("flash")))
        verdicts += _config(where, spec, stored.get("config"))
    return verdicts


def _version(where: VerdictSubject, spec: Spec, hca: Mapping[str, Any], flash: Optional[str]) -> Verdict:
    psid, running = hca.get("board_id"), hca.get("fw_ver")
    wanted = spec["nic_firmware_versions"].get(psid or "")
    if wanted is None:
        return no_expectation("firmware.version", where, "nic_firmware_versions.%s" % (psid or "PSID"), running)
    image = "apply flashes it, with consent to firmware" if psid in spec["nic_firmware_images"] else (
        "flash it by hand, or name an image in nic_firmware_images.%s" % psid)
    return decided(
        "firmware.version", where,
        (running is None, "unknown", wanted, None, UNREADABLE % "the firmware's version"),
        (running == wanted and flash is None, "unknown", wanted, running,
         "it runs %s; %s" % (running, UNREADABLE % "the version in flash (it needs root and mstflint)")),
        (running == wanted and flash == wanted, "pass", wanted, running, "firmware of %s is %s" % (psid, running)),
        (running == wanted, "fail", wanted, flash, "runs %s, but %s is in flash: %s" % (running, flash, REBOOT)),
        (flash == wanted, "fail", wanted, running, "runs %s, and %s is in flash: %s" % (running, flash, REBOOT)),
        (True, "fail", wanted, running, "firmware of %s is %s, not %s: %s" % (psid, running, wanted, image)))


def _config(where: VerdictSubject, spec: Spec, config: Optional[Mapping[str, Mapping[str, Any]]]) -> List[Verdict]:
    """What is in effect now. A parameter that facts do not show is at its default: if another value is wanted, the plan says so."""
    wanted = spec["nic_firmware_config"]
    if wanted and config is None:
        return [unreadable("firmware.config", where, dict(wanted), "the stored configuration (it needs root and mstconfig)")]
    verdicts: List[Verdict] = []
    for name, value in wanted.items():
        found = (config or {}).get(name)
        if found is None:
            continue
        current, following = found.get("current"), found.get("next")
        verdicts.append(decided(
            "firmware.config", where._replace(subject="%s of %s" % (name, where.subject)),
            (current is None, "unknown", value, None, UNREADABLE % "the value in effect"),
            (same_value(value, current), "pass", value, current, "%s is %s" % (name, current)),
            (same_value(value, following), "fail", value, current,
             "%s is %s and will be %s after a reboot; if one has been, it needs the power off (a cold start)" % (name, current, following)),
            (True, "fail", value, current, "%s is %s, not %s: apply sets it, with consent to firmware" % (name, current, value))))
    return verdicts
