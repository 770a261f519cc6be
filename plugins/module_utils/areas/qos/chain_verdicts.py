# SPDX-License-Identifier: GPL-3.0-or-later
"""The lossless chain of one NIC, link by link, against the site's QoS profile. Pure.

NCCL_IB_TC -> DSCP -> trust -> DSCP map -> priority -> PFC -> ECN -> CNP -> RDMA-CM ToS -> DCBX owner. Each link alone
looks fine in its own tool and nothing complains when two of them disagree: the traffic is dropped under load, and RDMA
is slow without an error. So the verdict names the first link that breaks; the later ones are in its message.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...catalogue.qos import QosProfile, dscp_of, site_profile
from ...observe.qos import SOFTWARE, WITHOUT_DCB
from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...rules.path_mtu import as_int
from ...types import Verdict
from .fit import marks, priorities_of, shares, trusts_dscp, without_dcb

CHECK = "qos.chain"
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
    """One verdict for each NIC of each rail that has a device (one without is ``rail.device``); a bond has several NICs."""
    spec, facts, verdicts = seen.spec, seen.facts, []
    profile = site_profile(spec["qos_profile"], spec["qos_custom"])
    qos = facts.get("qos") or {}
    for target in seen.targets:
        if target.hca is None:
            continue
        where = Where(seen.node, target.hca.name, target.port, target.label)
        nics = [nic for nic in qos.get("nics") or [] if nic.get("hca") == target.hca.name and nic.get("port") == target.port]
        why = FABRIC_WITHOUT.get(spec.fabric) or without_dcb(nics[0] if nics else {"driver": target.hca.driver})
        if why is not None or profile is None:
            verdicts.append(verdict(CHECK, where, "skipped", None, None, why or "the inventory expects nothing (rdma_qos_profile)"))
            continue
        if not nics:
            verdicts.append(unreadable(CHECK, where, profile.name, "the QoS state of the rail's interface"))
        for nic in nics:
            subject = target.label if nic.get("netdev") == target.netdev else "%s, member %s" % (target.label, nic.get("netdev"))
            links = chain(profile, nic, facts.get("nccl"), qos.get("lldpad"))
            verdicts.append(judge_chain(where._replace(subject=subject), links, "fail" if spec["roce_qos_manage"] else "warn"))
    return verdicts


def judge_chain(where: Where, links: Sequence[Link], broken_status: str = "fail") -> Verdict:
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
        return verdict(CHECK, where, broken_status, "%s: %s" % (first.name, first.expected), "%s: %s" % (first.name, first.found), message)
    expected = ", ".join(link.expected for link in links)
    if unknown:
        holding = " -> ".join(link.name for link in links if link.state == HOLDS) or "none"
        return verdict(CHECK, where, "unknown", expected, None, "no link is known to break; not readable: %s; these hold: %s" % (
            unknown, holding))
    return verdict(CHECK, where, "pass", expected, expected, "every link holds: " + " -> ".join(link.name for link in links))


def chain(profile: QosProfile, nic: Mapping[str, Any], nccl: Optional[Mapping[str, Any]], lldpad: Optional[bool]) -> List[Link]:
    """Every link in order. ``nic``: an entry of ``facts["qos"]["nics"]``; ``nccl``: ``facts["nccl"]``.

    A software device has no reaction point and marks no CNPs: ECN is no link of its, and of CNP only the interface's map.
    """
    links = [
        _nccl(profile, nccl), _dscp(profile, nic), _trust(nic), _map(profile, nic), _priority(profile, nic), _pfc(profile, nic)]
    if profile.ets:
        links.append(_ets(profile, nic))
    links += [_cnp_map(profile, nic)] if nic.get("driver") in SOFTWARE else [_ecn(profile, nic), _cnp(profile, nic)]
    return links + [_rdma_cm(profile, nic), _dcbx(nic, lldpad)]


def _link(name: str, holds: bool, expected: str, found: str) -> Link:
    return Link(name, HOLDS if holds else BREAKS, expected, found)


def _unknown(name: str, expected: str, nic: Mapping[str, Any], part: str) -> Link:
    return Link(name, UNKNOWN, expected, str((nic.get("missing") or {}).get(part) or "nothing on this node tells"))


def _nccl(profile: QosProfile, nccl: Optional[Mapping[str, Any]]) -> Link:
    """Every file that sets it must say the same DSCP. The ECN bits are free: NICs set them on what may be marked."""
    expected = "%s=%d (%d >> 2 = DSCP %d)" % (VARIABLE, profile.tc, profile.tc, profile.dscp)
    if nccl is None:
        return Link(VARIABLE, UNKNOWN, expected, "the settings of NCCL were not observed")
    places: Dict[str, Mapping[str, str]] = {"/etc/nccl.conf": (nccl.get("conf") or {}).get("variables") or {}}
    places.update(nccl.get("profile_d") or {})
    values = [(place, str(variables[VARIABLE])) for place, variables in places.items() if VARIABLE in variables]
    if not values:
        return _link(VARIABLE, False, expected, "not set in any file of NCCL's, so that it sends with class 0")
    wrong = ["%s=%s in %s" % (VARIABLE, text, place) for place, text in values if not marks(profile, as_int(text))]
    return _link(VARIABLE, not wrong, expected, ", ".join(wrong) or "%s=%s" % (VARIABLE, values[0][1]))


def _dscp(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    """What leaves the NIC: the driver may put its own class on every queue pair, whatever NCCL asked for."""
    expected, forced = "DSCP %d" % profile.dscp, nic.get("forced_tc")
    if forced is None:
        return _unknown("DSCP", expected, nic, "forced_tc")
    wrong = ["%d >> 2 = DSCP %d" % (tc, dscp_of(tc)) for tc in forced if not marks(profile, tc)]
    return _link("DSCP", not wrong, expected, "the driver forces class " + ", ".join(wrong) if wrong else expected)


def _trust(nic: Mapping[str, Any]) -> Link:
    expected, trust = "trust dscp", nic.get("trust")
    if trust is None:
        return _unknown("trust", expected, nic, "trust")
    return _link("trust", trusts_dscp(trust), expected, "trust %s" % trust)


def _map(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    expected, mapped = "one entry for DSCP %d" % profile.dscp, priorities_of(nic, profile.dscp)
    if mapped is None:
        return _unknown("DSCP map", expected, nic, "dscp_priority")
    if len(mapped) == 1:
        return _link("DSCP map", True, expected, expected)
    return _link("DSCP map", False, expected, "entries for DSCP %d on priorities %s" % (profile.dscp, _list(mapped)))


def _priority(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    expected, mapped = "DSCP %d on priority %d" % (profile.dscp, profile.priority), priorities_of(nic, profile.dscp)
    if mapped is None:
        return _unknown("priority", expected, nic, "dscp_priority")
    if len(mapped) != 1:
        return Link("priority", UNKNOWN, expected, "the DSCP map leaves it open")
    return _link("priority", mapped[0] == profile.priority, expected, "DSCP %d on priority %d" % (profile.dscp, mapped[0]))


def _pfc(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    """Neither less nor more: a priority that is paused besides takes the buffers, and spreads pauses to traffic that may be dropped."""
    expected, found = "PFC on %s" % _list(profile.lossless), nic.get("pfc")
    if found is None:
        return _unknown("PFC", expected, nic, "pfc")
    return _link("PFC", sorted(found) == sorted(profile.lossless), expected, "PFC on %s" % _list(found))


def _ets(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    """The share of each priority, which it has of its own only in a traffic class of its own."""
    expected, ets = "ETS %s" % _list(profile.ets), nic.get("ets")
    if ets is None:
        return _unknown("ETS", expected, nic, "ets")
    found = ["%d" % ets["percent"][tc] if ets["tc"].count(tc) == 1 else "%d shared" % ets["percent"][tc] for tc in ets["tc"]]
    return _link("ETS", shares(profile, ets), expected, "ETS %s" % ", ".join(found))


def _ecn(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    expected, ecn = "ECN on priority %d as notification and reaction point" % profile.priority, nic.get("ecn")
    if ecn is None:
        return _unknown("ECN", expected, nic, "ecn")
    holds = profile.priority in ecn["np"] and profile.priority in ecn["rp"]
    return _link("ECN", holds, expected, "ECN on %s (np) and %s (rp)" % (_list(ecn["np"]), _list(ecn["rp"])))


def _cnp(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    """How this NIC marks the CNPs that it sends, and where it puts those that come: the map of its own DSCPs."""
    form = "CNP with DSCP %d on priority %d"
    expected, cnp, mapped = form % (profile.cnp_dscp, profile.cnp_priority), nic.get("cnp"), priorities_of(nic, profile.cnp_dscp)
    if cnp is not None and (cnp["dscp"], cnp["priority"]) != (profile.cnp_dscp, profile.cnp_priority):
        return _link("CNP", False, expected, form % (cnp["dscp"], cnp["priority"]))
    if mapped is not None and mapped != [profile.cnp_priority]:
        return _link("CNP", False, expected, "DSCP %d mapped to %s" % (profile.cnp_dscp, _list(mapped)))
    if cnp is None or mapped is None:
        return _unknown("CNP", expected, nic, "cnp" if cnp is None else "dscp_priority")
    return _link("CNP", True, expected, expected)


def _cnp_map(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    expected, mapped = "CNP DSCP %d on priority %d" % (profile.cnp_dscp, profile.cnp_priority), priorities_of(nic, profile.cnp_dscp)
    if mapped is None:
        return _unknown("CNP", expected, nic, "dscp_priority")
    return _link("CNP", mapped == [profile.cnp_priority], expected,
                 expected if mapped == [profile.cnp_priority] else "DSCP %d mapped to %s" % (profile.cnp_dscp, _list(mapped)))


def _rdma_cm(profile: QosProfile, nic: Mapping[str, Any]) -> Link:
    expected, found = "RoCE v2 with ToS %d" % profile.rdma_cm_tos, nic.get("rdma_cm")
    if found is None:
        return _unknown("RDMA-CM ToS", expected, nic, "rdma_cm")
    text = "%s with ToS %d" % (found["mode"], found["tos"])
    return _link("RDMA-CM ToS", text == expected, expected, text)


def _dcbx(nic: Mapping[str, Any], lldpad: Optional[bool]) -> Link:
    """Another owner takes what the switch sends and writes it over what was set here."""
    expected, owner = "DCBX by the host", nic.get("dcbx")
    if lldpad:
        return _link("DCBX owner", False, expected, "lldpad runs and may write over it")
    if owner not in (None, "host"):
        return _link("DCBX owner", False, expected, "DCBX by the %s" % owner)
    if owner is None:
        return _unknown("DCBX owner", expected, nic, "dcbx")
    return _link("DCBX owner", True, expected, expected) if lldpad is False else Link(
        "DCBX owner", UNKNOWN, expected, "/proc/net/unix, which shows lldpad, cannot be read")


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "none"
