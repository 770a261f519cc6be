# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes for which a node must be refused: how each one is put on a node and taken away again. All of them are real.

A busy package manager is a real run of it, stopped in the middle of a package's own script; an interrupted dpkg is that run, killed;
a full disk is a small file system. Only kernels are files: a container has none of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from harness import Container

CONTAINER_MARK = "/run/.containerenv"
SLOW_UNIT = "stand-in-slow"
START_SECONDS = 30
NEWER = "9.9.9-stand-in"
OTHER_SYSTEM = 'ID=slackware\nVERSION_ID="15.0"\nPRETTY_NAME="Slackware 15.0 (stand-in)"\n'


def nothing(container: Container) -> None:
    """For causes that stand in the inventory or in the repository."""


class Cause(NamedTuple):
    """``values``: inventory on top of the scenario's own. ``words``: what the one line must say, by node."""

    name: str
    values: Mapping[str, Any]
    words: Mapping[str, tuple[str, ...]]
    put: Callable[[Container], None] = nothing
    take: Callable[[Container], None] = nothing


def is_rpm(container: Container) -> bool:
    return container.run("test", "-e", "/etc/redhat-release", check=False).returncode == 0


def install(container: Container, *names: str) -> None:
    container.run(*(("dnf", "-q", "-y") if is_rpm(container) else ("apt-get", "-q", "-y")), "install", *names)


def remove(container: Container, *names: str) -> None:
    container.run(*(("rpm", "-e") if is_rpm(container) else ("dpkg", "--purge")), *names)


def hold(container: Container) -> None:
    if is_rpm(container):
        container.run("dnf", "-q", "versionlock", "add", "libibverbs")
    else:
        container.run("apt-mark", "hold", "libibverbs1")


def let_go(container: Container) -> None:
    if is_rpm(container):
        container.run("dnf", "-q", "versionlock", "clear")
    else:
        container.run("apt-mark", "unhold", "libibverbs1")


def be_busy(container: Container) -> None:
    """A real run of the package manager, which waits in a package's script and holds every lock that such a run holds."""
    container.run("touch", "/run/stand-in.slow")
    manager = ("dnf", "-y") if is_rpm(container) else ("apt-get", "-y")
    container.run("systemd-run", "--quiet", "--collect", f"--unit={SLOW_UNIT}", *manager, "install", "site-slow")
    deadline = time.monotonic() + START_SECONDS
    while container.run("pgrep", "-x", "sleep", check=False).returncode != 0:
        assert time.monotonic() < deadline, "the package's script did not start"
        time.sleep(0.2)


def kill(container: Container) -> None:
    """As a power cut or an impatient operator would."""
    container.run("systemctl", "kill", "--signal=KILL", SLOW_UNIT, check=False)
    container.run("rm", "-f", "/run/stand-in.slow")


def end_busy(container: Container) -> None:
    kill(container)
    container.run("systemctl", "stop", SLOW_UNIT, check=False)
    if is_rpm(container):
        container.run("rpm", "-e", "--noscripts", "site-slow", check=False)
    else:
        container.run("dpkg", "--purge", "--force-all", "site-slow", check=False)


def interrupt(container: Container) -> None:
    """Only dpkg keeps a run that was killed half-way for the next one to finish."""
    be_busy(container)
    kill(container)


def fill_disk(container: Container) -> None:
    for path in ("/var/cache/apt/archives", "/var/cache/dnf"):
        if container.run("test", "-d", path, check=False).returncode == 0:
            container.run("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", path)


def empty_disk(container: Container) -> None:
    for path in ("/var/cache/apt/archives", "/var/cache/dnf"):
        container.run("umount", path, check=False)


def foreign(container: Container) -> None:
    install(container, "site-verbs-tool")


def no_foreign(container: Container) -> None:
    remove(container, "site-verbs-tool")


def other_system(container: Container) -> None:
    container.run("mv", "/etc/os-release", "/root/os-release")
    container.write("/etc/os-release", OTHER_SYSTEM)


def own_system(container: Container) -> None:
    container.run("mv", "/root/os-release", "/etc/os-release")


def machine(container: Container) -> str:
    """What tells a container is hidden, and the running kernel gets its files, so that the role takes it for a machine."""
    container.run("umount", CONTAINER_MARK, check=False)
    container.run("rm", "-f", CONTAINER_MARK)
    container.run("mv", "/run/systemd/container", "/run/systemd/hidden-container", check=False)
    container.write("/run/environ", "HOME=/\n")
    container.run("mount", "--bind", "/run/environ", "/proc/1/environ")
    kernel = container.out("uname", "-r").strip()
    kernel_files(container, kernel)
    return kernel


def container_again(container: Container) -> None:
    container.run("umount", "/proc/1/environ")
    container.run("touch", CONTAINER_MARK)
    container.run("mv", "/run/systemd/hidden-container", "/run/systemd/container", check=False)
    container.run("find", "/boot", "-mindepth", "1", "-delete")
    container.run("rm", "-rf", "/lib/modules")


def kernel_files(container: Container, release: str) -> None:
    container.write(f"/boot/vmlinuz-{release}", "stand-in\n")
    container.write(f"/lib/modules/{release}/modules.dep", "")


def newer_kernel(container: Container) -> None:
    machine(container)
    kernel_files(container, NEWER)


def no_headers(container: Container) -> None:
    machine(container)
