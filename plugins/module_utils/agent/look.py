# SPDX-License-Identifier: GPL-3.0-or-later
"""One look of the agent: each hour whole, as ``railwright check`` looks; each minute what costs next to nothing, judged by the same rules.

Each runs in a process of its own, which is gone after it: no /dev/nvidia* stays open, and whatever hangs is left alone.
"""

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ..checks.health import health_verdicts
from ..entry.alone import in_time, judge_hurry, seen_alone
from ..host.drivers import library
from ..host.hasty import HastyHost
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.health import observe_aer, observe_disks, observe_memory, up_hours
from ..observe.kernel_log import DMESG, events_of, lines_of
from ..observe.nvml import LIBRARY, NoNvml, open_nvml
from ..types import Verdict
from .counters import Part, observe_parts

WHOLE, CHEAP = 12.0, 8.0  # seconds of a look
KEPT = ("hcas", "gpus", "health", "virtual", "gpu_driver")  # of the facts: what the minutes need
EMPTY: Dict[str, Any] = {"facts": {}, "verdicts": [], "switches": False, "node": ""}
Tell = Callable[[str], None]


def whole_look(host: Host, values: Mapping[str, Any]) -> Dict[str, Any]:
    """``values``: of a Spec without a wish. Raises RailwrightError."""
    def make(tell: Tell) -> Dict[str, Any]:
        hasty = HastyHost(WHOLE - 2.5, tell)
        name, identity, facts, verdicts = seen_alone(InspectedHost(hasty if host.live else host), "", values)
        hurry = judge_hurry(name, hasty)
        return {"node": name, "facts": {key: facts.get(key) for key in KEPT}, "switches": bool(identity.nvswitches),
                "verdicts": [list(item) for item in verdicts + hurry]}

    return in_time(make, WHOLE)


def cheap_look(host: Host, last: Mapping[str, Any]) -> Dict[str, Any]:
    """``last``: the last whole look. ``verdicts`` on health, ``parts``, the kernel's ``events``; ``health``. Raises RailwrightError."""
    def make(tell: Tell) -> Dict[str, Any]:
        facts = dict(last["facts"])
        health = minute_health(host, facts, tell)
        tell("reading counters")
        parts = observe_parts(host, facts.get("hcas") or [], health)
        verdicts = health_verdicts(last["node"], facts, health, last["switches"])
        return {"verdicts": [list(item) for item in verdicts], "parts": [list(part) for part in parts], "health": health}

    return in_time(make, CHEAP)


def minute_health(host: Host, facts: Mapping[str, Any], tell: Tell) -> Dict[str, Any]:
    """The section ``health`` of the last whole look, with what can be read anew without a process of its own but dmesg's."""
    health = dict(facts.get("health") or {})
    tell("running dmesg")
    health["log"] = newer_log(host, health.get("log") or {})
    tell("reading PCIe's and memory's errors")
    health.update(up_hours=up_hours(host), aer=observe_aer(host, facts), disks=observe_disks(host),
                  memory=observe_memory(host) if facts.get("virtual") != "container" else [])
    if (health.get("gpu") or {}).get("answered") and _awake(facts):
        tell("asking NVML")
        health["gpu"] = dict(health["gpu"], gpus=newer_gpus(health["gpu"]["gpus"]))
    return health


def newer_log(host: Host, log: Mapping[str, Any]) -> Dict[str, Any]:
    """Its events, and those of lines that came since; without right to read it, as it was."""
    if not log.get("source"):
        return dict(log)
    answer = host.run(DMESG, 5.0)
    lines = [line for line in lines_of(answer.out) if line.at > (log.get("until") or 0.0)] if answer.ok else []
    return dict(log, events=events_of(lines, log["events"]), until=lines[-1].at if lines else log.get("until"))


def newer_gpus(rows: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Each GPU as nvidia-smi told it, with what NVML tells now; of one that NVML does not find nothing is new."""
    try:
        session = open_nvml(library(LIBRARY))
    except NoNvml:
        return [dict(row) for row in rows]
    try:
        told = {gpu.get("pci"): dict(gpu, **more) for gpu, more in zip(session.health(), session.sample())}
    finally:
        session.close()
    return [dict(row, **{name: value for name, value in (told.get(row["pci"]) or {}).items() if name in row and value is not None})
            for row in rows]


def _awake(facts: Mapping[str, Any]) -> bool:
    """Without persistence mode each question would initialise the GPUs, for seconds."""
    modes = ((facts.get("gpu_driver") or {}).get("persistence") or {}).get("mode") or {}
    return bool(modes) and all(mode == "Enabled" for mode in modes.values())


def verdicts_and_parts(look: Mapping[str, Any]) -> Tuple[List[Verdict], List[Part]]:
    """As they were before they went through a pipe."""
    return [Verdict(*item) for item in look["verdicts"]], [Part(*item) for item in look.get("parts") or []]
