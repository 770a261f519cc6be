# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's settings and libraries on a node: /etc/nccl.conf, profile.d, libnccl and its network plugin.

The two kinds of file have two grammars. nccl.conf is not shell: ``export`` or a quote
becomes part of a name or value, so such lines are told apart as ``malformed``.
"""

import re
from typing import Any, Dict, List, Optional

from ..formats import sysfs_values
from ..formats.nccl_conf import conf_lines, conf_variables
from ..host.host import Host

CONF = "/etc/nccl.conf"
PROFILE_D = "/etc/profile.d"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}\Z")
_OURS = re.compile(r"(?:NCCL|UCX|SHARP|OMPI_MCA)_")
_EXPORT = re.compile(r"(?:export\s+)?([A-Z][A-Z0-9_]*)=(.*)\Z")
_DEFAULT = re.compile(r"\"?\$\{([A-Z][A-Z0-9_]*):?-([^}]*)\}\"?\Z")
_LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64",
)
_LIBNCCL = re.compile(r"libnccl\.so\.(2(?:\.[0-9]+){0,2})\Z")
_PLUGIN = re.compile(r"libnccl-net(?:-[a-z0-9]+)?\.so\Z")


def observe_nccl(host: Host) -> Dict[str, Any]:
    return {
        "conf": _conf(host.read(CONF)),
        "profile_d": _profiles(host),
        "library": _library(host),
        "plugins": _plugins(host),
    }


def _conf(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The variables that NCCL takes, and the lines that NCCL, of this version or an older one, takes otherwise than they were meant."""
    if text is None:
        return None
    taken = conf_variables(text)
    wrong = {line.number for line in conf_lines(text) if not _VARIABLE.match(line.name) or not _is_plain(line.value) or line.returned}
    return {
        "variables": {name: value for name, value in taken.items() if _VARIABLE.match(name) and _is_plain(value)},
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
        values = {}
        for line in (host.read(PROFILE_D + "/" + name) or "").splitlines():
            assignment = _EXPORT.match(line.strip())
            if assignment is None or not _OURS.match(assignment.group(1)):
                continue
            value = _shell_value(assignment.group(1), assignment.group(2))
            if value == "" or sysfs_values.token(value):
                values[assignment.group(1)] = value
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
        names = [name for name in host.listdir(directory) if _LIBNCCL.match(name)]
        if not names:
            continue
        versions = sorted((match.group(1) for match in map(_LIBNCCL.match, names) if match), key=sysfs_values.natural_key)
        full = [version for version in versions if version.count(".") == 2]
        return {"path": "%s/libnccl.so.%s" % (directory, versions[0]), "version": full[-1] if full else None}
    return None


def _plugins(host: Host) -> List[str]:
    """Network plugins that NCCL would load by itself while NCCL_NET_PLUGIN is not set."""
    return [directory + "/" + name for directory in _LIBRARY_DIRECTORIES for name in host.listdir(directory) if _PLUGIN.match(name)]
