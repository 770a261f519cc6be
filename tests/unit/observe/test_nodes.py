# SPDX-License-Identifier: GPL-3.0-or-later
"""Every captured node against the facts that are expected of it, and by hand where a mistake would be dear."""

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_driver import nvlinks_up
from node_trees import FACTS, NODES

NAMES = sorted(path.name for path in NODES.iterdir() if path.is_dir())
HCA_KEYS = [
    "name",
    "node_type",
    "node_guid",
    "sys_image_guid",
    "board_id",
    "fw_ver",
    "hw_rev",
    "hca_type",
    "pci_address",
    "vendor_id",
    "device_id",
    "numa_node",
    "driver",
    "sub_function",
    "ports",
    "link",
    "firmware",
]
PORT_KEYS = [
    "number",
    "state",
    "phys_state",
    "rate_gbps",
    "lanes",
    "link_layer",
    "lid",
    "lmc",
    "sm_lid",
    "cap_mask",
    "port_guid",
    "active_mtu",
    "netdev",
    "netdev_mtu",
    "gids",
    "counters",
    "pkeys",
    "hw_counters",
]


def facts(name: str) -> dict[str, Any]:
    return facts_of_tree(str(NODES / name))


def ports(name: str) -> dict[tuple[str, int], dict[str, Any]]:
    return {(hca["name"], port["number"]): port for hca in facts(name)["hcas"] for port in hca["ports"]}


def test_the_kinds_of_node_are_all_there() -> None:
    assert NAMES == [
        "broken",
        "doca8",
        "efa-p5",
        "erdma-default",
        "erdma-gpu",
        "erdma-mainline",
        "erdma2",
        "half-installed",
        "hgx-skew",
        "ib8",
        "iwarp",
        "mi300x8",
        "mlnx-ofed",
        "multiport",
        "nohca",
        "port-down",
        "port-polling",
        "roce8-bond",
        "rxe",
    ]


def test_nvlinks_that_are_up(tmp_path: Path) -> None:
    def answer(text: str) -> dict[str, list[float]]:
        (tmp_path / "cmd").mkdir(exist_ok=True)
        (tmp_path / "cmd/nvidia-smi_nvlink_--status").write_text(text)
        return nvlinks_up(TreeHost(str(tmp_path)))

    head = "GPU 0: NVIDIA H200 (UUID: GPU-12345678-0000-4000-8000-000000000000)\n"
    uuid = "GPU-12345678-0000-4000-8000-000000000000"
    assert answer(head + "\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 25 GB/s\n") == {uuid: [26.562, 25.0]}
    assert answer(head + "\t Link 0: <inactive>\n") == {uuid: []}
    assert answer(head.replace("GPU-1234", "GPU-zzzz") + "\t Link 0: 26.562 GB/s\n") == {}
    assert answer("Link 0: 26.562 GB/s\n") == {}
    assert answer(head + "\t Link 0: 1e9 GB/s\n" + "\t Link 1: 20.0 GB/s\n" * 1000) == {uuid: [20.0] * 64}


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_as_expected(name: str) -> None:
    expected = json.loads((FACTS / f"{name}.json").read_text())
    assert json.loads(json.dumps(facts(name))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_complete(name: str) -> None:
    found = facts(name)
    assert list(found) == [
        "schema",
        "hostname",
        "virtual",
        "os",
        "kernel",
        "arch",
        "boot",
        "stack",
        "dkms",
        "storage",
        "hcas",
        "netdevs",
        "qos",
        "firewall",
        "modules",
        "gpus",
        "accelerators",
        "pci",
        "affinity",
        "gpu_driver",
        "gpudirect",
        "limits",
        "nccl",
        "aiacc",
        "nccl_libraries",
        "packages",
        "erdma",
        "health",
    ]
    for hca in found["hcas"]:
        assert list(hca) == HCA_KEYS
        for port in hca["ports"]:
            assert list(port) == PORT_KEYS
            for gid in port["gids"] or []:
                assert list(gid) == ["index", "gid", "type", "netdev"]
            for value in [*port["counters"].values(), *port["hw_counters"].values()]:
                assert value is None or type(value) is int


def test_infiniband_in_natural_order() -> None:
    found = facts("ib8")
    assert [hca["name"] for hca in found["hcas"]] == [f"mlx5_{number}" for number in (0, 1, 2, 3, 4, 5, 9, 10)]
    port = found["hcas"][-1]["ports"][0]
    assert (port["state"], port["phys_state"], port["rate_gbps"], port["link_layer"]) == ("ACTIVE", "LinkUp", 400, "InfiniBand")
    assert (port["lid"], port["sm_lid"], port["lmc"]) == (38, 1, 0)
    assert port["port_guid"] == "b8ce:f603:00ab:000a"
    assert (port["netdev"], port["netdev_mtu"], port["active_mtu"]) == ("ib7", 4092, 4096)
    assert {key: found["stack"][key] for key in ("name", "version", "source")} == {
        "name": "doca",
        "version": "3.2.1-044000",
        "source": "package doca-ofed",
    }
    assert found["stack"]["modules"]["origin"] == "doca"
    assert found["gpudirect"]["peermem_registered"] is True
    assert found["gpudirect"]["nvidia_flavour"] == "open"
    assert "mlnx-ofed-all" not in found["packages"]  # removed, its configuration left behind


def test_a_bond_is_the_kernels_answer() -> None:
    port = ports("roce8-bond")["mlx5_bond_0", 1]
    assert (port["netdev"], port["netdev_mtu"], port["active_mtu"], port["rate_gbps"]) == ("bond0", 1500, 1024, 100)
    assert [gid["type"] for gid in port["gids"]] == ["IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2"]


def test_erdma_interfaces_are_found_both_ways() -> None:
    found = ports("erdma2")
    assert (found["erdma_0", 1]["netdev"], found["erdma_1", 1]["netdev"]) == ("eth1", "eth2")
    assert [gid["index"] for gid in found["erdma_1", 1]["gids"]] == [1]
    assert found["erdma_0", 1]["hw_counters"]["hw_tx_bytes_cnt"] == 123456789  # of the device: erdma has none of the port
    assert facts("erdma2")["modules"]["erdma"]["parameters"] == {"compat_mode": "Y"}


def test_soft_roce_has_no_pci_function() -> None:
    hca = facts("rxe")["hcas"][0]
    assert (hca["pci_address"], hca["vendor_id"], hca["driver"], hca["ports"][0]["netdev"]) == (None, None, "rdma_rxe", "eth1")


def test_a_node_without_hca() -> None:
    found = facts("nohca")
    assert found["hcas"] == []
    assert found["stack"]["name"] is None
    assert found["packages"] == {"iproute2": "6.1.0-3"}


def test_a_port_down_and_its_half_gigabits() -> None:
    port = ports("port-down")["rocep98s0", 1]
    assert (port["state"], port["phys_state"], port["rate_gbps"], port["gids"]) == ("DOWN", "Disabled", 2.5, [])
    assert port["netdev"] == "enp98s0np0"  # an empty GID table names none; the PCI function does


def test_polling_and_waiting_for_a_subnet_manager() -> None:
    found = ports("port-polling")
    assert (found["ibp1s0", 1]["state"], found["ibp1s0", 1]["phys_state"], found["ibp1s0", 1]["lid"]) == ("DOWN", "Polling", 65535)
    assert (found["ibp2s0", 1]["state"], found["ibp2s0", 1]["sm_lid"]) == ("INIT", 0)
    assert found["ibp2s0", 1]["active_mtu"] is None  # no ibv_devinfo, and never a guess


def test_ports_of_one_hca_have_their_own_interfaces() -> None:
    found = ports("multiport")
    assert [
        (found["mlx4_0", number]["link_layer"], found["mlx4_0", number]["netdev"], found["mlx4_0", number]["active_mtu"])
        for number in (1, 2)
    ] == [("InfiniBand", "ib0", 2048), ("Ethernet", "enp145s0d1", 4096)]
    copied = next(hca for hca in facts("multiport")["hcas"] if hca["name"] == "bnxt_re0")
    assert (copied["pci_address"], copied["driver"]) == ("0000:a1:00.0", "bnxt_en")
    assert copied["ports"][0]["counters"] == {"port_rcv_errors": None}


def test_broken_files_give_null_and_nothing_else() -> None:
    found = facts("broken")
    assert [hca["name"] for hca in found["hcas"]] == ["gone_0", "loop", "mlx5_0", "mlx5_1"]  # a plain file is no device
    port = ports("broken")["mlx5_0", 1]
    assert [port[key] for key in ("state", "phys_state", "rate_gbps", "lid", "sm_lid", "cap_mask", "active_mtu", "netdev")] == [None] * 8
    assert port["counters"] == {"link_downed": None, "port_rcv_errors": None, "symbol_error": None}
    assert "passwd" not in json.dumps(found)
    assert found["packages"] is None


def test_an_empty_directory_and_a_missing_one(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        found = facts_of_tree(str(path))
        assert found["hcas"] == []
        assert (found["kernel"], found["modules"], found["packages"]) == (None, None, None)
