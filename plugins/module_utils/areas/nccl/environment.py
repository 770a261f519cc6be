# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's variables in two files: a login shell's and NCCL's own.

One dictionary, two grammars. profile.d reaches login shells; /etc/nccl.conf is the only
file that reaches systemd units, srun and mpirun. NCCL takes a line of nccl.conf apart at
the first ``=`` and keeps the rest as it is: no quotes, no blanks, no ``export``, ``#``
in column 0 only, 1023 bytes at most (NCCL 2.30.7, src/misc/param.cc).

The node adds what only it knows: NCCL_IB_HCA, the exact list of the rails' ports, and
NCCL_SOCKET_IFNAME. An HCA that has no device at the moment (driver not loaded) is not
left out of the list: the list that our file holds is kept until all rails are known,
or NCCL would silently lose a rail because of a passing fault. A host without rails gets the list of its cloud's shape, if its
profile has one. Some profiles want neither: their plugin finds devices by itself. NCCL_IB_GID_INDEX is ``nccl_gid``'s.
"""

import re
import shlex
from typing import Dict, List, NamedTuple, Optional, Tuple

from ...formats.nccl_conf import KEPT_BYTES, conf_variables
from ...host.host import Host
from ...rules.nccl_gids import GID_INDEX
from ...spec.match import DEVICE, RailTarget, management_interface, match_rails
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.files import HEADER, FileState, is_ours, observe_file, plan_file
from . import gid_index

NAME = "nccl"
HCA = "NCCL_IB_HCA"
SOCKET = "NCCL_SOCKET_IFNAME"
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
PLAIN = re.compile(r"[A-Za-z0-9_.,:=^/@%+-]+")
SOURCE = "NCCL 2.30.7 src/misc/param.cc"
WHY_SHOWN = {
    HCA: "NCCL is to use the rails' HCAs and no others",
    GID_INDEX: "NCCL before 2.21 finds no GID by itself, and takes index 0 without it: a link-local one",
}
READ_FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")  # what NCCL reads, and passes over without a word when it is missing


class Desired(NamedTuple):
    """``unknown`` names the rails whose HCA is not there, so that NCCL_IB_HCA cannot be rendered now."""

    conf_path: str
    profile_path: str
    variables: Tuple[Tuple[str, str], ...]
    unknown: Tuple[str, ...]
    gid: gid_index.Wish
    files: Tuple[Tuple[str, str], ...]  # of the profile: (variable that names a file, where that comes from)


class Observed(NamedTuple):
    """``missing``: the variables whose file is not on the node."""

    conf: FileState
    profile: FileState
    gid: gid_index.GidIndexInspection
    missing: Tuple[str, ...]


def desired(spec: Spec, identity: Identity) -> Desired:
    derived = spec["nccl_derived"]
    variables: Dict[str, str] = dict(derived["variables"])
    unknown: Tuple[str, ...] = ()
    if HCA in derived["adds"]:
        devices, unknown = hca_ports(spec, identity)
        if devices and not unknown:
            variables[HCA] = "=" + ",".join(devices)
    if SOCKET in derived["adds"]:
        interface = spec["bootstrap_interface"] or management_interface(spec, identity)
        if interface is not None:
            variables[SOCKET] = "=" + interface
    good = tuple((name, value) for name, value in variables.items() if fault(name, value) is None)
    return Desired(spec["nccl_conf_path"], spec["nccl_profile_path"], good, unknown, gid_index.wish(spec, identity),
                   tuple(sorted(derived["files"].items())))


def observe(host: Host, desired: Desired) -> Observed:
    named = [(name, value) for name, value in desired.variables if name in READ_FILES]
    inspected = gid_index.inspect_gid_index(host, desired.gid)
    return Observed(observe_file(host, desired.conf_path), observe_file(host, desired.profile_path), inspected,
                    tuple(name for name, value in named if not host.exists(value)))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    variables = variables_of(desired, observed)
    return _plan_one(
        observed.conf, conf_text(variables), "the only carrier of NCCL's variables that reaches systemd units and mpirun") + _plan_one(
        observed.profile, profile_text(variables), "NCCL's variables for login shells; what a user exports wins")


def variables_of(desired: Desired, observed: Observed) -> List[Tuple[str, str]]:
    """What both files are to hold, in their order."""
    variables = dict(desired.variables)
    kept = _kept(observed.conf, HCA) if desired.unknown else None
    if kept is not None:
        variables[HCA] = kept
    decision = gid_index.decide(desired.gid, observed.gid)
    index = _kept(observed.conf, GID_INDEX) if decision.keep else decision.number
    if index is not None:
        variables[GID_INDEX] = index
    return sorted(variables.items())


def _plan_one(state: FileState, content: str, why: str) -> List[Change]:
    """A change of what the node shows, and of nothing else, has its own name: it may come to light in the middle of an apply.

    A driver makes the HCA, an address its GID. Under the file's name that apply would wait for what its plan could not know, and be undone.
    """
    changes = plan_file(NAME, state, content, why, SOURCE)
    if not changes or state.text is None or state.text == content or not is_ours(state.text):
        return changes
    found, wanted = state.text.split("\n"), content.split("\n")
    if [row for row in found if _shown(row) is None] != [row for row in wanted if _shown(row) is None]:
        return changes
    names = sorted({_shown(row) or "" for row in set(found) ^ set(wanted)})
    return [change._replace(what="%s (%s)" % (change.what, " and ".join(names)), why=WHY_SHOWN[names[0]]) for change in changes]


def _shown(row: str) -> Optional[str]:
    """The variable of a line, in either grammar, whose value only the node shows."""
    return next((name for name in sorted(WHY_SHOWN) if name + "=" in row), None)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    derived = spec["nccl_derived"]
    faults = [(name, fault(name, value)) for name, value in sorted(derived["variables"].items())]
    found = [Problem(NAME, name, reason) for name, reason in faults if reason is not None]
    for shape, devices in derived["hcas"] if HCA in derived["adds"] and len(derived["hcas"]) == 1 else ():
        present = [hca.name for hca in identity.hcas]
        gone = ", ".join(device for device in devices if device not in present)
        if gone:
            found.append(Problem(NAME, HCA, "the list of shape %s names %s, which this node does not have (it has %s); name the host's "
                                 "rails, or nccl_overrides.%s" % (shape, gone, ", ".join(present) or "none", HCA)))
    return found + (_socket_problems(spec, identity) if SOCKET in derived["adds"] else [])


def _socket_problems(spec: Spec, identity: Identity) -> List[Problem]:
    interfaces = [nic.name for nic in identity.nics]
    wanted = spec["bootstrap_interface"]
    if wanted is not None and wanted not in interfaces:
        return [Problem(NAME, "rdma_bootstrap_interface", "this node has no interface %s; it has %s" % (
            wanted, ", ".join(interfaces) or "none"))]
    if wanted is None and management_interface(spec, identity) is None:
        return [Problem(NAME, SOCKET, "no interface of this node carries the default route or the controller's connection; "
                        "set rdma_bootstrap_interface")]
    return []


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A file that the profile names and that is not there, and an index that is wrong on this node."""
    values, sources = dict(desired.variables), dict(desired.files)
    found = [Problem(NAME, name, "%s is not on this node: it is %s. Bring it, or leave it out with nccl_overrides: {%s: null}" % (
        values[name], sources[name], name)) for name in observed.missing if name in sources]
    return found + [
        Problem(NAME, GID_INDEX, text) for text in gid_index.decide(desired.gid, observed.gid).problems]


def notes(desired: Desired, observed: Observed) -> List[str]:
    values, ours = dict(desired.variables), [name for name, _where in desired.files]
    said = ["nccl: %s names %s, which is not on this node; NCCL passes over it" % (name, values[name])
            for name in observed.missing if name not in ours]
    said += ["nccl: " + text for text in gid_index.decide(desired.gid, observed.gid).notes]
    if not desired.unknown:
        return said
    kept = _kept(observed.conf, HCA)
    return said + ["nccl: no RDMA device on %s at the moment; %s %s" % (
        ", ".join(desired.unknown), HCA, "is left out" if kept is None else "stays as it is: %s" % kept)]


def hca_ports(spec: Spec, identity: Identity) -> Tuple[List[str], Tuple[str, ...]]:
    """``device:port`` of every rail in rail order, and the labels of the rails that have no HCA now. Without rails: the shape's list."""
    shapes = spec["nccl_derived"]["hcas"]
    if not spec.rails:
        return list(shapes[0][1]) if len(shapes) == 1 else [], ()
    if spec.rdma_stack == "soft_roce":
        return ["rxe%d:1" % rail.index for rail in spec.rails], ()
    targets, _problems = match_rails(spec, identity)
    found: Dict[str, RailTarget] = {target.rail.name: target for target in targets}
    devices: List[str] = []
    unknown: List[str] = []
    for rail in spec.rails:
        target = found.get(rail.name)
        if target is None or target.hca is None or not DEVICE.fullmatch(target.hca.name):
            unknown.append(target.label if target is not None else rail.name)
        else:
            devices.append("%s:%d" % (target.hca.name, target.port or 1))
    return devices, tuple(unknown)


def _kept(conf: FileState, name: str) -> Optional[str]:
    """A variable's value in a nccl.conf of ours."""
    if conf.text is None or not is_ours(conf.text):
        return None
    value = conf_variables(conf.text).get(name)
    return value if value is not None and fault(name, value) is None else None


def fault(name: str, value: str) -> Optional[str]:
    """Why a variable cannot be written to both files, or None."""
    if not VARIABLE.fullmatch(name):
        return "is no variable name"
    if not value:
        return "needs a value"
    if len(value.encode("utf-8")) > KEPT_BYTES:
        return "is longer than the %d bytes that NCCL reads of nccl.conf" % KEPT_BYTES
    if value != value.strip() or any(ord(char) < 32 or ord(char) == 127 for char in value):
        return "has a control character, or blanks at an end that NCCL would keep: %r" % value
    return None


def conf_text(variables: List[Tuple[str, str]]) -> str:
    return HEADER + "".join("%s=%s\n" % item for item in variables)


def profile_text(variables: List[Tuple[str, str]]) -> str:
    return HEADER + "".join(profile_line(name, value) for name, value in variables)


def profile_line(name: str, value: str) -> str:
    """A default that an exported value beats. Shells disagree on quotes inside ``"${X:-…}"``, so only plain text goes there."""
    if PLAIN.fullmatch(value):
        return 'export %s="${%s:-%s}"\n' % (name, name, value)
    return '[ -n "${%s:-}" ] || %s=%s; export %s\n' % (name, name, shlex.quote(value), name)
