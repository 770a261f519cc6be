# SPDX-License-Identifier: GPL-3.0-or-later
"""active_mtu from ibv_devinfo, limits from files and from systemd, NCCL's two grammars, GPUDirect."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpudirect import observe_gpudirect
from ansible_collections.railwright.rdma.plugins.module_utils.observe.hca import active_mtus, observe_hcas, parse_devinfo, port_guid
from ansible_collections.railwright.rdma.plugins.module_utils.observe.limits import observe_limits
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import observe_nccl

MakeTree = Callable[[dict[str, str]], TreeHost]
DEVINFO = (
    "hca_id:\tmlx5_0\n\tphys_port_cnt:\t2\n\t\tport:\t1\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t{}\n"
    "\t\tport:\t2\n\t\t\tactive_mtu:\t\t1024 (3)\n"
)


@pytest.mark.parametrize(
    ("value", "mtu"),
    [
        ("4096 (5)", 4096),
        ("256 (1)", 256),
        ("2048", 2048),
        ("invalid MTU (0)", None),
        ("409", None),
        ("", None),
        ("9000 (6)", None),
        ("4096 (5", None),
    ],
)
def test_active_mtu(value: str, mtu: int | None) -> None:
    found = parse_devinfo(DEVINFO.format(value))
    assert found.get(("mlx5_0", 1)) == mtu
    assert found["mlx5_0", 2] == 1024


def test_active_mtu_belongs_to_the_device_above_it() -> None:
    assert parse_devinfo("\t\t\tactive_mtu:\t\t4096 (5)\n") == {}
    assert parse_devinfo("hca_id:\ta\n\t\tport:\t1\nhca_id:\tb\n\t\t\tactive_mtu:\t\t4096 (5)\n") == {}


def test_recordings_of_one_device_each_are_put_together(make_tree: MakeTree) -> None:
    text = "hca_id:\t{}\n\t\tport:\t1\n\t\t\tactive_mtu:\t\t4096 (5)\n"
    host = make_tree(
        {"cmd/ibv_devinfo_-d_a_-v": text.format("a"), "cmd/ibv_devinfo_-d_b_-v": text.format("b"), "cmd/other": text.format("c")}
    )
    assert active_mtus(host) == {("a", 1): 4096, ("b", 1): 4096}


def test_a_live_node_is_asked_by_one_command() -> None:
    class Live(Host):
        def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None) -> Result:
            assert list(argv) == ["ibv_devinfo", "-v"]
            return Result(0, DEVINFO.format("4096 (5)"), "")

    assert active_mtus(Live()) == {("mlx5_0", 1): 4096, ("mlx5_0", 2): 1024}


def test_active_mtu_is_never_taken_from_the_interface(make_tree: MakeTree) -> None:
    host = make_tree(
        {
            "sys/class/infiniband/rxe0/parent": "eth0\n",
            "sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE\n",
            "sys/class/net/eth0/mtu": "9000\n",
        }
    )
    port = observe_hcas(host, {})[0]["ports"][0]
    assert (port["netdev"], port["netdev_mtu"], port["active_mtu"]) == ("eth0", 9000, None)


def test_representors_of_an_embedded_switch_are_no_port(make_tree: MakeTree) -> None:
    base = "sys/class/infiniband/mlx5_0"
    host = make_tree(
        {
            f"{base}/ports/1/state": "4: ACTIVE\n",
            f"{base}/device/net/eth0r/x": "",
            f"{base}/device/net/eth1/x": "",
            "sys/class/net/eth0r/phys_port_name": "pf0vf3\n",
            "sys/class/net/eth1/phys_port_name": "p0\n",
        }
    )
    assert observe_hcas(host, {})[0]["ports"][0]["netdev"] == "eth1"


def test_old_soft_roce_does_not_borrow_the_function_of_its_interface(make_tree: MakeTree) -> None:
    base = "sys/class/infiniband/rxe0"
    host = make_tree(
        {
            f"{base}/parent": "eth0\n",
            f"{base}/ports/1/state": "4: ACTIVE\n",
            f"{base}/device/vendor": "0x1af4\n",
            f"{base}/device/uevent": "DRIVER=virtio-pci\nPCI_SLOT_NAME=0000:00:04.0\n",
        }
    )
    hca = observe_hcas(host, {})[0]
    assert (hca["pci_address"], hca["vendor_id"], hca["driver"]) == (None, None, "rdma_rxe")


def test_limits_of_files_and_of_the_manager(make_tree: MakeTree) -> None:
    found = observe_limits(
        make_tree(
            {
                "etc/security/limits.conf": "#* soft memlock 1\n* soft core 0\n",
                "etc/security/limits.d/20.conf": "* hard memlock unlimited # pinned\n@rdma - nofile 1048576\nbroken line\n",
                "etc/security/limits.d/ignored.txt": "* hard memlock 1\n",
                "etc/systemd/system.conf": "[Manager]\n#DefaultLimitMEMLOCK=8M\nDefaultLimitNOFILE=1024:524288\n",
                "usr/lib/systemd/system.conf.d/10-x.conf": "[Manager]\nDefaultLimitMEMLOCK=1\n",
                "etc/systemd/system.conf.d/10-x.conf": "[Manager]\nDefaultLimitMEMLOCK=infinity\n",
                "cmd/systemctl_show_-p_DefaultLimitMEMLOCK_-p_DefaultLimitNOFILE": "DefaultLimitMEMLOCK=8388608\n",
            }
        )
    )
    assert [(line["domain"], line["type"], line["item"], line["value"]) for line in found["login"]] == [
        ("*", "hard", "memlock", "unlimited"),
        ("@rdma", "-", "nofile", "1048576"),
    ]
    assert found["systemd_files"] == {
        "nofile": {"value": "1024:524288", "file": "/etc/systemd/system.conf"},
        "memlock": {"value": "infinity", "file": "/etc/systemd/system.conf.d/10-x.conf"},
    }
    assert found["systemd_effective"] == {"memlock": 8388608, "nofile": None}


def test_nccl_conf_is_not_shell(make_tree: MakeTree) -> None:
    text = (
        "# NCCL\nNCCL_IB_HCA==mlx5_0\nexport NCCL_DEBUG=INFO\n NCCL_X=1\nNCCL_DEBUG=WARN\n"
        "NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=\nNCCL_IB_TC=106 \n"
    )
    found = observe_nccl(make_tree({"etc/nccl.conf": text}))["conf"]
    assert found == {"variables": {"NCCL_IB_HCA": "=mlx5_0", "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": ""}, "malformed_lines": [3, 4, 8]}


def test_profile_d_is_shell(make_tree: MakeTree) -> None:
    text = (
        "export NCCL_IB_TC=\"${NCCL_IB_TC:-106}\"\nNCCL_DEBUG='INFO'\nexport UCX_TLS=rc\nexport HOME=/x\nexport NCCL_IB_HCA=${OTHER:-x}\n"
    )
    found = observe_nccl(make_tree({"etc/profile.d/a.sh": text, "etc/profile.d/b.csh": "setenv NCCL_DEBUG INFO\n"}))["profile_d"]
    assert found == {"/etc/profile.d/a.sh": {"NCCL_IB_TC": "106", "NCCL_DEBUG": "INFO", "UCX_TLS": "rc", "NCCL_IB_HCA": "${OTHER:-x}"}}


def test_the_library_tells_its_version_by_its_name(make_tree: MakeTree) -> None:
    found = observe_nccl(
        make_tree({"usr/lib64/libnccl.so.2": "", "usr/lib64/libnccl.so.2.27.7": "", "usr/local/lib/libnccl-net-ofi.so": ""})
    )
    assert found["library"] == {"path": "/usr/lib64/libnccl.so.2", "version": "2.27.7"}
    assert found["plugins"] == ["/usr/local/lib/libnccl-net-ofi.so"]


@pytest.mark.parametrize(
    ("line", "version", "flavour"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\n", "580.95.05", "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Wed Jun 26 06:46:07 UTC 2024\n", "535.183.06", "proprietary"),
        ("NVRM version: NVIDIA UNIX x86_64 Kern", None, None),
    ],
)
def test_gpu_driver(make_tree: MakeTree, line: str, version: str | None, flavour: str | None) -> None:
    found = observe_gpudirect(make_tree({"proc/driver/nvidia/version": line}), None, {})
    assert (found["nvidia_driver"], found["nvidia_flavour"]) == (version, flavour)


def test_peermem_is_registered_when_ib_core_knows_it(make_tree: MakeTree) -> None:
    host = make_tree({})
    loaded: dict[str, dict[str, Any]] = {"nvidia_peermem": {"used_by": []}, "ib_core": {"used_by": ["nvidia_peermem"]}}
    assert observe_gpudirect(host, None, loaded)["peermem_registered"] is True
    assert observe_gpudirect(host, None, {**loaded, "ib_core": {"used_by": []}})["peermem_registered"] is False
    assert observe_gpudirect(host, None, {**loaded, "ib_core": {"used_by": None}})["peermem_registered"] is None
    assert observe_gpudirect(host, None, {})["peermem_registered"] is False
    assert observe_gpudirect(host, None, None)["peermem_registered"] is None


@pytest.mark.parametrize(
    ("gid", "link_layer", "guid"),
    [
        ("fe80:0000:0000:0000:b8ce:f603:00ab:cdef", "InfiniBand", "b8ce:f603:00ab:cdef"),
        ("fec0:0000:0000:0001:b8ce:f603:00ab:cdef", "InfiniBand", "b8ce:f603:00ab:cdef"),  # the subnet manager's own prefix
        ("fe80:0000:0000:0000:bace:f6ff:fe00:1000", "Ethernet", "bace:f6ff:fe00:1000"),
        ("0000:0000:0000:0000:0000:ffff:0a0a:000b", "Ethernet", None),  # an address is no GUID
        ("b496:9100:5001:0000:0000:0000:0000:0000", "Ethernet", None),  # iWARP: the MAC
    ],
)
def test_port_guids_are_in_gid_0(gid: str, link_layer: str, guid: str | None) -> None:
    assert port_guid([{"index": 0, "gid": gid}], link_layer) == guid
    assert port_guid([{"index": 1, "gid": gid}], link_layer) is None
