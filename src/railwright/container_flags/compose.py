# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of a Compose file. Compose puts variables in place of ``$NAME``: a dollar of ours is written twice."""

from __future__ import annotations

from typing import Any

from railwright.container_flags.commandline import CDI_DEVICE, RUNTIME_VARIABLES
from railwright.container_flags.model import Container
from railwright.container_flags.yamltext import dump

SERVICE = "rdma"


def document(container: Container) -> dict[str, Any]:
    service: dict[str, Any] = {"image": _literal(container.image), "network_mode": "host"}
    if container.options.shm_size:
        service["shm_size"] = container.options.shm_size
    else:
        service["ipc"] = "host"
    service["ulimits"] = {"memlock": {"soft": -1, "hard": -1}}
    service["devices"] = [f"{device}:{device}" for device in container.devices]
    variables = dict(container.variables)
    if container.gpu == "cdi":
        service["devices"].append(CDI_DEVICE)
    elif container.gpu == "gpus":
        reserved = [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
        service["deploy"] = {"resources": {"reservations": {"devices": reserved}}}
    elif container.gpu == "runtime":
        service["runtime"] = "nvidia"
        variables = RUNTIME_VARIABLES | variables
    if container.files:
        service["volumes"] = [{"type": "bind", "source": path, "target": path, "read_only": True} for path in container.files]
    if container.cpus is not None:
        service["cpuset"] = container.cpus
    if variables:
        service["environment"] = {name: _literal(value) for name, value in variables.items()}
    if container.launch.command:
        service["command"] = [_literal(word) for word in container.launch.command]
    return {"services": {SERVICE: service}}


def notes(container: Container) -> list[str]:
    if container.mems is None:
        return []
    return [f"Compose has no word for --cpuset-mems={container.mems}: memory comes from that node only as long as it has some free"]


def text(container: Container) -> str:
    return dump(document(container))


def _literal(value: str) -> str:
    return value.replace("$", "$$")
