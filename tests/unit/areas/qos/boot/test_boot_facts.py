# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts say of the next boot, on trees written from documented formats: the settings file is read back, not believed.

The file is the one that an apply writes for the profile; the runtime is the tree of the same profile, whole or broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_qos as tree_of

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.boot import BootNic, settings_text
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.settings import PARTS, NicWish, settings
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, QosProfile
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos import observe_qos
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_boot import enable_link, lines_of, sets, unit_of, with_boot

SHARED = QOS_PROFILES[0]._replace(ets=(20, 0, 0, 80, 0, 0, 0, 0))
PROFILES = [*QOS_PROFILES, SHARED]
DCB_PARTS = PARTS[:6]
FILES = {"ecn": "sysfs", "cnp": "sysfs", "rdma_cm": "configfs", "forced_tc": "sysfs"}
BUFFERS = ((130944, 130944, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0))
FILE = "etc/railwright/roce-qos/eth1"
Write = Callable[[Path, QosProfile], Any]
TOOLS: dict[str, Write] = {"dcb": tree_of.with_dcb, "mlnx_qos": tree_of.with_mlnx_qos}


def text_of(profile: QosProfile, tool: str, cnp: str = "sysfs") -> str:
    """All that there is to set, by this tool."""
    buffers = (BUFFERS[0], tuple(int(priority in profile.lossless) for priority in range(8)))
    wish = NicWish(
        netdev="eth1", mac=tree_of.MAC, hca="mlx5_0", port=1, label="rail0 (eth1)", driver="mlx5_core", pci="0000:31:00.0", first=True,
        profile=profile, dcbx_host=True, buffers=buffers, force_tc=True)
    tools = {**dict.fromkeys(DCB_PARTS, tool), **FILES, "cnp": cnp}
    return settings_text(BootNic("eth1", tree_of.MAC, wish.label, "mlx5_0", 1, settings(wish, tools), profile.name))


def provision(root: Path, profile: QosProfile, tool: str, *, state: str = "active", result: str = "success") -> None:
    TOOLS[tool](root, profile)
    (root / tree_of.TRAFFIC_CLASS).write_text(f"Global tclass={profile.tc}\n")
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_text(text_of(profile, tool))
    link = root / enable_link("eth1").lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to("/etc/systemd/system/railwright-roce-qos@.service")
    show = recording_name(("systemctl", "show", "-p", "ActiveState,Result", unit_of("eth1")))
    (root / "cmd" / show).write_text(f"Result={result}\nActiveState={state}\n")


def boot_of(root: Path) -> dict[str, Any]:
    host = TreeHost(str(root))
    found: dict[str, Any] = json.loads(json.dumps(with_boot(host, observe_qos(host, observe_identity(host)))))["nics"][0]["boot"]
    return found


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: f"{profile.name}{'-ets' if profile.ets else ''}")
def test_a_provisioned_nic_agrees_with_its_file(tmp_path: Path, profile: QosProfile, tool: str) -> None:
    provision(tmp_path, profile, tool)
    assert boot_of(tmp_path) == {
        "file": "/" + FILE, "enabled": True, "profile": profile.name, "differs": [],
        "unit": {"name": "railwright-roce-qos@eth1.service", "state": "active", "result": "success"},
    }
    parts = set(PARTS) - (set() if profile.ets else {"ets"})
    assert set(sets(lines_of(text_of(profile, tool)))) == parts, "a part that is not read back is never seen to differ"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_nic_with_another_profile_differs_where_the_profiles_differ(tmp_path: Path, tool: str) -> None:
    provision(tmp_path, QOS_PROFILES[0], tool)
    (tmp_path / FILE).write_text(text_of(QOS_PROFILES[1], tool))
    found = boot_of(tmp_path)
    assert found["profile"] == "scnet-dscp34-prio4"
    assert found["differs"] == ["buffers", "ecn", "forced_tc", "pfc", "rdma_cm"]  # DSCP 34 is on priority 4 by dscp >> 3 already


def flags(*on: int) -> str:
    return json.dumps({"prio_pfc": [priority in on for priority in range(8)]})


def changed(path: Path, **more: Any) -> str:
    return json.dumps({**json.loads(path.read_text()), **more})


@pytest.mark.parametrize(
    ("part", "path", "text"),
    [
        ("pfc", tree_of.DCB.format("pfc"), flags(3, 4)),
        ("pfc", tree_of.DCB.format("pfc"), flags()),
        ("trust", tree_of.DCB.format("apptrust"), '{"order": ["pcp"]}'),
        ("dscp_priority", tree_of.DCB.format("app"), '{"dscp_prio": [[26, 4], [48, 6]]}'),
        ("dscp_priority", tree_of.DCB.format("app"), '{"dscp_prio": [[26, 3], [26, 4], [48, 6]]}'),
        ("dcbx", tree_of.DCB.format("dcbx"), '{"ieee": true}'),
        ("ecn", tree_of.ECN + "/roce_rp/enable/3", "0\n"),
        ("cnp", tree_of.ECN + "/roce_np/cnp_dscp", "4\n"),
        ("cnp", tree_of.ECN + "/roce_np/cnp_802p_prio", "0\n"),
        ("rdma_cm", tree_of.RDMA_CM + "/default_roce_tos", "0\n"),
        ("rdma_cm", tree_of.RDMA_CM + "/default_roce_mode", "IB/RoCE v1\n"),
        ("forced_tc", tree_of.TRAFFIC_CLASS, "Global tclass=0\n"),
        ("forced_tc", tree_of.TRAFFIC_CLASS, ""),
    ],
)
def test_what_somebody_changed_since_is_named(tmp_path: Path, part: str, path: str, text: str) -> None:
    provision(tmp_path, QOS_PROFILES[0], "dcb")
    (tmp_path / path).write_text(text)
    assert boot_of(tmp_path)["differs"] == [part]


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        ({"tc_bw": [80, 0, 0, 20, 0, 0, 0, 0]}, ["ets"]),
        ({"prio_tc": [0, 0, 0, 3, 0, 0, 0, 0]}, ["ets"]),  # 20 percent, but of all together
        ({"tc_tsa": ["ets", "vendor", "vendor", "ets", *["strict"] * 4]}, []),
    ],
)
def test_shares_are_compared_as_the_plan_compares_them(tmp_path: Path, more: dict[str, Any], differs: Sequence[str]) -> None:
    provision(tmp_path, SHARED, "dcb")
    path = tmp_path / tree_of.DCB.format("ets")
    path.write_text(changed(path, **more))
    assert boot_of(tmp_path)["differs"] == differs


def test_what_the_node_does_not_tell_is_not_held_against_it(tmp_path: Path) -> None:
    provision(tmp_path, QOS_PROFILES[0], "dcb")
    for name in ("pfc", "app", "apptrust"):
        (tmp_path / tree_of.DCB.format(name)).unlink()
    (tmp_path / tree_of.RDMA_CM / "default_roce_tos").unlink()
    assert boot_of(tmp_path)["differs"] == []


def test_ecn_bits_of_a_forced_class_and_other_buffer_sizes_are_the_nics(tmp_path: Path) -> None:
    provision(tmp_path, QOS_PROFILES[0], "dcb")
    (tmp_path / tree_of.TRAFFIC_CLASS).write_text("Global tclass=104\n")
    path = tmp_path / tree_of.DCB.format("buffer")
    path.write_text(changed(path, buffer_size=[130816, 130816, 0, 0, 0, 0, 0, 0]))
    assert boot_of(tmp_path)["differs"] == []
    path.write_text(changed(path, prio_buffer=[0] * 8))
    assert boot_of(tmp_path)["differs"] == ["buffers"]


def test_cnp_marking_of_the_kernels_own_driver_is_read_back_too() -> None:
    found = sets(lines_of(text_of(QOS_PROFILES[0], "dcb", cnp="debugfs")))
    assert found["cnp"] == {"dscp": 48, "priority": 6}


def test_a_node_without_settings_says_so(tmp_path: Path) -> None:
    tree_of.with_dcb(tmp_path, QOS_PROFILES[0])
    assert boot_of(tmp_path) == {"file": None, "enabled": False, "unit": None, "profile": None, "differs": []}


@pytest.mark.parametrize("show", ["", "ActiveState=active\n", "ActiveState=<b>\nResult=success\n"])
def test_a_systemd_that_does_not_answer_is_null(tmp_path: Path, show: str) -> None:
    provision(tmp_path, QOS_PROFILES[0], "dcb")
    next((tmp_path / "cmd").glob("systemctl_show*")).write_text(show)
    assert boot_of(tmp_path)["unit"] is None


@pytest.mark.parametrize(
    "line",
    [
        "\t", "mkdir", "value\t/x", "value\t/sys/class/infiniband/mlx5_0/tc/1/traffic_class\tmany", "run\tdcb",
        *("run\tdcb\t" + words.replace(" ", "\t") for words in (
            "ets set dev eth1 prio-tc 0:0", "ets set dev eth1 prio-tc " + " ".join(f"{tc}:9" for tc in range(8)), "pfc set dev eth1 3:on",
            "app set dev eth1 dscp-prio x:y", "maxrate set dev eth1 tc-maxrate 0:1")),
        *("run\tmlnx_qos\t-i\teth1\t" + words.replace(" ", "\t") for words in (
            "-d us", "--dscp2prio set", "-p", "-p 0,1,2", "-p 9,9,9,9,9,9,9,9", "-p 0,1,2,3,4,5,6,7,0", "-s ets", "-t 20",
            "--pfc 1,1,1,1,1,1,1,1,1,1")),
    ],
)
def test_a_file_that_somebody_spoilt_never_raises(tmp_path: Path, line: str) -> None:
    provision(tmp_path, SHARED, "dcb")
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text() + line + "\n")
    assert set(boot_of(tmp_path)["differs"]) <= {"ets", "pfc"}
    (tmp_path / FILE).write_text(line)
    assert boot_of(tmp_path)["profile"] is None
