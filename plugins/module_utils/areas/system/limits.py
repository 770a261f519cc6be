# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked memory and open files: for login sessions (PAM) and for services (systemd).

Registering memory for RDMA pins it, and the kernel counts pinned pages against
RLIMIT_MEMLOCK. limits.d reaches login sessions only; slurmd, kubelet and sshd are
services and get systemd's default, so both are set. ``*`` in limits.d does not cover
root, hence the second pair of lines. What runs already keeps the limits that it was
started with: nothing of ours restarts it (see ``notes``). The soft limit of open files stays 1024 for
services: select(2) cannot handle more, and a service that can raises it itself.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...formats import sysfs_values
from ...formats.outside import is_digits, lines_in
from ...host.host import Host
from ...observe.accounts import PAM, modules_of, pam_lines
from ...observe.limits import SHOW
from ...rules.comparisons import Inspection, VerdictSubject, equal, verdict
from ...spec.model import Spec
from ...types import LIMIT, Change, Identity, Problem, Subject, Verdict, run
from ..common.files import HEADER, FileState, later_files, observe_file, plan_file

NAME = "limits"
LOGIN_FILE = "/etc/security/limits.d/90-railwright.conf"
SYSTEM_FILE = "/etc/systemd/system.conf.d/90-railwright.conf"
USER_FILE = "/etc/systemd/user.conf.d/90-railwright.conf"
MANAGER_DIRECTORIES = ("/etc/systemd/system.conf.d", "/run/systemd/system.conf.d", "/usr/local/lib/systemd/system.conf.d",
                       "/usr/lib/systemd/system.conf.d")
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
    def manager(self) -> Dict[str, str]:
        """The hard limits as ``systemctl show`` prints them: bytes, or infinity."""
        return {
            "DefaultLimitMEMLOCK": "infinity" if self.memlock == UNLIMITED else str(int(self.memlock) * 1024),
            "DefaultLimitNOFILE": str(self.nofile),
        }


class Observed(NamedTuple):
    """``manager``: systemd's effective defaults, empty when it does not answer. ``overrides``: (file, line) pairs that win over ours."""

    login: FileState
    system: FileState
    user: FileState
    manager: Dict[str, str]
    nr_open: Optional[int]
    overrides: Tuple[Tuple[str, str], ...]
    pam: bool  # ssh logins read limits.d; True also where there is no PAM configuration to inspect


def desired(spec: Spec, identity: Identity) -> Desired:
    return Desired(str(spec["host_tuning_memlock"]), int(spec["host_tuning_nofile"]), identity.has("systemd"))


def observe(host: Host, desired: Desired) -> Observed:
    manager = sysfs_values.key_values(host.run(SHOW, 10.0).out) if desired.systemd else {}
    nr_open = host.line("/proc/sys/fs/nr_open")
    return Observed(
        observe_file(host, LOGIN_FILE), observe_file(host, SYSTEM_FILE), observe_file(host, USER_FILE), manager,
        int(nr_open) if nr_open is not None and is_digits(nr_open) else None,
        tuple(login_overrides(host, desired) + manager_overrides(host, desired)),
        not host.exists(PAM + "/sshd") or any("pam_limits.so" in modules_of(words) for words in pam_lines(host, "sshd")),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes = plan_file(NAME, observed.login, login_text(desired), WHY_MEMLOCK + " (login sessions)", SOURCE)
    if not desired.systemd:
        return changes
    changes += plan_file(NAME, observed.system, manager_text(desired), WHY_MEMLOCK + " (services)", SOURCE, then=(REEXEC,))
    changes += plan_file(NAME, observed.user, manager_text(desired), WHY_MEMLOCK + " (user services)", SOURCE)
    for name, value in sorted(desired.manager.items()):
        found = observed.manager.get(name, value)  # an old systemd that does not show it cannot be judged
        if found != value:
            why = "the running systemd does not apply it yet; services started from now on will"
            changes.append(Change(NAME, "systemd " + name, found, value, "none", why, SOURCE, (REEXEC,), Subject(LIMIT, name)))
    return changes


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """Files that win over ours, and a nofile above fs.nr_open: setrlimit fails then, and PAM refuses every login."""
    found = [Problem(NAME, path, "has %r and is read after our file; remove the line, or set the limit in the inventory" % line)
             for path, line in observed.overrides]
    if observed.nr_open is not None and desired.nofile > observed.nr_open:
        found.append(Problem(NAME, "host_tuning_nofile", "%d is above this kernel's fs.nr_open %d; logins would be refused" % (
            desired.nofile, observed.nr_open)))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    """Whom the limits do not reach."""
    said: List[str] = []
    if any(change.subject.name == SYSTEM_FILE or change.subject.kind == LIMIT for change in plan(desired, observed)):
        said.append("limits: services that run already (sshd, slurmd, kubelet, user managers) keep the limits they were started with; "
                    "restart them when it suits, or reboot")
    if not observed.pam:
        said.append("limits: %s/sshd does not use pam_limits.so, so ssh logins do not read %s; they inherit sshd's own limits" % (
            PAM, LOGIN_FILE))
    return said


def login_overrides(host: Host, desired: Desired) -> List[Tuple[str, str]]:
    """Later lines of limits.d for everybody or root that say something else. (A line for one user or group is meant.)"""
    wanted = {"memlock": desired.memlock, "nofile": str(desired.nofile)}
    found: List[Tuple[str, str]] = []
    for path in later_files(host, (LOGIN_FILE.rsplit("/", 1)[0],), LOGIN_FILE.rsplit("/", 1)[1]):
        for line in lines_in(host.read(path) or ""):
            fields = line.partition("#")[0].split()
            if len(fields) == 4 and fields[0] in ("*", "root") and wanted.get(fields[2], fields[3]) != fields[3]:
                found.append((path, " ".join(fields)))
    return found


def manager_overrides(host: Host, desired: Desired) -> List[Tuple[str, str]]:
    """Later drop-ins of systemd with another hard limit."""
    found: List[Tuple[str, str]] = []
    for path in later_files(host, MANAGER_DIRECTORIES, SYSTEM_FILE.rsplit("/", 1)[1]) if desired.systemd else ():
        for line in lines_in(host.read(path) or ""):
            name, _equals, value = line.strip().partition("=")
            hard = value.strip().rpartition(":")[2]
            if desired.manager.get(name.strip(), hard) != hard:
                found.append((path, line.strip()))
    return found


def login_text(desired: Desired) -> str:
    wanted = (("memlock", desired.memlock), ("nofile", str(desired.nofile)))
    return HEADER + "".join(
        "%s %s %s %s\n" % (who, kind, item, value) for item, value in wanted for who in ("*", "root") for kind in ("soft", "hard"))


def manager_text(desired: Desired) -> str:
    return HEADER + "[Manager]\nDefaultLimitMEMLOCK=%s\nDefaultLimitNOFILE=%d:%s\n" % (
        desired.manager["DefaultLimitMEMLOCK"], min(SOFT_NOFILE, desired.nofile), desired.manager["DefaultLimitNOFILE"])


def judge_memlock(seen: Inspection) -> List[Verdict]:
    """What a service gets now: systemd's effective default, not what a file says it will be."""
    wanted = str(seen.spec["host_tuning_memlock"])
    expected = "infinity" if wanted == "unlimited" else int(wanted) * 1024
    found = ((seen.facts.get("limits") or {}).get("systemd_effective") or {}).get("memlock")
    where = VerdictSubject(seen.node, None, None, "systemd DefaultLimitMEMLOCK")
    return [equal("node.memlock", where, expected, found, "host_tuning_memlock", "locked memory of services")] + [
        _service(seen.node, name, limit, expected) for name, limit in sorted(_lower(seen, found).items())]


def _lower(seen: Inspection, default: Any) -> Dict[str, Any]:
    """Services that start jobs with less than systemd's default: a drop-in, or a unit that sets a limit of its own."""
    services = (seen.facts.get("limits") or {}).get("services") or {}
    return {name: limit for name, limit in services.items() if isinstance(limit, int) and (
        default == "infinity" or (isinstance(default, int) and limit < default))}


def _service(node: str, name: str, limit: int, expected: Any) -> Verdict:
    """It warns: a container with CAP_IPC_LOCK is not bound by it, and a runtime may raise it (--ulimit)."""
    where, mib = VerdictSubject(node, None, None, name), limit / 1048576.0
    return verdict("node.memlock", where, "warn", expected, limit, "its LimitMEMLOCK is %g MiB, less than systemd's default: what it "
                   "starts cannot register more memory (ibv_reg_mr: ENOMEM)" % mib)
