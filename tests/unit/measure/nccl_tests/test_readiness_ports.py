# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports of a node are watched while a benchmark runs: one for each rail that has a device, below a bond its members."""

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.readiness import ends_of_rails, ports_of_rails
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import Watched
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Identity, Nic, Platform
from field_specs import build_spec

DEBIAN = Platform("debian", "12", "bookworm", (), "Debian", "debian", "apt")
MACS = {"eth1": "52:54:00:aa:bb:01", "eth2": "52:54:00:aa:bb:02", "bond0": "52:54:00:aa:bb:01"}


def identity(bond: str | None) -> Identity:
    nics = tuple(Nic(name, MACS[name], f"0000:1a:00.{at}", "mlx5_core", "ethernet", management=False, bond=bond)
                 for at, name in enumerate(("eth1", "eth2")))
    hca = Hca("mlx5_0", None, "0000:1a:00.0", "mlx5_core", ("eth1",), (1,), (), "Ethernet", (bond or "eth1",))
    return Identity("n1", DEBIAN, "6.1", "x86_64", "3.11", None, nics, (hca,), ())


@pytest.mark.parametrize(("bond", "netdevs"), [(None, ("eth1",)), ("bond0", ("eth1", "eth2"))])
def test_the_port_of_each_rail_with_what_counts_for_it(tmp_path: Path, bond: str | None, netdevs: tuple[str, ...]) -> None:
    layer = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/link_layer"
    layer.parent.mkdir(parents=True)
    layer.write_text("Ethernet\n", encoding="utf-8")
    rails = [{"name": f"rail{at}", "match": {"mac": f"52:54:00:aa:bb:0{at + 1}"}, "address": f"10.0.{at}.1/24"} for at in (0, 8)]
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": rails}, "n1")
    assert spec is not None, findings
    (port,) = ports_of_rails(TreeHost(str(tmp_path)), spec, identity(bond))
    assert (port.hca, port.port, port.driver, port.netdevs) == ("mlx5_0", 1, "mlx5_core", netdevs)
    assert isinstance(port, Watched)
    assert ends_of_rails(spec, identity(bond)) == {"rail0": "mlx5_0:1"}, "a rail that is not there is missing"
