# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU frequency governor, live and after a reboot, where the node has one.

A virtual machine usually has no cpufreq, and in a container the governor belongs to
the machine below: nothing is wanted there.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ..host import Host
from ..spec.model import Spec
from ..types import Change, Identity, Problem, set_value
from .files import HEADER
from .units import Unit, UnitState, observe_unit, plan_unit

NAME = "cpu"
POLICIES = "/sys/devices/system/cpu/cpufreq"
WHY = "a core that clocks down while it polls adds latency to every message"
SOURCE = "oci-hpc checks scaling_governor=performance; mlnx_tune HIGH_THROUGHPUT sets it"


class Desired(NamedTuple):
    governor: Optional[str]  # None: nothing is wanted on this node
    unit: Optional[Unit]


class Policy(NamedTuple):
    """One cpufreq policy: the CPUs that change their clock together."""

    path: str
    governor: Optional[str]
    available: Tuple[str, ...]


class Observed(NamedTuple):
    policies: Tuple[Policy, ...]
    unit: Optional[UnitState]


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    governor = spec["host_tuning_governor"]
    if governor == "keep" or not identity.has("cpufreq") or identity.has("container"):
        return Desired(None, None)
    return Desired(governor, Unit("railwright-cpu-governor.service", unit_text(governor), "multi-user.target", False))


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    if desired.unit is None:
        return Observed((), None)
    names = sorted((name for name in host.listdir(POLICIES) if name[:6] == "policy" and name[6:].isdigit()), key=lambda name: int(name[6:]))
    policies = [
        Policy(
            "%s/%s/scaling_governor" % (POLICIES, name),
            host.line("%s/%s/scaling_governor" % (POLICIES, name)),
            tuple((host.line("%s/%s/scaling_available_governors" % (POLICIES, name)) or "").split()),
        )
        for name in names
    ]
    return Observed(tuple(policies), observe_unit(host, desired.unit))


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    if desired.governor is None or desired.unit is None or observed.unit is None or not observed.policies:
        return []
    changes = []  # type: List[Change]
    wrong = [policy for policy in observed.policies if policy.governor != desired.governor]
    if wrong:
        changes.append(Change(
            NAME, "CPU governor", tally(observed.policies), {desired.governor: len(observed.policies)}, "none", WHY, SOURCE,
            tuple(set_value(policy.path, desired.governor) for policy in wrong),
        ))
    return changes + plan_unit(NAME, desired.unit, observed.unit, WHY + " (after a reboot)", SOURCE)


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    return []


def conflicts(desired, observed):
    # type: (Desired, Observed) -> List[Problem]
    """A governor that the CPU's driver does not offer."""
    lacking = [policy for policy in observed.policies if policy.available and desired.governor not in policy.available]
    if not lacking:
        return []
    return [Problem(NAME, "host_tuning_governor", "this node has no governor %r; %s offers %s" % (
        desired.governor, lacking[0].path.split("/")[-2], ", ".join(lacking[0].available)))]


def tally(policies):
    # type: (Tuple[Policy, ...]) -> Dict[str, int]
    """How many policies have which governor: what people compare on 256 CPUs."""
    counts = {}  # type: Dict[str, int]
    for policy in policies:
        name = policy.governor or "unknown"
        counts[name] = counts.get(name, 0) + 1
    return counts


def unit_text(governor):
    # type: (str) -> str
    """sysfs forgets at reboot. The loop needs a shell; ``$$`` is systemd's spelling of ``$``."""
    return HEADER + """[Unit]
Description=CPU frequency governor %(governor)s (railwright)
After=systemd-modules-load.service
ConditionPathIsDirectory=%(policies)s

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for file in %(policies)s/policy*/scaling_governor; do echo %(governor)s > "$$file" || exit 1; done'

[Install]
WantedBy=multi-user.target
""" % {"governor": governor, "policies": POLICIES}
