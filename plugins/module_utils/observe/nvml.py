# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs by NVML, the library below nvidia-smi, without a process: what is read often. A call that fails gives None, never zero.

From ``open_nvml`` to ``close`` the session holds /dev/nvidia*: meanwhile no GPU can be reset and no driver unloaded. Types and numbers
are those of nvml.h (NVML API Reference); the names of values those of ``gpu_health.py``. A lost GPU can make a call hang: ask in a
thread of its own.
"""

import ctypes
from typing import Any, Dict, List, Optional, Tuple

from ..errors import RailwrightError
from ..formats.sysfs_values import pci_address

LIBRARY = "libnvidia-ml.so.1"
GPUS, LINKS = 64, 36
SUCCESS, GPU_IS_LOST = 0, 15
SM, MEMORY = 1, 2  # nvmlClockType_t
WHOLE, LONG = ctypes.c_uint, ctypes.c_ulonglong
# Our name, the function less nvmlDeviceGet, its arguments between the device and the answer, the answer's type, its units in one of ours.
Rows = Tuple[Tuple[str, str, Tuple[int, ...], Any, int], ...]
FIGURES: Rows = (
    ("watts", "PowerUsage", (), WHOLE, 1000), ("limit_watts", "EnforcedPowerLimit", (), WHOLE, 1000),
    ("mhz", "ClockInfo", (SM,), WHOLE, 1), ("max_mhz", "MaxClockInfo", (SM,), WHOLE, 1), ("memory_mhz", "ClockInfo", (MEMORY,), WHOLE, 1),
    ("celsius", "Temperature", (0,), WHOLE, 1),
)
ERRORS: Rows = (  # corrected 0, uncorrected 1; since the driver was loaded 0, since the GPU was made 1
    ("volatile_corrected", "TotalEccErrors", (0, 0), LONG, 1), ("volatile_uncorrected", "TotalEccErrors", (1, 0), LONG, 1),
    ("aggregate_uncorrected", "TotalEccErrors", (1, 1), LONG, 1), ("pcie_replays", "PcieReplayCounter", (), WHOLE, 1),
)
REASONS = (("sw_power_cap", 0x4), ("hw_slowdown", 0x8), ("sw_thermal_slowdown", 0x20), ("hw_thermal_slowdown", 0x40),
           ("hw_power_brake_slowdown", 0x80))
ALL_LINKS = 0xFFFFFFFF
TRAFFIC = (("nvlink_out", 138), ("nvlink_in", 139))  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _RX: KiB of all links since the driver's load
RECOVERY = (("recovery", 230),)  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
ACTIONS = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")  # nvmlDeviceGpuRecoveryAction_t, in nvidia-smi's words
MODES = ("Disabled", "Enabled")  # nvmlEnableState_t
SLOWDOWN = 1  # nvmlTemperatureThresholds_t
FABRIC_NAMES = ("fabric_bandwidth", "fabric_state", "fabric_status", "fabric_clique", "fabric_cluster")
FABRIC_V2 = 0x02000024  # nvmlGpuFabricInfo_v2: its number, and the size of the struct
STATES = ("Not Supported", "Not Started", "In Progress", "Completed")  # nvmlGpuFabricState_t, in nvidia-smi's words
BANDWIDTH = {1: "Degraded", 2: "Full"}  # NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW: the two lowest bits
LINK_ERRORS = (("crc", 38), ("replay", 52), ("recovery", 59))  # NVML_FI_DEV_NVLINK_…_ERROR_COUNT_TOTAL


class Use(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = [("gpu", WHOLE), ("memory", WHOLE)]


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [("total", LONG), ("free", LONG), ("used", LONG)]


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = [("old_id", ctypes.c_char * 16), ("numbers", WHOLE * 5), ("id", ctypes.c_char * 32)]


class Fabric(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = [("version", WHOLE), ("cluster", ctypes.c_ubyte * 16), ("status", WHOLE), ("clique", WHOLE), ("state", ctypes.c_ubyte),
                ("health", WHOLE)]


class Value(ctypes.Union):
    """nvmlValue_t; of the types that are asked for here."""

    _fields_ = [("whole", WHOLE), ("long", LONG), ("real", ctypes.c_double)]


class Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [("field", WHOLE), ("scope", WHOLE), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong), ("kind", WHOLE),
                ("status", WHOLE), ("value", Value)]


class NoNvml(RailwrightError):
    """There is no library, or it does not begin; the text says which."""


def open_nvml(library: Optional[Any]) -> "Nvml":
    """``library``: of ``host/drivers.py``. Raises NoNvml."""
    if library is None:
        raise NoNvml("no %s on this node" % LIBRARY)
    status = library.nvmlInit_v2()
    if status != SUCCESS:
        raise NoNvml("NVML does not begin: nvmlInit gave %d" % status)
    return Nvml(library)


class Nvml:
    """One session. What does not change is read at its begin."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._lost = False  # what the last calls said of their GPU
        count = WHOLE()
        many = count.value if self._call("DeviceGetCount_v2", ctypes.byref(count)) else 0
        self._gpus = [self._identity(index) for index in range(min(many, GPUS))]

    def close(self) -> None:
        """No device file is open after it."""
        self._library.nvmlShutdown()

    def sample(self) -> List[Dict[str, Any]]:
        """Use (%), memory (bytes), power, clocks (MHz), temperature, what holds the clocks back, and what went over NVLink (bytes)."""
        return [dict(known, **self._sampled(device)) for device, known in self._gpus]

    def health(self) -> List[Dict[str, Any]]:
        """What the GPU asks for, modes, errors of memory, of PCIe and of NVLink; rows of memory that were replaced; which links are up; its
        place in the NVLink fabric."""
        return [dict(known, **self._health(device)) for device, known in self._gpus]

    def _identity(self, index: int) -> Tuple[Optional[Any], Dict[str, Any]]:
        device, pci = ctypes.c_void_p(), Pci()
        known: Dict[str, Any] = {"index": index}
        if not self._call("DeviceGetHandleByIndex_v2", WHOLE(index), ctypes.byref(device)):
            return None, known
        told = self._call("DeviceGetPciInfo_v3", device, ctypes.byref(pci))
        address = pci.id.decode("ascii", "replace") if told else ""
        known["pci"] = pci_address(address[4:] if address.startswith("0000") and len(address) > 12 else address)
        known.update((name, self._text(device, function)) for name, function in (("uuid", "UUID"), ("serial", "Serial"), ("name", "Name")))
        return device, known

    def _sampled(self, device: Optional[Any]) -> Dict[str, Any]:
        self._lost = device is None
        use, memory = self._struct(device, "UtilizationRates", Use()), self._struct(device, "MemoryInfo", Memory())
        reasons = self._figure(device, "CurrentClocksThrottleReasons", (), LONG)
        moved = self._fields(device, TRAFFIC)
        found = self._figures(device, FIGURES)
        found.update((name, value if value is None else value * 1024) for name, value in moved.items())
        found.update(
            use=use and use.gpu, memory_use=use and use.memory, memory_used=memory and memory.used, memory_total=memory and memory.total,
            held_back=None if reasons is None else [name for name, bit in REASONS if reasons & bit], lost=self._lost)
        return found

    def _health(self, device: Optional[Any]) -> Dict[str, Any]:
        self._lost = device is None
        rows = [WHOLE() for _number in range(4)]
        told = device is not None and self._call("DeviceGetRemappedRows", device, *map(ctypes.byref, rows))
        corrected, uncorrected, pending, failed = [row.value if told else None for row in rows]
        links = [self._figure(device, "NvLinkState", (link,), WHOLE) for link in range(LINKS)]
        found = self._figures(device, ERRORS)
        action, (ecc, _later), (mig, mig_later) = (
            self._fields(device, RECOVERY)["recovery"], self._modes(device, "EccMode"), self._modes(device, "MigMode"))
        persistence = self._figure(device, "PersistenceMode", (), WHOLE)
        found.update(self._fabric(device))
        found.update(
            recovery=None if action is None else ACTIONS[action] if action < len(ACTIONS) else "action %d" % action, ecc=ecc, mig=mig,
            mig_pending=mig_later, persistent=None if persistence is None else persistence == 1,
            slow_celsius=self._figure(device, "TemperatureThreshold", (SLOWDOWN,), WHOLE),
            remapped_corrected=corrected, remapped_uncorrected=uncorrected, remap_pending=pending if pending is None else bool(pending),
            remap_failed=failed if failed is None else bool(failed), nvlinks=[bool(state) for state in links if state is not None],
            nvlink_errors=self._fields(device, LINK_ERRORS), lost=self._lost)
        return found

    def _call(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._library, "nvml" + name, None)  # a driver of another age has other functions
        status = None if function is None else function(*arguments)
        self._lost = self._lost or status == GPU_IS_LOST
        return status == SUCCESS

    def _struct(self, device: Optional[Any], name: str, room: Any) -> Any:
        return room if device is not None and self._call("DeviceGet" + name, device, ctypes.byref(room)) else None

    def _figure(self, device: Optional[Any], name: str, arguments: Tuple[int, ...], kind: Any) -> Optional[int]:
        value = kind()
        told = device is not None and self._call("DeviceGet" + name, device, *(map(WHOLE, arguments)), ctypes.byref(value))
        return value.value if told else None

    def _modes(self, device: Optional[Any], name: str) -> Tuple[Optional[str], Optional[str]]:
        """As it is, and as it is after the next reset."""
        now, later = WHOLE(), WHOLE()
        told = device is not None and self._call("DeviceGet" + name, device, ctypes.byref(now), ctypes.byref(later))
        return (MODES[now.value & 1], MODES[later.value & 1]) if told else (None, None)

    def _fabric(self, device: Optional[Any]) -> Dict[str, Optional[str]]:
        """The GPU's place in the NVLink fabric; status, cluster and clique are valid only in the state Completed."""
        told = self._struct(device, "GpuFabricInfoV", Fabric(version=FABRIC_V2))
        if told is None:
            return dict.fromkeys(FABRIC_NAMES)
        digits = "".join("%02x" % byte for byte in told.cluster)
        joined = told.state == len(STATES) - 1
        return dict(zip(FABRIC_NAMES, (
            BANDWIDTH.get(told.health & 3), STATES[told.state] if told.state < len(STATES) else "state %d" % told.state,
            ("Success" if told.status == SUCCESS else "error %d" % told.status) if joined else None,
            "%d" % told.clique if joined else None,
            "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) if joined else None)))

    def _figures(self, device: Optional[Any], wanted: Rows) -> Dict[str, Any]:
        read = [(name, self._figure(device, function, arguments, kind), units) for name, function, arguments, kind, units in wanted]
        return {name: value if value is None or units == 1 else value / units for name, value, units in read}

    def _text(self, device: Any, name: str) -> Optional[str]:
        room = ctypes.create_string_buffer(96)
        told = self._call("DeviceGet" + name, device, room, WHOLE(len(room)))
        return room.value.decode("ascii", "replace") or None if told else None

    def _fields(self, device: Optional[Any], wanted: Tuple[Tuple[str, int], ...]) -> Dict[str, Optional[int]]:
        fields = (Field * len(wanted))(*[Field(number, ALL_LINKS) for _name, number in wanted])
        told = device is not None and self._call("DeviceGetFieldValues", device, ctypes.c_int(len(wanted)), fields)
        return {name: _value(field) if told else None for field, (name, _number) in zip(fields, wanted)}


def _value(field: Field) -> Optional[int]:
    """nvmlValueType_t: 1 is unsigned int, 2 and 3 are its long forms."""
    if field.status != SUCCESS or field.kind not in (1, 2, 3):
        return None
    return int(field.value.whole if field.kind == 1 else field.value.long)
