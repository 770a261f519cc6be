# SPDX-License-Identifier: GPL-3.0-or-later
"""The other end of a cable. What lldpd, smpquery and switches say here was recorded: lldpd 1.0.16 between two namespaces, smpquery of
infiniband-diags 44 on ibsim; frames are made by hand from IEEE 802.1AB.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import answer
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.neighbours import NOT_ASKED, neighbour_of, observe_neighbours
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import cables_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from node_trees import NODES


def told(name: str, port: str, age: str, switch: str = "leaf4", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "via": "LLDP", "rid": "1", "age": age,
        "chassis": [{"id": [{"type": "mac", "value": "be:49:a8:d6:08:f7"}], "name": [{"value": switch}], "descr": [{"value": "SONiC"}]}],
        "port": [{"id": [{"type": "local", "value": port}], "descr": [{"value": "s1"}], "ttl": [{"value": "120"}],
                  "mfs": [{"value": "9216"}]}], **more}  # fmt: skip


def hca(name: str, netdev: str | None, **more: Any) -> dict[str, Any]:
    layer = "InfiniBand" if netdev is None else "Ethernet"
    return {"name": name, "ports": [{"number": 1, "state": "ACTIVE", "link_layer": layer, "netdev": netdev, **more}]}


def tree(root: Path, recordings: dict[str, str]) -> TreeHost:
    (root / "cmd").mkdir()
    for name, text in recordings.items():
        (root / "cmd" / name).write_text(text, encoding="utf-8")
    return TreeHost(str(root))


def lldpd(*interfaces: dict[str, Any]) -> dict[str, str]:
    return {"lldpctl_-f_json0": json.dumps({"lldp": [{"interface": list(interfaces)}]})}


def test_what_lldpd_has_heard(tmp_path: Path) -> None:
    vlan = [{"vlan-id": "7", "pvid": False, "value": "x"}, {"vlan-id": "100", "pvid": True, "value": "rdma"}]
    host = tree(tmp_path, lldpd(told("eth1", "Ethernet12", "0 day, 00:00:03", vlan=vlan)))
    assert observe_neighbours(host, [hca("mlx5_0", "eth1"), hca("mlx5_1", "eth2"), hca("mlx5_2", "eth3", state="DOWN")]) == [
        {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "by": "lldpd", "switch": "leaf4", "switch_id": "be:49:a8:d6:08:f7", "why": "",
         "switch_port": "Ethernet12", "switch_port_name": "s1", "mtu": 9216, "vlan": 100},
        {"hca": "mlx5_1", "port": 1, "netdev": "eth2", "why": "lldpd has heard nobody on eth2"}]  # fmt: skip


def test_where_several_speak_nobody_is_believed(tmp_path: Path) -> None:
    """Anybody on the wire can say that he is a switch; and a neighbour of before stays for its time to live."""
    rows = [told("eth1", "Ethernet12", "3 days, 01:00:58"), told("eth1", "Ethernet48", "0 day, 00:00:01", "leaf9")]
    (found,) = observe_neighbours(tree(tmp_path, lldpd(*rows)), [hca("mlx5_0", "eth1")])
    assert found == {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "why": "several speak on eth1: leaf4 Ethernet12, leaf9 Ethernet48"}


def test_the_same_speaker_twice_is_one_and_other_interfaces_take_no_room(tmp_path: Path) -> None:
    rows = [told("mgmt", f"Ethernet{at}", "0 day, 00:00:01") for at in range(80)] + [told("eth1", "Ethernet12", "0 day, 00:00:03")] * 2
    (found,) = observe_neighbours(tree(tmp_path, lldpd(*rows)), [hca("mlx5_0", "eth1")])
    assert (found["switch"], found["switch_port"]) == ("leaf4", "Ethernet12")


def test_a_bonds_members_have_the_cables(tmp_path: Path) -> None:
    (tmp_path / "sys/class/net/bond0/bonding").mkdir(parents=True)
    (found,) = observe_neighbours(tree(tmp_path, {}), [hca("mlx5_bond_0", "bond0")])
    assert found["why"] == "bond0 is a bond: the cables of its members are not judged"


def test_without_lldpd_nobody_listens_unless_asked(tmp_path: Path) -> None:
    (found,) = observe_neighbours(tree(tmp_path, {}), [hca("mlx5_0", "eth1")])
    assert found == {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "why": NOT_ASKED}


@pytest.mark.parametrize("text", ["", "[]", '{"lldp": 7}', '{"lldp": [{"interface": [{"name": "../x"}, 3]}]}', "{" * 99])
def test_nonsense_of_lldpd_is_nobody(tmp_path: Path, text: str) -> None:
    (found,) = observe_neighbours(tree(tmp_path, {"lldpctl_-f_json0": text}), [hca("mlx5_0", "eth1")])
    assert "switch" not in found


NODE_INFO = """# Node info: DR path slid 65535; dlid 65535; 0,1
BaseVers:........................1
NodeType:........................Switch
Guid:............................0x0000000000200000
LocalPort:.......................17
VendorId:........................0x000000
"""
NODE_DESC = "Node Description:...........................leaf1\n"


def test_infiniband_asks_along_the_cable(tmp_path: Path) -> None:
    host = tree(tmp_path, {"smpquery_-C_mlx5_0_-P_1_-D_nodeinfo_0,1": NODE_INFO, "smpquery_-C_mlx5_0_-P_1_-D_nodedesc_0,1": NODE_DESC})
    (found,) = observe_neighbours(host, [hca("mlx5_0", None)])
    assert (found["by"], found["switch"], found["switch_id"], found["switch_port"], found["why"]) == (
        "smpquery", "leaf1", "0x0000000000200000", "17", "")


def test_a_port_that_nobody_may_ask_along(tmp_path: Path) -> None:
    host = tree(tmp_path, {"smpquery_-C_mlx5_0_-P_1_-D_nodeinfo_0,1": "",
                           "smpquery_-C_mlx5_0_-P_1_-D_nodeinfo_0,1.rc": "255\nibwarn: [1] mad_rpc_open_port: can't open UMAD port\n"})
    (found,) = observe_neighbours(host, [hca("mlx5_0", None)])
    assert found["why"] == "smpquery nodeinfo: ibwarn: [1] mad_rpc_open_port: can't open UMAD port"


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack(">H", (kind << 9) | len(value)) + value


BEGIN = bytes.fromhex("0180c200000e" "aabbccddee01" "88cc")
FRAME = BEGIN + b"".join((
    tlv(1, b"\x04" + bytes.fromhex("aabbccddeeff")), tlv(2, b"\x05Ethernet48"), tlv(3, struct.pack(">H", 120)), tlv(4, b"to node17"),
    tlv(5, b"leaf9.example"), tlv(127, b"\x00\x80\xc2\x01" + struct.pack(">H", 100)),
    tlv(127, b"\x00\x12\x0f\x04" + struct.pack(">H", 9216)), tlv(0, b"")))  # fmt: skip


class Wire(TreeHost):
    """A network on which these frames come in."""

    frames: tuple[bytes, ...] = ()
    refuses = False

    def exchange(
        self, netdev: str, protocol: int, frames: Sequence[bytes], seconds: float, limit: int, wanted: Callable[[bytes], bool],
        group: bytes | None = None,
    ) -> list[bytes]:  # fmt: skip
        if self.refuses:
            raise PermissionError(1, "Operation not permitted")
        assert (protocol, len(frames), group) == (0x88CC, 0, bytes.fromhex("0180c200000e"))
        return [frame for frame in self.frames if wanted(frame)][:limit]


def test_what_we_hear_ourselves(tmp_path: Path) -> None:
    host = Wire(str(tmp_path))
    host.frames = (BEGIN, FRAME)
    (found,) = observe_neighbours(host, [hca("mlx5_0", "eth1")], 65)
    assert found == {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "by": "heard", "switch": "leaf9.example", "why": "", "mtu": 9216,
                     "switch_id": "aa:bb:cc:dd:ee:ff", "switch_port": "Ethernet48", "switch_port_name": "to node17", "vlan": 100}
    last_word = FRAME.replace(tlv(3, struct.pack(">H", 120)), tlv(3, b"\0\0"))
    host.frames = (last_word,)
    assert observe_neighbours(host, [hca("mlx5_0", "eth1")], 65)[0]["why"] == "no LLDP in 65 s on eth1"
    host.frames = (FRAME, FRAME, FRAME.replace(b"Ethernet48", b"Ethernet49"))
    assert observe_neighbours(host, [hca("mlx5_0", "eth1")], 65)[0]["why"].startswith("several speak on eth1: leaf9.example Ethernet48, ")
    host.refuses = True
    assert observe_neighbours(host, [hca("mlx5_0", "eth1")], 65)[0]["why"] == "cannot listen on eth1: Operation not permitted"


def test_the_question_of_the_verb_finds_the_rails_too(tmp_path: Path) -> None:
    """As the controller asks it, on a captured tree with a network of the test's."""
    tree = tmp_path / "node"
    shutil.copytree(NODES / "roce8-bond", tree, symlinks=True)
    host = Wire(str(tree))
    host.frames = (FRAME,)
    own = observe_identity(host).hcas[0]
    rails = [{"name": "rail0", "match": {"pci": own.pci}}]
    spec, _found = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": rails}, "n1")
    assert spec is not None
    asked = {"mode": "cabling", "node": "n1", "spec": spec.as_dict(), "seconds": 65, "now": None}
    told = answer(host, asked, False)["cabling"]
    assert str(cables_of(**told)["rail0"]) == "leaf9.example Ethernet48"
    with pytest.raises(RailwrightError, match="seconds: 301; allowed: 0 to 300"):
        answer(host, {**asked, "seconds": 301}, False)


def test_validate_asks_only_a_node_with_a_plan(tmp_path: Path) -> None:
    tree = tmp_path / "node"
    shutil.copytree(NODES / "roce8-bond", tree, symlinks=True)
    host = TreeHost(str(tree))
    rails = [{"name": "rail0", "match": {"pci": observe_identity(host).hcas[0].pci}}]
    for cabling, asked in (({}, False), ({"rail0": {"switch": "leaf1", "port": "Ethernet1"}}, True)):
        values = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": rails, "rdma_cabling": cabling}
        spec, _found = build_spec(values, "n1")
        assert spec is not None
        told = answer(host, {"mode": "verdicts", "node": "n1", "spec": spec.as_dict(), "seconds": 0, "now": None}, False)
        assert bool(told["neighbours"]) is asked
        assert "neighbours" not in told["facts"]["health"]


@given(st.one_of(st.binary(max_size=600), st.tuples(st.integers(0, len(FRAME)), st.binary(max_size=40)).map(
    lambda cut: FRAME[: cut[0]] + cut[1])))
def test_any_frame_is_a_neighbour_or_none(frame: bytes) -> None:
    found = neighbour_of(frame)
    assert found is None or ((found["switch_id"] or found["switch"]) and found["switch_port"])
