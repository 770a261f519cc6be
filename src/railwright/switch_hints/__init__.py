# SPDX-License-Identifier: GPL-3.0-or-later
"""The switch side of a QoS profile, as text to review. Nothing here talks to a switch or a node.

``model.py`` is what all platforms share; one file a platform. A new platform is one more file and a row of PLATFORMS.
"""

from __future__ import annotations

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from railwright.switch_hints import eos, nvue, nxos, onyx, sonic
from railwright.switch_hints.model import Chain, Platform, Sheet

PLATFORMS = {row.os: row for row in (sonic.PLATFORM, nvue.PLATFORM, onyx.PLATFORM, eos.PLATFORM, nxos.PLATFORM)}


def hints(os: str, profile: QosProfile) -> list[str]:
    """The lines for one platform. Raises ValueError for a profile that no switch text can be written for."""
    platform: Platform = PLATFORMS[os]
    chain = Chain.of(profile)
    sheet = Sheet(platform.comment)
    sheet.head(platform, chain)
    platform.write(sheet, chain)
    sheet.gap()
    sheet.say("Read in:")
    for source in platform.sources:
        sheet.say(f"  {source}")
    return sheet.lines
