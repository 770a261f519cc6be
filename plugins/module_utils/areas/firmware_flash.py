# SPDX-License-Identifier: GPL-3.0-or-later
"""Flashing a NIC: only to the version that the inventory names for its board, only from the image that it vouches for.

The image that is in flash is read out first and kept, so that a failed apply can put it back. The new one runs after a reset.
"""

from typing import Dict, List, NamedTuple, Optional

from ..types import Change, run

IMAGES = "/var/lib/railwright/firmware"
FLASH_SECONDS = 1800.0  # minutes over PCIe configuration cycles, more on a busy machine; a flash must never be cut short
SOURCE = "mstflint(1): burn, ri"


class Board(NamedTuple):
    """``flash``: None where nobody could be asked (no tool yet)."""

    pci: str
    where: str
    psid: str
    running: Optional[str]
    flash: Optional[str]
    wanted: Optional[str]
    image: Optional[Dict[str, str]]


def image_path(psid: str, version: str) -> str:
    return "%s/%s-%s.bin" % (IMAGES, psid, version)


def plan_flash(area: str, board: Board, tool: str) -> List[Change]:
    if board.wanted is None or (board.running == board.wanted and board.flash in (None, board.wanted)):
        return []
    changes: List[Change] = []
    if board.flash != board.wanted:
        if board.image is None:
            return []  # judged, not flashed; see notes and the verdict firmware.version
        kept = "%s/%s-%s.before.bin" % (IMAGES, board.pci.replace(":", "-"), board.flash or board.running or "unknown")
        start = (tool, "-d", board.pci)
        read = run(start + ("ri", kept), (("rm", "-f", kept),), FLASH_SECONDS)
        burn = run(start + ("-i", image_path(board.psid, board.wanted), "-y", "burn"), (start + ("-i", kept, "-y", "burn"),), FLASH_SECONDS)
        changes.append(Change(area, "firmware %s in flash on %s" % (board.psid, board.where), board.flash or board.running, board.wanted,
                              "firmware", "nic_firmware_versions", SOURCE, (read, burn)))
    if board.running != board.wanted:
        changes.append(Change(area, "firmware %s in effect on %s" % (board.psid, board.where), board.running, board.wanted, "reboot",
                              "nic_firmware_versions; the NIC runs what is in flash after a reset", SOURCE, ()))
    return changes
