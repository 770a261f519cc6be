# SPDX-License-Identifier: GPL-3.0-or-later
"""Which installed driver packages cannot stay beside the wanted ones: another branch's, or the other kind of kernel module. Pure.

Ubuntu and older CUDA repositories have the branch in every package's name, and two branches conflict; both flavours of the
kernel module conflict everywhere. They are removed as planned changes, not as a surprise of the package manager.
"""

import re
from typing import List, Mapping, Sequence

_PREFIXES = ("nvidia-", "libnvidia-", "cuda-drivers-", "linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-",
             "xserver-xorg-video-nvidia-")
_BRANCH = re.compile(r"-([4-9][0-9]{2})(?=-|\Z)")
_PROPRIETARY = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?|nvidia-kernel-dkms|kmod-nvidia-latest-dkms|cuda-drivers(?:-[0-9]{3})?)\Z")
_OPEN = re.compile(
    r"(?:nvidia-(?:dkms|kernel-source|driver)-[0-9]{3}(?:-server)?-open|nvidia-open(?:-[0-9]{3})?|nvidia-kernel-open-dkms|"
    r"nvidia-open-kernel-dkms|kmod-nvidia-open-dkms)\Z")


def stale_packages(installed: Mapping[str, str], wanted: Sequence[str], branch: str, flavour: str) -> List[str]:
    """Names of what must go before ``wanted`` can come."""
    other = _PROPRIETARY if flavour == "open" else _OPEN
    found = []
    for name in sorted(installed):
        if name in wanted:
            continue
        if other.match(name) or _other_branch(name, branch):
            found.append(name)
    return found


def _other_branch(name: str, branch: str) -> bool:
    if not name.startswith(_PREFIXES):
        return False
    found = _BRANCH.search(name)
    return found is not None and found.group(1) != branch
