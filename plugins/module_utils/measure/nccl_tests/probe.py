# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe: what a rank has where a launcher puts it. A script for the node, and the reading of what it prints.

It asks libcuda itself, in a process of its own: a sick GPU can hang whoever opens it. Sources: cuda.h (driver API), nccl.h.
"""

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...formats.outside import json_object, lines_in, list_or_empty

MARK = "railwright-probe "
SECONDS = 90  # CUDA initialises every GPU first when nothing keeps the driver awake: 2 s each
DEVICES = 64  # more GPUs than any node has
_WORD = re.compile(r"[\x20-\x7e]{1,120}\Z")
_PCI = re.compile(r"(?:[0-9a-fA-F]{4})?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z")

# Python 3.6. One line, written at once: lines of ranks that share a pipe do not mix then.
SCRIPT = r"""
import ctypes, json, os, socket, sys
def number(*names):
    for name in names:
        if os.environ.get(name, "")[:9].isdecimal():
            return int(os.environ[name][:9])
    return None
def cuda_name(cuda, code):
    text = ctypes.c_char_p()
    try:
        cuda.cuGetErrorName(code, ctypes.byref(text))
    except AttributeError:
        pass
    return "%d%s" % (code, " (%s)" % text.value.decode("ascii", "replace") if text.value else "")
def devices(found):
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        found["error"] = "libcuda.so.1 is not there" if "No such file" in str(error) else str(error)
        return
    code = cuda.cuInit(0)
    if code:
        found["error"] = "cuInit says " + cuda_name(cuda, code)
        return
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    if not cuda.cuDriverGetVersion(ctypes.byref(version)):
        found["cuda"] = "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
    if code:
        found["error"] = "cuDeviceGetCount says " + cuda_name(cuda, code)
        return
    for index in range(count.value):
        device, size = ctypes.c_int(0), ctypes.c_size_t(0)
        name, address = ctypes.create_string_buffer(128), ctypes.create_string_buffer(32)
        code = cuda.cuDeviceGet(ctypes.byref(device), index)
        code = code or cuda.cuDeviceGetName(name, len(name), device)
        code = code or cuda.cuDeviceGetPCIBusId(address, len(address), device)
        code = code or cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        if code:
            found["error"] = "GPU %d: libcuda says %s" % (index, cuda_name(cuda, code))
            return
        found["devices"].append([name.value.decode("ascii", "replace"), address.value.decode("ascii", "replace"), size.value])
def nccl():
    version = ctypes.c_int(0)
    try:
        if ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):
        return None
    code = version.value
    parts = (code // 10000, code % 10000 // 100, code % 100) if code >= 20900 else (code // 1000, code % 1000 // 100, code % 100)
    return "%d.%d.%d" % parts
found = {"host": socket.gethostname(), "devices": [], "error": None, "cuda": None,
         "rank": number("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"),
         "local": number("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")}
devices(found)
found["nccl"] = nccl()
sys.stdout.write("railwright-probe " + json.dumps(found) + "\n")
sys.stdout.flush()
"""


class Device(NamedTuple):
    """A CUDA device as libcuda lists it: in its order, which CUDA_VISIBLE_DEVICES and cgroups make their own."""

    name: str
    pci: Optional[str]
    memory: int  # bytes


class Answer(NamedTuple):
    """What one rank said. ``host`` is the node's own name."""

    host: str
    rank: Optional[int]
    devices: Tuple[Device, ...]
    error: Optional[str]  # why there is no device
    cuda: Optional[str]  # the newest CUDA that the driver can do
    nccl: Optional[str]  # of the library that the rank would load


def answers(text: str) -> List[Answer]:
    """Every answer in a launcher's output, whatever stands before it in its line; a line that is none is passed over."""
    found = [_answer(line.partition(MARK)[2]) for line in lines_in(text) if MARK in line]
    return [item for item in found if item is not None]


def _answer(text: str) -> Optional[Answer]:
    said = json_object(text)
    if said is None or _word(said.get("host")) is None:
        return None
    devices = [item for item in map(_device, list_or_empty(said.get("devices"))[:DEVICES]) if item is not None]
    rank = said.get("rank")
    known = rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 20 else None
    return Answer(str(said["host"]), known, tuple(devices), _word(said.get("error")), _word(said.get("cuda")), _word(said.get("nccl")))


def _device(item: Any) -> Optional[Device]:
    if not isinstance(item, list) or len(item) != 3 or _word(item[0]) is None or isinstance(item[2], bool) or not isinstance(item[2], int):
        return None
    address = _PCI.match(item[1]) if isinstance(item[1], str) else None
    return Device(item[0], address.group(1).lower() if address is not None else None, max(0, item[2]))


def _word(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and _WORD.match(value) else None


def no_device(node: str, error: Optional[str]) -> str:
    """The one line about a node on which nothing can be measured."""
    return "no CUDA device on %s: %s" % (node, error or "libcuda lists none")


def answer_from(item: Any) -> Optional[Answer]:
    """The inverse of ``as_dict``, for what came over the network: it passes the same gate as what a rank printed."""
    try:
        return _answer(json.dumps(item))
    except (TypeError, ValueError):
        return None


def as_dict(answer: Answer) -> Dict[str, Any]:
    return dict(answer._asdict(), devices=[list(device) for device in answer.devices])
