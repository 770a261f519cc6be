# SPDX-License-Identifier: GPL-3.0-or-later
"""How the peer memory module on disk was built: against this RDMA stack, against another one, or before there was any.

nvidia_peermem is built with the GPU driver. Its registration with ib_core is compiled in only if the OFED headers were
there at that time; built before, the module loads with "Invalid argument" or not at all. Both can be seen beforehand: the
module imports ``ib_register_peer_memory_client`` or it does not, and the checksum of the import is the stack's or it is not.

    modprobe --dump-modversions FILE       0x7d5b1b8e<TAB>ib_register_peer_memory_client
    .../ofa_kernel/.../Module.symvers      0x7d5b1b8e<TAB>ib_register_peer_memory_client<TAB>.../ib_core<TAB>EXPORT_SYMBOL

A kernel without CONFIG_MODVERSIONS has no checksums: then the modules that it depends on tell (modinfo -F depends).
Sources: kernel-open/nvidia-peermem of open-gpu-kernel-modules, Makefile of nv_peer_memory (where OFED's headers lie).
"""

import re
from typing import Any, Dict, List, Optional, Pattern, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from .modules import module_path

SYMBOL = "ib_register_peer_memory_client"
MODULES = ("nvidia_peermem", "nv_peer_mem")
FITS, WITHOUT_CLIENT, OTHER_STACK, UNKNOWN = "fits", "without_client", "other_stack", "unknown"
HEADERS = "/usr/src/ofa_kernel"
DKMS_HEADERS = "/var/lib/dkms/mlnx-ofed-kernel"
_CRC = re.compile(r"^0x([0-9a-fA-F]{1,16})\s+%s(?:\s|$)" % SYMBOL, re.MULTILINE)
_ANY_CRC = re.compile(r"^0x[0-9a-fA-F]{1,16}\s+\w+", re.MULTILINE)
_SECONDS = 20.0


def observe_build(host: Host, kernel: Optional[str]) -> Optional[Dict[str, Any]]:
    """The module that ``modprobe`` would load into the running kernel; None when there is none."""
    for name in MODULES:
        path = module_path(host, kernel, name)
        if path is not None and ".." not in path.split("/"):
            file = "/lib/modules/%s/%s" % (kernel, path)
            imports, crc = _imports(host, file)
            symbols = next((file for file in symbol_files(host, str(kernel)) if checksum(host.read(file), _CRC) is not None), None)
            stack_crc = checksum(host.read(symbols), _CRC) if symbols is not None else None
            return {
                "module": name, "file": file, "imports_client": imports, "crc": crc, "stack_crc": stack_crc, "stack_symbols": symbols,
                "state": _state(imports, crc, stack_crc),
            }
    return None


def _state(imports: Optional[bool], crc: Optional[str], stack_crc: Optional[str]) -> str:
    if imports is False:
        return WITHOUT_CLIENT
    if imports is None or crc is None or stack_crc is None:
        return UNKNOWN
    return FITS if crc == stack_crc else OTHER_STACK


def _imports(host: Host, file: str) -> Tuple[Optional[bool], Optional[str]]:
    """(whether the module registers as a client, the checksum of what it imports for that)."""
    dumped = host.run(("modprobe", "--dump-modversions", file), _SECONDS)
    if dumped.ok and _ANY_CRC.search(dumped.out):
        crc = checksum(dumped.out, _CRC)
        return crc is not None, crc
    depends = host.run(("modinfo", "-F", "depends", file), _SECONDS)
    if not depends.ok or sysfs_values.token(depends.out) is None:
        return None, None
    return any(name.startswith("ib_") for name in depends.out.strip().split(",")), None


def checksum(text: Optional[str], line: Pattern[str]) -> Optional[str]:
    """Of a symbol, in a dump or in a Module.symvers; without leading zeros, since the two print differently many."""
    found = line.search(text or "")
    return "0x%x" % int(found.group(1), 16) if found else None


def symbol_files(host: Host, kernel: str) -> List[str]:
    """In the order in which the makefiles of peer memory modules look for OFED."""
    found = ["%s/%s/%s/Module.symvers" % (HEADERS, name, kernel) for name in host.listdir(HEADERS) if sysfs_values.is_name(name)]
    found += ["%s/%s/Module.symvers" % (HEADERS, name) for name in (kernel, "default")]
    for version in host.listdir(DKMS_HEADERS):
        if sysfs_values.is_name(version):
            found += ["%s/%s/%s/%s/module/Module.symvers" % (DKMS_HEADERS, version, kernel, arch)
                      for arch in host.listdir("%s/%s/%s" % (DKMS_HEADERS, version, kernel))]
            found.append("%s/%s/build/Module.symvers" % (DKMS_HEADERS, version))
    return found
