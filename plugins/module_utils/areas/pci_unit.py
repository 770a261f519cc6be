# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that sets PCI registers again at every boot, and takes itself away when nothing is to be set any more."""

from typing import List, Optional, Sequence

from ..types import Change, remove_file, run
from .common.files import HEADER
from .common.units import DIRECTORY, RELOAD, Unit, UnitState, plan_unit

UNIT = "railwright-pci.service"
SETPCI = ("setpci",)
WHY = "PCI registers are forgotten at a reset"
SOURCE = "choice: NVIDIA's and OCI's scripts set them once; this is for the boots after that"
_PLACE = {"debian": "/usr/bin/setpci", "redhat": "/usr/sbin/setpci", "suse": "/sbin/setpci"}  # until the package is there


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


def plan_boot(area: str, lines: Sequence[str], family: str, setpci: Optional[str], state: UnitState) -> List[Change]:
    """``lines``: what the unit sets; none: a unit of ours goes."""
    if lines:
        text = unit_text(lines, setpci or _PLACE.get(family, "/usr/sbin/setpci"))
        return plan_unit(area, Unit(UNIT, text, "multi-user.target", True), state, WHY, SOURCE)
    path = "%s/%s" % (DIRECTORY, UNIT)
    if state.file.text is None and not state.enabled:
        return []
    ops = (run(("systemctl", "disable", UNIT), (("systemctl", "enable", UNIT),)), remove_file(path), RELOAD)
    return [Change(area, "unit %s removed" % UNIT, True, False, "none",
                   "nothing is left that it would set; live values stay until the next reset", SOURCE, ops)]
