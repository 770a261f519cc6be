# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUDirect RDMA needs, as facts: peer memory modules, the GPU driver, dma-buf as the kernel, the HCAs and CUDA see it.

No decision is made here (rules/gpudirect.py): NCCL takes peermem when one of its three files exists and asks the
HCA driver for dma-buf itself. So an HCA is asked as NCCL does it: register a dma-buf with file descriptor -1. A driver that
can do it gets as far as inspecting the descriptor (EBADF); one that cannot says EOPNOTSUPP, an old kernel EPROTONOSUPPORT.
CUDA has a device attribute for it. Both are asked in a child process of this Python with a time limit, because a sick device
can hang whoever opens it, and libcuda keeps a process's memory and threads. What a child said before it hung still counts.
Sources: NCCL net_ib/gdr.cc; ibv_reg_dmabuf_mr(3); cuda.h (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124, from CUDA 11.7 on).
"""

import re
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Pattern, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from .boot import kernel_options
from .devices import CLASS_INFINIBAND, attribute, driver_of, entries
from .gpu_driver import loaded_driver
from .modules import module_path

MEMORY_PEERS = "/sys/kernel/mm/memory_peers"
MODULES = ("nvidia_peermem", "nv_peer_mem")
EFA = "efa"
OPTIONS = ("CONFIG_DMA_SHARED_BUFFER", "CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA", "CONFIG_INFINIBAND_ON_DEMAND_PAGING")


def observe_gpudirect(
    host: Host, kernel: Optional[str], modules: Optional[Mapping[str, Mapping[str, Any]]], gpus: int = 0
) -> Dict[str, Any]:
    """``gpus``: how many NVIDIA GPUs the node has; without one there is nobody to ask about CUDA."""
    driver = loaded_driver(host)
    return {
        **peermem_facts(modules),
        "peermem_build": observe_build(host, kernel),
        "peer_memory_interface": host.exists(MEMORY_PEERS),
        # Clients that registered with OFED's peer memory interface; inbox kernels have no such directory.
        "memory_peers": [{"name": name, "version": sysfs_values.token(host.line("%s/%s/version" % (MEMORY_PEERS, name)))}
                         for name in host.listdir(MEMORY_PEERS) if sysfs_values.is_name(name)],
        "nvidia_driver": driver.version,
        "nvidia_flavour": driver.flavour,
        "efa_p2p": efa_providers(host),
        "gdrdrv_loaded": "gdrdrv" in modules if modules is not None else None,
        "kernel_options": kernel_options(host, kernel, OPTIONS),
        "dmabuf": _dmabuf(host, driver.version is not None and gpus > 0),
    }


def efa_providers(host: Host) -> Dict[str, str]:
    """By EFA device which accelerator's memory its driver reaches without dma-buf: NVIDIA, NVIDIA peermem, NEURON; '' for none.

    Only Amazon's own driver has the file (amzn-drivers, efa_sysfs.c and efa_p2p.c).
    """
    names = [name for name in entries(host, CLASS_INFINIBAND) if driver_of(host, "%s/%s" % (CLASS_INFINIBAND, name)) == EFA]
    told = {name: attribute(host, "%s/%s/device/p2p" % (CLASS_INFINIBAND, name)) for name in names}
    return {name: sysfs_values.token(text.strip()) or "" for name, text in told.items() if text is not None}


def peermem_facts(modules: Optional[Mapping[str, Mapping[str, Any]]]) -> Dict[str, Any]:
    """``modules``: of the facts object. Registered: ib_core counts it among its users; one built without OFED's headers loads nowhere."""
    loaded = next((name for name in MODULES if name in (modules or {})), None)
    users = (modules or {}).get("ib_core", {}).get("used_by", [])  # None: this kernel does not tell
    return {
        "peermem_module": loaded,
        "peermem_version": modules[loaded].get("version") if modules is not None and loaded is not None else None,
        "peermem_registered": loaded in users if modules is not None and users is not None else None,
    }


def _dmabuf(host: Host, has_cuda: bool) -> Dict[str, Any]:
    """Answers by HCA and by GPU: true, false, null for an answer that is neither; who was not asked is missing."""
    hcas = ask_hcas(host) if host.listdir("/sys/class/infiniband") else Answers({}, {}, None)
    cuda = ask_cuda(host) if has_cuda else Answers({}, {}, None)
    return {"hcas": hcas.found, "hcas_said": hcas.raw, "hcas_error": hcas.error, "gpus": cuda.found, "gpus_error": cuda.error}


VERBS_SECONDS = 20.0
CUDA_SECONDS = 60.0  # initialises every GPU first when nothing keeps the driver awake: 2 s each
VERBS_RECORDING, CUDA_RECORDING = "/cmd/railwright-probe-verbs", "/cmd/railwright-probe-cuda"
ANSWERS = {"EBADF": True, "EOPNOTSUPP": False, "EPROTONOSUPPORT": False}

# The scripts print a line as soon as they know it: ``hca NAME ERRNO``, ``gpu PCI 0|1``, ``error TEXT``.
SAY = r"""
import ctypes, errno, sys
def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()
"""
VERBS = SAY + r"""
names = {errno.EBADF: "EBADF", errno.EOPNOTSUPP: "EOPNOTSUPP", errno.EPROTONOSUPPORT: "EPROTONOSUPPORT"}
pointer, size = ctypes.c_void_p, ctypes.c_uint64
try:
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    register = verbs.ibv_reg_dmabuf_mr
except (OSError, AttributeError) as error:
    say("error", str(error))
    sys.exit(0)
verbs.ibv_get_device_list.restype = ctypes.POINTER(pointer)
verbs.ibv_get_device_list.argtypes = [ctypes.POINTER(ctypes.c_int)]
verbs.ibv_get_device_name.restype = ctypes.c_char_p
register.restype = pointer
register.argtypes = [pointer, size, ctypes.c_size_t, size, ctypes.c_int, ctypes.c_int]
for name in ("ibv_get_device_name", "ibv_open_device", "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_close_device", "ibv_dereg_mr"):
    getattr(verbs, name).argtypes = [pointer]
for name in ("ibv_open_device", "ibv_alloc_pd"):
    getattr(verbs, name).restype = pointer
count = ctypes.c_int(0)
devices = verbs.ibv_get_device_list(ctypes.byref(count))
if not devices:
    say("error", "ibv_get_device_list: errno %d" % ctypes.get_errno())
    sys.exit(0)
for index in range(count.value):
    name = verbs.ibv_get_device_name(devices[index]).decode("ascii", "replace")
    context = verbs.ibv_open_device(devices[index])
    domain = verbs.ibv_alloc_pd(context) if context else None
    if not domain:
        say("hca", name, "open-failed-%d" % ctypes.get_errno())
        continue
    ctypes.set_errno(0)
    region = register(domain, 0, 0, 0, -1, 0)
    number = ctypes.get_errno()
    if region:
        verbs.ibv_dereg_mr(region)
    say("hca", name, "accepted" if region else names.get(number, "errno-%d" % number))
    verbs.ibv_dealloc_pd(domain)
    verbs.ibv_close_device(context)
"""

CUDA = SAY + r"""
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    say("error", str(error))
    sys.exit(0)
code = cuda.cuInit(0)
count = ctypes.c_int(0)
code = code or cuda.cuDeviceGetCount(ctypes.byref(count))
if code:
    say("error", "cuInit: CUDA error %d" % code)
    sys.exit(0)
for index in range(count.value):
    device, value, address = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(32)
    code = cuda.cuDeviceGet(ctypes.byref(device), index)
    code = code or cuda.cuDeviceGetPCIBusId(address, len(address), device)
    code = code or cuda.cuDeviceGetAttribute(ctypes.byref(value), 124, device)
    if code:
        say("error", "GPU %d: CUDA error %d" % (index, code))
    else:
        say("gpu", address.value.decode("ascii", "replace"), str(value.value))
"""


class Answers(NamedTuple):
    """Who was asked and what came back: name or PCI address -> True, False, or None for an answer that is neither."""

    found: Dict[str, Optional[bool]]
    raw: Dict[str, str]  # the answers themselves, for people: EBADF, EOPNOTSUPP …
    error: Optional[str]  # why nothing, or not everybody, could be asked


def ask_hcas(host: Host) -> Answers:
    return _answers(_output(host, VERBS, VERBS_RECORDING, VERBS_SECONDS), "hca")


def ask_cuda(host: Host) -> Answers:
    return _answers(_output(host, CUDA, CUDA_RECORDING, CUDA_SECONDS), "gpu")


def _output(host: Host, script: str, recording: str, seconds: float) -> str:
    """Lines of the child; its own failure becomes one of them. ``-I``: nothing of the operator's environment or directory is imported."""
    if not host.live:
        return host.read(recording) or "error not recorded\n"
    result = host.run((sys.executable, "-I", "-c", script), seconds)
    if result.ok:
        return result.out
    lines = lines_in(result.err.strip())
    return "%s\nerror %s\n" % (result.out, lines[-1] if lines else "the probe ended with %d" % result.rc)


def _answers(text: str, kind: str) -> Answers:
    found: Dict[str, Optional[bool]] = {}
    raw: Dict[str, str] = {}
    errors: List[str] = []
    for line in lines_in(text):
        words = line.split()
        if words[:1] == ["error"]:
            errors.append(sysfs_values.token(line[len("error"):]) or "an unprintable error")
        elif len(words) == 3 and words[0] == kind:
            name = sysfs_values.pci_address(words[1][-12:]) if kind == "gpu" else sysfs_values.name(words[1])
            if name is not None and sysfs_values.token(words[2]) is not None:
                raw[name] = words[2]
                found[name] = {"1": True, "0": False}.get(words[2]) if kind == "gpu" else ANSWERS.get(words[2])
    return Answers(found, raw, "; ".join(errors) or None)


# How the peer memory module on disk was built: against this RDMA stack, against another one, or before there was any.
#
# nvidia_peermem is built with the GPU driver. Its registration with ib_core is compiled in only if the OFED headers were there at that
# time; built before, the module loads with "Invalid argument" or not at all. Both can be seen beforehand: the module imports
# ``ib_register_peer_memory_client`` or it does not, and the checksum of the import is the stack's or it is not.
#
#     modprobe --dump-modversions FILE       0x7d5b1b8e<TAB>ib_register_peer_memory_client
#     .../ofa_kernel/.../Module.symvers      0x7d5b1b8e<TAB>ib_register_peer_memory_client<TAB>.../ib_core<TAB>EXPORT_SYMBOL
#
# A kernel without CONFIG_MODVERSIONS has no checksums: then the modules that it depends on tell (modinfo -F depends).
# Sources: kernel-open/nvidia-peermem of open-gpu-kernel-modules, Makefile of nv_peer_memory (where OFED's headers lie).

SYMBOL = "ib_register_peer_memory_client"
FITS, WITHOUT_CLIENT, OTHER_STACK, UNKNOWN = "fits", "without_client", "other_stack", "unknown"
HEADERS = "/usr/src/ofa_kernel"
DKMS_HEADERS = "/var/lib/dkms/mlnx-ofed-kernel"
_CRC = re.compile(r"^0x([0-9a-fA-F]{1,16})\s+%s(?:\s|$)" % SYMBOL, re.MULTILINE)
_ANY_CRC = re.compile(r"^0x[0-9a-fA-F]{1,16}\s+\w+", re.MULTILINE)
BUILD_SECONDS = 20.0


def observe_build(host: Host, kernel: Optional[str]) -> Optional[Dict[str, Any]]:
    """The module that ``modprobe`` would load into the running kernel; None when there is none."""
    paths = [(name, module_path(host, kernel, name)) for name in MODULES]
    name, path = next(((name, path) for name, path in paths if path is not None and ".." not in path.split("/")), ("", ""))
    if not path:
        return None
    file = "/lib/modules/%s/%s" % (kernel, path)
    imports, crc = _imports(host, file)
    stack = ((checksum(host.read(symbols), _CRC), symbols) for symbols in symbol_files(host, str(kernel)))
    stack_crc, symbols = next((found for found in stack if found[0] is not None), (None, None))
    return {"module": name, "file": file, "imports_client": imports, "crc": crc, "stack_crc": stack_crc, "stack_symbols": symbols,
            "state": _state(imports, crc, stack_crc)}


def _state(imports: Optional[bool], crc: Optional[str], stack_crc: Optional[str]) -> str:
    if imports is False:
        return WITHOUT_CLIENT
    if imports is None or crc is None or stack_crc is None:
        return UNKNOWN
    return FITS if crc == stack_crc else OTHER_STACK


def _imports(host: Host, file: str) -> Tuple[Optional[bool], Optional[str]]:
    """(whether the module registers as a client, the checksum of what it imports for that)."""
    dumped = host.run(("modprobe", "--dump-modversions", file), BUILD_SECONDS)
    if dumped.ok and _ANY_CRC.search(dumped.out):
        crc = checksum(dumped.out, _CRC)
        return crc is not None, crc
    depends = host.run(("modinfo", "-F", "depends", file), BUILD_SECONDS)
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
