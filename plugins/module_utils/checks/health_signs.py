# SPDX-License-Identifier: GPL-3.0-or-later
"""A sign of bad health. Pure."""

from typing import NamedTuple, Optional


class Sign(NamedTuple):
    """``found``: in a word or two. ``todo``: where it is other than what the catalogue says of the check."""

    check: str
    subject: str
    hca: Optional[str]
    status: str
    found: str
    text: str
    todo: str = ""


def gpu_subject(pci: str) -> str:
    return "GPU %s" % pci
