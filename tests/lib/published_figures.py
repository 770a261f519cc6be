# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of docs/reference/speed-corpus.yml as facts of such a machine, and what the model says of each."""

from functools import cache
from typing import Any, NamedTuple

import yaml

from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.ceilings import Ceiling, ceiling, perftest_gbps
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.machine import machine_of
from repo import ROOT

CORPUS = ROOT / "docs/reference/speed-corpus.yml"
GENERATIONS = {"3.0": 8.0, "4.0": 16.0, "5.0": 32.0, "6.0": 64.0}
GPUS_OF_A_SWITCH = 2
GB = 8  # Gb/s


class Row(NamedTuple):
    """``figure``: GB/s busbw, of perftest Gb/s."""

    id: str
    state: str
    tuned: bool
    threshold: bool
    test: str
    algorithm: str | None
    nodes: int
    figure: float
    ceiling: Ceiling
    raw: dict[str, Any]

    @property
    def share(self) -> float | None:
        """Of the ceiling."""
        return self.figure / self.ceiling.gbs if self.ceiling.gbs else None


@cache
def published() -> tuple[Row, ...]:
    return tuple(_row(raw) for raw in yaml.safe_load(CORPUS.read_text())["rows"])


def _row(raw: dict[str, Any]) -> Row:
    machine = machine_of(facts_of(raw), gpudirect=raw.get("gdr", True))
    if raw["test"].startswith("ib_"):
        port = machine.ports[0].name if machine.ports else ""
        gbps, limit = perftest_gbps(machine, port, gpu=bool(raw.get("gpu_memory")))
        found = Ceiling(raw["test"], 2, gbps, "", limit)
    else:
        found = ceiling(machine, raw["test"], raw["nodes"], raw.get("algorithm"))
    return Row(raw["id"], raw["state"], raw.get("tuned", False), raw.get("threshold", False), raw["test"], raw.get("algorithm"),
               raw["nodes"], float(raw["figure"]), found, raw)


def facts_of(raw: dict[str, Any]) -> dict[str, Any]:
    """GPUs and NICs in the order of their places: two GPUs and their share of NICs below each switch, or each on a root port of its own."""
    gpus, nics = raw["gpus"], raw.get("nics", 0)
    switches = max(1, gpus // GPUS_OF_A_SWITCH) if raw.get("switches", True) else 0
    half = max(1, (switches or gpus) // 2)
    generation, lanes = raw.get("pcie", "5.0 x16").split(" x")

    def place(kind: str, number: int, count: int) -> dict[str, Any]:
        slot = number * (switches or gpus) // count
        numa = 1 if switches + gpus > 2 and slot >= half else 0
        name = f"{kind}{number}"
        links = [_link(name, f"port of {name}", GENERATIONS[generation], int(lanes))]
        if switches:
            links.append(_link(f"switch{slot}", f"root{slot}", GENERATIONS[generation], 16))
        return {"numa_node": numa, "link": {"links": links}}

    return {
        "gpus": [dict(place("gpu", at, gpus), pci=f"gpu{at}", name=f"NVIDIA {raw['board']}") for at in range(gpus)],
        "hcas": [dict(place("nic", at, nics), name=f"nic{at}", pci_address=f"nic{at}",
                      ports=[{"number": 1, "state": "ACTIVE", "rate_gbps": raw["nic_gbps"], "netdev": None}]) for at in range(nics)],
        "netdevs": [],
    }


def _link(device: str, port: str, speed: float, width: int) -> dict[str, Any]:
    return {"device": device, "port": port, "speed_gts": speed, "width": width, "best_speed_gts": speed, "best_width": width}
