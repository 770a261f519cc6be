# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the firmware of NVIDIA NICs: its version by board, and what of the wanted configuration is in effect. Pure."""

from typing import Any, List, Mapping, Optional

from ...observe.firmware import device_of, same_value
from ...rules.comparisons import Inspection, Where, no_expectation, unreadable, verdict
from ...spec.model import Spec
from ...types import Verdict

VENDOR = "0x15b3"
REBOOT = "what is in flash runs after a reboot"


def judge_firmware(seen: Inspection) -> List[Verdict]:
    """Each NIC once: two ports have one firmware."""
    verdicts: List[Verdict] = []
    judged: List[str] = []
    for hca in seen.facts.get("hcas") or []:
        address = hca.get("pci_address")
        if address is None or hca.get("vendor_id") != VENDOR or device_of(address) in judged:
            continue
        judged.append(device_of(address))
        where = Where(seen.node, hca.get("name"), None, "%s (%s)" % (hca.get("name"), device_of(address)))
        firmware = hca.get("firmware") or {}
        if seen.spec["nic_firmware_versions"]:
            verdicts.append(_version(where, seen.spec, hca, firmware.get("flash")))
        verdicts += _config(where, seen.spec, firmware.get("config"))
    return verdicts


def _version(where: Where, spec: Spec, hca: Mapping[str, Any], flash: Optional[str]) -> Verdict:
    psid, running = hca.get("board_id"), hca.get("fw_ver")
    wanted = spec["nic_firmware_versions"].get(psid or "")
    if wanted is None:
        return no_expectation("firmware.version", where, "nic_firmware_versions.%s" % (psid or "PSID"), running)
    if running is None:
        return unreadable("firmware.version", where, wanted, "the firmware's version")
    if running == wanted and flash in (None, wanted):
        return verdict("firmware.version", where, "pass", wanted, running, "firmware of %s is %s" % (psid, running))
    if running == wanted:
        return verdict("firmware.version", where, "fail", wanted, flash, "runs %s, but %s is in flash: %s" % (running, flash, REBOOT))
    if flash == wanted:
        return verdict("firmware.version", where, "fail", wanted, running, "runs %s, and %s is in flash: %s" % (running, flash, REBOOT))
    image = "apply flashes it, with consent to firmware" if psid in spec["nic_firmware_images"] else (
        "flash it by hand, or name an image in nic_firmware_images.%s" % psid)
    return verdict("firmware.version", where, "fail", wanted, running, "firmware of %s is %s, not %s: %s" % (psid, running, wanted, image))


def _config(where: Where, spec: Spec, config: Optional[Mapping[str, Mapping[str, Any]]]) -> List[Verdict]:
    """What is in effect now. A parameter that facts do not show is at its default: if another value is wanted, the plan says so."""
    wanted = spec["nic_firmware_config"]
    if wanted and config is None:
        return [unreadable("firmware.config", where, dict(wanted), "the stored configuration (it needs root and mstconfig)")]
    verdicts: List[Verdict] = []
    for name, value in wanted.items():
        found = (config or {}).get(name)
        if found is None:
            continue
        at = where._replace(subject="%s of %s" % (name, where.subject))
        current = found.get("current")
        if current is None:
            verdicts.append(unreadable("firmware.config", at, value, "the value in effect"))
        elif same_value(value, current):
            verdicts.append(verdict("firmware.config", at, "pass", value, current, "%s is %s" % (name, current)))
        elif same_value(value, found.get("next")):
            message = "%s is %s and will be %s after a reboot; if one has been, it needs the power off (a cold start)"
            verdicts.append(verdict("firmware.config", at, "fail", value, current, message % (name, current, found.get("next"))))
        else:
            message = "%s is %s, not %s: apply sets it, with consent to firmware"
            verdicts.append(verdict("firmware.config", at, "fail", value, current, message % (name, current, value)))
    return verdicts
