# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's plugin and its relatives on a node: which libnccl-net.so NCCL would load, what keeps it from that, and what DeepNCCL left.

NCCL asks the loader for ``libnccl-net.so``: always in 2.8 and 2.10, and while NCCL_NET_PLUGIN is not set in 2.16 (read in its source). So
what counts is the loader's cache, in its order.
"""

import fnmatch
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.aiacc import DEEPNCCL, LIBRARIES, PACKAGE, PATH, PYPI, VARIABLE
from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..types import Identity
from .nccl import CONF, observe_nccl
from .nccl_libraries import BACKUP, Places, cached_libraries, owner_of, site_packages
from .packages import query_packages

LD_CONF = "/etc/ld.so.conf"
ENVIRONMENT = "/etc/environment"
PLUGIN = "libnccl-net.so"
INCLUDES = 4  # how deep ld.so.conf's files include others; the usual depth is one
_ASSIGNED = re.compile(r"^[ \t]*(?:export[ \t]+)?%s=[\"']?([^\"'\s]*)" % VARIABLE, re.MULTILINE)
_METADATA = re.compile(r"([A-Za-z0-9_.-]+?)-([0-9][A-Za-z0-9.]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info\Z")


class Deep(NamedTuple):
    """DeepNCCL: its package, and what it overwrote (the backups that it left)."""

    package: Optional[str]
    backups: Tuple[str, ...]


class AiaccState(NamedTuple):
    package: Optional[str]  # version of aiacc-nccl-plugin
    plugins: Tuple[str, ...]  # every libnccl-net.so that the loader knows, the first one is the one that is loaded
    file: bool  # there is one in /usr/local/lib, known to the loader or not
    owner: Optional[str]  # the package that it belongs to
    searched: bool  # ld.so.conf names /usr/local/lib
    settings: Tuple[Tuple[str, str], ...]  # (file, value) of NCCL_NET_PLUGIN, where it is not empty
    deep: Optional[Deep]
    pypi: Tuple[Tuple[str, str, str], ...]  # (project, version, directory)


def observe_aiacc(host: Host, identity: Identity, places: Optional[Places] = None) -> AiaccState:
    packages = query_packages(host, identity, (PACKAGE, DEEPNCCL)) or {}
    there = host.exists(PATH)
    backups = [name for name in host.listdir(LIBRARIES) if name.startswith("libnccl.so") and name.endswith(BACKUP)]
    deep = Deep(packages.get(DEEPNCCL), tuple("%s/%s" % (LIBRARIES, name) for name in backups))
    # In a captured tree nobody can be asked whose the plugin is: there the package is believed that is installed.
    return AiaccState(
        packages.get(PACKAGE), tuple(cached_libraries(host, PLUGIN)), there,
        None if not there else PACKAGE if PACKAGE in packages and not host.live else owner_of(host, identity, PATH),
        LIBRARIES in loader_directories(host), net_plugin_settings(host), deep if any(deep) else None,
        tuple((name, version, directory) for directory in site_packages(host, places if places is not None else Places())
              for name, version in _projects(host.listdir(directory)) if name in PYPI))


def as_facts(state: AiaccState) -> Optional[Dict[str, Any]]:
    """None where nothing of AIACC's family is there."""
    if not (state.package or state.file or state.deep or state.pypi):  # whose the file is, owner tells
        return None
    return {
        "package": state.package, "plugins": list(state.plugins), "file": state.file, "owner": state.owner, "searched": state.searched,
        "settings": dict(state.settings),
        "deepnccl": {"package": state.deep.package, "backups": list(state.deep.backups)} if state.deep is not None else None,
        "pypi": [{"name": name, "version": version, "directory": directory} for name, version, directory in state.pypi],
    }


def loader_directories(host: Host, path: str = LD_CONF, depth: int = 0) -> List[str]:
    """What ldconfig is told to look through beside its own directories."""
    found: List[str] = []
    for line in lines_in(host.read(path, 65536) or ""):
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0] == "include" and depth < INCLUDES:
            for name in _matching(host, words[1]):
                found += loader_directories(host, name, depth + 1)
        elif len(words) == 1:
            found.append(words[0].partition("=")[0].rstrip("/"))
    return found


def _matching(host: Host, pattern: str) -> List[str]:
    """Files of one directory: the last part alone has wildcards in every system's ld.so.conf."""
    directory, _slash, glob = (pattern if pattern.startswith("/") else "/etc/" + pattern).rpartition("/")
    return ["%s/%s" % (directory, name) for name in host.listdir(directory) if fnmatch.fnmatchcase(name, glob)]


def net_plugin_settings(host: Host) -> Tuple[Tuple[str, str], ...]:
    """Files that set NCCL_NET_PLUGIN for jobs. An empty value is none to NCCL."""
    nccl = observe_nccl(host)
    found = [(CONF, (nccl["conf"] or {"variables": {}})["variables"].get(VARIABLE))]
    found += [(path, values.get(VARIABLE)) for path, values in nccl["profile_d"].items()]
    assigned: List[str] = _ASSIGNED.findall(host.read(ENVIRONMENT, 65536) or "")
    found.append((ENVIRONMENT, assigned[-1] if assigned else None))
    return tuple((path, value) for path, value in found if value and sysfs_values.token(value))


def _projects(names: Sequence[str]) -> List[Tuple[str, str]]:
    """(project, version) of the metadata that pip leaves beside a package."""
    matches = [match.groups() for match in map(_METADATA.match, names) if match is not None]
    return [(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in matches]
