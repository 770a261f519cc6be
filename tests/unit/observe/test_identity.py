# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a node is: its platform, interfaces, HCAs, capabilities, and which interface it is reached over."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity, observe_platform, observe_virtual
from ansible_collections.railwright.rdma.plugins.module_utils.spec.match import match_rail
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Rail
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

MakeTree = Callable[[dict[str, str]], TreeHost]
ROUTE_HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def identity(nodes: Path, name: str, management: str | None = None) -> Identity:
    return observe_identity(TreeHost(str(nodes / name)), management)


def managed(found: Identity) -> list[str]:
    return [nic.name for nic in found.nics if nic.management]


def test_an_identity_knows_the_machine(nodes: Path) -> None:
    found = identity(nodes, "rxe")
    assert (found.hostname, found.kernel, found.arch, found.virtual) == ("rxe", "6.1.0-40-amd64", "x86_64", "kvm")
    assert (found.platform.family, found.platform.package_manager, found.platform.codename) == ("debian", "apt", "bookworm")
    assert {"systemd", "networkd", "module:rdma_rxe", "module:ib_ipoib"} <= set(found.capabilities)
    assert not {"container", "module:siw", "nmcli", "cpufreq"} & set(found.capabilities)


def test_interfaces_have_a_kind_a_driver_and_a_function(nodes: Path) -> None:
    found = {nic.name: nic for nic in identity(nodes, "rxe").nics}
    assert (found["eth1"].kind, found["eth1"].driver, found["eth1"].pci) == ("ethernet", "virtio_net", "0000:00:04.0")
    assert found["lo"].kind == "loopback"
    assert {nic.name: nic.kind for nic in identity(nodes, "ib8").nics}["ib0"] == "infiniband"
    assert "bonding_masters" not in {nic.name for nic in identity(nodes, "roce8-bond").nics}


def test_members_of_a_bond_keep_their_own_mac(nodes: Path) -> None:
    found = {nic.name: nic.mac for nic in identity(nodes, "roce8-bond").nics}
    assert (found["bond0"], found["ens20f1np1"]) == ("b8:ce:f6:00:20:00", "b8:ce:f6:00:20:01")


def test_what_lies_below_the_default_route_is_management_too(nodes: Path) -> None:
    assert managed(identity(nodes, "roce8-bond")) == ["bond0", "ens20f0np0", "ens20f1np1"]


def test_the_controllers_connection_makes_an_interface_management(nodes: Path) -> None:
    assert managed(identity(nodes, "rxe")) == ["eth0"]
    assert managed(identity(nodes, "rxe", "10.10.0.11")) == ["eth0", "eth1"]
    assert managed(identity(nodes, "rxe", "::ffff:10.10.0.11")) == ["eth0", "eth1"]
    assert managed(identity(nodes, "rxe", "192.0.2.1")) == ["eth0"]
    assert managed(identity(nodes, "rxe", "not an address")) == ["eth0"]


def test_without_ip_the_connected_network_decides(make_tree: MakeTree) -> None:
    host = make_tree(
        {
            "proc/net/route": ROUTE_HEAD + "eth1\t000A0A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
            "eth2\t00000A0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
            "sys/class/net/eth1/address": "52:54:00:00:00:01\n",
            "sys/class/net/eth2/address": "52:54:00:00:00:02\n",
        }
    )
    assert managed(observe_identity(host, "10.10.10.7")) == ["eth1"]  # the longer prefix
    assert managed(observe_identity(host, "10.10.3.7")) == ["eth2"]
    assert managed(observe_identity(host, None)) == []


def test_ipv6_default_routes_count_and_reject_routes_do_not(make_tree: MakeTree) -> None:
    zero = "0" * 32
    host = make_tree(
        {
            "proc/net/ipv6_route": f"{zero} 00 {zero} 00 fe80{zero[4:]} 00000400 00000001 00000000 00000003     eth6\n"
            f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n",
            "sys/class/net/eth6/address": "52:54:00:00:00:06\n",
            "sys/class/net/lo/address": "00:00:00:00:00:00\n",
        }
    )
    assert managed(observe_identity(host)) == ["eth6"]


@pytest.mark.parametrize(("answer", "names"), [
    ('[{"dst":"default","gateway":"fe80::1","dev":"eth6","metric":1024}]', ["eth6"]),
    ('[{"dst":"default","nexthops":[{"gateway":"fe80::1","dev":"eth6"},{"gateway":"fe80::2","dev":"eth7"}]}]', ["eth6", "eth7"]),
    ("[ ]", []),
    ("", ["eth6", "eth7"]),
])
def test_ipv6_gateway_in_a_rails_own_table_is_no_way_to_the_controller(make_tree: MakeTree, answer: str, names: list[str]) -> None:
    """The file has the routes of all tables (seen); without an answer of ip it is taken as it is."""
    zero = "0" * 32
    line = f"{zero} 00 {zero} 00 fd00{zero[4:]} 00000400 00000001 00000000 00000003     eth%d\n"
    host = make_tree({
        "proc/net/ipv6_route": line % 6 + line % 7,
        "sys/class/net/eth6/address": "52:54:00:00:00:06\n",
        "sys/class/net/eth7/address": "52:54:00:00:00:07\n",
        "cmd/ip_-j_-6_route_show_default": answer,
    })
    assert managed(observe_identity(host)) == names


def test_hcas_carry_a_guid_and_an_interface_for_each_port(nodes: Path) -> None:
    hca = next(hca for hca in identity(nodes, "multiport").hcas if hca.name == "mlx4_0")
    assert (hca.ports, hca.port_netdevs) == ((1, 2), ("ib0", "enp145s0d1"))
    assert hca.port_guids == ("f452:1403:0000:6001", "f652:14ff:fe00:6002")
    bond = next(hca for hca in identity(nodes, "roce8-bond").hcas if hca.name == "mlx5_bond_0")
    assert bond.netdevs == ("bond0", "ens20f0np0")


@pytest.mark.parametrize(
    ("match", "value", "device", "port", "netdev"),
    [
        ("mac", "f4:52:14:00:60:02", "mlx4_0", 2, "enp145s0d1"),
        ("guid", "f652:14ff:fe00:6002", "mlx4_0", 2, "enp145s0d1"),
        ("guid", "f452:1403:0000:6001", "mlx4_0", 1, "ib0"),
        ("guid", "be97:e1ff:fe00:7001", "bnxt_re0", 1, "ens2f0np0"),
    ],
)
def test_rails_find_their_own_port_of_an_hca(nodes: Path, match: str, value: str, device: str, port: int, netdev: str) -> None:
    target = match_rail(Rail("rail0", 0, match, value, None, None, 9000), identity(nodes, "multiport"))
    assert target is not None
    assert target.hca is not None
    assert (target.hca.name, target.port, target.netdev) == (device, port, netdev)


def test_an_identity_does_not_change_with_the_health_of_the_node(nodes: Path, make_tree: MakeTree, tmp_path: Path) -> None:
    before = make_tree(
        {
            "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
            "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
            "sys/class/net/eth0/address": "52:54:00:00:00:01\n",
            "sys/class/net/eth0/mtu": "9000\n",
        }
    )
    first = observe_identity(before)
    after = make_tree(
        {
            "sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n",
            "sys/class/infiniband/mlx5_0/ports/1/rate": "2.5 Gb/sec (1X SDR)\n",
            "sys/class/net/eth0/mtu": "1500\n",
        }
    )
    assert observe_identity(after) == first


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "Alibaba Cloud\n", "proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "Alibaba Cloud\n", "proc/cpuinfo": "flags\t\t: fpu vme\n"}, None),  # an ebm instance
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, "other"),
        ({"run/.containerenv": ""}, "container"),
        ({"proc/1/environ": "container=podman\x00PATH=/bin"}, "container"),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        ({}, None),
    ],
)
def test_virtual_machines_and_containers(make_tree: MakeTree, files: dict[str, str], expected: str | None) -> None:
    assert observe_virtual(make_tree(files)) == expected


@pytest.mark.parametrize(
    ("text", "os_id", "family", "manager"),
    [
        ('ID="centos"\nNAME="CentOS Stream"\nVERSION_ID="9"\n', "centos-stream", "redhat", "dnf"),
        ('ID="centos"\nNAME="CentOS Linux"\nVERSION_ID="7"\n', "centos", "redhat", "yum"),
        ('ID="openEuler"\nVERSION_ID="24.03"\n', "openEuler", "redhat", "dnf"),
        ('ID="alinux"\nVERSION_ID="2.1903"\n', "alinux", "redhat", "yum"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n', "linuxmint", "debian", "apt"),
        ('ID="sles"\nVERSION_ID="15.7"\nID_LIKE="suse"\n', "sles", "suse", "zypper"),
        ("ID=plan9\n", "plan9", "unknown", "unknown"),
        ("", "", "unknown", "unknown"),
    ],
)
def test_platforms(make_tree: MakeTree, text: str, os_id: str, family: str, manager: str) -> None:
    found = observe_platform(make_tree({"etc/os-release": text}))
    assert (found.id, found.family, found.package_manager) == (os_id, family, manager)


def test_modules_with_hyphen_or_suffix_are_found_and_dependencies_not(make_tree: MakeTree) -> None:
    found = observe_identity(
        make_tree(
            {
                "proc/sys/kernel/osrelease": "6.1.0\n",
                "lib/modules/6.1.0/modules.dep": "updates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst kernel/x/mlx5_ib.ko\n"
                "kernel/drivers/infiniband/sw/siw/siw.ko.xz:\n",
                "lib/modules/6.1.0/modules.builtin": "kernel/drivers/infiniband/core/ib_core.ko\n",
                "proc/modules": "erdma 1 0 - Live 0x0\n",
            }
        )
    )
    modules = {name for name in found.capabilities if name.startswith("module:")}
    assert modules == {"module:nvidia_peermem", "module:siw", "module:ib_core", "module:erdma"}


def test_a_captured_tree_runs_nothing(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> Result:
        raise AssertionError(arguments)

    monkeypatch.setattr("subprocess.Popen", refuse)
    assert identity(nodes, "rxe", "10.10.0.11").hostname == "rxe"
