# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the machine below: doca8 is well; each sickness written into a copy of it is one verdict that says where to look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_firmware import HEALTHY, config_table, flash_query
from tests.fixtures.node_pci import DOWNSTREAM, MIB, config_space, resource

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.nic_firmware import judge_firmware
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec

HCA, GPU, PORT, UPSTREAM = "0000:13:00.0", "0000:14:00.0", "0000:12:00.0", "0000:11:00.0"
CHECKS = ("pci.", "firmware.", "cpu.")
PSID = "MT_0000000838"


class Node(TreeHost):
    """A captured tree in which single files say something else, or are gone; nothing is copied."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.instead: dict[str, bytes | None] = {}

    def read_bytes(self, path: str, limit: int = 4 * 1024 * 1024) -> bytes | None:
        full = self.path(path)
        if full not in self.instead:
            return super().read_bytes(path, limit)
        data = self.instead[full]
        return None if data is None else data[:limit]

    def listdir(self, path: str) -> list[str]:
        gone = {name for name, data in self.instead.items() if data is None}
        return [name for name in super().listdir(path) if self.path(f"{path}/{name}") not in gone]

    def put(self, path: str, text: str | bytes) -> None:
        self.instead[self.path("/" + path)] = text if isinstance(text, bytes) else text.encode()

    def function(self, address: str, name: str, text: str | bytes) -> None:
        self.put(f"sys/bus/pci/devices/{address}/{name}", text)

    def drop(self, path: str) -> None:
        assert self.exists("/" + path), path
        self.instead[self.path("/" + path)] = None

    def virtual(self) -> None:
        self.put("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
        self.put("sys/class/dmi/id/sys_vendor", "QEMU\n")

    def judge(self, *, count: int = 8, container: bool = False, **values: Any) -> list[Verdict]:
        """``count``: the first so many HCAs are rails."""
        identity = observe_identity(self)
        identity = identity._replace(capabilities=(*identity.capabilities, "container")) if container else identity
        rails = [{"name": f"rail{i}", "match": {"mac": f"b8:ce:f6:00:30:{i:02x}"}, "address": f"10.10.{i}.11/24"} for i in range(count)]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails, **values}, "node")
        assert spec is not None, findings
        found = [item for _area, item in judge_node(inspection_of("node", spec, identity, observe_facts(self, identity)))]
        return [item for item in found if item.check.startswith(CHECKS)]

    def sick(self, **values: Any) -> list[Verdict]:
        return [item for item in self.judge(**values) if item.status not in ("pass", "skipped")]


@pytest.fixture
def node(nodes: Path) -> Node:
    found = Node(nodes / "doca8")
    found.put("proc/cpuinfo", "flags\t\t: fpu vmx\n")
    return found


def test_a_node_that_is_well(node: Node) -> None:
    verdicts = node.judge()
    assert {item.status for item in verdicts} == {"pass"}
    counts = {check: len([item for item in verdicts if item.check == check]) for check in {item.check for item in verdicts}}
    assert counts == {
        "pci.link_speed": 24,  # eight HCAs, eight GPUs, eight switches, each once
        "pci.link_width": 24,
        "pci.above_4g": 8,
        "pci.sriov": 8,
        "pci.numa": 16,
        "pci.max_read_request": 8,
        "pci.acs": 1,
        "pci.iommu": 1,
        "pci.dma": 1,  # no fault of the IOMMU in the kernel's log
        "pci.switch": 1,
    }


SICK: list[tuple[str, Callable[[Node], None], dict[str, Any], tuple[str, str, str], Any, str]] = [
    (
        "card in a slower mode",
        lambda node: node.function(HCA, "current_link_speed", "16.0 GT/s PCIe\n"),
        {},
        ("pci.link_speed", "fail", f"mlx5_0 ({HCA})"),
        16.0,
        "PCIe link speed",
    ),
    (
        "half the lanes",
        lambda node: node.function(HCA, "current_link_width", "8\n"),
        {},
        ("pci.link_width", "fail", f"mlx5_0 ({HCA})"),
        8,
        "bifurcation",
    ),
    (
        "an idle GPU",
        lambda node: node.function(GPU, "current_link_speed", "2.5 GT/s PCIe\n"),
        {},
        ("pci.link_speed", "warn", f"GPU {GPU}"),
        2.5,
        "idle may lower its link",
    ),
    (
        "a switch with half its lanes",
        lambda node: node.function(UPSTREAM, "current_link_width", "8\n"),
        {},
        ("pci.link_width", "fail", f"PCIe switch {UPSTREAM}"),
        8,
        "bifurcation",
    ),
    (
        "a link that nobody can read",
        lambda node: node.function(HCA, "current_link_speed", "Unknown\n"),
        {},
        ("pci.link_speed", "unknown", f"mlx5_0 ({HCA})"),
        None,
        "cannot be read",
    ),
    (
        "GPU memory below 4 GiB",
        lambda node: node.function(GPU, "resource", resource(((0, 0xD000_0000, 16 * MIB), (2, 0xC000_0000, 256 * MIB)))),
        {},
        ("pci.above_4g", "fail", f"GPU {GPU}"),
        "below 4 GiB",
        "Above 4G Decoding",
    ),
    (
        "GPU memory without a place",
        lambda node: node.function(GPU, "resource", resource(((2, 0, 256 * MIB),))),
        {},
        ("pci.above_4g", "fail", f"GPU {GPU}"),
        "no room",
        "MMIO High Base",
    ),
    (
        "no SR-IOV, and none wanted",
        lambda node: node.drop(f"sys/bus/pci/devices/{HCA}/sriov_totalvfs"),
        {"nic_firmware_config": {"SRIOV_EN": False, "NUM_OF_VFS": 0}},
        ("", "", ""),
        None,
        "",
    ),
    (
        "ACS on",
        lambda node: node.function(PORT, "config", config_space(0x1000, 0xC030, DOWNSTREAM, acs=0x1D)),
        {},
        ("pci.acs", "fail", "ACS of PCIe bridges"),
        [f"{PORT} (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)"],
        "turn ACS off in the BIOS",
    ),
    (
        "ACS kept",
        lambda node: node.function(PORT, "config", config_space(0x1000, 0xC030, DOWNSTREAM, acs=0x1D)),
        {"pci_tuning_acs": "keep"},
        ("pci.acs", "warn", "ACS of PCIe bridges"),
        [f"{PORT} (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)"],
        "pci_tuning_acs: disable",
    ),
    (
        "small reads",
        lambda node: node.function(HCA, "config", config_space(0x15B3, 0x1021, read_request=512)),
        {},
        ("pci.max_read_request", "fail", "rail0 (ens10np0)"),
        512,
        "MaxReadReq is 512 bytes, not 4096",
    ),
    (
        "not root",
        lambda node: node.function(HCA, "config", config_space(0x15B3, 0x1021)[:64]),
        {},
        ("pci.max_read_request", "unknown", "rail0 (ens10np0)"),
        None,
        "needs root",
    ),
    (
        "translated",
        lambda node: node.put("sys/kernel/iommu_groups/40/type", "DMA-FQ\n"),
        {},
        ("pci.iommu", "warn", "IOMMU"),
        "translated",
        "iommu=pt",
    ),
    (
        "translated against the inventory",
        lambda node: node.put("sys/kernel/iommu_groups/41/type", "DMA\n"),
        {"pci_tuning_iommu": "passthrough"},
        ("pci.iommu", "fail", "IOMMU"),
        "translated",
        "iommu=pt",
    ),
    (
        "no NUMA node",
        lambda node: node.function(HCA, "numa_node", "-1\n"),
        {},
        ("pci.numa", "warn", f"mlx5_0 ({HCA})"),
        -1,
        "SRAT",
    ),
]


@pytest.mark.parametrize(("name", "spoil", "values", "expected", "found", "hint"), SICK, ids=[row[0] for row in SICK])
def test_one_sickness_is_one_verdict(
    node: Node,
    name: str,
    spoil: Callable[[Node], None],
    values: dict[str, Any],
    expected: tuple[str, str, str],
    found: Any,
    hint: str,
) -> None:
    spoil(node)
    sick = [item for item in node.sick(**values) if not item.check.startswith("firmware.")]
    if not expected[0]:
        assert sick == []
        return
    assert [(item.check, item.status, item.subject) for item in sick] == [expected]
    assert sick[0].found == found
    assert hint in sick[0].message


def test_virtual_functions_that_the_inventory_wants_and_the_bios_forbids(node: Node) -> None:
    node.drop(f"sys/bus/pci/devices/{HCA}/sriov_totalvfs")
    sick = [item for item in node.sick(nic_firmware_config={"NUM_OF_VFS": 16}) if item.check == "pci.sriov"]
    assert [(item.hca, item.status) for item in sick] == [("mlx5_0", "fail")]
    assert "turn on SR-IOV in the BIOS" in sick[0].message


def test_in_a_virtual_machine_the_hypervisors_part_is_not_judged(node: Node) -> None:
    node.virtual()
    node.function(PORT, "max_link_width", "1\n")  # a port that the hypervisor made up
    node.function(PORT, "config", config_space(0x1000, 0xC030, DOWNSTREAM, acs=0x1D))
    node.function(HCA, "config", config_space(0x15B3, 0x1021, read_request=512))
    assert node.sick() == []
    skipped = {item.check for item in node.judge() if item.status == "skipped"}
    assert skipped == {"pci.acs", "pci.iommu", "pci.max_read_request", "pci.numa"}


def test_firmware_version_by_board(node: Node) -> None:
    assert {(item.check, item.status) for item in node.judge(nic_firmware_versions={PSID: "28.47.1080"}) if item.check[0] == "f"} == {
        ("firmware.version", "pass")
    }
    sick = node.sick(nic_firmware_versions={PSID: "28.48.1000"})
    assert [(item.check, item.status, item.found) for item in sick] == [("firmware.version", "fail", "28.47.1080")] * 8
    assert "name an image in nic_firmware_images" in sick[0].message
    other = node.judge(nic_firmware_versions={"MT_0000000999": "28.48.1000"})
    assert {item.status for item in other if item.check == "firmware.version"} == {"skipped"}


def test_firmware_that_waits_for_a_reboot(node: Node) -> None:
    node.put(f"cmd/mstflint_-d_{HCA}_q", flash_query("28.48.1000", PSID, "28.47.1080"))
    sick = node.sick(nic_firmware_versions={PSID: "28.48.1000"})
    assert "28.48.1000 is in flash: what is in flash runs after a reboot" in sick[0].message
    assert [item.hca for item in node.sick(nic_firmware_versions={PSID: "28.47.1080"})] == ["mlx5_0"]


@pytest.mark.parametrize(
    ("row", "status", "words"),
    [
        (("False(0)", "False(0)", "False(0)"), "pass", "is False(0)"),
        (("False(0)", "True(1)", "False(0)"), "fail", "will be False(0) after a reboot"),
        (("False(0)", "True(1)", "True(1)"), "fail", "apply sets it"),
    ],
)
def test_firmware_configuration_in_effect(node: Node, row: tuple[str, str, str], status: str, words: str) -> None:
    node.put(f"cmd/mstconfig_-d_{HCA}_-e_q", config_table(HCA, {**HEALTHY, "ATS_ENABLED": row}))
    found = [item for item in node.judge(nic_firmware_config={"ATS_ENABLED": False}) if item.check == "firmware.config"]
    assert len(found) == 8
    assert (found[0].status, words in found[0].message) == (status, True)
    assert {item.status for item in found[1:]} == {"pass"}


def test_firmware_of_a_nic_that_is_no_rail_is_not_judged(node: Node) -> None:
    """Apply sets the rails' NICs alone: a storage NIC with SR-IOV on would fail for ever, whatever is done."""
    wanted = {"nic_firmware_config": {"SRIOV_EN": False, "NUM_OF_VFS": 16}, "nic_firmware_versions": {PSID: "28.48.1000"}}
    node.put("cmd/mstconfig_-d_0000:13:00.0_-e_q", config_table(HCA, {**HEALTHY, "SRIOV_EN": ("False(0)", "True(1)", "True(1)")}))
    node.drop(f"sys/bus/pci/devices/{HCA}/sriov_totalvfs")
    first = {item.hca for item in node.sick(**wanted) if item.hca == "mlx5_0"}
    assert first == {"mlx5_0"}
    others = [{"name": f"rail{i}", "match": {"mac": f"b8:ce:f6:00:30:{i:02x}"}, "address": f"10.10.{i}.11/24"} for i in range(1, 8)]
    left = node.judge(**wanted, rails=others)
    assert [item for item in left if item.hca == "mlx5_0" and (item.check.startswith("firmware.") or item.status == "fail")] == []
    assert len([item for item in left if item.check == "firmware.version"]) == 7


@pytest.mark.parametrize(("container", "words"), [(False, "it is a virtual function"), (True, "belong to the machine below")])
def test_firmware_that_is_another_machine_s_is_no_verdict(node: Node, *, container: bool, words: str) -> None:
    node.function(HCA, "device", "0x101e\n")  # a virtual function that a hypervisor passed on
    found = [item for item in node.judge(count=1, container=container, nic_firmware_config={"ATS_ENABLED": True}) if item.check[0] == "f"]
    assert [(item.check, item.status, words in item.message) for item in found] == [("firmware.config", "skipped", True)]


def test_firmware_of_a_rail_without_an_rdma_device_is_unknown(node: Node) -> None:
    identity = observe_identity(node)
    bare = identity._replace(hcas=())
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "nic_firmware_config": {"ATS_ENABLED": False},
                                  "rails": [{"name": "rail0", "match": {"mac": "b8:ce:f6:00:30:00"}, "address": "10.10.0.11/24"}]}, "node")
    assert spec is not None
    found = judge_firmware(inspection_of("node", spec, bare, {"hcas": []}))
    assert [(item.check, item.status) for item in found] == [("firmware.config", "unknown")]


def test_firmware_configuration_without_the_tool_is_unknown(node: Node) -> None:
    for name in node.listdir("/cmd"):
        if name.startswith("mstconfig"):
            node.drop("cmd/" + name)
    sick = node.sick(nic_firmware_config={"ATS_ENABLED": False})
    assert {(item.check, item.status) for item in sick} == {("firmware.config", "unknown")}


@pytest.mark.parametrize(
    ("present", "isolated", "nohz", "status", "said"),
    [
        ("0-63", "4-31", "4-31", "pass", "keeps its work off"),
        ("0-63", "2-40", "2-40", "pass", "keeps its work off"),
        ("0-63", "", "", "fail", "isolated and nohz_full"),
        ("0-63", "4-31", "(null)", "fail", "cpu/nohz_full"),
        ("0-15", "4-15", "4-15", "fail", "no CPU 16, 17, 18, 19 and 12 more"),
        ("0-63", "4-31", None, "unknown", "lists of CPUs"),
        ("0-63", "four", "4-31", "unknown", "lists of CPUs"),
    ],
)
def test_isolated_cpus_are_those_that_the_kernel_took(
    node: Node, present: str, isolated: str, nohz: str | None, status: str, said: str
) -> None:
    for name, text in (("present", present), ("isolated", isolated), ("nohz_full", nohz)):
        if text is not None:
            node.put(f"sys/devices/system/cpu/{name}", text + "\n")
    (found,) = [item for item in node.judge(pci_tuning_isolated_cpus="4-31") if item.check == "cpu.isolated"]
    assert (found.status, said in found.message) == (status, True), found.message
    assert not [item for item in node.judge() if item.check == "cpu.isolated"]
