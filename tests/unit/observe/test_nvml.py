# SPDX-License-Identifier: GPL-3.0-or-later
"""NVML: a library that writes into our structs as nvml.h has them. What fails is unknown, each call by itself."""

import ctypes
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.observe import nvml

NOT_SUPPORTED, LOST, INVALID = 3, 15, 2


class Library:
    """Two GPUs; ``status``: of a function, another one than success. One that is in ``missing`` this driver does not have."""

    def __init__(self, status: dict[str, int] | None = None, missing: tuple[str, ...] = ()) -> None:
        self.status, self.missing, self.shut, self.called = status or {}, missing, 0, list[str]()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.missing:
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.called.append(name)
            if name in self.status:
                return self.status[name]
            return int(getattr(self, name.removeprefix("nvml").removeprefix("Device").lower())(*arguments) or 0)

        return function

    @staticmethod
    def set(pointer: Any, value: Any) -> None:
        pointer._obj.value = value

    def init_v2(self) -> None: ...

    def shutdown(self) -> None:
        self.shut += 1

    def getcount_v2(self, count: Any) -> None:
        self.set(count, 2)

    def gethandlebyindex_v2(self, index: Any, device: Any) -> None:
        self.set(device, 100 + index.value)

    def getpciinfo_v3(self, device: Any, pci: Any) -> None:
        pci._obj.id = b"00000000:%X:00.0" % (0x1A + device.value - 100)

    def getuuid(self, _device: Any, room: Any, size: Any) -> None:
        assert size.value == len(room)
        room.value = b"GPU-11111111-2222-3333-4444-555555555555"

    getserial = getname = getuuid

    def getutilizationrates(self, _device: Any, use: Any) -> None:
        use._obj.gpu, use._obj.memory = 97, 40

    def getmemoryinfo(self, _device: Any, memory: Any) -> None:
        memory._obj.total, memory._obj.used = 80 << 30, 70 << 30

    def getpowerusage(self, _device: Any, value: Any) -> None:
        self.set(value, 612_500)

    getenforcedpowerlimit = getpowerusage

    def getclockinfo(self, _device: Any, kind: Any, value: Any) -> None:
        self.set(value, {1: 1755, 2: 2619}[kind.value])

    getmaxclockinfo = getclockinfo

    def gettemperature(self, _device: Any, sensor: Any, value: Any) -> None:
        self.set(value, 61 + sensor.value)

    def getcurrentclocksthrottlereasons(self, _device: Any, value: Any) -> None:
        self.set(value, 0x4 | 0x40 | 0x1)

    def gettotaleccerrors(self, _device: Any, kind: Any, since: Any, value: Any) -> None:
        self.set(value, 10 * kind.value + since.value)

    def getpciereplaycounter(self, _device: Any, value: Any) -> None:
        self.set(value, 5)

    def getremappedrows(self, _device: Any, *values: Any) -> None:
        for value, given in zip(values, (3, 1, 1, 0), strict=True):
            self.set(value, given)

    def getnvlinkstate(self, _device: Any, link: Any, value: Any) -> int:
        self.set(value, link.value != 4)
        return 0 if link.value < 18 else INVALID

    def getfieldvalues(self, _device: Any, count: Any, fields: Any) -> None:
        assert count.value == len(fields)
        for field in fields:
            assert field.scope == 0xFFFFFFFF
            field.status, field.kind, field.value.long = (0, 3, field.field * 1000) if field.field != 59 else (NOT_SUPPORTED, 3, 7)
            if field.field == 230:
                field.kind, field.value.whole = 1, 2

    def getpersistencemode(self, _device: Any, value: Any) -> None:
        self.set(value, 1)

    def geteccmode(self, _device: Any, now: Any, later: Any) -> None:
        self.set(now, 1)
        self.set(later, 0)

    def getmigmode(self, _device: Any, now: Any, later: Any) -> None:
        self.set(now, 0)
        self.set(later, 1)

    def gettemperaturethreshold(self, _device: Any, kind: Any, value: Any) -> None:
        self.set(value, {0: 95, 1: 89}[kind.value])

    def getgpufabricinfov(self, _device: Any, room: Any) -> int:
        room._obj.health = 0x11
        return 0 if room._obj.version == 2 << 24 | ctypes.sizeof(room._obj) else INVALID


def test_the_structs_have_their_size() -> None:
    """nvml.h on a machine of 64 bits."""
    assert [ctypes.sizeof(kind) for kind in (nvml.Use, nvml.Memory, nvml.Pci, nvml.Value, nvml.Field)] == [8, 24, 68, 8, 40]


def test_a_sample() -> None:
    session = nvml.open_nvml(Library())
    first, second = session.sample()
    assert first == {
        "index": 0, "pci": "0000:1a:00.0", **dict.fromkeys(("uuid", "serial", "name"), "GPU-11111111-2222-3333-4444-555555555555"),
        "use": 97, "memory_use": 40, "memory_used": 70 << 30, "memory_total": 80 << 30, "watts": 612.5, "limit_watts": 612.5, "mhz": 1755,
        "max_mhz": 1755, "memory_mhz": 2619, "celsius": 61, "held_back": ["sw_power_cap", "hw_thermal_slowdown"], "lost": False,
        "nvlink_out": 138_000 * 1024, "nvlink_in": 139_000 * 1024,
    }
    assert (second["index"], second["pci"]) == (1, "0000:1b:00.0")


def test_health() -> None:
    found = nvml.open_nvml(Library()).health()[0]
    assert (found["volatile_corrected"], found["volatile_uncorrected"], found["aggregate_uncorrected"]) == (0, 10, 11)
    assert [found[f"remap{what}"] for what in ("ped_corrected", "ped_uncorrected", "_pending", "_failed")] == [3, 1, True, False]
    assert found["nvlinks"] == [link != 4 for link in range(18)]
    assert found["nvlink_errors"] == {"crc": 38_000, "replay": 52_000, "recovery": None}
    assert {name: found[name] for name in ("recovery", "ecc", "mig", "mig_pending", "fabric_bandwidth", "persistent", "slow_celsius")} == {
        "recovery": "Reboot", "ecc": "Enabled", "mig": "Disabled", "mig_pending": "Enabled", "fabric_bandwidth": "Degraded",
        "persistent": True, "slow_celsius": 89}


@pytest.mark.parametrize(("function", "names"), [
    ("nvmlDeviceGetUtilizationRates", ("use", "memory_use")), ("nvmlDeviceGetMemoryInfo", ("memory_used", "memory_total")),
    ("nvmlDeviceGetPowerUsage", ("watts",)), ("nvmlDeviceGetTemperature", ("celsius",)),
    ("nvmlDeviceGetCurrentClocksThrottleReasons", ("held_back",)), ("nvmlDeviceGetFieldValues", ("nvlink_out", "nvlink_in")),
    ("nvmlDeviceGetUUID", ("uuid",)), ("nvmlDeviceGetPciInfo_v3", ("pci",)),
])  # fmt: skip
@pytest.mark.parametrize("absent", [False, True])
def test_a_call_that_fails_is_unknown_and_the_others_are_not(function: str, names: tuple[str, ...], absent: bool) -> None:
    library = Library(missing=(function,)) if absent else Library({function: NOT_SUPPORTED})
    found = nvml.open_nvml(library).sample()[0]
    assert {name for name, value in found.items() if value is None} == set(names)


def test_a_lost_gpu_is_lost_and_nothing_of_it_is_zero() -> None:
    found = nvml.open_nvml(Library({"nvmlDeviceGetPowerUsage": LOST})).sample()[0]
    assert found["lost"] is True and found["watts"] is None
    away = nvml.open_nvml(Library({"nvmlDeviceGetHandleByIndex_v2": LOST}))
    assert away.sample()[0]["lost"] is True
    assert {value for name, value in away.sample()[0].items() if name not in ("index", "lost")} == {None}
    assert away.health()[0]["nvlinks"] == []


def test_no_library_and_one_that_does_not_begin() -> None:
    with pytest.raises(nvml.NoNvml, match=r"no libnvidia-ml\.so\.1"):
        nvml.open_nvml(None)
    with pytest.raises(nvml.NoNvml, match="nvmlInit gave 18"):
        nvml.open_nvml(Library({"nvmlInit_v2": 18}))


def test_close_closes_once() -> None:
    library = Library()
    nvml.open_nvml(library).close()
    assert library.shut == 1


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (3, 0, ("Completed", "Success", "7", "00010203-0405-0607-0809-0a0b0c0d0e0f")),
        (3, 27, ("Completed", "error 27", "7", "00010203-0405-0607-0809-0a0b0c0d0e0f")),
        (2, 0, ("In Progress", None, None, None)),  # status, clique and cluster are valid only once the state is Completed
        (9, 0, ("state 9", None, None, None)),
    ],
)
def test_the_place_in_the_nvlink_fabric_is_read(state: int, status: int, expected: tuple[str | None, ...]) -> None:
    class Joined(Library):
        def getgpufabricinfov(self, _device: Any, room: Any) -> int:
            room._obj.state, room._obj.status, room._obj.clique, room._obj.health = state, status, 7, 2
            room._obj.cluster[:] = list(range(16))
            return 0

    session = nvml.open_nvml(Joined())
    row = session.health()[0]
    assert tuple(row[name] for name in ("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster")) == expected
    assert row["fabric_bandwidth"] == "Full"


def test_a_driver_without_the_fabric_call_says_nothing_of_it() -> None:
    row = nvml.open_nvml(Library(missing=("nvmlDeviceGetGpuFabricInfoV",))).health()[0]
    assert [row[name] for name in nvml.FABRIC_NAMES] == [None] * 5
