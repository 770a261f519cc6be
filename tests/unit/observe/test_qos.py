# SPDX-License-Identifier: GPL-3.0-or-later
"""QoS of a NIC as the tools tell it, in formats written from their sources: who answered, who could not, and no half values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_qos as tree_of
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos import observe_qos
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_dcb import OBJECTS, parse_mlnx_qos, read_dcb

MakeTree = Callable[[dict[str, str]], TreeHost]
PROFILE = QOS_PROFILES[0]
PARTS = [part for part, _object in OBJECTS]


class Failing(TreeHost):
    """A captured tree whose commands fail as the live tool does: its exit code and what it writes to stderr."""

    def __init__(self, root: Path, failures: dict[str, Result]) -> None:
        super().__init__(str(root))
        self.failures = failures
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        self.asked.append(tuple(argv))
        for word, result in self.failures.items():
            if word in argv:
                return result
        return super().run(argv, timeout, stdin)


def nic_of(host: TreeHost) -> dict[str, Any]:
    nics = observe_qos(host, observe_identity(host))["nics"]
    assert len(nics) == 1
    nic: dict[str, Any] = json.loads(json.dumps(nics[0], allow_nan=False))
    return nic


def test_dcb_in_its_documented_form_tells_everything(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, PROFILE)
    nic = nic_of(TreeHost(str(tmp_path)))
    assert (nic["hca"], nic["port"], nic["netdev"], nic["driver"]) == ("mlx5_0", 1, "eth1", "mlx5_core")
    assert (nic["trust"], nic["pfc"], nic["dcbx"]) == ("dscp", [3], "host")
    assert len(nic["dscp_priority"]) == 64
    assert [pair for pair in nic["dscp_priority"] if pair[0] in (26, 48)] == [[26, 3], [48, 6]]
    assert nic["ets"] == {"tc": list(range(8)), "tsa": ["strict"] * 8, "percent": [0] * 8}
    assert nic["buffers"] == {"of_priority": [0, 0, 0, 1, 0, 0, 0, 0], "bytes": [130944, 130944, 0, 0, 0, 0, 0, 0]}
    assert (nic["ecn"], nic["cnp"]) == ({"np": [3], "rp": [3]}, {"dscp": 48, "priority": 6})
    assert (nic["rdma_cm"], nic["forced_tc"]) == ({"mode": "RoCE v2", "tos": 106}, [])
    assert set(nic["sources"].values()) == {"dcb", "sysfs", "configfs"}
    assert nic["missing"] == {}


def test_mlnx_qos_in_its_documented_form_says_the_same_as_dcb(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path / "dcb", PROFILE)
    tree_of.with_mlnx_qos(tmp_path / "mlnx", PROFILE)
    one, other = nic_of(TreeHost(str(tmp_path / "dcb"))), nic_of(TreeHost(str(tmp_path / "mlnx")))
    assert {part: other["sources"][part] for part in PARTS} == dict.fromkeys(PARTS, "mlnx_qos")
    one["ets"]["tsa"] = ["vendor"] * 8  # as a NIC has them that nobody told anything; dcb prints "vendor" too
    assert {part: one[part] for part in PARTS} == {part: other[part] for part in PARTS}


def test_a_dcb_without_apptrust_leaves_mlx5s_trust_to_its_dscp_table(tmp_path: Path) -> None:
    """iproute2 before 6.1, and every mlx5: the state is in the table (any entry: DSCP)."""
    tree_of.with_dcb(tmp_path, PROFILE)
    host = Failing(tmp_path, {"apptrust": Result(1, "", 'Object "apptrust" is unknown, try "dcb help".\n')})
    nic = nic_of(host)
    assert (nic["trust"], nic["sources"]["trust"], nic["missing"]) == ("dscp", "dcb app", {})
    (tmp_path / tree_of.DCB.format("app")).write_text("{}")
    nic = nic_of(host)
    assert (nic["trust"], nic["dscp_priority"]) == ("pcp", [])


def test_the_trust_of_other_drivers_is_not_guessed(tmp_path: Path) -> None:
    tree = tree_of.with_dcb(tmp_path, PROFILE)
    (tree.root / "sys/devices" / tree_of.PCI / "driver").unlink()
    tree.link(f"sys/devices/{tree_of.PCI}/driver", "sys/bus/pci/drivers/bnxt_en")
    nic = nic_of(Failing(tmp_path, {"apptrust": Result(1, "", "Attribute not found: No data available\n")}))
    assert nic["trust"] is None
    assert nic["missing"]["trust"] == "dcb apptrust: Attribute not found: No data available; no mlnx_qos (OFED and DOCA have it)"


def test_what_a_driver_refuses_to_dcb_is_asked_of_mlnx_qos(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, PROFILE)
    (tmp_path / tree_of.MLNX_QOS).write_text(tree_of.mlnx_qos_text(PROFILE))
    refused = Result(1, "", "Attribute read: Operation not supported\n")
    host = Failing(tmp_path, {"buffer": refused, "dcbx": refused})
    nic = nic_of(host)
    assert {part for part, source in nic["sources"].items() if source == "mlnx_qos"} == {"buffers", "dcbx"}
    assert (nic["dcbx"], nic["missing"]) == ("host", {})


def test_what_a_failing_command_prints_is_not_believed(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, PROFILE)
    printed = (tmp_path / tree_of.DCB.format("pfc")).read_text()
    nic = nic_of(Failing(tmp_path, {"pfc": Result(255, printed, "")}))
    assert (nic["pfc"], nic["missing"]["pfc"]) == (None, "dcb pfc: failed; no mlnx_qos (OFED and DOCA have it)")


@pytest.mark.parametrize(
    ("flags", "owner"),
    [
        ({"host": True, "cee": True, "ieee": True}, "host"),
        ({"ieee": True, "static": True}, "host"),  # set once and not negotiated
        ({"lld_managed": True, "ieee": True}, "firmware"),
        ({"cee": True, "ieee": True}, "firmware"),
        ({}, None),
    ],
)
def test_the_owner_of_dcbx(tmp_path: Path, flags: dict[str, bool], owner: str | None) -> None:
    tree_of.with_dcb(tmp_path, PROFILE).write(tree_of.DCB.format("dcbx"), json.dumps(flags))
    assert nic_of(TreeHost(str(tmp_path)))["dcbx"] == owner


@pytest.mark.parametrize(
    ("part", "path", "text"),
    [
        ("ecn", tree_of.ECN + "/roce_rp/enable/0", "2\n"),
        ("ecn", tree_of.ECN + "/roce_np/enable/7", "on\n"),
        ("cnp", tree_of.ECN + "/roce_np/cnp_dscp", "64\n"),
        ("cnp", tree_of.ECN + "/roce_np/cnp_802p_prio", "8\n"),
        ("rdma_cm", tree_of.RDMA_CM + "/default_roce_mode", "RoCE v3\n"),
        ("rdma_cm", tree_of.RDMA_CM + "/default_roce_tos", "256\n"),
    ],
)
def test_a_value_out_of_its_range_is_none_with_a_reason(tmp_path: Path, part: str, path: str, text: str) -> None:
    tree_of.with_dcb(tmp_path, PROFILE).write(path, text)
    nic = nic_of(TreeHost(str(tmp_path)))
    assert (nic[part], list(nic["missing"])) == (None, [part])


def test_mlnx_qos_is_not_run_for_nothing(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, PROFILE)
    (tmp_path / tree_of.MLNX_QOS).write_text(tree_of.mlnx_qos_text(PROFILE))
    host = Failing(tmp_path, {})
    nic_of(host)
    assert {argv[0] for argv in host.asked if "eth1" in argv} == {"dcb"}


def test_a_tool_that_hangs_is_asked_once(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, PROFILE)
    host = Failing(tmp_path, {"pfc": Result(124, "", "dcb: no answer in 5 s")})
    told, missing = read_dcb(host, "eth1")
    assert set(told) == {"trust"}
    assert set(missing) == set(PARTS) - {"trust"}
    assert set(missing.values()) == {"dcb gave no answer in 5 s"}
    assert len(host.asked) == 2


def test_a_failing_mlnx_qos_says_why(tmp_path: Path) -> None:
    tree_of.with_mlnx_qos(tmp_path, PROFILE)
    traceback = 'Traceback (most recent call last):\n  File "/usr/bin/mlnx_qos", line 9\nOSError: Netlink error: No such device (19)\n'
    nic = nic_of(Failing(tmp_path, {"mlnx_qos": Result(1, "", traceback)}))
    assert nic["pfc"] is None
    assert nic["missing"]["pfc"].endswith("; mlnx_qos: OSError: Netlink error: No such device (19)")


HOSTILE = [
    "",
    "[]",
    "null",
    "{",
    "[" * 100_000,
    '{"order": 1}',
    '{"order": [["dscp"]]}',
    '{"order": ["dscp\\u001b[31m"]}',
    '{"order": ["dscp", "dscp"]}',
    '{"prio_pfc": [true]}',
    '{"prio_pfc": [1, 0, 0, 0, 0, 0, 0, 0]}',
    '{"prio_pfc": [true, true, true, true, true, true, true, true, true]}',
    '{"dscp_prio": [[26]]}',
    '{"dscp_prio": [[64, 0]]}',
    '{"dscp_prio": [[26, 8]]}',
    '{"dscp_prio": [[true, 3]]}',
    '{"dscp_prio": [["26", 3]]}',
    '{"dscp_prio": 7}',
    '{"dscp_prio": [[-1, 3]]}',
    json.dumps({"dscp_prio": [[1, 1]] * 513}),
    '{"prio_tc": [0, 0, 0, 0, 0, 0, 0, 9]}',
    json.dumps({"prio_tc": [0] * 8, "tc_bw": [0] * 8, "tc_tsa": ["<script>"] * 8}),
    json.dumps({"prio_tc": [0] * 8, "tc_bw": [101] * 8}),
    json.dumps({"prio_buffer": [0] * 8, "buffer_size": ["1kb"] * 8}),
    json.dumps({"prio_buffer": [0] * 8, "buffer_size": [1e9] * 8}),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_output_of_dcb_gives_nothing_and_a_reason(make_tree: MakeTree, text: str) -> None:
    """Every object answers with the same text; an APP table without entries is the one that {} may stand for."""
    told, missing = read_dcb(make_tree({tree_of.DCB.format(name): text for _part, name in OBJECTS}), "eth1")
    found = {part: value for part, value in told.items() if not (part == "dscp_priority" and value == [])}
    if text.startswith('{"order": 1'):
        found.pop("dcbx")  # an object with any flag but the host's names the firmware
    assert {part for part in found if part != "dcbx"} == set()
    assert set(missing) == set(PARTS) - set(told)
    assert all(reason == f"dcb {dict(OBJECTS)[part]}: not the form that dcb prints" for part, reason in missing.items())


def test_text_of_mlnx_qos_in_older_and_broken_forms() -> None:
    whole = tree_of.mlnx_qos_text(PROFILE)
    assert set(parse_mlnx_qos(whole)) == set(PARTS)
    told = parse_mlnx_qos("Buffers commands are not supported on your system\n" + "\n".join(
        line for line in whole.splitlines() if "uffer" not in line))  # fmt: skip
    assert set(told) == set(PARTS) - {"buffers"}
    assert parse_mlnx_qos(whole.replace("state: dscp", "state: none")).keys() == set(PARTS) - {"trust", "dscp_priority"}
    for text in ("", "x" * 70_000, "\tenabled" + " " * 60_000, "\tprio:3 dscp:" + "26," * 20_000, "tc: 0 ratelimit: " + "y" * 60_000):
        assert parse_mlnx_qos(text) == {}
    assert "pfc" not in parse_mlnx_qos(whole.replace("enabled     0", "enabled     7"))
    assert "ets" not in parse_mlnx_qos(whole.replace("\t priority:  5\n", ""))


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("", []), ("\n", []), ("Global tclass=106\n", [106]), ("106\n", [106]), ("Global tclass=106\nsrc_ip=10.0.0.1,tclass=8\n", [106]),
        ("dst_ip=10.0.0.0/24,tclass=8\nsrc_ip6=fd00::1,tclass=16\n", [8, 16]), ("src_ip=10.0.0.1,dst_ip=10.0.0.2/32,tclass=0\n", [0]),
        ("Global tclass=256\n", None), ("Global tclass=-1\n", None), ("what\n", None), ("dst_ip=10.0.0.1,tclass=8\n106\n", None),
    ],
)  # fmt: skip
def test_the_drivers_override_in_its_documented_forms(tmp_path: Path, text: str, classes: list[int] | None) -> None:
    tree_of.with_dcb(tmp_path, PROFILE).write(tree_of.TRAFFIC_CLASS, text)
    nic = nic_of(TreeHost(str(tmp_path)))
    assert nic["forced_tc"] == classes
    assert ("forced_tc" in nic["missing"]) == (classes is None)


def test_no_override_in_the_kernels_own_driver_forces_nothing(tmp_path: Path) -> None:
    tree = tree_of.with_dcb(tmp_path, PROFILE)
    (tree.root / tree_of.TRAFFIC_CLASS).unlink()
    nic = nic_of(TreeHost(str(tmp_path)))
    assert (nic["forced_tc"], nic["sources"]["forced_tc"]) == ([], "the driver has no override")


def test_the_kernels_own_mlx5_has_cnp_in_debugfs_and_no_ecn(tmp_path: Path) -> None:
    tree = tree_of.with_dcb(tmp_path, PROFILE)
    ecn = tree.root / "sys/devices" / tree_of.PCI / "net/eth1/ecn"
    ecn.rename(tmp_path / "away")
    directory = "sys/kernel/debug/mlx5/0000:31:00.0/cc_params"
    tree.files(directory, (("np_cnp_dscp", "48"), ("np_cnp_prio", "6")))
    nic = nic_of(TreeHost(str(tmp_path)))
    assert (nic["cnp"], nic["sources"]["cnp"]) == ({"dscp": 48, "priority": 6}, "debugfs")
    assert nic["ecn"] is None
    assert nic["missing"]["ecn"] == "no /sys/class/net/eth1/ecn: only the driver of OFED and DOCA has it"


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        (False, "no /sys/kernel/config/rdma_cm: rdma_cm is not loaded, or configfs not mounted"),
        (True, "/sys/kernel/config/rdma_cm/mlx5_0/ports/1 cannot be read; mkdir /sys/kernel/config/rdma_cm/mlx5_0 makes it"),
    ],
)
def test_rdma_cm_tells_nothing_until_somebody_made_its_directory(tmp_path: Path, present: bool, reason: str) -> None:
    tree_of.with_dcb(tmp_path / "node", PROFILE)
    (tmp_path / "node/sys/kernel/config/rdma_cm").rename(tmp_path / "away")
    if present:
        (tmp_path / "node/sys/kernel/config/rdma_cm").mkdir()
    nic = nic_of(TreeHost(str(tmp_path / "node")))
    assert (nic["rdma_cm"], nic["missing"]["rdma_cm"]) == (None, reason)


def test_soft_roce_has_no_dcb_but_an_rdma_cm(nodes: Path, make_tree: MakeTree) -> None:
    assert nic_of(TreeHost(str(nodes / "rxe")))["missing"]["pfc"].startswith("Soft-RoCE has no DCB")
    tree = Tree(Path(make_tree({}).root) / "rxe")
    for path in sorted((nodes / "rxe").rglob("*")):
        if path.is_symlink():
            (tree.root / path.relative_to(nodes / "rxe")).parent.mkdir(parents=True, exist_ok=True)
            (tree.root / path.relative_to(nodes / "rxe")).symlink_to(path.readlink())
        elif path.is_file():
            tree.write(str(path.relative_to(nodes / "rxe")), path.read_bytes())
    tree.files("sys/kernel/config/rdma_cm/rxe0/ports/1", (("default_roce_mode", "RoCE v2"), ("default_roce_tos", "106")))
    assert nic_of(TreeHost(str(tree.root)))["rdma_cm"] == {"mode": "RoCE v2", "tos": 106}


def test_infiniband_has_no_such_nics_and_a_bond_has_its_members(nodes: Path) -> None:
    def netdevs(name: str) -> list[str]:
        host = TreeHost(str(nodes / name))
        return [nic["netdev"] for nic in observe_qos(host, observe_identity(host))["nics"]]

    assert netdevs("ib8") == []
    assert netdevs("nohca") == []
    assert netdevs("multiport") == ["ens2f0np0", "enp145s0d1"]  # the second is a port of an HCA whose first is InfiniBand
    assert netdevs("roce8-bond")[-2:] == ["ens20f0np0", "ens20f1np1"]


@pytest.mark.parametrize(
    ("path", "there"), [("/run/systemd/notify", False), ("@/com/intel/lldpad", True), ("@/com/intel/lldpad/88", False)]
)
def test_lldpad_is_told_by_the_socket_that_it_listens_on(tmp_path: Path, path: str, there: bool) -> None:
    tree_of.with_dcb(tmp_path, PROFILE).write(tree_of.UNIX, tree_of.SOCKETS.format(path))
    host = TreeHost(str(tmp_path))
    assert observe_qos(host, observe_identity(host))["lldpad"] is there


def test_damage_anywhere_never_raises(tmp_path: Path) -> None:
    """Each file of a whole tree cut short, overwritten with noise or replaced by a directory: None with a reason, and JSON."""
    chance = random.Random(3)
    for write in (tree_of.with_dcb, tree_of.with_mlnx_qos):
        root = write(tmp_path / write.__name__, PROFILE).root
        for victim in sorted(path for path in root.rglob("*") if path.is_file()):
            content = victim.read_bytes()
            for damage in (content[: chance.randrange(len(content) + 1)], bytes(chance.randrange(256) for _ in range(300)), None):
                victim.unlink()
                if damage is None:
                    victim.mkdir()
                else:
                    victim.write_bytes(damage)
                host = TreeHost(str(root))
                for nic in json.loads(json.dumps(observe_qos(host, observe_identity(host)), allow_nan=False))["nics"]:
                    assert {part for part, value in nic.items() if value is None and part in nic["missing"]} == set(nic["missing"])
            victim.rmdir()
            victim.write_bytes(content)
