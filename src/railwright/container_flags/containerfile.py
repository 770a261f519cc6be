# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image needs so that its programs find the RDMA devices: a Containerfile, by the image's distribution.

A repository's key is taken by its fingerprint out of whatever the vendor's file holds, as on a node; the build stops where it is not
in there.
"""

import json
import shlex
from collections.abc import Sequence

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import repository_files as files
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import LIBRARIES, AiaccPackage
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.container_flags.model import IMAGE, Container

APT_INSTALL = "apt-get install -y --no-install-recommends"
KEY_TOOLS = {"apt": ("ca-certificates", "curl", "gnupg"), "dnf": ("curl", "gnupg2")}
FETCH = {"apt": ("ca-certificates", "curl"), "dnf": ("curl",)}
LOADER = "/etc/ld.so.conf.d/railwright-aiacc.conf"
HOME = "/root/key"  # gpg's, for the one step


def text(container: Container) -> str:
    base = "" if container.image == IMAGE else f"={container.image}"
    system = container.system
    steps = key_steps(system.manager, system.repository) if system.repository is not None else []
    packages = (*system.packages, *(FETCH[system.manager] if system.plugin is not None and system.plugin.url is not None else ()))
    if system.manager == "dnf":
        steps += [f"dnf install -y {shlex.join(packages)}", "dnf clean all"]
    else:
        steps += ["apt-get update", f"{APT_INSTALL} {shlex.join(packages)}", "rm -rf /var/lib/apt/lists/*"]
    copied: list[str] = []
    if system.plugin is not None:
        if system.plugin.archive is not None:  # a build takes it from beside the Containerfile
            copied = [f"COPY {json.dumps([system.plugin.archive.rpartition('/')[2], _brought(system.plugin)])}"]
        steps += plugin_steps(system.plugin)
    return "\n".join([f"ARG BASE{base}", "FROM ${BASE}", *copied, "RUN " + " \\\n && ".join(steps), ""])


def plugin_steps(plugin: AiaccPackage) -> list[str]:
    """Fetched, unless it was copied; compared before anything of it is run; found by NCCL in the loader's path."""
    file = _brought(plugin)
    fetch = [f"curl -fsSL -o {file} {shlex.quote(plugin.url)}"] if plugin.url is not None else []
    return [
        *fetch,
        f"echo {shlex.quote(f'{plugin.sha256}  {file}')} | sha256sum -c -",
        f"{'dpkg' if file.endswith('.deb') else 'rpm'} -i {file}",
        f"rm {file}",
        f"echo {LIBRARIES} > {LOADER}",
        "ldconfig",
    ]


def _brought(plugin: AiaccPackage) -> str:
    return f"/root/aiacc.{plugin.path.rpartition('.')[2]}"


def key_steps(manager: str, repository: Repository) -> list[str]:
    """The repository's key, and nothing else of its file; then its definition, and on apt what of it goes first."""
    tools = shlex.join(KEY_TOOLS[manager])
    ring = files.keyring_path(manager, repository.name)
    gpg = f"gpg --homedir {HOME} --no-autostart --batch --quiet"
    steps = ["apt-get update", f"{APT_INSTALL} {tools}"] if manager == "apt" else [f"dnf install -y {tools}"]
    steps += [
        f"mkdir -p -m 700 {HOME} && mkdir -p {ring.rpartition('/')[0]}",
        f"curl -fsSL -o {HOME}/file {shlex.quote(repository.key_url)}",
        f"{gpg} --import {HOME}/file",
        f"{gpg} --armor --export {shlex.quote(repository.fingerprint or '')} > {ring}",
        f"test -s {ring}",
        f"rm -r {HOME}",
        _file(files.definition_path(manager, repository.name), files.definition(manager, repository)),
    ]
    pins = files.preferences(repository) if manager == "apt" else None
    return [*steps, _file(f"{files.PREFERENCES}/{files.PREFIX}{repository.name}.pref", pins)] if pins is not None else steps


def _file(path: str, content: str) -> str:
    lines: Sequence[str] = [line for line in lines_in(content) if not line.startswith("#")]
    return f"printf '%s\\n' {shlex.join(lines)} > {path}"


def notes(container: Container) -> list[str]:
    said = []
    if not container.system.known:
        said.append("the image's distribution is not known: this is for Debian and Ubuntu; --image-os says it (ubuntu22.04, rocky9)")
    if container.system.repository is not None:
        said.append(f"the user space of eRDMA comes from {container.system.repository.url}: the distribution's has no provider for it")
    if container.system.plugin is not None and container.system.plugin.archive is not None:
        said.append(f"put {container.system.plugin.archive} beside this file: COPY takes it from there")
    return said
