# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on each NIC of the rails: the lossless chain, link by link, against the site's QoS profile, and whether it comes back. Pure.

NCCL_IB_TC -> DSCP -> trust -> DSCP map -> priority -> PFC -> ECN -> CNP -> RDMA-CM ToS -> DCBX owner. Each link alone
looks fine in its own tool and nothing complains when two of them disagree: the traffic is dropped under load, and RDMA
is slow without an error. So the verdict names the first link that breaks; the later ones are in its message.

A chain that holds now and is gone after a reboot, or after a restart of openibd, shows as slow RDMA weeks later: inventory,
settings file, unit and runtime must be one.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.qos import QosProfile, dscp_of, site_profile
from ...formats.masking import HIDDEN
from ...observe.qos import SOFTWARE, WITHOUT_DCB
from ...rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ...rules.path_mtu import as_int
from ...types import Verdict
from .parts import marks, priorities_of, shares, trusts_dscp, without_dcb

CHAIN, BOOT = "qos.chain", "qos.boot"
EXPECTED_AT_BOOT = "as now after a reboot (%s)"
HOLDS, BREAKS, UNKNOWN = "holds", "breaks", "unknown"
VARIABLE = "NCCL_IB_TC"
FABRIC_WITHOUT = {
    "infiniband": "InfiniBand has credit-based flow control; PFC, DSCP and ECN are for RoCE",
    "erdma": WITHOUT_DCB["erdma"],
}


class Link(NamedTuple):
    name: str
    state: str  # holds, breaks, unknown
    expected: str
    found: str  # unknown: why it cannot be read


def judge_chains(seen: Inspection) -> List[Verdict]:
    lldpad, broken_status = (seen.facts.get("qos") or {}).get("lldpad"), "fail" if seen.spec["roce_qos_manage"] else "warn"
    return _each_nic(seen, CHAIN, "%s", None, lambda where, profile, nic: judge_chain(
        where, chain(profile, nic, seen.facts.get("nccl"), lldpad), broken_status))


def judge_boots(seen: Inspection) -> List[Verdict]:
    container = seen.facts.get("virtual") == "container"
    why = "in a container the NIC's settings belong to the machine below" if container else None
    if not seen.spec["roce_qos_manage"] and site_profile(seen.spec["qos_profile"], seen.spec["qos_custom"]) is not None:
        why = "somebody else sets the NICs (roce_qos_manage is false)"
    return _each_nic(seen, BOOT, EXPECTED_AT_BOOT, why, lambda where, profile, nic: judge_boot(where, profile, nic.get("boot") or {}))


def _each_nic(seen: Inspection, check: str, expected: str, nothing_to_judge: Optional[str],
              judge: Callable[[VerdictSubject, QosProfile, Mapping[str, Any]], Verdict]) -> List[Verdict]:
    """One verdict for each NIC of each rail that has a device (one without is ``rail.device``); a bond has several NICs."""
    spec, verdicts = seen.spec, []
    profile = site_profile(spec["qos_profile"], spec["qos_custom"])
    for target in seen.targets:
        if target.hca is None:
            continue
        where = VerdictSubject(seen.node, target.hca.name, target.port, target.label)
        nics = [nic for nic in (seen.facts.get("qos") or {}).get("nics") or []
                if nic.get("hca") == target.hca.name and nic.get("port") == target.port]
        why = FABRIC_WITHOUT.get(spec.fabric) or nothing_to_judge or without_dcb(nics[0] if nics else {"driver": target.hca.driver})
        if why is not None or profile is None:
            verdicts.append(verdict(check, where, "skipped", None, None, why or "the inventory expects nothing (rdma_qos_profile)"))
            continue
        if not nics:
            verdicts.append(unreadable(check, where, expected % profile.name, "the QoS state of the rail's interface"))
        for nic in nics:
            subject = target.label if nic.get("netdev") == target.netdev else "%s, member %s" % (target.label, nic.get("netdev"))
            verdicts.append(judge(where._replace(subject=subject), profile, nic))
    return verdicts


def judge_chain(where: VerdictSubject, links: Sequence[Link], broken_status: str = "fail") -> Verdict:
    """The first link that breaks is the verdict; what breaks after it and what cannot be read is in the message.

    ``broken_status``: only a warning where the inventory leaves the host's side to somebody else (roce_qos_manage).
    """
    broken = [link for link in links if link.state == BREAKS]
    unknown = "; ".join("%s (%s)" % (link.name, link.found) for link in links if link.state == UNKNOWN)
    if broken:
        first = broken[0]
        message = "%s is the first link that breaks: %s, not %s" % (first.name, first.found, first.expected)
        later = "; ".join("%s (%s, not %s)" % (link.name, link.found, link.expected) for link in broken[1:])
        message += ("; later ones that break: " + later if later else "") + ("; not readable: " + unknown if unknown else "")
        return verdict(CHAIN, where, broken_status, "%s: %s" % (first.name, first.expected), "%s: %s" % (first.name, first.found), message)
    expected = ", ".join(link.expected for link in links)
    if unknown:
        holding = " -> ".join(link.name for link in links if link.state == HOLDS) or "none"
        return verdict(CHAIN, where, "unknown", expected, None, "no link is known to break; not readable: %s; these hold: %s" % (
            unknown, holding))
    return verdict(CHAIN, where, "pass", expected, expected, "every link holds: " + " -> ".join(link.name for link in links))


def chain(profile: QosProfile, nic: Mapping[str, Any], nccl: Optional[Mapping[str, Any]], lldpad: Optional[bool]) -> List[Link]:
    """Every link in order. ``nic``: an entry of ``facts["qos"]["nics"]``; ``nccl``: ``facts["nccl"]``.

    A software device has no reaction point and marks no CNPs: ECN is no link of its, and of CNP only the interface's map.
    """
    dscp, mapped = profile.dscp, priorities_of(nic, profile.dscp) or []
    one_entry, on_priority = "one entry for DSCP %d" % dscp, "DSCP %d on priority %d"
    links = [
        _nccl(profile, nccl),
        _told(nic, "DSCP", "forced_tc", "DSCP %d" % dscp, lambda forced: _forced(profile, forced)),
        _told(nic, "trust", "trust", "trust dscp", lambda trust: (trusts_dscp(trust), "trust %s" % trust)),
        _told(nic, "DSCP map", "dscp_priority", one_entry, lambda _pairs: (
            len(mapped) == 1, one_entry if len(mapped) == 1 else "entries for DSCP %d on priorities %s" % (dscp, _list(mapped)))),
        _told(nic, "priority", "dscp_priority", on_priority % (dscp, profile.priority), lambda _pairs: (
            (mapped[0] == profile.priority, on_priority % (dscp, mapped[0])) if len(mapped) == 1
            else (None, "the DSCP map leaves it open"))),
        # Neither less nor more: a priority that is paused besides takes the buffers, and spreads pauses to traffic that may be dropped.
        _told(nic, "PFC", "pfc", "PFC on %s" % _list(profile.lossless), lambda found: (
            sorted(found) == sorted(profile.lossless), "PFC on %s" % _list(found))),
    ]
    if profile.ets:
        links.append(_told(nic, "ETS", "ets", "ETS %s" % _list(profile.ets), lambda ets: (shares(profile, ets), "ETS " + ", ".join(
            "%d%s" % (ets["percent"][tc], "" if ets["tc"].count(tc) == 1 else " shared") for tc in ets["tc"]))))
    if nic.get("driver") not in SOFTWARE:
        links.append(_told(nic, "ECN", "ecn", "ECN on priority %d as notification and reaction point" % profile.priority, lambda ecn: (
            profile.priority in ecn["np"] and profile.priority in ecn["rp"],
            "ECN on %s (np) and %s (rp)" % (_list(ecn["np"]), _list(ecn["rp"])))))
    links.append(_cnp(profile, nic))
    tos = "%s with ToS %d"
    links.append(_told(nic, "RDMA-CM ToS", "rdma_cm", tos % ("RoCE v2", profile.rdma_cm_tos), lambda found: (
        (found["mode"], found["tos"]) == ("RoCE v2", profile.rdma_cm_tos), tos % (found["mode"], found["tos"]))))
    return links + [_dcbx(nic, lldpad)]


def _told(nic: Mapping[str, Any], name: str, part: str, expected: str, judge: Callable[[Any], Tuple[Optional[bool], str]]) -> Link:
    """A link that one part of the NIC's facts tells. ``judge``: whether it holds (None: not known), and how it is."""
    value = nic.get(part)
    if value is None:
        return Link(name, UNKNOWN, expected, str((nic.get("missing") or {}).get(part) or "nothing on this node tells"))
    holds, found = judge(value)
    return Link(name, UNKNOWN if holds is None else HOLDS if holds else BREAKS, expected, found)


def _nccl(profile: QosProfile, nccl: Optional[Mapping[str, Any]]) -> Link:
    """Every file that sets it must say the same DSCP. The ECN bits are free: NICs set them on what may be marked."""
    expected = "%s=%d (%d >> 2 = DSCP %d)" % (VARIABLE, profile.tc, profile.tc, profile.dscp)
    if nccl is None:
        return Link(VARIABLE, UNKNOWN, expected, "the settings of NCCL were not observed")
    places: Dict[str, Mapping[str, str]] = {"/etc/nccl.conf": (nccl.get("conf") or {}).get("variables") or {}}
    places.update(nccl.get("profile_d") or {})
    values = [(place, str(variables[VARIABLE])) for place, variables in places.items() if VARIABLE in variables]
    if not values:
        return Link(VARIABLE, BREAKS, expected, "not set in any file of NCCL's, so that it sends with class 0")
    if any(HIDDEN in text for _place, text in values):
        return Link(VARIABLE, UNKNOWN, expected, "its value is hidden")
    wrong = ["%s=%s in %s" % (VARIABLE, text, place) for place, text in values if not marks(profile, as_int(text))]
    return Link(VARIABLE, BREAKS if wrong else HOLDS, expected, ", ".join(wrong) or "%s=%s" % (VARIABLE, values[0][1]))


def _forced(profile: QosProfile, forced: Sequence[int]) -> Tuple[bool, str]:
    """What leaves the NIC: the driver may put its own class on every queue pair, whatever NCCL asked for."""
    wrong = ["%d >> 2 = DSCP %d" % (tc, dscp_of(tc)) for tc in forced if not marks(profile, tc)]
    return not wrong, "the driver forces class " + ", ".join(wrong) if wrong else "DSCP %d" % profile.dscp


def _cnp(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    """How this NIC marks the CNPs that it sends, and where it puts those that come: the map of its own DSCPs."""
    software = nic.get("driver") in SOFTWARE
    form = "CNP DSCP %d on priority %d" if software else "CNP with DSCP %d on priority %d"
    wanted = (profile.cnp_dscp, profile.cnp_priority)
    expected, cnp, mapped = form % wanted, None if software else nic.get("cnp"), priorities_of(nic, profile.cnp_dscp)
    if cnp is not None and (cnp["dscp"], cnp["priority"]) != wanted:
        return Link("CNP", BREAKS, expected, form % (cnp["dscp"], cnp["priority"]))
    if mapped is not None and mapped != [profile.cnp_priority]:
        return Link("CNP", BREAKS, expected, "DSCP %d mapped to %s" % (profile.cnp_dscp, _list(mapped)))
    return _told(nic, "CNP", "cnp" if cnp is None and not software else "dscp_priority", expected, lambda _value: (True, expected))


def _dcbx(nic: Mapping[str, Any], lldpad: Optional[bool]) -> Link:
    """Another owner takes what the switch sends and writes it over what was set here."""
    expected, name = "DCBX by the host", "DCBX owner"
    if lldpad:
        return Link(name, BREAKS, expected, "lldpad runs and may write over it")
    link = _told(nic, name, "dcbx", expected, lambda owner: (owner == "host", "DCBX by the %s" % owner))
    if link.state != HOLDS or lldpad is False:
        return link
    return Link(name, UNKNOWN, expected, "/proc/net/unix, which shows lldpad, cannot be read")


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "none"


def judge_boot(where: VerdictSubject, profile: QosProfile, boot: Mapping[str, Any]) -> Verdict:
    """Everything that disagrees, in the order in which a boot would meet it."""
    expected, wrong = EXPECTED_AT_BOOT % profile.name, disagreements(profile, boot)
    if not boot:
        return unreadable(BOOT, where, expected, "what sets the NIC at boot")
    if wrong:
        return verdict(BOOT, where, "fail", expected, wrong[0], "; ".join(wrong))
    if boot.get("unit") is None:
        return unreadable(BOOT, where, expected, "the state of the unit that sets the NIC at boot")
    return verdict(BOOT, where, "pass", expected, expected, "inventory, %s, its unit and the NIC agree" % boot.get("file"))


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
