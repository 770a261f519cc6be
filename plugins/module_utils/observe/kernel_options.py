# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that the running kernel was built with: from /boot, its modules' directory, or the kernel itself."""

import re
import zlib
from typing import Dict, Optional, Sequence

from ..host.host import Host
from . import sysfs_values

_LIMIT = 4 * 1024 * 1024  # a configuration has 300 KiB
_GZIP = 31  # zlib: window of 32 KiB, gzip header


def kernel_options(host: Host, kernel: Optional[str], names: Sequence[str]) -> Dict[str, Optional[str]]:
    """y, m or n for each option; None where the kernel's configuration is not there."""
    text = _configuration(host, kernel)
    found: Dict[str, Optional[str]] = {}
    for name in names:
        value = re.search(r"^%s=([ym])$" % re.escape(name), text or "", re.MULTILINE)
        found[name] = value.group(1) if value else ("n" if text else None)
    return found


def _configuration(host: Host, kernel: Optional[str]) -> Optional[str]:
    if kernel is not None and sysfs_values.is_name(kernel):
        for path in ("/boot/config-" + kernel, "/lib/modules/%s/config" % kernel):
            text = host.read(path)
            if text is not None:
                return text
    packed = host.read_bytes("/proc/config.gz", _LIMIT)
    if not packed:
        return None
    try:
        return zlib.decompressobj(_GZIP).decompress(packed, _LIMIT).decode("ascii", "replace")
    except zlib.error:
        return None
