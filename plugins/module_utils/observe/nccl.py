# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL on a node: its settings (/etc/nccl.conf, profile.d), its library and plugins, and its variables as jobs really get them.

The two kinds of file have two grammars. nccl.conf is not shell: ``export`` or a quote
becomes part of a name or value, so such lines are told apart as ``malformed``.

A file that is right is no proof: what a process finds in its environment wins over /etc/nccl.conf, whoever put it there
(NCCL 2.30.7, src/misc/param.cc: environment, then NCCL_CONF_FILE or else ~/.nccl.conf and /etc/nccl.conf). So each way of starting a
job (login shell, ssh command, systemd service) is asked itself, and a variable that is wrong is traced to the line that sets it.
Values of other variables are never read out.
"""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.net_plugins import NET_PLUGINS
from ..formats import sysfs_values
from ..formats.nccl_conf import conf_lines, conf_variables
from ..formats.outside import is_digits, lines_in
from ..formats.secrets import fit_value
from ..host.host import CUT, Host
from ..host.kernel_ring import uptime
from .nics import ancestors
from .processes import boot_time, start_time

CONF = "/etc/nccl.conf"
PROFILE_D = "/etc/profile.d"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}\Z")
_OURS = re.compile(r"(?:NCCL|UCX|SHARP|OMPI_MCA)_")
_EXPORT = re.compile(r"(?:export\s+)?([A-Z][A-Z0-9_]*)=(.*)\Z")
_DEFAULT = re.compile(r"\"?\$\{([A-Z][A-Z0-9_]*):?-([^}]*)\}\"?\Z")
_LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64",
)
_LIBNCCL = re.compile(r"libnccl\.so\.(2(?:\.[0-9]{1,9}){0,2})\Z")
_PLUGIN = re.compile(r"libnccl-net(?:-[a-z0-9]+)?\.so\Z")


def observe_nccl(host: Host) -> Dict[str, Any]:
    return {
        "conf": _conf(host.read(CONF)),
        "profile_d": _profiles(host),
        "library": _library(host),
        # what NCCL would load by itself while NCCL_NET_PLUGIN is not set
        "plugins": [directory + "/" + name
                    for directory in _LIBRARY_DIRECTORIES for name in host.listdir(directory) if _PLUGIN.match(name)],
        "cloud_plugins": [path for row in NET_PLUGINS for path in row.paths if host.exists(path)],
    }


def _conf(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The variables that NCCL takes, and the lines that NCCL, of this version or an older one, takes otherwise than they were meant."""
    if text is None:
        return None
    taken = conf_variables(text)
    wrong = {line.number for line in conf_lines(text) if not _VARIABLE.match(line.name) or not _is_plain(line.value) or line.returned}
    return {
        "variables": {name: fit_value(name, value) for name, value in taken.items() if _VARIABLE.match(name) and _is_plain(value)},
        "malformed_lines": sorted(wrong),
    }


def _is_plain(value: Optional[str]) -> bool:
    return value == "" or (value is not None and sysfs_values.token(value) == value)


def _profiles(host: Host) -> Dict[str, Dict[str, str]]:
    """Files of profile.d that set variables of NCCL or UCX, with the values that they default to."""
    found = {}
    for name in host.listdir(PROFILE_D):
        if not name.endswith(".sh") or not sysfs_values.is_name(name):
            continue
        matches = [_EXPORT.match(line.strip()) for line in lines_in(host.read(PROFILE_D + "/" + name) or "")]
        pairs = [(match.group(1), _shell_value(*match.groups())) for match in matches if match is not None and _OURS.match(match.group(1))]
        values = {variable: fit_value(variable, value) for variable, value in pairs if value == "" or sysfs_values.token(value)}
        if values:
            found[PROFILE_D + "/" + name] = values
    return found


def _shell_value(variable: str, text: str) -> str:
    """``"${X:-v}"`` -> v, quotes taken off; anything cleverer stays as it is written."""
    default = _DEFAULT.match(text)
    if default is not None and default.group(1) == variable:
        return default.group(2)
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def _library(host: Host) -> Optional[Dict[str, Optional[str]]]:
    """The first libnccl.so.2 of the usual directories; its full version is in the name of the file behind the link."""
    for directory in _LIBRARY_DIRECTORIES:
        matches = map(_LIBNCCL.match, host.listdir(directory))
        versions = sorted((match.group(1) for match in matches if match), key=sysfs_values.natural_key)
        if versions:
            full = [version for version in versions if version.count(".") == 2]
            return {"path": "%s/libnccl.so.%s" % (directory, versions[0]), "version": full[-1] if full else None}
    return None


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
# What sshd and pam_env give a connection when it begins; the shell reads its own files for every command.
AT_LOGIN = ("/etc/environment", "/etc/security/pam_env.conf", "/root/.ssh/environment")
OLD_CONNECTION = "%s changed after this ssh connection had begun (ControlPersist keeps one); run it again when that has ended"
USER_HZ = 100  # of every architecture that GPU nodes have: proc(5)
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
    return _login(host), _ssh(host), _service(host)


def unknown(carriers: Sequence[Carrier]) -> List[str]:
    """One line for each that should have answered."""
    return ["NCCL's variables for %s: %s" % (CARRIERS[carrier.name], carrier.why) for carrier in carriers if carrier.why]


def effective(host: Host, carrier: Carrier, conf: Dict[str, str]) -> Dict[str, str]:
    """What NCCL sees there. ``conf``: the variables of /etc/nccl.conf, found or wanted."""
    found = dict(carrier.variables or {})
    named = found.get(CONF_FILE)
    own = ours("=".join(item) for item in conf_variables(host.read(named or HOME_CONF)).items())
    for name, value in list(own.items()) + list({} if named else conf.items()):
        found.setdefault(name, value)
    return found


def setters(host: Host, name: str) -> List[str]:
    """``file:line`` of every line of the usual files that sets the variable."""
    word = re.compile(r"(?:^|[\s=\"'])%s(?:=|\s+DEFAULT=|\s+OVERRIDE=)" % re.escape(name))
    paths = FILES + tuple("%s/%s" % (directory, item) for directory, ending in DIRECTORIES for item in host.listdir(directory)
                          if item.endswith(ending))
    return ["%s:%d" % (path, number) for path in paths for number, line in enumerate(lines_in(host.read(path) or "")[:LINES], 1)
            if not line.lstrip().startswith("#") and word.search(line)]


def _login(host: Host) -> Carrier:
    for tool, argv in SHELLS:
        if host.which(tool):
            result = host.run(LOGIN + argv, timeout=SECONDS)
            records = result.out.split("\0")[1:-1]
            if result.ok and records:
                return Carrier("login", ours(records))
            how = {124: "takes longer than %g s" % SECONDS, CUT: "says without end"}.get(result.rc, "ends with exit %d" % result.rc)
            return Carrier("login", None, "%s %s before it shows its environment; inspect root's startup files" % (tool, how))
    return Carrier("login", None, "the node has neither bash nor sh")


def _ssh(host: Host) -> Carrier:
    """Of the process that the user's own shell started, after its startup files; sudo's children have lost it."""
    found = None
    for process in ancestors(host):
        text = "\0" + (host.read("/proc/%s/environ" % process) or "")
        if "\0SSH_CONNECTION=" not in text:
            if found is not None:  # this one is sshd
                changed = _changed_since(host, process)
                return Carrier("ssh", None, OLD_CONNECTION % ", ".join(changed)) if changed else Carrier("ssh", found)
        elif found is None:  # the nearest to the command that still has what sshd and the shell gave it
            found = ours(text.split("\0"))
    return Carrier("ssh", found)


def _changed_since(host: Host, sshd: str) -> List[str]:
    """Which files of sshd and pam_env are newer than the connection: they are read when it begins, and ssh's ControlPersist keeps it."""
    ticks, boot, up = start_time(host, sshd), boot_time(host), uptime(host)
    if ticks is None or not is_digits(ticks) or boot is None or up == float("inf"):
        return []
    begun, now = boot + int(ticks) / USER_HZ, boot + int(up) + 1
    return [path for path in AT_LOGIN if begun < (host.mtime(path) or 0) <= now]  # a stamp from the future says nothing


def _service(host: Host) -> Carrier:
    result = host.run(SHOW, timeout=SECONDS)
    if result.ok:
        return Carrier("service", ours(_unquoted(line) for line in lines_in(result.out)))
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
