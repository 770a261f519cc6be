# SPDX-License-Identifier: GPL-3.0-or-later
"""One look of the agent: each hour whole, as ``railwright check`` looks; each minute what costs next to nothing, by the same rules."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..checks.health import health_verdicts
from ..host.drivers import library
from ..host.hasty import HastyHost
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..host.write import OUTPUT_LIMIT, Result
from ..observe.gpu_health import gpu_row
from ..observe.health import observe_aer, observe_applies, observe_disks, observe_memory, up_hours
from ..observe.kernel_log import newer_log
from ..observe.nvml import LIBRARY, NoNvml, open_nvml
from ..types import Verdict
from .counters import Part, observe_parts

COMMANDS = 15.0  # seconds until the last command of a look has ended
HEAVY = ("nvidia-smi", "dcgmi")
ROW = gpu_row("", {})  # every value that a GPU may have, unknown
KEPT = ("hcas", "gpus", "health", "virtual", "gpu_driver")  # of the facts: what the minutes need
EMPTY: Dict[str, Any] = {"facts": {}, "verdicts": [], "switches": False, "node": ""}
Tell = Callable[[str], None]


class LeanHost(HastyHost):
    """What the agent asks by a library it starts no program for: nvidia-smi and dcgmi take twice its memory."""

    def which(self, tool: str) -> Optional[str]:
        return None if tool in HEAVY else super().which(tool)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        if argv[0] in HEAVY:
            return Result(127, "", "%s: the agent does not start it" % argv[0])
        return super().run(argv, timeout, stdin, limit)


def whole_look(host: Host, values: Mapping[str, Any], tell: Tell) -> Dict[str, Any]:
    """``values``: of a Spec without a wish. ``tell`` gets what is read or run before that begins."""
    from ..entry.alone import judge_hurry, seen_alone  # all checks and areas: the other 59 looks of an hour do without

    lean = LeanHost(COMMANDS, tell)
    name, identity, facts, verdicts = seen_alone(InspectedHost(lean if host.live else host), "", values)
    return {"node": name, "facts": {key: facts.get(key) for key in KEPT}, "switches": bool(identity.nvswitches),
            "verdicts": [list(item) for item in verdicts + judge_hurry(name, lean)]}


def cheap_look(host: Host, last: Mapping[str, Any], tell: Tell) -> Dict[str, Any]:
    """``last``: the last whole look. ``verdicts`` on health, ``parts``, and the section ``health`` as it is now."""
    facts = dict(last["facts"])
    facts["health"] = minute_health(host, facts, tell)
    tell("asking NVML")
    with_nvml(facts)
    tell("reading counters")
    parts = observe_parts(host, facts.get("hcas") or [], facts["health"])
    verdicts = health_verdicts(last["node"], facts, facts["health"], last["switches"])
    return {"verdicts": [list(item) for item in verdicts], "parts": [list(part) for part in parts], "health": facts["health"]}


def minute_health(host: Host, facts: Mapping[str, Any], tell: Tell) -> Dict[str, Any]:
    """The section ``health`` of the last whole look, with what can be read again without a process."""
    health = dict(facts.get("health") or {})
    tell("reading the kernel's log")
    health["log"] = newer_log(host, health.get("log") or {})
    tell("reading PCIe's and memory's errors")
    health.update(applies=observe_applies(host), up_hours=up_hours(host), aer=observe_aer(host, facts), disks=observe_disks(host),
                  memory=observe_memory(host) if facts.get("virtual") != "container" else [])
    return health


def with_nvml(facts: Dict[str, Any]) -> None:
    """Put what NVML tells of the GPUs in the place of what nvidia-smi would have told.

    Where no GPU has NVIDIA's driver, or nvidia-smi was recorded, nothing is asked. Without persistence mode each question would
    initialise the GPUs, for seconds: then it is asked once after each whole look.
    """
    health = dict(facts.get("health") or {})
    seen = health.get("gpu")
    if not seen or not all(gpu.get("persistent") for gpu in seen["gpus"]):
        return
    try:
        session = open_nvml(library(LIBRARY))
    except NoNvml as error:
        facts["health"] = dict(health, gpu=seen if seen["answered"] else dict(seen, why=str(error)))
        return
    try:
        told = [dict(gpu, **more) for gpu, more in zip(session.health(), session.sample())]
    finally:
        session.close()
    before = {gpu["pci"]: gpu for gpu in seen["gpus"]}
    rows = [dict(ROW, **dict(before.get(gpu["pci"]) or {}, **{name: value for name, value in gpu.items() if value is not None}))
            for gpu in told if gpu.get("pci")]
    health["gpu"] = dict(seen, rc=0, answered=bool(rows), denied=False, why=None if rows else "NVML knows no GPU", gpus=rows)
    up = {gpu["pci"]: [0.0 for link in gpu.get("nvlinks") or [] if link] for gpu in told if gpu.get("nvlinks")}
    facts.update(health=health, gpus=[dict(gpu, nvlinks=up.get(gpu.get("pci"), gpu.get("nvlinks"))) for gpu in facts.get("gpus") or []])


def verdicts_and_parts(look: Mapping[str, Any]) -> Tuple[List[Verdict], List[Part]]:
    """As they were before they were kept as JSON."""
    return [Verdict(*item) for item in look["verdicts"]], [Part(*item) for item in look.get("parts") or []]
