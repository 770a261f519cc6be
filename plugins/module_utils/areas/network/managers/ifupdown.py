# SPDX-License-Identifier: GPL-3.0-or-later
"""ifupdown (Debian): one file a rail below /etc/network/interfaces.d.

The rail is written by name: ifupdown finds interfaces by name alone (its MAC patterns
need release 0.8.36 and are evaluated only when ``auto`` runs). The name comes from the
match of this run, so a renamed device is a difference that the next plan shows.
"""

import fnmatch
from typing import Dict, List, Tuple

from ....formats.outside import lines_in
from ....host.host import Host
from ....types import Op, run
from ...common.files import FileState, is_ours, observe_file
from ..model import DesiredInterface, Observed, Wanted, header
from ..routes import add_argv, del_argv, wanted_routes

NAME = "ifupdown"
UNIT = "networking.service"
MAIN = "/etc/network/interfaces"
DIRECTORY = "/etc/network/interfaces.d"
SOURCE_LINE = "source /etc/network/interfaces.d/*"


def path(rail: DesiredInterface) -> str:
    return "%s/railwright-%s" % (DIRECTORY, rail.rail)


def files(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Dict[str, Wanted]:
    return {path(rail): Wanted(text(rail), 0o644) for rail in rails}


def text(rail: DesiredInterface) -> str:
    family = "inet6" if rail.address is not None and ":" in rail.address else "inet"
    # auto: at boot; allow-hotplug: when the driver makes the interface later or anew.
    lines = ["auto " + rail.netdev, "allow-hotplug " + rail.netdev]
    lines.append("iface %s %s %s" % (rail.netdev, family, "static" if rail.address is not None else "manual"))
    if rail.mode is not None:
        lines.append("    pre-up echo %s > /sys/class/net/%s/mode" % (rail.mode, rail.netdev))
    if rail.address is not None:
        lines.append("    address " + rail.address)
    lines.append("    mtu %d" % rail.mtu)
    if rail.address is None:
        lines.append("    up ip link set dev %s up" % rail.netdev)
    if family == "inet6":
        lines.append("    accept_ra 0")
    if rail.address is not None and rail.metric is not None:  # its own "metric" is that of the default route
        lines.append("    up ip addr replace %s broadcast + metric %d dev %s" % (rail.address, rail.metric, rail.netdev))
    lines += ["    up " + " ".join(add_argv(rail, route)) for route in wanted_routes(rail)]
    # Routes go with the interface, the rule does not, and to add it twice is an error.
    lines += ["    down " + " ".join(del_argv(rail, route)) + " || true" for route in wanted_routes(rail) if route[0] == "from"]
    return header((rail,)) + "\n".join(lines) + "\n"


def tell(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Tuple[Op, ...]:
    """Have ifupdown take the interface as configured.

    Without its own record it would try to add the address again at the next restart of
    networking, and fail. What is there already is no error here. The undo does nothing:
    the live values have their own, and ifdown would flush addresses of strangers.
    """
    return tuple(run(("ifup", "--ignore-errors", rail.netdev), (("true",),)) for rail in rails)


def conflicts(rail: DesiredInterface, observed: Observed) -> List[str]:
    """Stanzas of the same interface in files that are not ours: ifupdown would run both."""
    return [
        "%s has a stanza for %s; take it out, the rail's own file %s replaces it" % (state.path, rail.netdev, path(rail))
        for state in sources(observed) if not is_ours(state.text or "") and rail.netdev in interfaces(state.text or "")
    ]


def sources(observed: Observed) -> List[FileState]:
    """The interfaces files that ifupdown reads, the main one and those it names."""
    patterns = source_patterns(observed.state(MAIN).text or "")
    return [state for path, state in sorted(observed.files.items())
            if path == MAIN or any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)]


def sourced(observed: Observed) -> bool:
    """Whether files of ours below interfaces.d are read."""
    patterns = source_patterns(observed.state(MAIN).text or "")
    return any(fnmatch.fnmatchcase(DIRECTORY + "/railwright-rail0", pattern) for pattern in patterns)


def source_patterns(content: str) -> List[str]:
    """The globs of ``source`` and ``source-directory``; relative ones start at /etc/network."""
    patterns: List[str] = []
    for fields in _lines(content):
        if fields[0] in ("source", "source-directory") and len(fields) > 1:
            for name in fields[1:]:
                full = name if name.startswith("/") else "/etc/network/" + name
                patterns.append(full.rstrip("/") + "/*" if fields[0] == "source-directory" else full)
    return patterns


def interfaces(content: str) -> List[str]:
    return [fields[1] for fields in _lines(content) if fields[0] == "iface" and len(fields) > 1]


def observe_files(host: Host) -> List[FileState]:
    main = observe_file(host, MAIN)
    found = [main, *(observe_file(host, "%s/%s" % (DIRECTORY, name)) for name in host.listdir(DIRECTORY))]
    for pattern in source_patterns(main.text or ""):
        directory, _slash, glob = pattern.rpartition("/")
        if directory != DIRECTORY:
            names = [name for name in host.listdir(directory) if fnmatch.fnmatchcase(name, glob)]
            found += [observe_file(host, "%s/%s" % (directory, name)) for name in names]
    return found


def _lines(content: str) -> List[List[str]]:
    joined = content.replace("\\\n", " ")
    return [line.split() for line in lines_in(joined) if line.strip() and not line.lstrip().startswith("#")]
