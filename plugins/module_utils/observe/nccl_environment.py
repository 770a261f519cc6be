# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's variables as a job really gets them, by the way it is started: login shell, ssh command, systemd service.

A file that is right is no proof: what a process finds in its environment wins over /etc/nccl.conf, whoever put it there
(NCCL 2.30.7, src/misc/param.cc: environment, then NCCL_CONF_FILE or else ~/.nccl.conf and /etc/nccl.conf). So each way is asked
itself, and a variable that is wrong is traced to the line that sets it. Values of other variables are never read out.
"""

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..formats.nccl_conf import conf_variables
from ..host.host import CUT, Host
from .nics import ancestors

CARRIERS = {"login": "login shells", "ssh": "ssh commands", "service": "systemd services"}
CONF_FILE = "NCCL_CONF_FILE"
HOME_CONF = "/root/.nccl.conf"
SECONDS = 10.0
# The login shell of nobody in particular: what it inherits from us is not what a user would have.
LOGIN = ("env", "-i", "HOME=/root", "USER=root", "LOGNAME=root", "TERM=dumb", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
# The first record is what the startup files have printed, the last what is printed at the end: neither is glued to a variable.
SCRIPT = "printf '\\0'; exec env -0"
SHELLS = (("bash", ("bash", "--login", "-c", SCRIPT)), ("sh", ("sh", "-l", "-c", SCRIPT)))
SHOW = ("systemctl", "show-environment")
SYSTEMD = "/run/systemd/system"  # there where systemd runs: sd_booted(3)
_NAME = re.compile(r"NCCL_[A-Z0-9_]{1,58}\Z")
# Where somebody sets a variable for everybody, in the order in which they are looked through.
FILES = ("/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/root/.profile", "/root/.bash_profile", "/root/.bashrc",
         "/etc/security/pam_env.conf", "/root/.ssh/environment", "/etc/systemd/system.conf")
DIRECTORIES = (("/etc/profile.d", ".sh"), ("/etc/systemd/system.conf.d", ".conf"), ("/run/systemd/system.conf.d", ".conf"))
LINES = 4000  # of one file; a startup file has dozens


class Carrier(NamedTuple):
    """``variables``: those of NCCL in its environment; None where it could not be asked."""

    name: str  # of CARRIERS
    variables: Optional[Dict[str, str]]
    why: str = ""  # it could not be, although it is there: without ssh or systemd there is nobody to ask


def observe_carriers(host: Host) -> Tuple[Carrier, ...]:
    return _login(host), Carrier("ssh", _ssh(host)), _service(host)


def unknown(carriers: Sequence[Carrier]) -> List[str]:
    """One line for each that should have answered."""
    return ["NCCL's variables for %s: %s" % (CARRIERS[carrier.name], carrier.why) for carrier in carriers if carrier.why]


def effective(host: Host, carrier: Carrier, conf: Dict[str, str]) -> Dict[str, str]:
    """What NCCL sees there. ``conf``: the variables of /etc/nccl.conf, found or wanted."""
    found = dict(carrier.variables or {})
    named = found.get(CONF_FILE)
    files = [named] if named else [HOME_CONF]
    for path in files:
        for name, value in ours("=".join(item) for item in conf_variables(host.read(path)).items()).items():
            found.setdefault(name, value)
    if not named:
        for name, value in conf.items():
            found.setdefault(name, value)
    return found


def setters(host: Host, name: str) -> List[str]:
    """``file:line`` of every line of the usual files that sets the variable."""
    word = re.compile(r"(?:^|[\s=\"'])%s(?:=|\s+DEFAULT=|\s+OVERRIDE=)" % re.escape(name))
    paths = list(FILES)
    for directory, ending in DIRECTORIES:
        paths += ["%s/%s" % (directory, item) for item in host.listdir(directory) if item.endswith(ending)]
    found: List[str] = []
    for path in paths:
        for number, line in enumerate((host.read(path) or "").splitlines()[:LINES], 1):
            if not line.lstrip().startswith("#") and word.search(line):
                found.append("%s:%d" % (path, number))
    return found


def _login(host: Host) -> Carrier:
    for tool, argv in SHELLS:
        if host.which(tool):
            result = host.run(LOGIN + argv, timeout=SECONDS)
            records = result.out.split("\0")[1:-1]
            if result.ok and records:
                return Carrier("login", ours(records))
            how = {124: "takes longer than %g s" % SECONDS, CUT: "says without end"}.get(result.rc, "ends with exit %d" % result.rc)
            return Carrier("login", None, "%s %s before it shows its environment; look at root's startup files" % (tool, how))
    return Carrier("login", None, "the node has neither bash nor sh")


def _ssh(host: Host) -> Optional[Dict[str, str]]:
    """Of the process that the user's own shell started, after its startup files; sudo's children have lost it."""
    for process in ancestors(host):
        text = "\0" + (host.read("/proc/%s/environ" % process) or "")
        if "\0SSH_CONNECTION=" in text:  # the nearest to the command that still has what sshd and the shell gave it
            return ours(text.split("\0"))
    return None


def _service(host: Host) -> Carrier:
    result = host.run(SHOW, timeout=SECONDS)
    if result.ok:
        return Carrier("service", ours(_unquoted(line) for line in result.out.splitlines()))
    return Carrier("service", None, "%s: exit %d" % (" ".join(SHOW), result.rc) if host.exists(SYSTEMD) else "")


def _unquoted(line: str) -> str:
    """systemd prints a value that needs it as $'…'; NCCL's never do but for blanks."""
    name, equals, value = line.partition("=")
    if len(value) > 2 and value.startswith("$'") and value.endswith("'"):
        value = value[2:-1].replace("\\'", "'").replace("\\\\", "\\")
    return name + equals + value


def ours(words: Iterable[str]) -> Dict[str, str]:
    """NCCL's among ``NAME=VALUE``; the first of a name counts."""
    found: Dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and _NAME.match(name):
            found.setdefault(name, value)
    return found
