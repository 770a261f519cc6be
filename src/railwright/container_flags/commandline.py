# SPDX-License-Identifier: GPL-3.0-or-later
"""docker, podman and nerdctl: one command line, quoted for a shell."""

from __future__ import annotations

import shlex

from railwright.container_flags.model import Container

RUNTIME_VARIABLES = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}  # what the nvidia runtime reads
CDI_DEVICE = "nvidia.com/gpu=all"


def argv(container: Container) -> list[str]:
    """The words of the command. Without a command of the user's it is an interactive container."""
    words = [container.runtime, "run", "--rm"]
    if not container.launch.command:
        words += ["--interactive", "--tty"]
    words += ["--network=host"]
    words += [f"--shm-size={container.options.shm_size}"] if container.options.shm_size else ["--ipc=host"]
    words += ["--ulimit=memlock=-1:-1"]
    words += [f"--device={device}" for device in container.devices]
    words += [f"--volume={path}:{path}:ro" for path in container.files]
    words += {"cdi": [f"--device={CDI_DEVICE}"], "gpus": ["--gpus=all"], "runtime": ["--runtime=nvidia"]}.get(container.gpu or "", [])
    if container.cpus is not None:
        words += [f"--cpuset-cpus={container.cpus}", f"--cpuset-mems={container.mems}"]
    variables = (RUNTIME_VARIABLES if container.gpu == "runtime" else {}) | dict(container.variables)
    words += [f"--env={name}={value}" for name, value in variables.items()]
    return [*words, container.image, *container.launch.command]


def text(container: Container) -> str:
    """One option a line. The image and the command are one line together: they are what a reader looks for."""
    words = argv(container)
    tail = 1 + len(container.launch.command)
    options = words[3:-tail]
    lines = [shlex.join(words[:3]), *(shlex.quote(word) for word in options), shlex.join(words[-tail:])]
    return " \\\n  ".join(lines) + "\n"
