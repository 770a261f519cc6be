# SPDX-License-Identifier: GPL-3.0-or-later
"""The area on doubles of dcb, mlnx_qos and the kernel's files: set once, then nothing; broken links named; everything reverted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_qos
from tests.fixtures.double_of_dcb import Refused

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos import roce_qos
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import BREAKS, UNKNOWN, chain
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos import observe_qos
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Nic

MakeNode = Callable[..., Any]
REVERTED = "test. Everything was rolled back; the node is as it was."
CUSTOM = {"tc": 106, "ets": [20, 0, 0, 80, 0, 0, 0, 0]}
BUFFERS = {"bytes": [130944, 130944, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 1, 0, 0, 0, 0]}
EVERYTHING = {"qos_profile": "custom", "qos_custom": CUSTOM, "roce_qos_buffers": BUFFERS, "roce_qos_force_tc": True}
LINK = " of rail0 (eth1)"
ALWAYS = [f"PFC{LINK}", f"DSCP map{LINK}"]
FILES = [f"ECN{LINK}", f"CNP marking{LINK}", f"RDMA-CM default{LINK}"]
CM = f"/sys/kernel/config/rdma_cm/{node_qos.HCA}/ports/1"
# Which tools, mlx5 or another driver -> the changes of trust that they make.
NODES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("dcb 6.1 on mlx5", {"tools": ("dcb",)}, []),
    ("dcb with apptrust", {"tools": ("dcb",), "mlx5": False, "apptrust": True}, [f"DSCP trust{LINK}"]),
    ("mlnx_qos", {"tools": ("mlnx_qos",)}, [f"DSCP trust{LINK}"]),
    ("both", {"tools": ("dcb", "mlnx_qos")}, [f"DSCP trust{LINK}"]),
    ("mlnx_qos asked for", {"tools": ("dcb", "mlnx_qos"), "roce_qos_backend": "mlnx_qos"}, [f"DSCP trust{LINK}"]),
]
by_node = pytest.mark.parametrize(("tools", "trust"), [row[1:] for row in NODES], ids=[row[0] for row in NODES])


def refused(_dscp: int, _priority: int) -> None:
    raise Refused("RTNETLINK answers: Invalid argument")


def links(node: Any, state: str) -> list[str]:
    identity = node.identity()
    qos = observe_qos(node.node, identity)
    profile = site_profile(node.spec["qos_profile"], node.spec["qos_custom"])
    assert profile is not None, "every inventory here has one"
    nccl = {"conf": {"variables": {"NCCL_IB_TC": str(profile.tc)}}}
    return [link.name for link in chain(profile, qos["nics"][0], nccl, qos["lldpad"]) if link.state == state]


@by_node
@pytest.mark.parametrize("profile", [profile.name for profile in QOS_PROFILES])
def test_a_bare_nic_gets_the_profile_and_a_second_look_finds_nothing(
    make_node: MakeNode, tools: dict[str, Any], trust: list[str], profile: str
) -> None:
    node = make_node(**tools, qos_profile=profile)
    assert node.whats() == [*trust, *ALWAYS, *FILES]
    node.apply()
    assert node.whats() == []
    assert (links(node, BREAKS), links(node, UNKNOWN)) == ([], [])
    assert node.plan() == []


def test_boot_sets_everything_by_the_same_tools_until_the_profile_goes(make_node: MakeNode) -> None:
    node = make_node(mlx5=False, apptrust=True)
    assert node.whats(boot=True)[-2:] == ["file /etc/railwright/roce-qos/eth1", "unit railwright-roce-qos@eth1.service enabled"]
    node.apply()
    text = node.node.read("/etc/railwright/roce-qos/eth1")
    assert "run\tdcb\tpfc\tset\tdev\teth1\tprio-pfc\tall:off\t3:on\n" in text
    assert f"value\t{CM}/default_roce_tos\t106\n" in text
    assert (node.whats(), node.whats(boot=True)) == ([], [])
    node.node.driver.pfc.clear()  # what is set at boot is the same, whatever is set now
    assert (node.whats(), node.whats(boot=True)) == ([f"PFC{LINK}"], [])
    node.spec = type(node.spec)({**node.spec.as_dict(), "qos_profile": "none"})
    assert (node.whats(), "file /etc/railwright/roce-qos/eth1" in node.whats(boot=True)) == ([], True)
    node.apply()
    assert node.plan() == []
    assert not node.node.exists("/etc/railwright/roce-qos/eth1")


@by_node
def test_shares_buffers_and_a_forced_class_too(make_node: MakeNode, tools: dict[str, Any], trust: list[str]) -> None:
    node = make_node(**tools, **EVERYTHING)
    more = [f"ETS{LINK}", f"receive buffers{LINK}"]
    assert node.whats() == [*trust, *ALWAYS, *more, *FILES, f"forced traffic class{LINK}"]
    node.apply()
    assert node.whats() == []
    assert node.node.driver.ets["bw"][3] == 80
    assert node.node.driver.buffers["of"] == BUFFERS["priorities"]
    assert node.node.read("/" + node_qos.TRAFFIC_CLASS) == "Global tclass=106\n"
    assert (links(node, BREAKS), links(node, UNKNOWN)) == ([], [])


@by_node
def test_a_roll_back_leaves_the_nic_as_it_was(make_node: MakeNode, tools: dict[str, Any], trust: list[str]) -> None:
    node = make_node(**tools, **EVERYTHING)
    node.node.driver.dcbx.remove("host")  # the firmware's, with mlx5; dcb cannot give that back, see below
    if tools["tools"] == ("dcb",) and tools.get("mlx5", True):
        node.node.driver.dcbx.insert(0, "host")
    before = node.state()
    journal = node.apply()
    assert node.state() != before
    assert node.reverted(journal) == REVERTED
    assert node.state() == before


def test_dcb_takes_dcbx_from_mlx5s_firmware_and_warns_if_it_stays(make_node: MakeNode) -> None:
    node = make_node()
    node.node.driver.dcbx = ["cee", "ieee"]
    assert node.whats()[0] == f"DCBX owner{LINK}"
    journal = node.apply()
    assert node.node.driver.dcbx == ["host", "ieee"]
    said = node.reverted(journal)
    assert said.startswith("test. ROLLBACK INCOMPLETE: roce_qos: DCBX owner of rail0 (eth1): dcb dcbx set dev eth1 cee ieee: exit 254")
    assert ";" not in said


# (what somebody does to a NIC that was right, the one change that fixes it)
BROKEN: list[tuple[Callable[[Any], object], str]] = [
    (lambda node: node.driver.pfc.clear(), "PFC"),
    (lambda node: node.driver.pfc.add(5), "PFC"),
    (lambda node: node.driver.apps.remove((26, 3)), "DSCP map"),
    (lambda node: node.driver.apps.add((26, 0)), "DSCP map"),
    (lambda node: node.driver.apps.remove((48, 6)), "DSCP map"),
    (lambda node: node.driver.trust.reverse(), ""),
    (lambda node: node.driver.trust.__setitem__(slice(None), ["pcp", "dscp"]), "DSCP trust"),
    (lambda node: node.driver.trust.clear(), "DSCP trust"),
    (lambda node: node.driver.dcbx.remove("host"), "DCBX owner"),
    (lambda node: node.driver.ets["bw"].__setitem__(slice(None), [80, 0, 0, 20, 0, 0, 0, 0]), "ETS"),
    (lambda node: node.driver.ets["tc"].__setitem__(4, 3), "ETS"),
    (lambda node: node.driver.buffers["of"].__setitem__(3, 0), "receive buffers"),
    (lambda node: node.put(f"/{node_qos.ECN}/roce_rp/enable/3", "0\n"), "ECN"),
    (lambda node: node.put(f"/{node_qos.ECN}/roce_np/enable/3", "0\n"), "ECN"),
    (lambda node: node.put(f"/{node_qos.ECN}/roce_np/enable/5", "1\n"), ""),
    (lambda node: node.put(f"/{node_qos.ECN}/roce_np/cnp_dscp", "26\n"), "CNP marking"),
    (lambda node: node.put(f"/{node_qos.ECN}/roce_np/cnp_802p_prio", "3\n"), "CNP marking"),
    (lambda node: node.put(f"{CM}/default_roce_tos", "0\n"), "RDMA-CM default"),
    (lambda node: node.put(f"{CM}/default_roce_mode", "IB/RoCE v1\n"), "RDMA-CM default"),
    (lambda node: node.put("/" + node_qos.TRAFFIC_CLASS, "Global tclass=96\n"), "forced traffic class"),
]


def test_every_broken_link_is_one_change_that_applies_and_reverts(make_node: MakeNode) -> None:
    for number, (spoil, what) in enumerate(BROKEN):
        node = make_node(mlx5=False, apptrust=True, **EVERYTHING)
        node.apply()
        spoil(node.node)
        spoilt = node.state()
        assert node.whats() == ([what + LINK] if what else []), number
        journal = node.apply()
        assert node.whats() == [], number
        assert node.reverted(journal) == REVERTED
        assert node.state() == spoilt, number


def test_other_dscps_and_other_priorities_of_ecn_are_not_ours(make_node: MakeNode) -> None:
    node = make_node(mlx5=False, apptrust=True)
    node.node.driver.apps = {(10, 1), (34, 4), (26, 0), (26, 5)}
    node.node.put(f"/{node_qos.ECN}/roce_np/enable/5", "1\n")
    node.apply()
    assert node.node.driver.apps == {(10, 1), (34, 4), (26, 3), (48, 6)}
    assert node.node.line(f"/{node_qos.ECN}/roce_np/enable/5") == "1"


def test_a_plan_shows_what_was_and_what_will_be(make_node: MakeNode) -> None:
    node = make_node(mlx5=False, apptrust=True)
    node.node.driver.pfc, node.node.driver.apps = {4}, {(26, 0), (26, 5)}
    node.node.put("/" + node_qos.TRAFFIC_CLASS, "Global tclass=96\n")
    changes = {change.what.removesuffix(LINK): change for change in node.plan()}
    assert (changes["PFC"].before, changes["PFC"].after) == ([4], [3])
    assert changes["DSCP map"].before == {"26": [0, 5], "48": []}
    assert changes["DSCP map"].after == {"26": [3], "48": [6]}
    assert (changes["DSCP trust"].before, changes["DSCP trust"].after) == ("pcp", "dscp")
    assert (changes["forced traffic class"].before, changes["forced traffic class"].after) == ([96], [106])
    assert changes["RDMA-CM default"].before is None
    assert all(change.area == "roce_qos" and change.why and change.source for change in changes.values())


def test_a_short_stop_of_the_nic_needs_consent_only_if_the_rail_is_up(make_node: MakeNode) -> None:
    changes = make_node(mlx5=False, apptrust=True).plan()
    carrying = {change.what.removesuffix(LINK): change.disruption for change in changes if change.what.endswith(LINK)}
    assert carrying == {"DSCP trust": "link", "PFC": "link", "DSCP map": "link", "ECN": "none", "CNP marking": "none",
                        "RDMA-CM default": "none"}  # fmt: skip
    assert {change.disruption for change in make_node(address=False).plan()} == {"none"}


def test_a_dcb_whose_kernel_refuses_is_found_by_reading_back(make_node: MakeNode) -> None:
    """``dcb app replace`` exits 0 whatever happens."""
    node = make_node(mlx5=False, apptrust=True)

    node.node.driver.add = refused
    node.apply()
    assert node.whats() == [f"DSCP map{LINK}"]


def test_without_apptrust_another_drivers_trust_is_noted_and_not_planned(make_node: MakeNode) -> None:
    node = make_node(mlx5=False)
    assert node.whats() == [*ALWAYS, *FILES]
    node.apply()
    assert node.whats() == []
    assert len(node.notes()) == 1
    assert node.notes()[0].startswith('rail0 (eth1): DSCP trust left alone: dcb apptrust: Object "apptrust" is unknown')


def test_without_any_tool_there_is_a_note_and_only_files_are_set(make_node: MakeNode) -> None:
    node = make_node(tools=())
    assert node.whats() == FILES
    assert node.notes() == [
        (
            "rail0 (eth1): DCBX owner, DSCP trust, PFC, DSCP map left alone: no dcb (iproute2 5.11 or later) on this node; "
            "no mlnx_qos (OFED and DOCA have it)"
        )
    ]


def test_a_backend_that_the_node_lacks_leaves_its_parts_with_a_note(make_node: MakeNode) -> None:
    node = make_node(roce_qos_backend="mlnx_qos")
    assert node.whats() == FILES
    assert "roce_qos_backend is mlnx_qos, and that cannot set it here" in node.notes()[0]


def test_the_kernels_own_driver_has_no_ecn_files_and_its_cnp_in_debugfs(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(ofed=False)
    assert node.whats() == [*ALWAYS, f"RDMA-CM default{LINK}"]
    assert "rail0 (eth1): ECN left alone: no /sys/class/net/eth1/ecn: only the driver of OFED and DOCA has it" in node.notes()
    root = "/sys/kernel/debug/mlx5/0000:31:00.0/cc_params"
    node.node.put(root + "/np_cnp_dscp", "4\n")
    node.node.put(root + "/np_cnp_prio", "0\n")
    node.apply()
    assert node.whats() == []
    assert (node.node.line(root + "/np_cnp_dscp"), node.node.line(root + "/np_cnp_prio")) == ("48", "6")


def test_a_class_that_is_forced_by_address_is_left_with_a_note(make_node: MakeNode) -> None:
    node = make_node()
    node.node.put("/" + node_qos.TRAFFIC_CLASS, "src_ip=10.10.0.11,tclass=8\n")
    assert node.whats() == [*ALWAYS, *FILES]
    assert any("rules by address" in note for note in node.notes())


def test_configfs_that_nobody_mounted_is_mounted(make_node: MakeNode) -> None:
    node = make_node()
    (node.node.base / "sys/kernel/config/rdma_cm/.keep").unlink()
    (node.node.base / "sys/kernel/config/rdma_cm").rmdir()
    journal = node.apply()
    commands = [command for command in node.node.commands if command[0] in ("modprobe", "mkdir") or command[1:2] == ("start",)]
    assert commands == [("modprobe", "rdma_cm"), ("systemctl", "start", "sys-kernel-config.mount"),
                        ("mkdir", "-p", "/sys/kernel/config/rdma_cm/mlx5_0")]  # fmt: skip
    assert node.whats() == []
    assert node.reverted(journal) == REVERTED
    assert not node.node.exists("/sys/kernel/config/rdma_cm/mlx5_0")


LLDPAD = {"lldpad.service": {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled"},
          "lldpad.socket": {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled"}}  # fmt: skip


def test_lldpad_is_stopped_for_good_and_comes_back_with_a_roll_back(make_node: MakeNode) -> None:
    node = make_node()
    node.node.units = {name: dict(unit) for name, unit in LLDPAD.items()}
    node.node.put("/proc/net/unix", node_qos.SOCKETS.format("@/com/intel/lldpad"))
    first = node.plan()[0]
    assert (first.what, first.disruption) == ("lldpad stopped", "restart")
    assert node.conflicts() == []
    journal = node.apply()
    assert node.whats() == []
    assert {unit["ActiveState"] + " " + unit["UnitFileState"] for unit in node.node.units.values()} == {"inactive disabled"}
    assert node.reverted(journal) == REVERTED
    assert node.node.units == LLDPAD


def test_another_owner_of_dcbx_is_a_conflict_where_the_inventory_leaves_it(make_node: MakeNode) -> None:
    node = make_node(roce_qos_dcbx="leave")
    node.node.units = {name: dict(unit) for name, unit in LLDPAD.items()}
    node.node.put("/proc/net/unix", node_qos.SOCKETS.format("@/com/intel/lldpad"))
    node.node.driver.dcbx = ["cee", "ieee"]
    assert [problem.subject for problem in node.conflicts()] == ["lldpad", "rail0 (eth1)"]
    assert all("roce_qos_dcbx: host" in problem.message for problem in node.conflicts())
    assert "lldpad stopped" not in node.whats()


def test_an_lldpad_that_systemd_did_not_start_is_a_conflict(make_node: MakeNode) -> None:
    node = make_node()
    node.node.put("/proc/net/unix", node_qos.SOCKETS.format("@/com/intel/lldpad"))
    assert [problem.subject for problem in node.conflicts()] == ["lldpad"]


BY_PCI = [{"name": "rail0", "match": {"pci": "0000:31:00.0"}}]


@pytest.mark.parametrize(
    "values",
    [
        {"qos_profile": "none"},
        {"roce_qos_manage": False},
        {"fabric": "erdma", "mtu": 8500},
        {"fabric": "infiniband", "mtu": 4092, "rails": BY_PCI},
    ],
)
def test_nothing_is_planned_where_nothing_is_wanted(make_node: MakeNode, values: dict[str, Any]) -> None:
    node = make_node(**values)
    assert (node.whats(), node.notes(), node.conflicts()) == ([], [], [])
    assert [command for command in node.node.commands if command[0] in ("dcb", "mlnx_qos")] == []


def test_in_a_container_nothing_is_touched(make_node: MakeNode) -> None:
    node = make_node()
    identity = node.identity()._replace(capabilities=("container",))
    wanted = roce_qos.desired(node.spec, identity)
    observed = roce_qos.observe(node.node, wanted)
    assert roce_qos.plan(wanted, observed) == []
    assert "belong to the machine below" in roce_qos.notes(wanted, observed)[0]


def soft(node: Any) -> Any:
    """The same interface without an RDMA device of its own; soft_roce will make rxe0 on it."""
    import shutil

    shutil.rmtree(node.node.base / "sys/class/infiniband")
    shutil.rmtree(node.node.base / "sys/devices" / node_qos.PCI / "infiniband")
    return node


def test_soft_roce_without_dcb_gets_only_rdma_cms_default(make_node: MakeNode) -> None:
    node = soft(make_node(tools=(), mlx5=False, ofed=False, rdma_stack="soft_roce"))
    assert node.whats() == [f"RDMA-CM default{LINK}"]
    assert node.notes() == [
        (
            "rail0 (eth1): DCBX owner, DSCP trust, PFC, DSCP map, ECN, CNP marking left alone: Soft-RoCE has no DCB: "
            "the kernel sends its packets like any others"
        )
    ]
    node.node.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n")
    node.apply()
    assert node.node.line("/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos") == "106"
    assert node.whats() == []


@pytest.mark.parametrize(("interface", "planned"), [("eth1", []), ("eth2", [f"RDMA-CM default{LINK}"])])
def test_a_soft_roce_device_that_moves_here_has_forgotten_rdma_cms_default(make_node: MakeNode, interface: str, planned: list[str]) -> None:
    """What configfs says of its name is of the device on the other interface, which the rxe area takes away in the same apply."""
    node = soft(make_node(tools=(), mlx5=False, ofed=False, rdma_stack="soft_roce"))
    node.node.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n")
    node.apply()
    device = Hca("rxe0", None, None, "rdma_rxe", (interface,), (1,), (), "Ethernet", (interface,))
    wanted = roce_qos.desired(node.spec, node.identity()._replace(hcas=(device,)))
    assert [change.what for change in roce_qos.plan(wanted, roce_qos.observe(node.node, wanted))] == planned


def test_soft_roce_on_an_interface_with_dcb_is_set_and_judged(make_node: MakeNode) -> None:
    node = soft(make_node(tools=("dcb",), mlx5=False, ofed=False, rdma_stack="soft_roce"))
    assert node.whats() == [*ALWAYS, f"RDMA-CM default{LINK}"]
    node.node.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n")
    node.apply()
    assert node.whats() == []
    assert node.node.driver.pfc == {3}


def test_members_of_a_bond_are_set_each_and_what_belongs_to_the_port_once(make_spec: Callable[..., Any], make_node: MakeNode) -> None:
    node = make_node()
    identity = node.identity()
    nic = Nic("bond0", node_qos.MAC, None, None, "virtual", False)
    members = tuple(Nic(name, node_qos.MAC, "0000:31:00.0", "mlx5_core", "ethernet", False, bond="bond0") for name in ("eth1", "eth2"))
    hca = Hca("mlx5_bond_0", "b8ce:f603:0000:3001", "0000:31:00.0", "mlx5_core", ("bond0",), (1,), (), "Ethernet", ("bond0",))
    wanted = roce_qos.desired(node.spec, identity._replace(nics=(nic, *members), hcas=(hca,)))
    assert [(place.nic.netdev, place.nic.label, place.nic.first) for place in wanted.places] == [
        ("eth1", "rail0 (bond0), member eth1", True),
        ("eth2", "rail0 (bond0), member eth2", False),
    ]
    observed = roce_qos.observe(node.node, wanted)
    whats = [change.what for change in roce_qos.plan(wanted, observed)]
    assert [what for what in whats if what.startswith("RDMA-CM")] == ["RDMA-CM default of rail0 (bond0), member eth1"]
    assert "PFC of rail0 (bond0), member eth1" in whats


def test_a_map_that_the_kernel_silently_refused_reverts_the_apply(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of rdma_state: plan, journal, effects, reading back, roll back."""
    node = make_node(mlx5=False, apptrust=True, consent=["link"])
    monkeypatch.setattr(apply, "SETTLE_SECONDS", 0.0)
    plan = make_plan(node.node, node.spec, ["roce_qos"])
    assert plan.problems == ()
    before = node.state()
    monkeypatch.setattr(node.node.driver, "add", refused)
    with pytest.raises(ApplyError, match=r"did not hold: roce_qos: DSCP map of rail0 \(eth1\)"):
        apply.apply_plan(node.node, node.spec, plan, "run", ["roce_qos"])
    monkeypatch.undo()
    assert node.state() == before
    applied = apply.apply_plan(node.node, node.spec, make_plan(node.node, node.spec, ["roce_qos"]), "run", ["roce_qos"])
    assert applied.remaining == ()
    assert make_plan(node.node, node.spec, ["roce_qos"]).changes == ()
