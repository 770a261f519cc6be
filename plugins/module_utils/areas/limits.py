# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked memory and open files: for login sessions (PAM) and for services (systemd).

Registering memory for RDMA pins it, and the kernel counts pinned pages against
RLIMIT_MEMLOCK. limits.d reaches login sessions only; slurmd, kubelet and sshd are
services and get systemd's default, so both are set. ``*`` in limits.d does not cover
root, hence the second pair of lines. The soft limit of open files stays 1024 for
services: select(2) cannot handle more, and a service that can raises it itself.
"""

from typing import Dict, List, NamedTuple, Optional

from ..host import Host
from ..spec.model import Spec
from ..types import Change, Identity, Problem, run
from .files import HEADER, FileState, observe_file, plan_file

NAME = "limits"
LOGIN_FILE = "/etc/security/limits.d/90-railwright.conf"
SYSTEM_FILE = "/etc/systemd/system.conf.d/90-railwright.conf"
USER_FILE = "/etc/systemd/user.conf.d/90-railwright.conf"
SHOW = ("systemctl", "show", "-p", "DefaultLimitMEMLOCK", "-p", "DefaultLimitNOFILE")
REEXEC = run(("systemctl", "daemon-reexec"))  # reading system.conf.d again takes more than a reload on older systemd
UNLIMITED = "unlimited"
SOFT_NOFILE = 1024
WHY_MEMLOCK = "RDMA pins the memory it registers; a small locked-memory limit fails ibv_reg_mr"
SOURCE = "azhpc-images (limits.d and DefaultLimitMEMLOCK=infinity), linux-system-roles/hpc (nofile 1048576)"


class Desired(NamedTuple):
    """``memlock`` is ``unlimited`` or KiB, as in limits.d; ``nofile`` a number of descriptors."""

    memlock: str
    nofile: int
    systemd: bool

    @property
    def manager(self):
        # type: () -> Dict[str, str]
        """The hard limits as ``systemctl show`` prints them: bytes, or infinity."""
        return {
            "DefaultLimitMEMLOCK": "infinity" if self.memlock == UNLIMITED else str(int(self.memlock) * 1024),
            "DefaultLimitNOFILE": str(self.nofile),
        }


class Observed(NamedTuple):
    """``manager`` holds systemd's effective defaults; empty when systemd does not answer."""

    login: FileState
    system: FileState
    user: FileState
    manager: Dict[str, str]
    nr_open: Optional[int]


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    return Desired(str(spec["host_tuning_memlock"]), int(spec["host_tuning_nofile"]), identity.has("systemd"))


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    manager = {}  # type: Dict[str, str]
    if desired.systemd:
        for line in host.run(SHOW).out.splitlines():
            name, _equals, value = line.strip().partition("=")
            manager[name] = value
    nr_open = host.line("/proc/sys/fs/nr_open")
    return Observed(
        observe_file(host, LOGIN_FILE), observe_file(host, SYSTEM_FILE), observe_file(host, USER_FILE), manager,
        int(nr_open) if nr_open is not None and nr_open.isdigit() else None,
    )


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    changes = plan_file(NAME, observed.login, login_text(desired), WHY_MEMLOCK + " (login sessions)", SOURCE)
    if not desired.systemd:
        return changes
    changes += plan_file(NAME, observed.system, manager_text(desired), WHY_MEMLOCK + " (services)", SOURCE, then=(REEXEC,))
    changes += plan_file(NAME, observed.user, manager_text(desired), WHY_MEMLOCK + " (user services)", SOURCE)
    for name, value in sorted(desired.manager.items()):
        found = observed.manager.get(name, value)  # an old systemd that does not show it cannot be judged
        if found != value:
            why = "the running systemd does not apply it yet; services started from now on will"
            changes.append(Change(NAME, "systemd " + name, found, value, "none", why, SOURCE, (REEXEC,)))
    return changes


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    return []


def conflicts(desired, observed):
    # type: (Desired, Observed) -> List[Problem]
    """A nofile above fs.nr_open makes setrlimit fail, and PAM then refuses every login."""
    if observed.nr_open is None or desired.nofile <= observed.nr_open:
        return []
    return [Problem(NAME, "host_tuning_nofile", "%d is above this kernel's fs.nr_open %d; logins would be refused" % (
        desired.nofile, observed.nr_open))]


def login_text(desired):
    # type: (Desired) -> str
    wanted = (("memlock", desired.memlock), ("nofile", str(desired.nofile)))
    return HEADER + "".join(
        "%s %s %s %s\n" % (who, kind, item, value) for item, value in wanted for who in ("*", "root") for kind in ("soft", "hard"))


def manager_text(desired):
    # type: (Desired) -> str
    return HEADER + "[Manager]\nDefaultLimitMEMLOCK=%s\nDefaultLimitNOFILE=%d:%s\n" % (
        desired.manager["DefaultLimitMEMLOCK"], min(SOFT_NOFILE, desired.nofile), desired.manager["DefaultLimitNOFILE"])
