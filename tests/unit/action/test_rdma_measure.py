# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_measure's perftest as ansible-core calls it: which tests and limits a node gets. A double stands for the way to the node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action.rdma_measure import ActionModule

pytestmark = pytest.mark.core
NAME = "railwright.rdma.rdma_measure"
MACS = [f"52:54:00:aa:bb:{at:02x}" for at in range(2)]
INVENTORY: dict[str, Any] = {
    "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_stack": "inbox", "rdma_expect": {"rate_gbps": 400},
    "rdma_rails": [{"name": f"rail{at}", "match": {"mac": mac}, "address": f"10.10.{at}.1/24"} for at, mac in enumerate(MACS)],
}  # fmt: skip
VARIABLES = {"check": "checked", "started": "started", "ping": "pinged", "gpudirect": "proofs", "measured": "measured"}
SWITCH = ["0000:12:00.0", "0000:11:00.0", "0000:10:01.0"], ["0000:12:01.0", "0000:11:00.0", "0000:10:01.0"]


def viewed(node: int, *, mtus: tuple[Any, Any] = (4096, 4096), rails: int = 2, gpus: bool = False, ipv6: bool = False) -> dict[str, Any]:
    address = "fd00:{}::{}" if ipv6 else "10.10.{}.{}"
    return {
        "rails": [{"name": f"rail{at}", "label": f"rail{at} (eth{at})", "address": address.format(at, node), "hca": f"mlx5_{at}", "port": 1,
                   "gid_index": 3, "gid_needed": True, "netdev": f"eth{at}", "mtu": 9000} for at in range(rails)],
        "facts": {"hcas": [{"name": f"mlx5_{at}", "driver": "mlx5_core", "numa_node": at, "link": {"path": SWITCH[at]},
                            "ports": [{"number": 1, "active_mtu": mtus[at]}]} for at in range(2)]},
        "gpudirect": {"gpus": 2, "why_not": None, "path": "dmabuf", "pairs": [
            {"gpu": f"0000:1{at}:00.0", "number": at, "hca": f"mlx5_{at}", "port": 1, "gid_index": 3, "rail": f"rail{at}", "numa_node": at}
            for at in range(2)]} if gpus else None,
    }  # fmt: skip


def proof(*hcas: str, found: float | None = 380.0) -> dict[str, Any]:
    return {"verdicts": [{"check": "gpudirect.traffic", "hca": hca, "port": 1, "found": found} for hca in hcas]}


class Site:
    """n1 serves, n2 asks."""

    def __init__(self, patch: pytest.MonkeyPatch, *, node1: dict[str, Any] | None = None, node2: dict[str, Any] | None = None) -> None:
        self.patch, self.asked = patch, dict[str, Any]()
        self.hosts: dict[str, dict[str, Any]] = {"n1": {"checked": node1 or viewed(1)}, "n2": {"checked": node2 or viewed(2)}}

    def step(self, mode: str, node: str, *, inventory: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        self.asked = {}

        def asked(module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
            self.asked = module_args
            return {"verdicts": [], "open_ports": [test["tcp_port"] for test in module_args.get("tests", [])]}

        self.patch.setattr(ActionModule, "_execute_module", lambda _self, **given: asked(**given))
        schedule = {"rounds": [[["n1", "n2"]]], "peers": {}}
        given = {"mode": mode, "schedule": schedule, **VARIABLES, **arguments}
        task = SimpleNamespace(args=given, async_val=0, check_mode=False, diff=False, action=NAME, environment=None)
        loader, connection = DataLoader(), SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
        action = ActionModule(task, connection, SimpleNamespace(), loader, Templar(loader, {}), None)
        action._load_name = NAME
        about = {**INVENTORY, **(inventory or {}), "inventory_hostname": node, "hostvars": self.hosts}
        return dict(action.run(task_vars=about))

    def limits(self, *, server: dict[str, Any] | None = None, client: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
        self.hosts["n1"]["started"] = self.step("start", "n1", inventory=server, **more)
        self.step("run", "n2", inventory=client, **more)
        assert len(self.asked["limits"]) == len(self.asked["tests"])
        return list(self.asked["limits"])


def test_the_rate_alone_judges_every_test(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    found = site.limits()
    assert [test["name"] for test in site.asked["tests"]] == ["write_bw", "read_lat", "write_lat"] * 2
    assert [limit["value"] for limit in found] == [384, None, 5] * 2
    assert [test["numa_node"] for test in site.asked["tests"]] == [0, 0, 0, 1, 1, 1]
    assert not any(limit["unknown"] for limit in found)


def test_of_both_ends_the_slower_one_and_the_smaller_mtu_count(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Site(monkeypatch, node1=viewed(1, mtus=(1024, 4096))).limits(server={"rdma_expect": {"rate_gbps": 200}})
    assert [found[at]["value"] for at in (0, 3)] == [182, 192]
    assert "active MTU 1024" in found[0]["source"]
    ipv6 = Site(monkeypatch, node1=viewed(1, ipv6=True), node2=viewed(2, ipv6=True)).limits()
    assert ipv6[0]["value"] == 384, "0.98 of 0.976, in whole percents"


@pytest.mark.parametrize("mtu", [None, "4096", 4095, True])
@pytest.mark.parametrize("node", ["node1", "node2"])
def test_an_mtu_that_one_end_does_not_tell_is_unknown(monkeypatch: pytest.MonkeyPatch, node: str, mtu: Any) -> None:
    found = Site(monkeypatch, **{node: viewed(1, mtus=(mtu, 4096))}).limits()
    assert [(found[at]["value"], found[at]["unknown"]) for at in (0, 3)] == [(None, True), (384, False)]


def test_without_a_rate_nothing_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's links are emulated; its inventory expects no rate of them."""
    expects = {"rdma_expect": {"link_layer": "Ethernet", "active_mtu": 4096}}
    found = Site(monkeypatch).limits(server={"rdma_expect": {"rate_gbps": 400}}, client=expects)
    assert {(limit["value"], limit["unknown"]) for limit in found} == {(None, False)}
    own = Site(monkeypatch).limits(client={**expects, "validate_min_bandwidth_gbps": 0.01})
    assert own[0] == {"value": 0.01, "source": "validate_min_bandwidth_gbps", "unknown": False, "alone": None, "shared": ""}


def test_all_rails_at_once_know_what_each_had_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.hosts["n2"]["measured"] = {"verdicts": [
        {"check": f"perftest.{name}", "hca": hca, "port": 1, "found": found}
        for name, hca, found in (("write_bw", "mlx5_1", 391.5), ("read_lat", "mlx5_0", 2.5), ("write_bw", "mlx5_0", "391"))]}
    found = site.limits(together=True)
    assert [(test["name"], test["gpu"]) for test in site.asked["tests"]] == [("together", None)] * 2
    assert [(limit["value"], limit["alone"]) for limit in found] == [(384, None), (384, 391.5)]
    assert found[1]["shared"] == ("on n2 it shares the PCIe switch 0000:11:00.0 with mlx5_0; "
                                  "on n1 it shares the PCIe switch 0000:11:00.0 with mlx5_0")


def test_memory_of_a_gpu_is_used_where_its_traffic_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, node1=viewed(1, gpus=True), node2=viewed(2, gpus=True))
    site.hosts["n1"]["proofs"], site.hosts["n2"]["proofs"] = proof("mlx5_0", "mlx5_1"), proof("mlx5_0", "mlx5_1")
    found = site.limits(together=True)
    assert [(test["gpu"], test["dmabuf"]) for test in site.asked["tests"]] == [(0, True), (1, True)]
    assert [limit["value"] for limit in found] == [360, 360]
    site.hosts["n2"]["proofs"] = proof("mlx5_0", "mlx5_1", found=None)  # unproven: this perftest is built without CUDA
    found = site.limits(together=True)
    assert [test["gpu"] for test in site.asked["tests"]] == [None, None]
    assert [limit["value"] for limit in found] == [360, 360], "one end's memory is a GPU's"
    assert [test["gpu"] for test in site.hosts["n1"]["started"]["client_tests"]] == [None, None]
    site.hosts["n1"]["proofs"] = proof()
    assert [limit["value"] for limit in site.limits(together=True)] == [384, 384]
    assert [limit["value"] for limit in site.limits()][:2] == [384, None], "one by one host memory, as ever"


def test_one_rail_is_not_measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, node2=viewed(2, rails=1))
    for mode, node in (("start", "n1"), ("run", "n2"), ("stop", "n1")):
        assert site.step(mode, node, together=True)["skipped"], mode
        assert site.asked == {}
    assert not site.step("start", "n1", together="False").get("skipped"), "a template's False is a text where Ansible is old"


def test_a_stop_tells_both_parts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters' verdicts of one part must not replace the other's."""
    site = Site(monkeypatch)
    site.step("stop", "n1")
    assert site.asked["peer"] == "n2"
    site.step("stop", "n1", together=True)
    assert site.asked["peer"] == "n2, all rails at once"


def test_without_servers_nothing_is_run_and_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.hosts["n1"]["started"] = {"failed": True}
    result = site.step("run", "n2", together=True)
    assert [(item["check"], item["status"]) for item in result["verdicts"]] == [("perftest.together", "unknown")] * 2
    assert site.asked == {}


def test_pairs_of_gpu_and_hca_have_their_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, node1=viewed(1, gpus=True, mtus=(4096, None)))
    site.step("gpudirect", "n1")
    assert [(limit["value"], limit["unknown"]) for limit in site.asked["limits"]] == [(360, False), (None, True)]
    site.step("gpudirect", "n1", inventory={"gpudirect_min_bandwidth_gbps": 380})
    assert [limit["value"] for limit in site.asked["limits"]] == [380, 380]
    site.step("gpudirect", "n1", inventory={"rdma_expect": {}})
    assert [(limit["value"], limit["unknown"]) for limit in site.asked["limits"]] == [(None, False)] * 2


def link(speed: float) -> dict[str, Any]:
    trained = {"speed_gts": speed, "width": 16, "best_speed_gts": speed, "best_width": 16}
    return {"path": SWITCH[0], "links": [{"device": "x", "port": "y", **trained}]}


@pytest.mark.parametrize(("gpu", "value", "why"), [
    ({"numa_node": 0, "link": link(32.0)}, 360, "Azure"), ({"numa_node": 0, "link": None}, 360, "Azure"), ({"numa_node": -1}, 360, "Azure"),
    ({"numa_node": 1, "link": link(32.0)}, None, "GPU 0000:10:00.0 and mlx5_0 are on different NUMA nodes"),
    ({"numa_node": 0, "link": link(16.0)}, None, "PCIe 4.0 x16 of GPU 0000:10:00.0 carries 230.5 Gb/s"),
])  # fmt: skip
def test_floors_are_for_a_gpu_that_is_near(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], value: float | None, why: str) -> None:
    """Those published are of a GPU and an HCA below one switch, on PCIe 5.0 where 400 Gb/s are asked."""
    view = viewed(1, gpus=True)
    view["facts"]["gpus"] = [{"pci": "0000:10:00.0", "name": "NVIDIA H100", **gpu}]
    view["gpudirect"]["pairs"] = view["gpudirect"]["pairs"][:1]
    site = Site(monkeypatch, node1=view)
    site.step("gpudirect", "n1")
    [limit] = site.asked["limits"]
    assert (limit["value"], limit["unknown"]) == (value, value is None)
    assert why in limit["source"]
    site.step("gpudirect", "n1", inventory={"gpudirect_min_bandwidth_gbps": 200})
    assert site.asked["limits"][0]["value"] == 200
