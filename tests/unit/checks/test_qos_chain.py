# SPDX-License-Identifier: GPL-3.0-or-later
"""The lossless chain on trees written from documented formats: whole for every profile, then broken in every single link.

Each broken tree is the whole one with one edit of one file, read and judged the way rdma_check does it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_qos as tree_of

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import (
    BREAKS,
    CHAIN,
    UNKNOWN,
    Link,
    chain,
    judge_chain,
    judge_chains,
)
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, QosProfile
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import observe_nccl
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos import observe_qos
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec

Edit = Callable[[str, QosProfile], str | None]
WRITERS = (tree_of.with_dcb, tree_of.with_mlnx_qos)
APP, DSCP, TOS = tree_of.DCB.format("app"), tree_of.TRAFFIC_CLASS, tree_of.RDMA_CM
ALL_LINKS = ["NCCL_IB_TC", "DSCP", "trust", "DSCP map", "priority", "PFC", "ECN", "CNP", "RDMA-CM ToS", "DCBX owner"]


def to(text: str | dict[str, Any]) -> Edit:
    return lambda _old, _profile: text if isinstance(text, str) else json.dumps(text)


def flags(*on: int) -> Edit:
    return to({"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": [priority in on for priority in range(8)]})


def mapped(which: str, *priorities: int) -> Edit:
    """The APP table with other priorities for one of the profile's two DSCPs; without any it loses its entry."""

    def edit(old: str, profile: QosProfile) -> str:
        dscp = profile.cnp_dscp if which == "cnp" else profile.dscp
        entries = [entry for entry in json.loads(old)["dscp_prio"] if entry[0] != dscp]
        return json.dumps({"dscp_prio": sorted([*entries, *([dscp, priority, " "] for priority in priorities)])})

    return edit


def swapped(old: str, new: str) -> Edit:
    def edit(text: str, _profile: QosProfile) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


def enable(point: str) -> Callable[[QosProfile], str]:
    return lambda profile: f"{tree_of.ECN}/roce_{point}/enable/{profile.priority}"


# (the link that it breaks, the file, the edit); a file may depend on the profile.
BROKEN: list[tuple[str, str | Callable[[QosProfile], str], Edit]] = [
    ("NCCL_IB_TC", tree_of.CONF, to("NCCL_IB_TC=0\n")),
    ("NCCL_IB_TC", tree_of.CONF, to("NCCL_DEBUG=INFO\n")),
    ("NCCL_IB_TC", tree_of.CONF, to("NCCL_IB_TC=nonsense\n")),
    ("NCCL_IB_TC", "etc/profile.d/site.sh", to("export NCCL_IB_TC=184\n")),
    ("DSCP", tree_of.TRAFFIC_CLASS, to("Global tclass=236\n")),
    ("DSCP", tree_of.TRAFFIC_CLASS, to("src_ip=10.10.0.11,tclass=0\n")),
    ("trust", tree_of.DCB.format("apptrust"), to({"order": ["pcp"]})),
    ("trust", tree_of.DCB.format("apptrust"), to({"order": ["pcp", "dscp"]})),
    ("DSCP map", APP, mapped("roce")),
    ("DSCP map", APP, mapped("roce", 0, 3)),
    ("priority", APP, mapped("roce", 0)),
    ("priority", APP, mapped("roce", 7)),
    ("PFC", tree_of.DCB.format("pfc"), flags()),
    ("PFC", tree_of.DCB.format("pfc"), flags(5)),
    ("PFC", tree_of.DCB.format("pfc"), flags(*range(8))),
    ("ECN", enable("np"), to("0\n")),
    ("ECN", enable("rp"), to("0\n")),
    ("CNP", tree_of.ECN + "/roce_np/cnp_dscp", to("4\n")),
    ("CNP", tree_of.ECN + "/roce_np/cnp_802p_prio", to("0\n")),
    ("CNP", APP, mapped("cnp", 0)),
    ("CNP", APP, mapped("cnp")),
    ("RDMA-CM ToS", TOS + "/default_roce_tos", to("0\n")),
    ("RDMA-CM ToS", TOS + "/default_roce_mode", to("IB/RoCE v1\n")),
    ("DCBX owner", tree_of.DCB.format("dcbx"), to({"cee": True, "ieee": True})),
    ("DCBX owner", tree_of.UNIX, to(tree_of.SOCKETS.format("@/com/intel/lldpad"))),
]


def links_of(root: Path, profile: QosProfile) -> list[Link]:
    host = TreeHost(str(root))
    qos = observe_qos(host, observe_identity(host))
    assert [nic["netdev"] for nic in qos["nics"]] == [tree_of.NETDEV]
    return chain(profile, json.loads(json.dumps(qos["nics"][0])), observe_nccl(host), qos["lldpad"])


def judged(root: Path, profile: QosProfile) -> Verdict:
    return judge_chain(VerdictSubject("node", tree_of.HCA, 1, "rail0"), links_of(root, profile))


def states(root: Path, profile: QosProfile, state: str) -> list[str]:
    return [link.name for link in links_of(root, profile) if link.state == state]


def apply_edit(root: Path, path: str, profile: QosProfile, edit: Edit) -> None:
    full = root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    text = edit(full.read_text() if full.exists() else "", profile)
    full.unlink(missing_ok=True)
    if text is not None:
        full.write_text(text)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("profile", QOS_PROFILES, ids=lambda profile: profile.name)
def test_a_whole_chain_written_from_documented_formats_passes(tmp_path: Path, profile: QosProfile, write: Callable[..., Any]) -> None:
    write(tmp_path / "node", profile)
    assert [link.name for link in links_of(tmp_path / "node", profile)] == ALL_LINKS
    verdict = judged(tmp_path / "node", profile)
    assert (verdict.status, verdict.found) == ("pass", verdict.expected)
    assert f"{profile.tc} >> 2 = DSCP {profile.dscp}" in verdict.expected


@pytest.mark.parametrize("profile", QOS_PROFILES, ids=lambda profile: profile.name)
def test_every_single_break_written_from_documented_formats_is_named(tmp_path: Path, profile: QosProfile) -> None:
    tree_of.with_dcb(tmp_path / "whole", profile)
    for number, (name, place, edit) in enumerate(BROKEN):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", root, symlinks=True)
        path = place if isinstance(place, str) else place(profile)
        apply_edit(root, path, profile, edit)
        assert states(root, profile, BREAKS) == [name], (number, path)
        verdict = judged(root, profile)
        assert (verdict.status, verdict.check) == ("fail", "qos.chain")
        assert verdict.expected.startswith(name + ": ")
        assert verdict.found.startswith(name + ": ")
        assert verdict.expected != verdict.found
        assert verdict.message.startswith(f"{name} is the first link that breaks: ")
        assert "later ones" not in verdict.message


def test_every_link_is_broken_by_some_edit() -> None:
    assert list(dict.fromkeys(name for name, _path, _edit in BROKEN)) == ALL_LINKS


MLNX_BROKEN: list[tuple[str, Edit]] = [
    ("trust", swapped("trust state: dscp", "trust state: pcp")),
    ("DSCP map", lambda text, profile: text.replace(f"{profile.dscp:02d},", "")),
    ("PFC", lambda text, _profile: "\n".join("\tenabled     " + "0   " * 8 if "enabled" in line else line for line in text.splitlines())),
    ("DCBX owner", swapped("OS controlled", "Firmware controlled")),
    ("DCBX owner", lambda text, _profile: "****** WARNING: lldpad service is running ******\n" + text.replace("OS con", "Firmware con")),
]


@pytest.mark.parametrize("profile", QOS_PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize(("name", "edit"), MLNX_BROKEN)
def test_every_single_break_in_the_documented_text_of_mlnx_qos_is_named(tmp_path: Path, profile: QosProfile, name: str, edit: Edit) -> None:
    tree_of.with_mlnx_qos(tmp_path / "node", profile)
    apply_edit(tmp_path / "node", tree_of.MLNX_QOS, profile, edit)
    assert states(tmp_path / "node", profile, BREAKS) == [name]
    assert judged(tmp_path / "node", profile).status == "fail"


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (["DSCP"], tree_of.TRAFFIC_CLASS),
        (["trust"], tree_of.DCB.format("apptrust")),
        (["DSCP map", "priority", "CNP"], APP),
        (["PFC"], tree_of.DCB.format("pfc")),
        (["ECN"], tree_of.ECN + "/roce_np/enable/5"),
        (["CNP"], tree_of.ECN + "/roce_np/cnp_dscp"),
        (["RDMA-CM ToS"], TOS + "/default_roce_tos"),
        (["DCBX owner"], tree_of.DCB.format("dcbx")),
        (["DCBX owner"], tree_of.UNIX),
    ],
)
def test_what_cannot_be_read_is_unknown_with_a_reason(tmp_path: Path, names: list[str], path: str) -> None:
    """A directory in the file's place: it exists and gives no text (bonds, VFs and old kernels answer EINVAL or EOPNOTSUPP)."""
    profile = QOS_PROFILES[0]
    tree_of.with_dcb(tmp_path / "node", profile)
    apply_edit(tmp_path / "node", path, profile, lambda _old, _profile: None)
    if not path.startswith("cmd/"):
        (tmp_path / "node" / path).mkdir()
    if path == tree_of.DCB.format("apptrust"):  # with mlx5 the table would tell; other drivers' does not
        shutil.rmtree(tmp_path / "node")
        tree = tree_of.with_dcb(tmp_path / "node", profile)
        (tree.root / path).unlink()
        (tree.root / "sys/devices" / tree_of.PCI / "driver").unlink()
        tree.link(f"sys/devices/{tree_of.PCI}/driver", "sys/bus/pci/drivers/bnxt_en")
    assert states(tmp_path / "node", profile, UNKNOWN) == names
    assert states(tmp_path / "node", profile, BREAKS) == []
    verdict = judged(tmp_path / "node", profile)
    assert (verdict.status, verdict.found) == ("unknown", None)
    reasons = {link.name: link.found for link in links_of(tmp_path / "node", profile) if link.state == UNKNOWN}
    assert all(f"{name} ({reasons[name]})" in verdict.message for name in names)
    assert "nothing on this node tells" not in verdict.message


def test_the_first_broken_link_is_the_verdict_and_the_others_are_listed(tmp_path: Path) -> None:
    profile = QOS_PROFILES[0]
    tree_of.with_dcb(tmp_path / "node", profile)
    apply_edit(tmp_path / "node", tree_of.DCB.format("pfc"), profile, flags())
    apply_edit(tmp_path / "node", tree_of.ECN + "/roce_np/cnp_dscp", profile, to("4\n"))
    apply_edit(tmp_path / "node", tree_of.DCB.format("dcbx"), profile, lambda _old, _profile: None)
    verdict = judged(tmp_path / "node", profile)
    assert (verdict.expected, verdict.found) == ("PFC: PFC on 3", "PFC: PFC on none")
    assert "later ones that break: CNP (CNP with DSCP 4 on priority 6, not CNP with DSCP 48 on priority 6)" in verdict.message
    assert "not readable: DCBX owner (dcb dcbx: " in verdict.message


def test_nccls_traffic_class_may_set_ecn_bits_but_not_the_congestion_mark(tmp_path: Path) -> None:
    profile = QOS_PROFILES[0]
    tree_of.with_dcb(tmp_path / "node", profile)
    for tc, breaks in ((104, []), (105, []), (0x6A, []), (107, ["NCCL_IB_TC"])):
        apply_edit(tmp_path / "node", tree_of.CONF, profile, to(f"NCCL_IB_TC={tc}\n"))
        assert states(tmp_path / "node", profile, BREAKS) == breaks


def test_a_traffic_class_that_a_bundle_hides_is_unknown() -> None:
    links = chain(QOS_PROFILES[0], {}, {"conf": {"variables": {"NCCL_IB_TC": "(hidden)"}}, "profile_d": {}}, None)
    assert (links[0].state, links[0].found) == ("unknown", "its value is hidden")


def test_shares_are_a_link_where_the_profile_has_them(tmp_path: Path) -> None:
    profile = QOS_PROFILES[0]._replace(ets=(20, 0, 0, 80, 0, 0, 0, 0))
    for write in WRITERS:
        write(tmp_path / "node", profile)
        assert [link.name for link in links_of(tmp_path / "node", profile)][5:8] == ["PFC", "ETS", "ECN"]
        assert judged(tmp_path / "node", profile).status == "pass"
    tree_of.with_dcb(tmp_path / "node", profile)
    path = tmp_path / "node" / tree_of.DCB.format("ets")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "tc_bw": [80, 0, 0, 20, 0, 0, 0, 0]}))
    assert states(tmp_path / "node", profile, BREAKS) == ["ETS"]
    path.write_text(json.dumps({**document, "prio_tc": [0, 0, 0, 3, 0, 0, 0, 0]}))  # 20 percent, but of six priorities together
    assert states(tmp_path / "node", profile, BREAKS) == ["ETS"]


def test_a_priority_that_the_site_maps_itself_is_the_one_that_is_judged(tmp_path: Path) -> None:
    profile = QOS_PROFILES[0]._replace(mapped=5, lossless=(5,))
    tree_of.with_dcb(tmp_path / "node", profile)
    assert judged(tmp_path / "node", profile).status == "pass"
    assert states(tmp_path / "node", QOS_PROFILES[0], BREAKS) == ["priority", "PFC", "ECN"]


def spec_of(**values: Any) -> Spec:
    rails = [{"name": "rail0", "match": {"mac": tree_of.MAC}, "address": "10.10.0.11/24"}]
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": rails, **values}, "node")
    assert spec is not None, errors_of(findings)
    return spec


def of_node(root: Path, spec: Spec) -> list[Verdict]:
    host = TreeHost(str(root))
    identity = observe_identity(host)
    facts = json.loads(json.dumps(observe_facts(host, identity)))
    return [item for _area, item in judge_node(inspection_of("node", spec, identity, facts)) if item.check == CHAIN]


def test_a_rail_of_a_node_is_judged_against_the_profile_of_its_site(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path / "node", QOS_PROFILES[0])
    found = of_node(tmp_path / "node", spec_of())
    assert [(item.status, item.hca, item.port, item.subject) for item in found] == [("pass", "mlx5_0", 1, "rail0 (eth1)")]
    found = of_node(tmp_path / "node", spec_of(qos_profile="scnet-dscp34-prio4"))
    assert [item.status for item in found] == ["fail"]
    assert found[0].expected == "NCCL_IB_TC: NCCL_IB_TC=136 (136 >> 2 = DSCP 34)"


def test_a_broken_chain_that_the_inventory_does_not_manage_only_warns(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path / "node", QOS_PROFILES[0])
    apply_edit(tmp_path / "node", tree_of.DCB.format("pfc"), QOS_PROFILES[0], flags())
    assert [item.status for item in of_node(tmp_path / "node", spec_of(roce_qos_manage=False))] == ["warn"]
    assert [item.status for item in of_node(tmp_path / "node", spec_of())] == ["fail"]


def soft_nic(root: Path) -> dict[str, Any]:
    host = TreeHost(str(root))
    identity = observe_identity(host)
    identity = identity._replace(hcas=tuple(hca._replace(driver="rdma_rxe") for hca in identity.hcas))
    nic: dict[str, Any] = json.loads(json.dumps(observe_qos(host, identity)["nics"][0]))
    return nic


def test_a_software_device_is_judged_by_the_dcb_of_its_interface(tmp_path: Path) -> None:
    profile = QOS_PROFILES[0]
    tree_of.with_dcb(tmp_path, profile)
    nic = soft_nic(tmp_path)
    assert (nic["pfc"], nic["ecn"], nic["cnp"], nic["dcbx"]) == ([3], None, None, "host")
    links = chain(profile, nic, {"conf": {"variables": {"NCCL_IB_TC": "106"}}, "profile_d": {}}, False)
    assert [link.name for link in links] == [name for name in ALL_LINKS if name != "ECN"]
    assert judge_chain(VerdictSubject("node", "rxe0", 1, "rail0"), links).status == "pass"
    broken = chain(profile, {**nic, "dscp_priority": [[26, 3], [48, 0]]}, {"conf": {"variables": {"NCCL_IB_TC": "106"}}}, False)
    assert [(link.name, link.found) for link in broken if link.state == BREAKS] == [("CNP", "DSCP 48 mapped to 0")]


def test_a_software_device_over_dcb_without_apptrust_lacks_only_the_trust(tmp_path: Path) -> None:
    """iproute2 6.1 has no apptrust, and the driver is not mlx5: who trusts what cannot be read, and the rest is judged."""
    tree = tree_of.with_dcb(tmp_path, QOS_PROFILES[0])
    (tmp_path / tree_of.DCB.format("apptrust")).unlink()
    (tree.root / "sys/devices" / tree_of.PCI / "driver").unlink()
    tree.link(f"sys/devices/{tree_of.PCI}/driver", "sys/bus/pci/drivers/virtio_net")
    links = chain(QOS_PROFILES[0], soft_nic(tmp_path), {"conf": {"variables": {"NCCL_IB_TC": "106"}}}, False)
    assert [link.name for link in links if link.state == UNKNOWN] == ["trust"]
    verdict = judge_chain(VerdictSubject("node", "rxe0", 1, "rail0"), links)
    assert verdict.status == "unknown"
    assert "these hold: NCCL_IB_TC -> DSCP -> DSCP map -> priority -> PFC" in verdict.message


@pytest.mark.parametrize(
    ("name", "values", "match", "reason"),
    [
        ("rxe", {"rdma_stack": "soft_roce"}, {"mac": "52:54:00:bb:00:01"}, "Soft-RoCE has no DCB"),
        ("ib8", {"fabric": "infiniband", "mtu": 4092}, {"guid": "b8ce:f603:00ab:0000"}, "InfiniBand has credit-based flow control"),
        ("erdma2", {"fabric": "erdma", "mtu": 8500}, {"mac": "00:16:3e:11:22:01"}, "eRDMA has no DCB"),
        ("roce8-bond", {"qos_profile": "none"}, {"pci": "0000:30:00.0"}, "the inventory expects nothing (rdma_qos_profile)"),
    ],
)
def test_what_has_no_chain_is_skipped_with_its_reason(
    nodes: Path, name: str, values: dict[str, Any], match: dict[str, str], reason: str
) -> None:
    rails = [{"name": "rail0", "match": match, "address": "10.10.0.11/24"}]
    found = of_node(nodes / name, spec_of(**values, rails=rails))
    assert [(item.check, item.status, item.expected) for item in found] == [("qos.chain", "skipped", None)]
    assert reason in found[0].message


def test_soft_roce_beside_hardware_is_told_by_its_driver(nodes: Path) -> None:
    """The stack of the inventory does not decide: a device of rxe has no DCB under any."""
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:bb:00:01"}, "address": "10.10.0.11/24"}]
    assert [item.status for item in of_node(nodes / "rxe", spec_of(rails=rails))] == ["skipped"]


def test_every_member_of_a_bond_is_judged(nodes: Path) -> None:
    """The bond has no DCB of its own; what nobody recorded of the members is unknown, and NCCL_IB_TC is known to be missing."""
    rails = [{"name": "storage", "match": {"mac": "b8:ce:f6:00:20:00"}, "address": "10.20.0.11/24"}]
    found = of_node(nodes / "roce8-bond", spec_of(rails=rails))
    assert len(found) == 2
    assert all(item.subject.startswith("storage (bond0), member ") for item in found)


def test_the_other_port_of_an_hca_is_another_rails(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path / "node", QOS_PROFILES[0])
    host = TreeHost(str(tmp_path / "node"))
    identity, spec = observe_identity(host), spec_of()
    facts = observe_facts(host, identity)
    facts["qos"]["nics"].append({**facts["qos"]["nics"][0], "port": 2, "netdev": "eth2", "pfc": []})
    assert [(item.status, item.port) for item in judge_chains(inspection_of("node", spec, identity, facts))] == [("pass", 1)]


def test_a_device_that_the_facts_do_not_hold_is_unknown(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path / "node", QOS_PROFILES[0])
    host = TreeHost(str(tmp_path / "node"))
    spec = spec_of()
    assert [item.status for item in judge_chains(inspection_of("node", spec, observe_identity(host), {}))] == ["unknown"]
