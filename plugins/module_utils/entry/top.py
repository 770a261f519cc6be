# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of ``railwright top``: a line of JSON a second with what rails and GPUs show, for as long as the controller listens.

It only reads, needs no root and leaves nothing: it ends when its standard input does. GPUs are asked by a thread of their own: one that
makes NVML hang takes no rail with it.
"""

import json
import threading
import time
from typing import Any, Dict, List, NoReturn, Optional

from ..errors import RailwrightError
from ..host.drivers import library
from ..host.host import Host
from ..host.stream import tell
from ..observe.live_ports import Ports
from ..observe.nvml import LIBRARY, open_nvml
from ..spec.model import Spec

PERIOD, PATIENCE = 1.0, 30.0  # seconds
OLD = 3.0  # of a sample of the GPUs: it is none any more
END = 1.0  # for the GPUs' thread at the end
GPU = ("index", "pci", "use", "memory_used", "memory_total", "watts", "limit_watts", "mhz", "max_mhz", "celsius", "held_back", "lost",
       "nvlink_out", "nvlink_in")


def answer(spec: Dict[str, Any], _call: Dict[str, Any]) -> NoReturn:
    """``spec``: {} where there is no inventory."""
    ports, gpus = Ports(Host(), Spec(spec) if spec else None), Gpus()
    gpus.start()

    def line() -> bytes:
        at = time.monotonic()
        return json.dumps(dict(gpus.seen(), at=at, ports=ports.read()), separators=(",", ":")).encode("ascii") + b"\n"

    try:
        tell(line, PERIOD, PATIENCE)
    finally:
        gpus.end()
    raise SystemExit(0)


class Gpus(threading.Thread):
    """What NVML said last, or why it says nothing."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._at = time.monotonic()
        self._found: List[Dict[str, Any]] = []
        self._unknown: Optional[str] = "NVML has not answered yet"

    def run(self) -> None:
        found = library(LIBRARY)
        if found is None:  # no driver, no GPU to show
            self._unknown = None
            return
        try:
            session = open_nvml(found)
        except RailwrightError as error:
            self._unknown = str(error)
            return
        try:
            while not self._over.is_set():
                at = time.monotonic()
                self._found = [{name: gpu.get(name) for name in GPU} for gpu in session.sample()]
                self._at, self._unknown = at, None
                self._over.wait(PERIOD)
        finally:
            session.close()

    def seen(self) -> Dict[str, Any]:
        if self._found and time.monotonic() - self._at > OLD:
            return {"gpus": [], "gpus_unknown": "NVML hangs"}
        return {"gpus": self._found, "gpus_at": self._at, "gpus_unknown": self._unknown}

    def end(self) -> None:
        self._over.set()
        self.join(END)
