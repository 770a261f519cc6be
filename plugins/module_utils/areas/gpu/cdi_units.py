# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes the CDI specification anew at boot and after a change of the driver: the toolkit's own units, or ours for an older toolkit.

Installing a driver ends with depmod, which writes modules.dep: that file is watched. /var/run is empty after a boot.
"""

from typing import List, NamedTuple

from ...catalogue.containers import CDI_SOURCE
from ...host.host import Host
from ...types import Change, run
from ..common.files import HEADER
from ..common.units import DaemonState, Unit, UnitState, observe_daemon, observe_unit, plan_daemon, plan_unit, removed_unit

THEIR_PATH, THEIR_SERVICE = "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"
PATH, SERVICE = "railwright-cdi.path", "railwright-cdi.service"
TARGET = "multi-user.target"
OURS, THEIRS = "ours", "theirs"
WHY = "the CDI specification must follow the driver, and /var/run is empty after a boot"

SERVICE_TEXT = HEADER + """[Unit]
Description=CDI specification of the NVIDIA GPUs (railwright)
After=systemd-modules-load.service nvidia-persistenced.service

[Service]
Type=oneshot
ExecCondition=/bin/grep -q nvidia.ko /lib/modules/%v/modules.dep
ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml

[Install]
WantedBy=multi-user.target
"""
PATH_TEXT = HEADER + """[Unit]
Description=CDI specification of the NVIDIA GPUs after a change of the driver (railwright)

[Path]
PathChanged=/lib/modules/%v/modules.dep
PathChanged=/usr/bin/nvidia-ctk

[Install]
WantedBy=multi-user.target
"""
UNITS = (Unit(SERVICE, SERVICE_TEXT, TARGET, False), Unit(PATH, PATH_TEXT, TARGET, True))


class CdiUnits(NamedTuple):
    theirs: DaemonState
    their_service: DaemonState
    service: UnitState
    path: UnitState


def observe_units(host: Host) -> CdiUnits:
    service, path = (observe_unit(host, unit) for unit in UNITS)
    return CdiUnits(observe_daemon(host, THEIR_PATH), observe_daemon(host, THEIR_SERVICE), service, path)


def plan_units(area: str, units: CdiUnits, who: str, driver: str) -> List[Change]:
    """``who``: theirs, ours, or '' for nobody: ours go then, and theirs are not ours to stop."""
    if who == OURS:
        pairs = zip(UNITS, (units.service, units.path))
        return [change for unit, state in pairs for change in plan_unit(area, unit, state, WHY, CDI_SOURCE)]
    changes = [] if who != THEIRS or not driver else (
        plan_daemon(area, units.their_service, WHY, CDI_SOURCE, running=False) + plan_daemon(area, units.theirs, WHY, CDI_SOURCE))
    return changes + _removal(area, units)


def _removal(area: str, units: CdiUnits) -> List[Change]:
    there = [(unit, state) for unit, state in zip(UNITS, (units.service, units.path)) if state.file.text is not None]
    changes: List[Change] = []
    for unit, state in reversed(there):  # the path first: it would start the service
        off = run(("systemctl", "disable", "--now", unit.name), (("systemctl", "enable", "--now", unit.name),))
        changes.append(removed_unit(area, unit.name, "nothing needs it any more", CDI_SOURCE, (off,) if state.enabled else ()))
    return changes
