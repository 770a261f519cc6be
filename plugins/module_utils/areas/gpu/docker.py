# SPDX-License-Identifier: GPL-3.0-or-later
"""docker's daemon.json: our part put into what the site has there, and docker restarted to read it.

The file is the site's: every other key stays as it is, in its place. A restart stops the containers unless live-restore is on,
so it needs consent (restart). The nvidia runtime and features.cdi are read when docker starts.
"""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.containers import CDI_SINCE, CDI_SOURCE, DOCKER_CDI_DEFAULT, at_least
from ...formats.outside import json_object
from ...host.host import Host
from ...observe.containers import DAEMON_JSON, Runtime
from ...types import Change, Op, Problem, run, write_file

UNIT = "docker.service"
RUNTIME = "nvidia"
ENTRY: Dict[str, Any] = {"path": "nvidia-container-runtime", "args": []}  # as nvidia-ctk runtime configure writes it
RESTART = ("systemctl", "restart", UNIT)
RESTART_SECONDS = 180.0
WHY_RUNTIME = "docker run --runtime=nvidia gives a container the GPUs (containers_gpu: nvidia)"
RUNTIME_SOURCE = "NVIDIA (container toolkit: nvidia-ctk runtime configure)"


class Daemon(NamedTuple):
    """``runtime`` None: docker is not on this node, or is not the one that counts."""

    runtime: Optional[Runtime]
    text: Optional[str]  # of daemon.json
    mode: Optional[int]
    active: bool


NOTHING = Daemon(None, None, None, False)


def observe(host: Host, runtime: Optional[Runtime]) -> Daemon:
    if runtime is None:
        return NOTHING
    active = host.run(("systemctl", "is-active", UNIT)).out.strip() == "active"
    return Daemon(runtime, host.read(DAEMON_JSON), host.mode(DAEMON_JSON), active)


def settings_of(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """What daemon.json says; None for what is no JSON object. docker takes an absent or empty file for an empty object."""
    return json_object(text) if text is not None and text.strip() else {}


def plan_runtime(area: str, daemon: Daemon) -> List[Change]:
    settings = _mergeable(daemon, "runtimes")
    if daemon.runtime is None or settings is None:
        return []
    before = settings.get("runtimes", {}).get(RUNTIME)
    known = isinstance(before, dict) and bool(before.get("path"))
    if known and (not daemon.active or RUNTIME in daemon.runtime.runtimes):
        return []
    what = "runtime nvidia of docker"
    if known:  # written by somebody, and docker has not read it yet
        return [Change(area, what, "not loaded", "loaded", "restart", WHY_RUNTIME, RUNTIME_SOURCE, _restart())]
    ops = _ops(daemon, settings, "runtimes", RUNTIME, ENTRY)
    return [Change(area, what, before, ENTRY, "restart" if daemon.active else "none", WHY_RUNTIME, RUNTIME_SOURCE, ops)]


def plan_cdi(area: str, daemon: Daemon) -> List[Change]:
    settings = _mergeable(daemon, "features")
    if daemon.runtime is None or settings is None or not daemon.active:
        return []
    # docker info lists where it looks for specifications, from 25 on, when the feature is on.
    if daemon.runtime.cdi_directories or not at_least(daemon.runtime.daemon, CDI_SINCE["docker"]):
        return []
    before = settings.get("features", {}).get("cdi")
    ops = _restart() if before is True else _ops(daemon, settings, "features", "cdi", True)
    return [Change(area, "feature cdi of docker", "not loaded" if before is True else before, True, "restart",
                   "docker takes CDI devices only with this feature, before %s" % DOCKER_CDI_DEFAULT, CDI_SOURCE, ops)]


def _mergeable(daemon: Daemon, section: str) -> Optional[Dict[str, Any]]:
    """What daemon.json says, where a section of it can be put in."""
    settings = settings_of(daemon.text)
    return settings if settings is not None and isinstance(settings.get(section, {}), dict) else None


def _ops(daemon: Daemon, settings: Dict[str, Any], section: str, key: str, value: Any) -> Tuple[Op, ...]:
    """A roll back ends with the undo of the first: docker is restarted with its old file, also where it did not start with the new one."""
    merged = dict(settings, **{section: dict(settings.get(section, {}), **{key: value})})
    write = write_file(DAEMON_JSON, json.dumps(merged, indent=4) + "\n", 0o644 if daemon.mode is None else daemon.mode)
    if not daemon.active:
        return (write,)
    return (run(("systemctl", "is-active", UNIT), (RESTART,)), write) + _restart()


def _restart() -> Tuple[Op, ...]:
    return (run(RESTART, (("true",),), RESTART_SECONDS),)


def conflicts(area: str, way: str, daemon: Daemon) -> List[Problem]:
    """A file that cannot be merged with: docker itself would not start with it."""
    if daemon.runtime is None:
        return []
    if settings_of(daemon.text) is None:
        return [Problem(area, DAEMON_JSON, "is no JSON object, so nothing can be put into it; docker itself refuses such a file")]
    section = "runtimes" if way == "nvidia" else "features"
    if _mergeable(daemon, section) is None:
        return [Problem(area, DAEMON_JSON, "%s is no JSON object, so nothing can be put into it" % section)]
    return []


def notes(way: str, daemon: Daemon) -> List[str]:
    if way == "nvidia" and daemon.runtime is None:
        return ["containers: containers_gpu: nvidia is for docker, which is not on this node"]
    if way != "cdi" or daemon.runtime is None:
        return []
    if not daemon.active or daemon.runtime.daemon is None:
        return ["containers: docker does not run, so whether it takes CDI devices is not known"]
    if not daemon.runtime.cdi_directories and not at_least(daemon.runtime.daemon, CDI_SINCE["docker"]):
        return ["containers: docker %s knows no CDI (from %s on); containers_gpu: nvidia is for it" % (
            daemon.runtime.daemon, CDI_SINCE["docker"])]
    return []
