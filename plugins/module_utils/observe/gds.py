# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUDirect Storage where nvidia-fs is installed: the module, the storage drivers that registered with it, cufile.json.

Only files are read. gdscheck would start CUDA on every GPU, and it takes most of what it prints from these files. nvidia-fs lists
``wekafsio`` always, registered or not: it counts where that module is loaded. Sources: NVIDIA/gds-nvidia-fs 06eb38e (src/nvfs-proc.c,
src/nvfs-dma.c), GPUDirect Storage's configuration guide.
"""

import re
from typing import Any, Dict, List, Optional

from ..formats import sysfs_values
from ..formats.outside import json_object, mapping
from ..host.host import Host
from .dkms import dkms_builds
from .modules import module_index, running_modules

MODULE = "nvidia_fs"
PROC = "/proc/driver/nvidia-fs"
CONFIG = "/etc/cufile.json"
_LIMIT = 64 * 1024
_ALWAYS = "wekafsio"
_P2PDMA = re.compile(r'"use_pci_p2pdma"[ \t]*:[ \t]*true')  # for all, or for a kind of device


def observe_gds(host: Host, kernel: Optional[str]) -> Optional[Dict[str, Any]]:
    """None where nvidia-fs is neither loaded, nor on disk for this kernel, nor known to DKMS: libcufile alone comes with every CUDA."""
    running = running_modules(host)
    loaded = None if running is None else MODULE in running
    if not (loaded or MODULE in module_index(host, kernel) or any(build.module == "nvidia-fs" for build in dkms_builds(host))):
        return None
    names = _registered(host)
    version = (host.line(PROC + "/version") or "").partition(":")[2]
    return {
        "loaded": loaded,
        "version": sysfs_values.token(version),
        "storage": None if names is None else [name for name in names if name != _ALWAYS or _ALWAYS in (running or {})],
        "config": _config(host),
    }


def _registered(host: Host) -> Optional[List[str]]:
    """The names of ``NAME: VERSION`` lines; None where the module shows none of it."""
    text = host.read(PROC + "/modules", _LIMIT)
    names = None if text is None else [line.partition(":")[0] for line in text.splitlines() if ":" in line]
    return None if names is None else sorted({name for name in names if sysfs_values.is_name(name)})


def _config(host: Host) -> Optional[Dict[str, Any]]:
    """cufile.json: JSON with lines of comment. None without the file; ``read`` false for one that cannot be understood."""
    text = host.read(CONFIG, _LIMIT)
    if text is None:
        return None
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
    found = json_object(text)
    compat = mapping(mapping(found).get("properties")).get("allow_compat_mode")
    return {"read": found is not None, "allow_compat_mode": compat if isinstance(compat, bool) else None,
            "use_pci_p2pdma": found is not None and _P2PDMA.search(text) is not None}
