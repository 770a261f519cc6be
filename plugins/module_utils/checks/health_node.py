# SPDX-License-Identifier: GPL-3.0-or-later
"""What the signs of a node's health need of its facts."""

import time
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from .health_accelerators import accelerators_of
from .signs import gpu_subject

HOUR, LATEST = 3600.0, 1e11  # seconds


class Node(NamedTuple):
    """``hcas``: name by PCI address; ``watched``: functions whose PCIe errors count."""

    health: Mapping[str, Any]
    hcas: Dict[str, str]
    gpus: Dict[str, str]
    accelerators: Dict[str, str]  # model by PCI address, of makers other than NVIDIA
    watched: Sequence[str]
    recovery: Dict[str, Optional[str]]
    hours: int
    container: bool
    links: Mapping[Tuple[Any, Any], Mapping[str, Any]]  # ports by HCA and number
    expected: Sequence[str]  # PCI functions that the inventory names

    def subject(self, pci: str) -> Tuple[Optional[str], str]:
        """(HCA, text) of a PCI function."""
        if pci in self.hcas:
            return self.hcas[pci], "%s (%s)" % (self.hcas[pci], pci)
        if pci in self.accelerators:
            return None, "%s %s" % (self.accelerators[pci], pci)
        return None, gpu_subject(pci) if pci in self.gpus else "%s %s" % ("PCIe switch" if pci in self.watched else "PCI function", pci)

    def when(self, seconds: float) -> str:
        """A moment since boot as a time of the day, where the boot's is known and one that a calendar has."""
        at = (self.health.get("boot") or 0) + seconds
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if seconds < at < LATEST else "%d s after boot" % seconds


def node_of(facts: Mapping[str, Any], health: Mapping[str, Any], expected: Sequence[str]) -> Node:
    """Gather a Node from facts and their section ``health``."""
    hcas = {hca["pci_address"]: hca["name"] for hca in facts.get("hcas") or [] if hca.get("pci_address") and hca.get("name")}
    gpus = {gpu["pci"]: gpu.get("name") or "GPU" for gpu in facts.get("gpus") or [] if gpu.get("pci")}
    others = accelerators_of(facts)
    models = {item["pci"]: str(item.get("model")) for item in others if item.get("pci")}
    above = [address for device in list(facts.get("hcas") or []) + list(facts.get("gpus") or []) + others
             for address in (device.get("link") or {}).get("path") or []]
    recovery = {gpu["pci"]: gpu.get("recovery") for gpu in (health.get("gpu") or {}).get("gpus") or []}
    return Node(health, hcas, gpus, models, list(hcas) + list(gpus) + list(models) + above, recovery, health.get("up_hours") or 0,
                facts.get("virtual") == "container",
                {(hca.get("name"), port.get("number")): port for hca in facts.get("hcas") or [] for port in hca.get("ports") or []},
                expected)
