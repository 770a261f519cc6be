# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has for containers: runtimes, NVIDIA's toolkit, CDI specifications, docker's daemon.json; and what a container may be given.

Programs answer with a version line or JSON; whatever has another form is unknown (None), and nothing of it becomes part of a
command. CDI specifications are YAML or JSON; of them only the kind, the names of devices and the driver's version are taken, by
their form, since a node has no YAML parser that we could count on.
"""

import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import json_object, json_value, list_or_empty, mapping
from ..host.host import Host
from .devices import attribute

DEVICES = "/dev/infiniband"
RDMA_CM = "rdma_cm"
VERBS_CLASS = "/sys/class/infiniband_verbs"
MAD_CLASS = "/sys/class/infiniband_mad"
NODES = "/sys/devices/system/node"
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
GPU_KIND = "nvidia.com/gpu"
DAEMON_JSON = "/etc/docker/daemon.json"
RUNTIMES = ("docker", "podman", "nerdctl")
DOCKER_INFO = ("docker", "info", "--format", "{{json .}}")
ANSWER_SECONDS = 20.0  # of a daemon that hangs
_VERSION_LINE = {
    "docker": re.compile(r"Docker version ([0-9]{1,9}(?:\.[0-9]{1,9})+)"),  # podman-docker's docker says podman's line, and is podman
    "podman": re.compile(r"podman version ([0-9]{1,9}(?:\.[0-9]{1,9})+)"),
    "nerdctl": re.compile(r"nerdctl version v?([0-9]{1,9}(?:\.[0-9]{1,9})+)"),
}
_TOOLKIT_LINE = re.compile(r"NVIDIA Container Toolkit CLI version ([0-9]{1,9}(?:\.[0-9]{1,9})+)")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_KIND = re.compile(r"""^[ \t]*["']?kind["']?[ \t]*:[ \t]*["']?([A-Za-z0-9._-]+/[A-Za-z0-9._-]+)["']?[ \t]*(?:,[ \t]*)?$""", re.MULTILINE)
_DEVICE = re.compile(
    r"""^[ \t]*(?:-[ \t]+)?["']?name["']?[ \t]*:[ \t]*["']?([A-Za-z0-9][A-Za-z0-9_.:-]*)["']?[ \t]*(?:,[ \t]*)?$""", re.MULTILINE)
_DRIVER = re.compile(r"libcuda\.so\.([0-9]{3,4}(?:\.[0-9]{1,9})+)")
_NODE = re.compile(r"node[0-9]{1,4}\Z")
_CPUS = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*\Z")
_UVERBS = re.compile(r"uverbs[0-9]{1,4}\Z")
_MAD = re.compile(r"(?:umad|issm)[0-9]{1,4}\Z")


class Runtime(NamedTuple):
    """``daemon``: docker's own version, None where it does not run or there is none; ``runtimes``: what it can start containers with."""

    name: str
    version: str
    daemon: Optional[str] = None
    runtimes: Tuple[str, ...] = ()
    cdi_directories: Tuple[str, ...] = ()  # that docker's daemon looks into; none: CDI is off


class CdiSpec(NamedTuple):
    """One specification of NVIDIA GPUs. ``driver``: whose libraries it hands out."""

    path: str
    devices: Tuple[str, ...]
    driver: Optional[str]


class Toolkit(NamedTuple):
    version: Optional[str]  # of nvidia-ctk
    hook: bool  # nvidia-container-runtime-hook: what --gpus needs
    runtime: bool  # nvidia-container-runtime: what --runtime=nvidia needs


def observe_runtimes(host: Host) -> Tuple[Runtime, ...]:
    """Those that answer, docker first."""
    return tuple(runtime for runtime in (_runtime(host, name) for name in RUNTIMES) if runtime is not None)


def _runtime(host: Host, name: str) -> Optional[Runtime]:
    found = _VERSION_LINE[name].match(host.run((name, "--version"), ANSWER_SECONDS).out) if host.which(name) is not None else None
    if found is None:
        return None
    told = json_object(host.run(DOCKER_INFO, ANSWER_SECONDS).out) or {} if name == "docker" else {}
    version = told.get("ServerVersion")
    if not isinstance(version, str) or not _NUMBERS.match(version):
        return Runtime(name, found.group(1))
    return Runtime(name, found.group(1), version, tuple(sorted(map(str, mapping(told.get("Runtimes"))))),
                   tuple(map(str, list_or_empty(told.get("CDISpecDirs")))))


def observe_toolkit(host: Host) -> Optional[Toolkit]:
    """None where nothing of it is there."""
    found = _TOOLKIT_LINE.search(host.run(("nvidia-ctk", "--version"), ANSWER_SECONDS).out) if host.which("nvidia-ctk") else None
    hook, runtime = (host.which("nvidia-container-" + name) is not None for name in ("runtime-hook", "runtime"))
    toolkit = Toolkit(found.group(1) if found else None, hook, runtime)
    return toolkit if any(toolkit) else None


def observe_cdi(host: Host) -> Tuple[CdiSpec, ...]:
    """The specifications of NVIDIA GPUs, each file once: /var/run is /run."""
    paths: Dict[str, str] = {}
    for directory in CDI_DIRECTORIES:
        for name in host.listdir(directory):
            if name.endswith((".yaml", ".yml", ".json")) and sysfs_values.is_name(name):
                paths.setdefault("%s/%s" % (directory.replace("/var/run", "/run"), name), "%s/%s" % (directory, name))
    specs = [cdi_spec(path, host.read(path) or "") for path in paths.values()]
    return tuple(spec for spec in specs if spec is not None)


def cdi_spec(path: str, text: str) -> Optional[CdiSpec]:
    """What a file says, or None where it is about something else. JSON is read as lines too: nvidia-ctk writes it indented."""
    kind = _KIND.search(text)
    if kind is None or kind.group(1) != GPU_KIND:
        return None
    driver = _DRIVER.search(text)
    return CdiSpec(path, tuple(dict.fromkeys(_DEVICE.findall(text))), driver.group(1) if driver is not None else None)


def observe_infiniband(host: Host) -> Dict[str, Any]:
    """``{"rdma_cm", "uverbs": [{"name", "hca"}], "mad": []}``: the device nodes that there are.

    A captured tree has no device nodes; there sysfs says which there were.
    """
    names = host.listdir(DEVICES)
    if not names and not host.live:
        names = host.listdir(VERBS_CLASS) + host.listdir(MAD_CLASS) + host.listdir("/sys/class/misc")
    uverbs = sorted((name for name in names if _UVERBS.match(name)), key=sysfs_values.natural_key)
    return {
        "rdma_cm": RDMA_CM in names,
        "uverbs": [{"name": name, "hca": sysfs_values.name(attribute(host, "%s/%s/ibdev" % (VERBS_CLASS, name)))} for name in uverbs],
        "mad": sorted((name for name in names if _MAD.match(name)), key=sysfs_values.natural_key),
    }


def observe_numa(host: Host) -> Dict[str, str]:
    """CPUs of each NUMA node, as the kernel lists them: 0-15,64-79. Nodes without a CPU are left out."""
    names = sorted(filter(_NODE.match, host.listdir(NODES)), key=sysfs_values.natural_key)
    cpus = {name[len("node"):]: (attribute(host, "%s/%s/cpulist" % (NODES, name)) or "").strip() for name in names}
    return {node: text for node, text in cpus.items() if _CPUS.match(text)}


def observe_image(host: Host, runtime: str, image: str) -> Optional[Dict[str, Dict[str, str]]]:
    """``{"env", "labels"}`` of an image that the node has; None where the runtime does not have it."""
    told = json_value(host.run((runtime, "image", "inspect", image), ANSWER_SECONDS).out)
    config = told[0].get("Config") if isinstance(told, list) and told and isinstance(told[0], dict) else None
    if not isinstance(config, dict):
        return None
    pairs = [str(item).partition("=") for item in list_or_empty(config.get("Env"))]
    return {
        "env": {name: value for name, _equals, value in pairs},
        "labels": {str(name): str(value) for name, value in mapping(config.get("Labels")).items()},
    }
