# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters: one file of ours below /etc/sysctl.d, and the live values.

udev applies the per-interface keys again when an interface appears, so the file is
enough for boot. A key that this kernel does not have is left out of both. In a
container only net/* belongs to the node, and /proc/sys may be read-only: what cannot
be written there is not asked for (see ``notes``); the file is written all the same.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.sysctls import MAXIMUM, Sysctl, canonical, wanted_sysctls
from ...formats.outside import is_digits, lines_in
from ...host.host import Host
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import SYSCTL, Change, Identity, Problem, Subject, set_value
from ..common.files import HEADER, FileState, later_files, observe_file, plan_file

NAME = "sysctl"
FILE = "/etc/sysctl.d/90-railwright.conf"
# In order of precedence: a file in an earlier directory hides those of the same name in later ones.
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
# No *, ? and [: systemd would take the key for a pattern. Interface names may hold nearly anything.
SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*(/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)+")
SAFE_VALUE = re.compile(r"[ -~\t]+")
NUMA_BALANCING = Sysctl(
    "kernel/numa_balancing", "0", (), "Automatic NUMA balancing unmaps pages to sample accesses, which disturbs pinned buffers.",
    "NVIDIA tuning guide (kernel.numa_balancing=0)")


class Desired(NamedTuple):
    rows: Tuple[Sysctl, ...]
    container: bool


class Observed(NamedTuple):
    """``values``: the live value by key, None when this kernel does not have the key. ``everywhere``: that of conf/all, for MAXIMUM."""

    file: FileState
    values: Dict[str, Optional[str]]
    read_only: bool
    overrides: Tuple[Tuple[str, str, str], ...]  # (key, later file of sysctl.d that sets it to something else, value)
    everywhere: Dict[str, int]


def desired(spec: Spec, identity: Identity) -> Desired:
    rows = [row._replace(value=normal(row.value)) for row in all_rows(spec, identity) if safe(row)]
    return Desired(tuple(rows), identity.has("container"))


def all_rows(spec: Spec, identity: Identity) -> List[Sysctl]:
    """Catalogue and inventory for this node, unchecked. Order: as the file shows them."""
    targets, _problems = match_rails(spec, identity)
    netdevs = [(target.netdev, target.rail.address or "") for target in targets if target.netdev is not None]
    rows = wanted_sysctls(spec, [netdev for netdev, _address in netdevs], [netdev for netdev, address in netdevs if ":" in address])
    overridden = [canonical(name) for name in spec["host_tuning_sysctls"]]
    if identity.has("numa_balancing") and NUMA_BALANCING.name not in overridden:
        rows.append(NUMA_BALANCING._replace(value="1" if spec["host_tuning_numa_balancing"] else "0"))
    return rows


def observe(host: Host, desired: Desired) -> Observed:
    values: Dict[str, Optional[str]] = {}
    for row in desired.rows:
        text = host.read(row.path)
        values[row.name] = None if text is None else normal(text)
    everywhere = {key: host.read("/proc/sys/net/ipv4/conf/all/" + key) or "" for key in MAXIMUM}
    return Observed(observe_file(host, FILE), values, read_only(host), tuple(find_overrides(host, desired)),
                    {key: int(text) for key, text in everywhere.items() if is_digits(text.strip())})


def plan(desired: Desired, observed: Observed) -> List[Change]:
    present = [row for row in desired.rows if observed.values.get(row.name) is not None]
    text = HEADER + "".join("%s = %s\n" % (dotted(row.name), row.value) for row in present)
    changes = plan_file(NAME, observed.file, text, "the kernel forgets its parameters at reboot", "sysctl.d(5)")
    for row in present:
        if observed.values[row.name] != row.value and writable(row, desired, observed):
            name = dotted(row.name)
            changes.append(Change(NAME, "sysctl " + name, observed.values[row.name], row.value, "none", row.why, row.source,
                                  (set_value(row.path, row.value),), Subject(SYSCTL, name)))
    return changes


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    """Names and values that sysctl.d cannot hold (an interface called ``a*b``, a value with a line break)."""
    return [
        Problem(NAME, dotted(row.name), "cannot be written to %s: key %r, value %r" % (FILE, row.name, row.value))
        for row in all_rows(spec, identity) if not safe(row)
    ]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """Files that would win over ours at the next boot."""
    rows = {row.name: row for row in desired.rows}
    return [
        Problem(NAME, dotted(name), "%s sets %s, and comes after %s, which wants %s: remove the line there, or set the key in "
                "host_tuning_sysctls" % (path, value, FILE, rows[name].value))
        for name, path, value in observed.overrides
    ] + [
        Problem(NAME, dotted(row.name), "the kernel takes the larger of conf.all and the interface's own: conf.all.%s is %d here, so %s "
                "has no effect; lower conf.all.%s (host_tuning_sysctls can), or want %d" % (key, larger, row.value, key, larger))
        for row, key, larger in overridden_by_all(desired, observed)
    ]


def overridden_by_all(desired: Desired, observed: Observed) -> List[Tuple[Sysctl, str, int]]:
    """Per-interface values that conf/all makes larger, unless the inventory sets conf/all itself."""
    wanted = {row.name: row.value for row in desired.rows}
    found: List[Tuple[Sysctl, str, int]] = []
    for row in desired.rows:
        head, _slash, key = row.name.rpartition("/")
        if key not in MAXIMUM or not head.startswith("net/ipv4/conf/") or head.endswith(("/all", "/default")):
            continue
        own = wanted.get("net/ipv4/conf/all/" + key, "")
        larger = int(own) if is_digits(own) else observed.everywhere.get(key, 0)
        if is_digits(row.value) and larger > int(row.value) and observed.values.get(row.name) is not None:
            found.append((row, key, larger))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    """What was left out, and why."""
    said: List[str] = []
    for row in desired.rows:
        value = observed.values.get(row.name)
        if value is None:
            said.append("sysctl: %s left out, this kernel does not have it" % dotted(row.name))
        elif value != row.value and not writable(row, desired, observed):
            said.append("sysctl: %s is %s, not %s, and cannot be changed from inside this container" % (dotted(row.name), value, row.value))
    return said


def writable(row: Sysctl, desired: Desired, observed: Observed) -> bool:
    return not observed.read_only and (not desired.container or row.name.startswith("net/"))


def safe(row: Sysctl) -> bool:
    return SAFE_NAME.fullmatch(row.name) is not None and SAFE_VALUE.fullmatch(row.value) is not None


def normal(value: str) -> str:
    """The kernel separates numbers by tabs, people by blanks."""
    return " ".join(value.split())


def dotted(name: str) -> str:
    """The usual spelling, unless an interface name with a dot (eth1.100) makes it ambiguous."""
    return name if "." in name else name.replace("/", ".")


def read_only(host: Host) -> bool:
    """Whether /proc/sys is mounted read-only, as container runtimes do."""
    state = False
    for line in lines_in(host.read("/proc/self/mounts") or host.read("/proc/mounts") or ""):
        words = line.split(" ")  # a source of FUSE may hold other blanks: the kernel escapes the space alone
        if len(words) >= 4 and words[1] in ("/proc", "/proc/sys"):
            state = "ro" in words[3].split(",")  # the last mount on a path is the one that counts
    return state


def find_overrides(host: Host, desired: Desired) -> List[Tuple[str, str, str]]:
    wanted = {row.name: row.value for row in desired.rows}
    last: Dict[str, Tuple[str, str, str]] = {}
    for path in later_files(host, DIRECTORIES, FILE.rsplit("/", 1)[-1]):
        last.update({key: (key, path, value) for key, value in assignments(host.read(path) or "") if key in wanted})
    return [found for _key, found in sorted(last.items()) if found[2] != wanted[found[0]]]


def assignments(text: str) -> List[Tuple[str, str]]:
    """``key = value`` lines of a sysctl.d file. A pattern (``conf.*.rp_filter``) never beats a key that is named in full."""
    found: List[Tuple[str, str]] = []
    for line in lines_in(text):
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith(("#", ";")):
            found.append((canonical(key.strip().lstrip("-").strip()), normal(value)))
    return found
