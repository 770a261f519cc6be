# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a NIC's lossless settings come back by themselves: inventory, settings file, unit and runtime must be one. Pure.

A chain that holds now and is gone after a reboot, or after a restart of openibd, shows as slow RDMA weeks later.
"""

from typing import Any, List, Mapping, Optional

from ...catalogue.qos import QosProfile, site_profile
from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...spec.model import Spec
from ...types import Verdict
from .chain_verdicts import FABRIC_WITHOUT
from .fit import without_dcb

CHECK = "qos.boot"
EXPECTED = "as now after a reboot (%s)"


def judge_boots(seen: Inspection) -> List[Verdict]:
    """One verdict for each NIC of each rail that has a device; a bond has several NICs."""
    spec, facts, verdicts = seen.spec, seen.facts, []
    profile = site_profile(spec["qos_profile"], spec["qos_custom"])
    for target in seen.targets:
        if target.hca is None:
            continue
        where = Where(seen.node, target.hca.name, target.port, target.label)
        nics = [nic for nic in (facts.get("qos") or {}).get("nics") or []
                if nic.get("hca") == target.hca.name and nic.get("port") == target.port]
        why = nothing_expected(spec, profile, nics[0] if nics else {"driver": target.hca.driver}, facts.get("virtual") == "container")
        if profile is None or why is not None:
            verdicts.append(verdict(CHECK, where, "skipped", None, None, why or "the inventory expects nothing (rdma_qos_profile)"))
            continue
        if not nics:
            verdicts.append(unreadable(CHECK, where, EXPECTED % profile.name, "the QoS state of the rail's interface"))
        for nic in nics:
            subject = target.label if nic.get("netdev") == target.netdev else "%s, member %s" % (target.label, nic.get("netdev"))
            verdicts.append(judge_nic(where._replace(subject=subject), profile, nic.get("boot") or {}))
    return verdicts


def nothing_expected(spec: Spec, profile: Optional[QosProfile], nic: Mapping[str, Any], container: bool) -> Optional[str]:
    if spec.fabric in FABRIC_WITHOUT:
        return FABRIC_WITHOUT[spec.fabric]
    if profile is not None and not spec["roce_qos_manage"]:
        return "somebody else sets the NICs (roce_qos_manage is false)"
    return "in a container the NIC's settings belong to the machine below" if container else without_dcb(nic)


def judge_nic(where: Where, profile: QosProfile, boot: Mapping[str, Any]) -> Verdict:
    """Everything that disagrees, in the order in which a boot would meet it."""
    expected, wrong = EXPECTED % profile.name, disagreements(profile, boot)
    if not boot:
        return unreadable(CHECK, where, expected, "what sets the NIC at boot")
    if wrong:
        return verdict(CHECK, where, "fail", expected, wrong[0], "; ".join(wrong))
    if boot.get("unit") is None:
        return unreadable(CHECK, where, expected, "the state of the unit that sets the NIC at boot")
    return verdict(CHECK, where, "pass", expected, expected, "inventory, %s, its unit and the NIC agree" % boot.get("file"))


def disagreements(profile: QosProfile, boot: Mapping[str, Any]) -> List[str]:
    if boot.get("file") is None:
        return ["no settings file: a reboot forgets everything"]
    wrong = []
    if boot.get("profile") != profile.name:
        wrong.append("the settings file is for profile %s, the inventory wants %s" % (boot.get("profile"), profile.name))
    if not boot.get("enabled"):
        wrong.append("its unit is not enabled: nothing sets the NIC at boot")
    unit: Any = boot.get("unit")
    if unit is not None and unit["state"] == "failed":
        wrong.append("its unit failed (%s): journalctl -u %s says which setting" % (unit["result"], unit["name"]))
    elif unit is not None and unit["state"] != "active":
        wrong.append("its unit is %s: it has not done its work" % unit["state"])
    if boot.get("differs"):
        wrong.append("the NIC is now otherwise than the settings file says: %s" % ", ".join(boot["differs"]))
    return wrong
