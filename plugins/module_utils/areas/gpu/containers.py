# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs for containers: NVIDIA's toolkit, a CDI specification that follows the driver, docker's runtime. Only where the inventory asks.

A CDI specification names the driver's libraries with their version, so after a change of the driver it is wrong until it is made
anew. From 1.18 on the toolkit brings units for that; for an older one we have our own. What a node has no GPU or no runtime for is
left alone. Installing a driver ends with depmod, which writes modules.dep: that file is watched. /var/run is empty after a boot.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.containers import CDI_SINCE, CDI_SOURCE, at_least, toolkit_packages
from ...catalogue.drivers import Wanted, wants_toolkit
from ...catalogue.platforms import system_of
from ...host.host import Host
from ...observe.containers import CdiSpec, Runtime, Toolkit, observe_cdi, observe_runtimes, observe_toolkit
from ...observe.gpu_driver import loaded_driver
from ...observe.packages import Hold, all_installed, held_packages
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run
from ..common.files import HEADER
from ..common.package_changes import hold_conflicts, missing_database, names_of, plan_packages
from ..common.units import DaemonState, Unit, UnitState, observe_daemon, observe_unit, plan_daemon, plan_unit, removed_unit
from . import docker

NAME = "containers"
SPEC = "/var/run/cdi/nvidia.yaml"
WHAT_SPEC = "CDI specification of the GPUs"
THEIR_PATH, THEIR_SERVICE = "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"
PATH, SERVICE = "railwright-cdi.path", "railwright-cdi.service"
TARGET = "multi-user.target"
OURS, THEIRS = "ours", "theirs"
WHY_UNITS = "the CDI specification must follow the driver, and /var/run is empty after a boot"

SERVICE_TEXT = HEADER + """[Unit]
Description=CDI specification of the NVIDIA GPUs (railwright)
After=systemd-modules-load.service nvidia-persistenced.service

[Service]
Type=oneshot
ExecCondition=/bin/grep -q nvidia.ko /lib/modules/%v/modules.dep
ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml

[Install]
WantedBy=multi-user.target
"""
PATH_TEXT = HEADER + """[Unit]
Description=CDI specification of the NVIDIA GPUs after a change of the driver (railwright)

[Path]
PathChanged=/lib/modules/%v/modules.dep
PathChanged=/usr/bin/nvidia-ctk

[Install]
WantedBy=multi-user.target
"""
UNITS = (Unit(SERVICE, SERVICE_TEXT, TARGET, False), Unit(PATH, PATH_TEXT, TARGET, True))


class CdiUnits(NamedTuple):
    theirs: DaemonState
    their_service: DaemonState
    service: UnitState
    path: UnitState


class Desired(NamedTuple):
    """``way``: cdi, nvidia (docker's runtime), or '' for nothing; then ``reason`` may say why."""

    identity: Identity
    way: str
    runtime: str  # auto, or the only one that counts
    wanted: Tuple[Wanted, ...]
    reason: str


class Observed(NamedTuple):
    runtimes: Tuple[Runtime, ...]
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    toolkit: Optional[Toolkit]
    specs: Tuple[CdiSpec, ...]
    driver: Optional[str]  # the loaded one
    units: CdiUnits
    docker: docker.Daemon


def desired(spec: Spec, identity: Identity) -> Desired:
    gpu = spec["containers_gpu"]
    asked = spec["containers_runtime"] != "none" and (gpu in ("cdi", "nvidia") or (gpu == "auto" and spec["containers_toolkit_install"]))
    if not asked or not identity.gpus:
        reason = "no NVIDIA GPU on the PCI bus of this node, so containers need no set-up" if asked else ""
        return Desired(identity, "", spec["containers_runtime"], (), reason)
    wanted = toolkit_packages(spec, identity) if wants_toolkit(spec, identity) else ()
    return Desired(identity, "nvidia" if gpu == "nvidia" else "cdi", spec["containers_runtime"], wanted, "")


def observe(host: Host, desired: Desired) -> Observed:
    units = CdiUnits(observe_daemon(host, THEIR_PATH), observe_daemon(host, THEIR_SERVICE), *(observe_unit(host, unit) for unit in UNITS))
    if not desired.way:
        return Observed((), None, (), None, (), None, units, docker.NOTHING)
    found = [runtime for runtime in observe_runtimes(host) if desired.runtime in ("auto", runtime.name)]
    packages = bool(desired.wanted and found)
    return Observed(
        tuple(found),
        all_installed(host, desired.identity) if packages else None,
        held_packages(host, desired.identity, names_of(desired.wanted)) if packages else (),
        observe_toolkit(host),
        observe_cdi(host),
        loaded_driver(host).version,
        units,
        docker.observe(host, next((runtime for runtime in found if runtime.name == "docker"), None)),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.way or not observed.runtimes:
        return plan_units(NAME, observed.units, "", "")
    changes: List[Change] = []
    if desired.wanted and observed.installed is not None:
        changes += plan_packages(NAME, desired.wanted, observed.installed, desired.identity.platform.family)
    if _without_toolkit(desired, observed):
        return changes
    if desired.way == "nvidia":
        return changes + docker.plan_runtime(NAME, observed.docker) + plan_units(NAME, observed.units, "", "")
    if desired.identity.has("systemd"):
        # The toolkit's own units where they are, or come with its packages; else ours.
        who = THEIRS if observed.units.theirs.installed or desired.wanted else OURS
        changes += plan_units(NAME, observed.units, who, observed.driver or "")
    return changes + _plan_spec(observed) + docker.plan_cdi(NAME, observed.docker)


def _plan_spec(observed: Observed) -> List[Change]:
    """The command writes the file anew, in one step. Reverted is a file that was not there before."""
    if observed.driver is None or any("all" in spec.devices and spec.driver == observed.driver for spec in observed.specs):
        return []
    before: Dict[str, Any] = {spec.path: spec.driver for spec in observed.specs}
    fresh = not any(spec.path.replace("/var/run/", "/run/") == SPEC.replace("/var/run/", "/run/") for spec in observed.specs)
    return [Change(NAME, WHAT_SPEC, before or None, {SPEC: observed.driver}, "none", "a container gets the GPUs and the driver's "
                   "libraries by it; it names the libraries of one driver version", CDI_SOURCE,
                   (run(("nvidia-ctk", "cdi", "generate", "--output=" + SPEC), (("rm", "-f", SPEC),) if fresh else ()),))]


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.way and wants_toolkit(spec, identity) and not desired.wanted:
        return [Problem(NAME, "containers_toolkit_install", "no repository with NVIDIA's container toolkit is known for %s; allowed: "
                        "cuda_repository_url, or false and a toolkit that the site installs" % system_of(identity))]
    return []


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if not desired.way or not observed.runtimes:
        return []
    if desired.wanted and observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    found = hold_conflicts(NAME, plan(desired, observed), observed.holds)
    if _without_toolkit(desired, observed):
        missing = "nvidia-ctk" if desired.way == "cdi" else "nvidia-container-runtime"
        found.append(Problem(NAME, "containers_gpu", "%s of NVIDIA's container toolkit is not on this node; "
                             "containers_toolkit_install: true installs it" % missing))
    return found + docker.conflicts(NAME, desired.way, observed.docker)


def _without_toolkit(desired: Desired, observed: Observed) -> bool:
    """What does the work is not there, and is not about to come."""
    there = observed.toolkit
    has = there is not None and (at_least(there.version, CDI_SINCE["toolkit"]) if desired.way == "cdi" else there.runtime)
    return not has and not desired.wanted


def notes(desired: Desired, observed: Observed) -> List[str]:
    if not desired.way:
        return ["containers: " + desired.reason] if desired.reason else []
    if not observed.runtimes:
        kind = "container runtime" if desired.runtime == "auto" else desired.runtime
        return ["containers: no %s on this node, so nothing is set up" % kind]
    said: List[str] = []
    if desired.way == "cdi" and observed.driver is None:
        said.append("containers: no NVIDIA driver is loaded; the CDI specification is made when one is")
    if desired.way == "cdi" and not desired.identity.has("systemd"):
        said.append("containers: no systemd here, so nothing makes the CDI specification anew after a change of the driver")
    return said + docker.notes(desired.way, observed.docker)


def plan_units(area: str, units: CdiUnits, who: str, driver: str) -> List[Change]:
    """``who``: theirs, ours, or '' for nobody: ours go then, and theirs are not ours to stop."""
    if who == OURS:
        pairs = zip(UNITS, (units.service, units.path))
        return [change for unit, state in pairs for change in plan_unit(area, unit, state, WHY_UNITS, CDI_SOURCE)]
    changes = [] if who != THEIRS or not driver else (
        plan_daemon(area, units.their_service, WHY_UNITS, CDI_SOURCE, running=False)
        + plan_daemon(area, units.theirs, WHY_UNITS, CDI_SOURCE))
    for unit, state in reversed(list(zip(UNITS, (units.service, units.path)))):  # the path first: it would start the service
        if state.file.text is not None:
            off = run(("systemctl", "disable", "--now", unit.name), (("systemctl", "enable", "--now", unit.name),))
            changes.append(removed_unit(area, unit.name, "nothing needs it any more", CDI_SOURCE, (off,) if state.enabled else ()))
    return changes
