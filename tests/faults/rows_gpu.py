# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of NVLinks and NVLink domains, hidden GPUs, other makers' accelerators, EFA, partitions and transceivers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from tests.fixtures.node_accelerators import ADDRESSES, DOWN, MI300X, UNUSED, UP, accelerator, gpu_metrics

from .edits import Edit, Fault, Healthy, nothing, put, remove, replace, together
from .trees import GPUS, RACK, ZERO, Opened

STATUS, DETAILS = "cmd/nvidia-smi_nvlink_--status", "cmd/nvidia-smi_-q_-x"
HOPPER, BLACKWELL, AMPERE = 26.562, 53.125, 25.0


def nvlinks(*rates: Sequence[float], count: int = 8) -> Edit:
    """The links of GPU 0, 1, … (the last for all that follow), 0: inactive."""
    text = ""
    for number in range(count):
        text += f"GPU {number}: NVIDIA H200 (UUID: GPU-00000000-0000-4000-8000-{number:012x})\n"
        own = rates[min(number, len(rates) - 1)]
        text += "".join(f"\t Link {place}: {f'{rate:g} GB/s' if rate else '<inactive>'}\n" for place, rate in enumerate(own))
    return put(STATUS, text)


def board(name: str, *more: Edit) -> Edit:
    """Other GPUs in the place of the eight H200."""
    information = (replace(f"proc/driver/nvidia/gpus/{address}/information", "NVIDIA H200", f"NVIDIA {name}") for address in GPUS)
    return together(replace(DETAILS, "<product_name>NVIDIA H200<", f"<product_name>NVIDIA {name}<"), *information, *more)


def tag(name: str, after: str, gpus: Iterable[int] = range(8), begin: str = "<gpu id=") -> Edit:
    """Another text of the first element of this name behind ``begin`` in nvidia-smi -q -x, of these GPUs."""

    def edit(root: Path) -> None:
        parts = (root / DETAILS).read_text().split(begin)
        for number in gpus:
            head, mark, rest = parts[number + 1].partition(f"<{name}>")
            assert mark, name
            parts[number + 1] = f"{head}{mark}{after}{rest[rest.index('</'):]}"
        (root / DETAILS).write_text(begin.join(parts))

    return edit


fabric = partial(tag, begin="<fabric>")  # elements whose name is not the first of a GPU's answer


def filtered(*minors: int) -> Edit:
    """Device files that a device filter refuses to this session."""

    def edit(root: Path) -> None:
        for minor in minors:
            put(f"dev/nvidia{minor}", "")(root)
            (root / f"dev/nvidia{minor}").chmod(0)

    return edit


def smi_without(*gpus: int) -> Edit:
    """nvidia-smi -q -x without some GPUs."""

    def edit(root: Path) -> None:
        head, *parts = (root / DETAILS).read_text().split("<gpu id=")
        kept = [part for number, part in enumerate(parts) if number not in gpus]
        (root / DETAILS).write_text("<gpu id=".join([head, *kept]) + ("" if 7 not in gpus else "</nvidia_smi_log>\n"))

    return edit


PERSISTENCE = "cmd/nvidia-smi_--query-gpu=pci.bus_id,persistence_mode_--format=csv,noheader"
NO_DEVICES = together(*(edit for name in (DETAILS, PERSISTENCE) for edit in (
    put(name, "No devices were found\n"), put(name + ".rc", "6\n"))))
CONTAINER = put("run/systemd/container", "docker\n")
VIRTUAL = put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor\n")
EIGHTEEN = [HOPPER] * 18
FOURTEEN = [HOPPER] * 14 + [0.0] * 4

NVLINK = (
    Fault("h200-nvlink", "all GPUs lost the same four NVLinks", nvlinks(FOURTEEN), "gpu.nvlink", "fail", "14 of the board's 18"),
    Fault("h200-nvlink", "no NVLink of any GPU is up", nvlinks([0.0] * 18), "gpu.nvlink", "fail", "0 of the board's 18"),
    Fault("h200-nvlink", "one GPU without NVLinks", nvlinks([0.0] * 18, EIGHTEEN), "gpu.nvlink", "fail", "0 of the board's 18"),
    Fault("h200-nvlink", "NVLinks at the rate of the generation before", nvlinks([20.0] * 18), "gpu.nvlink", "fail", "at 20 GB/s"),
    Fault("h200-nvlink", "B200 whose NVLinks run at half rate", board("B200", nvlinks([HOPPER] * 18)), "gpu.nvlink", "fail", "53.125"),
    Fault("h200-nvlink", "NVLinks that nvidia-smi does not show", put(STATUS, ""), "gpu.nvlink", "unknown", "does not show", 0),
    Fault("h200-nvlink", "a partial loss in a virtual machine", together(VIRTUAL, nvlinks(FOURTEEN)), "gpu.nvlink", "fail", "14 of"),
    Fault("h200-nvlink", "one bridge of a pair of cards is loose", board("H100 NVL", nvlinks(
        [HOPPER] * 8 + [0.0] * 4, [HOPPER] * 12)), "gpu.nvlink", "warn", "8 NVLinks are up, 12 on its peer GPUs"),
    Fault("h200-nvlink", "an unknown board with fewer links than its peers", board("H999", nvlinks([HOPPER] * 6, EIGHTEEN)), "gpu.nvlink",
          "fail", "6 NVLinks are up, 18 on its peer GPUs"),
    Fault("h200-nvlink", "ECC is off on all GPUs alike", tag("current_ecc", "Disabled"), "gpu.ecc", "warn", "delivered with ECC on"),
    Fault("h200-nvlink", "a lower power limit on all GPUs alike", tag("current_power_limit", "500.00 W"), "gpu.power", "warn",
          "the board's default 700 W"),
)
DOMAIN = (
    Fault("h200-nvlink", "a GPU in another NVLink clique", fabric("cliqueId", "3", [5]), "gpu.domain", "fail", "clique 3"),
    Fault("h200-nvlink", "a GPU in another NVLink cluster", fabric("clusterUuid", RACK, [2]), "gpu.domain", "fail", RACK),
    Fault("h200-nvlink", "GPUs in two cliques of four", fabric("cliqueId", "2", range(4)), "gpu.domain", "fail", "domains differ"),
    Fault("h200-nvlink", "Completed without Success", fabric("status", "Insufficient Resources", [7]), "gpu.domain", "fail",
          "Insufficient Resources"),
    Fault("h200-nvlink", "a GPU of a rack without a cluster", board(
        "GB200", nvlinks([BLACKWELL] * 18), fabric("clusterUuid", RACK, range(7)), fabric("cliqueId", "7", range(7))), "gpu.domain",
          "fail", ZERO),
    Fault("h200-nvlink", "GB200 without a cluster where IMEX is set up", board("GB200", nvlinks([BLACKWELL] * 18), put(
        "dev/nvidia-caps-imex-channels/channel0", "")), "gpu.domain", "fail", "no cluster UUID"),
    Fault("h200-nvlink", "GB200 without a cluster and without IMEX", board("GB200", nvlinks([BLACKWELL] * 18)), "gpu.domain", "warn",
          "no cluster UUID"),
)
HIDDEN = (
    Fault("h200-nvlink", "sshd's DeviceAllow hides all GPUs", together(NO_DEVICES, filtered(*range(8))), "gpu.answers", "unknown",
          "hidden from this session"),
    Fault("h200-nvlink", "a job's cgroup hides six GPUs", together(smi_without(*range(2, 8)), filtered(*range(2, 8))), "gpu.answers",
          "unknown", "hidden from this session"),
    Fault("h200-nvlink", "nvidia-smi finds no GPU and nothing hides them", NO_DEVICES, "gpu.answers", "fail", "No devices were found"),
    Fault("h200-nvlink", "nvidia-smi misses a GPU that nothing hides", smi_without(7), "gpu.answers", "fail", "does not know it"),
)


def amd(number: int, name: str, text: str | bytes) -> Edit:
    return put(f"sys/bus/pci/devices/{ADDRESSES[number]}/{name}", text)


def other(vendor: str, device: str, driver: str, kind: str = "0x120000") -> Edit:
    """Add an accelerator to the node."""
    return lambda root: accelerator(Opened(root), "0000:e5:00.0", vendor, device, driver, kind) and None


BUS = "sys/bus/pci/devices"
ACCELERATORS = (
    Fault("mi300x8", "eight healthy MI300X", nothing, "accelerator.judged", "unknown", "8 AMD MI300X (amdgpu 6.10.5)"),
    Fault("mi300x8", "one fell off the bus", amd(3, "config", b"\xff" * 64), "accelerator.answers", "fail", "fell off the bus"),
    Fault("mi300x8", "one without its driver", remove(f"{BUS}/{ADDRESSES[3]}/driver"), "accelerator.answers", "fail", "probe failed"),
    Fault("mi300x8", "an uncorrectable memory error", amd(3, "ras/umc_err_count", "ue: 1\nce: 0\n"), "accelerator.ras", "fail", "umc 1"),
    Fault("mi300x8", "an uncorrectable error of xGMI", amd(3, "ras/xgmi_wafl_err_count", "ue: 4\nce: 0\n"), "accelerator.ras", "fail",
          "xgmi_wafl 4"),
    Fault("mi300x8", "a bad page in use", amd(3, "ras/gpu_vram_bad_pages", "0x00000001 : 0x00001000 : F\n"), "accelerator.ras", "fail",
          "could not be taken"),
    Fault("mi300x8", "PCIe x8", amd(3, "current_link_width", "8\n"), "pci.link_width", "fail", "x8"),
    Fault("mi300x8", "a fatal PCIe error", amd(3, "aer_dev_fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n"), "pci.aer", "fail", "fatal"),
    Fault("mi300x8", "an xGMI link down on all", together(*(amd(number, "gpu_metrics", gpu_metrics(
        UNUSED, DOWN, *[UP] * 6)) for number in range(8))), "accelerator.xgmi", "warn", "6 of 7", 4),
    Fault("mi300x8", "two xGMI links down on one", amd(5, "gpu_metrics", gpu_metrics(UNUSED, DOWN, DOWN, *[UP] * 5)), "accelerator.xgmi",
          "warn", "5 of 7", 4),
    Fault("mi300x8", "a deferred error", amd(3, "ras/umc_err_count", "ue: 0\nce: 0\nde: 2\n"), "accelerator.ras", "warn", "umc 2", 4),
    Fault("mi300x8", "seven of eight on the bus", remove(f"{BUS}/{ADDRESSES[7]}"), "accelerator.judged", "unknown", "7 AMD MI300X"),
    Fault("h200-nvlink", "a Gaudi 3 beside it", other("0x1da3", "0x1060", "habanalabs"), "accelerator.judged", "unknown", "Intel Gaudi 3"),
    Fault("efa-p5", "Trainium beside EFA", other("0x1d0f", "0x7164", "neuron", "0x088000"), "accelerator.judged", "unknown", "Trainium"),
    Fault("efa-p5", "an accelerator that no row names", other("0x19e5", "0xd802", ""), "accelerator.judged", "unknown", "0x19e5:0xd802"),
)


def efa(number: int, **counts: int) -> Edit:
    return together(*(put(f"sys/class/infiniband/rdmap{number}s0/ports/1/hw_counters/{name}", f"{count}\n")
                      for name, count in counts.items()))


def keys(hca: str, *values: str) -> Edit:
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/pkeys/{slot}", f"{value}\n") for slot, value in enumerate(values)))


IB = [f"mlx5_{number}" for number in range(8)]
PORTS = (
    Fault("efa-p5", "drops", efa(1, rx_drops=48123), "port.efa", "warn", "rx_drops: 48123"),
    Fault("efa-p5", "peers that do not respond", efa(1, unresponsive_remote_events=14), "port.efa", "warn",
          "unresponsive_remote_events: 14"),
    Fault("efa-p5", "timeouts of one packet in 20", efa(1, retrans_timeout_events=977, tx_pkts=20000), "port.efa", "warn",
          "retrans_timeout_events: 977"),
    Fault("h100-ib", "limited member on all ports", together(*(keys(hca, "0x7fff") for hca in IB)), "port.pkey", "fail", "limited member"),
    Fault("h100-ib", "limited member on one port", keys("mlx5_4", "0x7fff", "0x0003"), "port.pkey", "fail", "limited member"),
    Fault("h100-ib", "another key than its peers", keys("mlx5_4", "0xffff", "0x8003"), "port.pkey", "warn", "0x8003"),
)


LIT, UNLIT = "0.8513 mW / -0.70 dBm", "0.0001 mW / -40.00 dBm"


def module(lanes: int, dark: Iterable[int] = (), rx_dark: Iterable[int] = (), known: bool = True) -> Edit:
    """A transceiver of eight lanes, in ethtool's form of CMIS modules, and how many lanes the link uses."""
    gone, half = set(dark), set(rx_dark)
    rows = ["\tIdentifier                                : 0x19 (OSFP 8X Pluggable Transceiver)"]
    for lane in range(1, 9):
        sent, received = lane not in gone, lane not in gone | half
        rows += [f"\tLaser tx bias current (Channel {lane})         : {'7.812' if sent else '0.002'} mA",
                 f"\tTransmit avg optical power (Channel {lane})    : {LIT if sent else UNLIT}",
                 f"\tRcvr signal avg optical power (Channel {lane}) : {LIT if received else UNLIT}"]
    for name, high, low in (("Laser bias current", "10.000 mA", "5.492 mA"), ("Laser output power", "3.4673 mW / 5.40 dBm",
                            "0.0724 mW / -11.40 dBm"), ("Laser rx power", "3.4673 mW / 5.40 dBm", "0.0467 mW / -13.31 dBm")):
        rows += [f"\t{name} {kind} threshold : {value}" for kind, value in (("high alarm", high), ("low alarm", low))]
    settings = f"Settings for ens10np0:\n\tSpeed: 400000Mb/s\n\tLanes: {lanes}\n" if known else "Settings for ens10np0:\n"
    return together(put("cmd/ethtool_-m_ens10np0", "\n".join(rows) + "\n"), put("cmd/ethtool_ens10np0", settings))


def mlxlink(hca: str, **changed: object) -> Edit:
    """What mlxlink --json answers of an NDR port, in the form of mstflint's mlxlink_commander.cpp."""
    info = {"Identifier": "OSFP", "Cable Technology": "1310 nm EML", "Cable Type": "Optical Module (separated)", "Vendor Name": "NVIDIA",
            "Vendor Part Number": "MMS4X00-NS", "Vendor Serial Number": "MT2345FT00001", "Transfer Distance [m]": "500",
            "Temperature [C]": "47 [-10..80]", "Voltage [mV]": "3252.4 [3000..3600]", "Bias Current [mA]": "75.0,75.1,75.2,75.1 [40..120]",
            "Rx Power Current [dBm]": "1.2,1.1,0.9,1.0 [-7..6]", "Tx Power Current [dBm]": "1.5,1.4,1.6,1.5 [-5..6]"}
    link_info = {"State": "Active", "Width": "4x", "FEC": "Standard_RS-FEC - (544,514)"}
    counters = {"Symbol BER": "15E-255", "Effective Physical BER": "15E-255"}
    for values in (info, link_info, counters):
        values.update({name: str(value) for name, value in changed.items() if name in values})
    output = {"Operational Info": link_info, "Physical Counters and BER Info": counters, "Module Info": info}
    return put(f"cmd/mlxlink_-d_{hca}_-p_1_-m_-c_--json", json.dumps({"status": {"code": 0}, "result": {"output": output}}))


def all_ports(one: Edit) -> Edit:
    return together(*(mlxlink(hca) for hca in IB[1:]), one)


OPTICS = (
    Fault("h200-nvlink", "a lane of four has no light", module(8, dark=[3]), "port.optics", "fail", "lane 3"),
    Fault("h200-nvlink", "a used lane of few is dark", module(4, dark=[4, 5, 6, 7, 8]), "port.optics", "fail", "lane 4"),
    Fault("h200-nvlink", "a lane receives nothing", module(4, dark=[5, 6, 7], rx_dark=[8]), "port.optics", "fail", "lane 8"),
    Fault("h200-nvlink", "dark lanes of a link whose number of lanes is unknown", module(4, dark=[5, 6, 7, 8], known=False), "port.optics",
          "unknown", "lane 5", 0),
    Fault("h100-ib", "InfiniBand, too little light", all_ports(mlxlink("mlx5_0", **{"Rx Power Current [dBm]": "1.2,-9.5,0.9,1.0 [-7..6]"})),
          "port.optics", "warn", "rx power of lane 2 is -9.5"),
    Fault("h100-ib", "InfiniBand, symbols lost", all_ports(mlxlink("mlx5_0", **{"Symbol BER": "3E-9"})), "port.ber", "warn", "3e-09"),
    Fault("h100-ib", "InfiniBand, another FEC", all_ports(mlxlink("mlx5_0", FEC="No FEC")), "port.fec", "warn", "No FEC"),
    Fault("h100-ib", "InfiniBand, no FEC on any port", together(*(mlxlink(hca, FEC="No FEC") for hca in IB)), "port.fec", "warn",
          "too fast for a link without FEC"),
    Fault("h100-ib", "InfiniBand, a copper cable", all_ports(mlxlink("mlx5_0", **{
        "Cable Technology": "Copper cable, passive, unequalized", "Cable Type": "Passive copper cable"})), "port.cable", "warn", "copper"),
)
FAULTS = (*NVLINK, *DOMAIN, *HIDDEN, *ACCELERATORS, *PORTS, *OPTICS)

OFF = [0.0] * 18
QUIET = ("gpu.nvlink", "gpu.domain", "gpu.ecc", "gpu.power", "port.optics", "port.efa", "port.pkey")
HEALTHY = (
    Healthy("h200-nvlink", "the base tree", nothing, QUIET),
    Healthy("h200-nvlink", "GPUs in a virtual machine without NVSwitches", together(VIRTUAL, nvlinks(OFF)), ("port.optics",)),
    Healthy("h200-nvlink", "GPUs passed through, of which nvidia-smi shows no links, as recorded", together(VIRTUAL, put(STATUS, "")), (
        "port.optics",)),
    Healthy("h200-nvlink", "MIG on all GPUs, NVLinks off", together(tag("current_mig", "Enabled"), tag("pending_mig", "Enabled"), board(
        "A100-SXM4-80GB", nvlinks([0.0] * 12))), QUIET),
    Healthy("h200-nvlink", "eight L40S", board("L40S", nvlinks([])), QUIET),
    Healthy("h200-nvlink", "eight H100 PCIe without a bridge", board("H100 PCIe", nvlinks([0.0] * 12)), QUIET),
    Healthy("h200-nvlink", "two of eight H100 NVL joined by bridges", board("H100 NVL", nvlinks(
        [HOPPER] * 12, [HOPPER] * 12, [0.0] * 12)), QUIET),
    Healthy("h200-nvlink", "A100 with all its links", board("A100-SXM4-80GB", nvlinks([AMPERE] * 12)), QUIET),
    Healthy("h200-nvlink", "B200 with all its links", board("B200", nvlinks([BLACKWELL] * 18)), QUIET),
    Healthy("h200-nvlink", "GB200 in a rack's domain", board("GB200", nvlinks([BLACKWELL] * 18), fabric("clusterUuid", RACK), fabric(
        "cliqueId", "32766")), QUIET),
    Healthy("h200-nvlink", "GPUs without a fabric", together(fabric("state", "N/A"), fabric("status", "N/A")), ("gpu.domain",)),
    Healthy("h200-nvlink", "lanes of the module that the link does not use", module(4, dark=[5, 6, 7, 8]), QUIET),
    Healthy("h200-nvlink", "the second port of a shared module", module(4, dark=[1, 2, 3, 4]), QUIET),
    Healthy("h200-nvlink", "an accelerator that belongs to a virtual machine", other("0x1002", MI300X, "vfio-pci"), QUIET),
    Healthy("h200-nvlink", "a display adapter of AMD", other("0x1002", "0x1638", "amdgpu", "0x030000"), QUIET),
    Healthy("efa-p5", "the base tree", nothing, QUIET),
    Healthy("efa-p5", "a busy instance that sends many packets again", efa(0, retrans_timeout_events=900, tx_pkts=40_000_000_000), QUIET),
    Healthy("h100-ib", "limited in the default partition, full in the tenant's", together(
        *(keys(hca, "0x7fff", "0x8001") for hca in IB)), QUIET),
    Healthy("h100-ib", "mlxlink answers of healthy ports", together(*(mlxlink(hca) for hca in IB)), (
        *QUIET, "port.fec", "port.cable", "port.ber")),
)
