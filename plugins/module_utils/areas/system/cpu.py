# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU frequency governor, live and after a reboot, where the node has one.

A virtual machine usually has no cpufreq, and in a container the governor belongs to
the machine below: nothing is wanted there.
"""

from collections import Counter
from typing import List, NamedTuple, Optional, Tuple

from ...formats.outside import is_digits
from ...formats.sysfs_values import natural_key
from ...host.host import Host
from ...spec.model import Spec
from ...types import Change, Identity, Problem, set_value
from ..common.files import HEADER
from ..common.units import Unit, UnitState, observe_unit, plan_unit

NAME = "cpu"
CPUS = "/sys/devices/system/cpu"
POLICIES = CPUS + "/cpufreq"
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


def desired(spec: Spec, identity: Identity) -> Desired:
    governor = spec["host_tuning_governor"]
    if governor == "keep" or not identity.has("cpufreq") or identity.has("container"):
        return Desired(None, None)
    return Desired(governor, Unit("railwright-cpu-governor.service", unit_text(governor), "multi-user.target", False))


def observe(host: Host, desired: Desired) -> Observed:
    if desired.unit is None:
        return Observed((), None)
    policies = tuple(Policy(place + "/scaling_governor", host.line(place + "/scaling_governor"),
                            tuple((host.line(place + "/scaling_available_governors") or "").split())) for place in policy_directories(host))
    return Observed(policies, observe_unit(host, desired.unit))


def policy_directories(host: Host) -> List[str]:
    """One a policy, in order; one a CPU on kernels before 4.3, which have no policy directories."""
    policies = ["%s/%s" % (POLICIES, name) for name in sorted(host.listdir(POLICIES), key=natural_key) if name.startswith("policy")]
    if policies:
        return policies
    names = sorted((name for name in host.listdir(CPUS) if name[:3] == "cpu" and is_digits(name[3:])), key=natural_key)
    return ["%s/%s/cpufreq" % (CPUS, name) for name in names if host.exists("%s/%s/cpufreq/scaling_governor" % (CPUS, name))]


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if desired.governor is None or desired.unit is None or observed.unit is None or not observed.policies:
        return []
    changes: List[Change] = []
    wrong = [policy for policy in observed.policies if policy.governor != desired.governor]
    if wrong:
        # How many policies have which governor: what people compare on 256 CPUs.
        before = dict(Counter(policy.governor or "unknown" for policy in observed.policies))
        changes.append(Change(NAME, "CPU governor", before, {desired.governor: len(observed.policies)}, "none", WHY, SOURCE,
                              tuple(set_value(policy.path, desired.governor) for policy in wrong)))
    return changes + plan_unit(NAME, desired.unit, observed.unit, WHY + " (after a reboot)", SOURCE)


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A governor that the CPU's driver does not offer."""
    lacking = [policy for policy in observed.policies if policy.available and desired.governor not in policy.available]
    if not lacking:
        return []
    return [Problem(NAME, "host_tuning_governor", "this node has no governor %r; %s offers %s" % (
        desired.governor, lacking[0].path.split("/")[-2], ", ".join(lacking[0].available)))]


def unit_text(governor: str) -> str:
    """sysfs forgets at reboot. The loop needs a shell; ``$$`` is systemd's spelling of ``$``."""
    return HEADER + """[Unit]
Description=CPU frequency governor %(governor)s (railwright)
After=systemd-modules-load.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for file in %(cpus)s/cpu[0-9]*/cpufreq/scaling_governor; do echo %(governor)s > "$$file" || exit 1; done'

[Install]
WantedBy=multi-user.target
""" % {"governor": governor, "cpus": CPUS}
