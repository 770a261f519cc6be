# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of a container on one node, in the form that whoever starts it reads. Nothing here talks to a node.

``model.py`` is what all forms share; one file a form. A new form is one more file and a row of FORMS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from railwright.container_flags import commandline, compose, containerfile, kubernetes
from railwright.container_flags.model import Container
from railwright.container_flags.yamltext import BETWEEN
from railwright.report.text import printable

NUMACTL = ("numactl in front of docker run binds the client alone: the container is started by a daemon. --cpuset-cpus and --cpuset-mems "
           "bind the container")


@dataclass(frozen=True)
class Form:
    """``notes``: what a reader of this form must know, beside what all forms say."""

    text: Callable[[Container], str]
    notes: Callable[[Container], list[str]]


def _no_notes(container: Container) -> list[str]:
    del container
    return []


FORMS = {
    "docker": Form(commandline.text, _no_notes),
    "podman": Form(commandline.text, _no_notes),
    "nerdctl": Form(commandline.text, _no_notes),
    "compose": Form(compose.text, compose.notes),
    "kubernetes": Form(kubernetes.text, kubernetes.notes),
    "containerfile": Form(containerfile.text, containerfile.notes),
}


def told(form: str, container: Container) -> list[str]:
    """What a reader must know, in the order of weight."""
    said = [*container.notes, *FORMS[form].notes(container)]
    if container.cpus is not None and form in ("docker", "podman", "nerdctl"):
        said.append(NUMACTL)
    if container.job.nodes > 1 and form != "containerfile":
        where = f"; rank 0 is at {container.job.master}, {container.job.why}" if container.job.master and container.job.why else ""
        said.append(f"rank {container.job.rank} of {container.job.nodes} nodes{where}: torchrun {' '.join(container.launch.flags)}")
    return said


def rendered(form: str | None, made: Sequence[Container]) -> str:
    """One text for all nodes; ``form`` None: the command line of each node's runtime."""
    yaml = form in ("compose", "kubernetes")
    return (BETWEEN if yaml else "\n").join(_one(form or item.runtime, item) for item in made)


def _one(form: str, container: Container) -> str:
    """The form with its notes as comments above it: # is a comment in a shell, in YAML and in a Containerfile."""
    head = "".join(f"# {printable(line)}\n" for line in (container.node, *told(form, container)))
    return head + FORMS[form].text(container)


def as_document(container: Container) -> dict[str, Any]:
    """Every form of one container as data."""
    fit = container.cuda
    return {
        "runtime": container.runtime,
        "argv": commandline.argv(container),
        "compose": compose.document(container),
        "kubernetes": kubernetes.documents(container),
        "containerfile": None if container.system.problem else containerfile.text(container),
        "devices": list(container.devices),
        "environment": dict(container.variables),
        "files": list(container.files),
        "gpu": container.gpu,
        "cpuset": None if container.cpus is None else {"cpus": container.cpus, "mems": container.mems},
        "torchrun": list(container.launch.flags),
        "cuda": None if fit is None else {"fits": fit.fits, "message": fit.message},
        "notes": list(container.notes),
        "problems": list(container.problems),
    }
