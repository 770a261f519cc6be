# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked-memory and open-file limits: what the files say, and what systemd has in effect."""

from typing import Any, Dict, List, Optional, Union

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from .processes import unit_installed

LIMITS_D = "/etc/security/limits.d"
_ITEMS = ("memlock", "nofile")
_SYSTEM_DIRECTORIES = ("/usr/lib/systemd/system.conf.d", "/etc/systemd/system.conf.d", "/run/systemd/system.conf.d")
_KEYS = {"DefaultLimitMEMLOCK": "memlock", "DefaultLimitNOFILE": "nofile"}
# Services whose processes become jobs or containers: these have the limits of the service, not those of a login.
LAUNCHERS = ("containerd", "crio", "docker", "slurmd")
SHOW_UNITS = ("systemctl", "show", "-p", "Id", "-p", "LimitMEMLOCK")
SHOW = ("systemctl", "show", "-p", "DefaultLimitMEMLOCK", "-p", "DefaultLimitNOFILE")


def observe_limits(host: Host) -> Dict[str, Any]:
    return {
        "login": _login_limits(host),
        "systemd_files": _systemd_files(host),
        "systemd_effective": _systemd_effective(host),
        "services": _services(host),
    }


def _login_limits(host: Host) -> List[Dict[str, Optional[str]]]:
    """Lines of limits.conf and limits.d about our items, in the order in which PAM reads them."""
    paths = ["/etc/security/limits.conf"]
    paths += [LIMITS_D + "/" + name for name in host.listdir(LIMITS_D) if name.endswith(".conf") and sysfs_values.token(name)]
    lines = [(path, line.partition("#")[0].split()) for path in paths for line in lines_in(host.read(path) or "")]
    return [{"file": path, "domain": fields[0], "type": fields[1], "item": fields[2], "value": fields[3]} for path, fields in lines
            if len(fields) == 4 and fields[2] in _ITEMS and sysfs_values.token(" ".join(fields))]


def _systemd_files(host: Host) -> Dict[str, Dict[str, str]]:
    """Defaults set in system.conf and its drop-ins, with the file that set each last."""
    # A drop-in of the same name in a later directory replaces the earlier one.
    names = {name: "%s/%s" % (directory, name) for directory in _SYSTEM_DIRECTORIES for name in host.listdir(directory)
             if name.endswith(".conf") and sysfs_values.token(name)}
    found: Dict[str, Dict[str, str]] = {}
    for path in ["/etc/systemd/system.conf"] + [names[name] for name in sorted(names)]:
        values = sysfs_values.key_values(host.read(path))
        found.update((item, {"value": values[key], "file": path}) for key, item in _KEYS.items() if key in values)
    return found


def _systemd_effective(host: Host) -> Dict[str, Optional[Union[int, str]]]:
    """The manager's own answer: ``infinity`` or a number (bytes of memlock, descriptors); None when it gives none."""
    asked = not host.live or host.line("/proc/1/comm") == "systemd"
    values = sysfs_values.key_values(host.run(SHOW, 10.0).out) if asked else {}
    return {item: "infinity" if values.get(key) == "infinity" else sysfs_values.integer(values.get(key)) for key, item in _KEYS.items()}


def _services(host: Host) -> Dict[str, Optional[Union[int, str]]]:
    """By service that starts jobs its memlock in effect: ``infinity`` or bytes; None where systemd does not tell."""
    units = [name + ".service" for name in LAUNCHERS if unit_installed(host, name + ".service")]
    asked = units and (not host.live or host.line("/proc/1/comm") == "systemd")
    found: Dict[str, Optional[Union[int, str]]] = {}
    for block in host.run(SHOW_UNITS + tuple(units), 10.0).out.split("\n\n") if asked else ():
        values = sysfs_values.key_values(block)
        if values.get("Id") in units:
            text = values.get("LimitMEMLOCK")
            found[values["Id"]] = "infinity" if text == "infinity" else sysfs_values.integer(text)
    return found
