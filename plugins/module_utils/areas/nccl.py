# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's variables in two files: a login shell's and NCCL's own.

One dictionary, two grammars. profile.d reaches login shells; /etc/nccl.conf is the only
file that reaches systemd units, srun and mpirun. NCCL takes a line of nccl.conf apart at
the first ``=`` and keeps the rest as it is: no quotes, no blanks, no ``export``, ``#``
in column 0 only, 1023 bytes at most (NCCL 2.30.7, src/misc/param.cc).

The node adds what only it knows: NCCL_IB_HCA, the exact list of the rails' ports, and
NCCL_SOCKET_IFNAME. An HCA that has no device at the moment (driver not loaded) is not
left out of the list: the list that our file holds is kept until all rails are known,
or NCCL would silently lose a rail because of a passing fault.
"""

import re
import shlex
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..catalogue.fabrics import nccl_variables
from ..host import Host
from ..observe.match import RailTarget, match_rails
from ..spec.model import Spec
from ..types import Change, Identity, Problem
from .files import HEADER, FileState, is_ours, observe_file, plan_file

NAME = "nccl"
HCA = "NCCL_IB_HCA"
SOCKET = "NCCL_SOCKET_IFNAME"
MAX_VALUE = 1023
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
DEVICE = re.compile(r"[A-Za-z0-9_.-]+")
PLAIN = re.compile(r"[A-Za-z0-9_.,:=^/@%+-]+")
WHY_CONF = "the only carrier of NCCL's variables that reaches systemd units and mpirun"
WHY_PROFILE = "NCCL's variables for login shells; what a user exports wins"
SOURCE = "NCCL 2.30.7 src/misc/param.cc"


class Desired(NamedTuple):
    """``unknown`` names the rails whose HCA is not there, so that NCCL_IB_HCA cannot be rendered now."""

    conf_path: str
    profile_path: str
    variables: Tuple[Tuple[str, str], ...]
    unknown: Tuple[str, ...]


class Observed(NamedTuple):
    conf: FileState
    profile: FileState


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    variables = nccl_variables(spec)
    unknown = ()  # type: Tuple[str, ...]
    if HCA not in spec["nccl_env_overrides"]:
        devices, unknown = hca_ports(spec, identity)
        if devices and not unknown:
            variables[HCA] = "=" + ",".join(devices)
    if SOCKET not in spec["nccl_env_overrides"]:
        interface = spec["bootstrap_interface"] or management_interface(spec, identity)
        if interface is not None:
            variables[SOCKET] = "=" + interface
    good = tuple((name, value) for name, value in variables.items() if fault(name, value) is None)
    return Desired(spec["nccl_env_conf_path"], spec["nccl_env_profile_path"], good, unknown)


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    return Observed(observe_file(host, desired.conf_path), observe_file(host, desired.profile_path))


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    variables = list(desired.variables)
    kept = kept_hca(observed.conf) if desired.unknown else None
    if kept is not None:
        variables.append((HCA, kept))
    variables.sort()
    return (plan_file(NAME, observed.conf, conf_text(variables), WHY_CONF, SOURCE)
            + plan_file(NAME, observed.profile, profile_text(variables), WHY_PROFILE, SOURCE))


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    found = []  # type: List[Problem]
    for name, value in sorted(nccl_variables(spec).items()):
        reason = fault(name, value)
        if reason is not None:
            found.append(Problem(NAME, name, reason))
    if SOCKET in spec["nccl_env_overrides"]:
        return found
    interfaces = [nic.name for nic in identity.nics]
    wanted = spec["bootstrap_interface"]
    if wanted is not None and wanted not in interfaces:
        found.append(Problem(NAME, "bootstrap_interface", "this node has no interface %s; it has %s" % (
            wanted, ", ".join(interfaces) or "none")))
    elif wanted is None and management_interface(spec, identity) is None:
        found.append(Problem(NAME, SOCKET, "no interface of this node carries the default route or the controller's connection; "
                             "set bootstrap_interface"))
    return found


def notes(desired, observed):
    # type: (Desired, Observed) -> List[str]
    if not desired.unknown:
        return []
    kept = kept_hca(observed.conf)
    return ["nccl: no RDMA device on %s at the moment; %s %s" % (
        ", ".join(desired.unknown), HCA, "is left out" if kept is None else "stays as it is: %s" % kept)]


def hca_ports(spec, identity):
    # type: (Spec, Identity) -> Tuple[List[str], Tuple[str, ...]]
    """``device:port`` of every rail in rail order, and the labels of the rails that have no HCA now."""
    if spec.rdma_stack == "soft_roce":
        return ["rxe%d:1" % rail.index for rail in spec.rails], ()
    targets, _problems = match_rails(spec, identity)
    found = {target.rail.name: target for target in targets}  # type: Dict[str, RailTarget]
    devices = []  # type: List[str]
    unknown = []  # type: List[str]
    for rail in spec.rails:
        target = found.get(rail.name)
        if target is None or target.hca is None or not DEVICE.fullmatch(target.hca.name):
            unknown.append(target.label if target is not None else rail.name)
        else:
            devices.append("%s:%d" % (target.hca.name, target.port or 1))
    return devices, tuple(unknown)


def management_interface(spec, identity):
    # type: (Spec, Identity) -> Optional[str]
    """The interface of the preferred default route, else of the controller's connection; one that is no rail comes first.

    Only interfaces that carry an address themselves: the members of a bond, bridge or VLAN are management too, but NCCL cannot
    listen on them.
    """
    rails = {target.netdev for target in match_rails(spec, identity)[0]}
    carrying = [(nic.uplink, nic.name) for nic in identity.nics if nic.uplink is not None and DEVICE.fullmatch(nic.name)]
    names = [name for _uplink, name in sorted(carrying)]
    return next((name for name in names if name not in rails), names[0] if names else None)


def kept_hca(conf):
    # type: (FileState) -> Optional[str]
    """The device list in a nccl.conf of ours."""
    if conf.text is None or not is_ours(conf.text):
        return None
    value = parse_conf(conf.text).get(HCA)
    return value if value is not None and fault(HCA, value) is None else None


def fault(name, value):
    # type: (str, str) -> Optional[str]
    """Why a variable cannot be written to both files, or None."""
    if not VARIABLE.fullmatch(name):
        return "is no variable name"
    if not value:
        return "needs a value"
    if len(value.encode("utf-8")) > MAX_VALUE:
        return "is longer than the %d bytes that NCCL reads of nccl.conf" % MAX_VALUE
    if value != value.strip() or any(ord(char) < 32 or ord(char) == 127 for char in value):
        return "has a control character, or blanks at an end that NCCL would keep: %r" % value
    return None


def conf_text(variables):
    # type: (List[Tuple[str, str]]) -> str
    return HEADER + "".join("%s=%s\n" % item for item in variables)


def parse_conf(text):
    # type: (str) -> Dict[str, str]
    """nccl.conf as NCCL reads it: first assignment of a name wins (setenv without overwrite)."""
    found = {}  # type: Dict[str, str]
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, value[:MAX_VALUE])
    return found


def profile_text(variables):
    # type: (List[Tuple[str, str]]) -> str
    return HEADER + "".join(profile_line(name, value) for name, value in variables)


def profile_line(name, value):
    # type: (str, str) -> str
    """A default that an exported value beats. Shells disagree on quotes inside ``"${X:-…}"``, so only plain text goes there."""
    if PLAIN.fullmatch(value):
        return 'export %s="${%s:-%s}"\n' % (name, name, value)
    return '[ -n "${%s:-}" ] || %s=%s; export %s\n' % (name, name, shlex.quote(value), name)
