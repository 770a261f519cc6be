# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image needs so that its programs find the RDMA devices: a Containerfile, by the image's distribution.

A repository's key is taken by its fingerprint out of whatever the vendor's file holds, as on a node; the build stops where it is not
in there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ansible_collections.railwright.rdma.plugins.module_utils.areas.repository_files import (
    PREFERENCES,
    PREFIX,
    definition,
    definition_path,
    keyring_path,
    preferences,
)
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository
from railwright.container_flags.model import IMAGE, Container

APT_INSTALL = "apt-get install -y --no-install-recommends"
KEY_TOOLS = {"apt": ("ca-certificates", "curl", "gnupg"), "dnf": ("curl", "gnupg2")}
HOME = "/root/key"  # gpg's, for the one step


def text(container: Container) -> str:
    base = "" if container.image == IMAGE else f"={container.image}"
    system = container.system
    steps = key_steps(system.manager, system.repository) if system.repository is not None else []
    if system.manager == "dnf":
        steps += [f"dnf install -y {shlex.join(system.packages)}", "dnf clean all"]
    else:
        steps += ["apt-get update", f"{APT_INSTALL} {shlex.join(system.packages)}", "rm -rf /var/lib/apt/lists/*"]
    return "\n".join([f"ARG BASE{base}", "FROM ${BASE}", "RUN " + " \\\n && ".join(steps), ""])


def key_steps(manager: str, repository: Repository) -> list[str]:
    """The repository's key, and nothing else of its file; then its definition, and on apt what of it goes first."""
    tools = shlex.join(KEY_TOOLS[manager])
    ring = keyring_path(manager, repository.name)
    gpg = f"gpg --homedir {HOME} --batch --quiet"
    steps = ["apt-get update", f"{APT_INSTALL} {tools}"] if manager == "apt" else [f"dnf install -y {tools}"]
    steps += [
        f"mkdir -p -m 700 {HOME} && mkdir -p {ring.rpartition('/')[0]}",
        f"curl -fsSL -o {HOME}/file {shlex.quote(repository.key_url)}",
        f"{gpg} --import {HOME}/file",
        f"{gpg} --armor --export {shlex.quote(repository.fingerprint or '')} > {ring}",
        f"test -s {ring}",
        f"rm -r {HOME}",
        _file(definition_path(manager, repository.name), definition(manager, repository)),
    ]
    pins = preferences(repository) if manager == "apt" else None
    return [*steps, _file(f"{PREFERENCES}/{PREFIX}{repository.name}.pref", pins)] if pins is not None else steps


def _file(path: str, content: str) -> str:
    lines: Sequence[str] = [line for line in content.splitlines() if not line.startswith("#")]
    return f"printf '%s\\n' {shlex.join(lines)} > {path}"


def notes(container: Container) -> list[str]:
    said = []
    if not container.system.known:
        said.append("the image's distribution is not known: this is for Debian and Ubuntu; --image-os says it (ubuntu22.04, rocky9)")
    if container.system.repository is not None:
        said.append(f"the user space of eRDMA comes from {container.system.repository.url}: the distribution's has no provider for it")
    return said
