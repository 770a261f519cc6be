# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU driver: packages, the module on disk and the one that is loaded come to agree, or the plan says what it takes."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures import node_gpu

from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import NAME
from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import gpu_driver
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import agent
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import obstacles

GPUS = ("0000:1b:00.0", "0000:3b:00.0")
BRIDGE = "0000:c1:00.0"
SWITCH = "0000:06:00.0"
PERSISTENCED, FABRICMANAGER = "nvidia-persistenced.service", "nvidia-fabricmanager.service"
OLD, NEW = "580.82.07", "580.95.05"
WANT = {"gpu_driver_branch": "580", "gpu_driver_version": NEW}


def driven(node: Any, version: str) -> Any:
    """The node as an earlier apply left it, with this version."""
    node.packages["nvidia-open"] = version + "-1"
    node.write_packages()
    node.disk = version
    node.load(version)
    node.put(f"usr/lib/systemd/system/{PERSISTENCED}", "[Service]\n")
    node.systemctl(("systemctl", "add-wants", "multi-user.target", PERSISTENCED))
    node.active.add(PERSISTENCED)
    node.write(gpu_driver.BLACKLIST, gpu_driver.BLACKLIST_TEXT, 0o644)
    node.write(gpu_driver.DROPIN, gpu_driver.DROPIN_TEXT, 0o644)
    return node


def test_a_bare_node_needs_all_and_then_nothing(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node(switches=[SWITCH])
    plans = planner("gpu_driver", node, **WANT)
    assert plans.rows() == [
        ("package nvidia-open", None, f"{NEW}-*", "none"),
        ("package nvidia-fabricmanager", None, f"{NEW}-*", "none"),
        ("file /etc/modprobe.d/railwright-nouveau.conf", None, gpu_driver.BLACKLIST_TEXT, "none"),
        ("NVIDIA driver loaded", None, NEW, "none"),
        ("file " + gpu_driver.DROPIN, None, gpu_driver.DROPIN_TEXT, "none"),
        (f"unit {PERSISTENCED} enabled", False, True, "none"),
        (f"unit {PERSISTENCED} running", False, True, "none"),
        (f"unit {FABRICMANAGER} enabled", False, True, "none"),
        (f"unit {FABRICMANAGER} running", False, True, "none"),
    ]
    assert plans.problems() == []
    assert plans.run() == []
    assert ("update-initramfs", "-u", "-k", "all") in node.commands
    assert node.active == {PERSISTENCED, FABRICMANAGER}
    assert plans.run() == []


def test_without_nvswitch_no_fabric_manager_unless_asked_for(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    assert not [what for what in planner("gpu_driver", node, **WANT).whats() if "fabric" in what]
    asked = planner("gpu_driver", node, **WANT, gpu_driver_fabricmanager=True).whats()
    assert "package nvidia-fabricmanager" in asked
    assert f"unit {FABRICMANAGER} running" in asked
    switched = gpu_node(switches=[SWITCH])
    assert not [what for what in planner("gpu_driver", switched, **WANT, gpu_driver_fabricmanager=False).whats() if "fabric" in what]


def test_nothing_without_a_gpu_and_the_note_says_why(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("gpu_driver", gpu_node(gpus=()), **WANT)
    assert (plans.plan(), plans.problems()) == ([], [])
    assert plans.notes() == ["gpu_driver: no NVIDIA GPU on the PCI bus of this node, so no driver is installed"]
    assert planner("gpu_driver", gpu_node(gpus=())).notes() == []


def test_an_installed_driver_is_left_alone_without_a_branch(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("gpu_driver", driven(gpu_node(), OLD))
    assert plans.plan() == []
    assert plans.notes() == ["gpu_driver: gpu_driver_branch is not set; the NVIDIA driver is left as it is"]


def test_upgrade_of_an_idle_node_reloads_the_module(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = driven(gpu_node(), OLD)
    node.put(
        "proc/modules",
        "nvidia_uvm 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\nib_core 1 1 nvidia_peermem, Live 0x0\n"
        "nvidia 1 7 nvidia_uvm,nvidia_peermem, Live 0x0\n",
    )
    node.opened_by(900, "nvidia-persiste")  # the daemon that is stopped for it
    plans = planner("gpu_driver", node, **WANT)
    assert plans.rows() == [
        ("package nvidia-open", f"{OLD}-1", f"{NEW}-*", "restart"),
        ("NVIDIA driver loaded", OLD, NEW, "reload"),
    ]
    ops = [op.argv for op in plans.plan()[1].ops]
    assert ops == [
        ("systemctl", "stop", PERSISTENCED),
        ("rmmod", "nvidia_uvm", "nvidia_peermem", "nvidia"),
        ("modprobe", "nvidia"),
        ("modprobe", "nvidia_peermem"),
        ("modprobe", "nvidia_uvm"),
        ("systemctl", "start", PERSISTENCED),
    ]
    assert all(op.undo for op in plans.plan()[1].ops)
    assert plans.run() == []
    assert node.active == {PERSISTENCED}


def test_our_agent_rests_while_the_module_is_exchanged(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    """Its look may hold a GPU for a moment; under its own name it makes no reboot of a reload."""
    node = driven(gpu_node(), OLD)
    for unit in (agent.TIMER, agent.UNIT):
        node.put(f"etc/systemd/system/{unit}", "")
    node.active.add(agent.TIMER)
    node.opened_by(901, "railwright-agent"[:15])
    plans = planner("gpu_driver", node, **WANT)
    ops = [op.argv for op in plans.plan()[1].ops]
    assert ops[:3] == [("systemctl", "stop", agent.TIMER), ("systemctl", "stop", agent.UNIT), ("systemctl", "stop", PERSISTENCED)]
    assert ops[-2:] == [("systemctl", "start", agent.UNIT), ("systemctl", "start", agent.TIMER)]
    assert NAME[:15] == agent.PROCESS
    assert plans.run() == []


def test_modules_on_top_of_modules_go_first(gpu_node: Callable[..., Any]) -> None:
    node = gpu_node()
    node.put(
        "proc/modules",
        "nvidia 1 9 nvidia_modeset,nvidia_uvm, Live 0x0\nnvidia_modeset 1 2 nvidia_drm, Live 0x0\nnvidia_uvm 1 0 - Live 0x0\n"
        "nvidia_drm 1 1 card_user, Live 0x0\ncard_user 1 0 - Live 0x0\n",
    )
    assert gpu_driver.users_of(node, "nvidia") == ["card_user", "nvidia_drm", "nvidia_modeset", "nvidia_uvm"]


def test_processes_that_hold_the_module_make_it_a_reboot(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = driven(gpu_node(switches=[SWITCH]), OLD)
    node.opened_by(4711, "python3")
    node.opened_by(4712, "bash", "/dev/pts/0")
    plans = planner("gpu_driver", node, **WANT)
    reboot = next(change for change in plans.plan() if change.needs_reboot)
    assert (reboot.what, reboot.before, reboot.after) == ("reboot into the NVIDIA driver", OLD, NEW)
    assert "python3 (4711)" in reboot.why
    assert "bash" not in reboot.why
    # What would need the new module is not started before the reboot; at boot it is.
    assert plans.run() == ["reboot into the NVIDIA driver"]
    assert FABRICMANAGER not in node.active
    node.load(NEW)
    assert plans.run() == []
    assert FABRICMANAGER in node.active


def test_nouveau_goes_only_with_a_reboot(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.put("proc/modules", "nouveau 1 0 - Live 0x0\n")
    plans = planner("gpu_driver", node, **WANT)
    assert ("reboot into the NVIDIA driver", "nouveau", NEW, "reboot") in plans.rows()
    assert "NVIDIA driver loaded" not in plans.whats()
    assert f"unit {PERSISTENCED} running" not in plans.whats()
    assert plans.run() == ["reboot into the NVIDIA driver"]
    node.put("proc/modules", "")
    assert plans.run() == []


def test_downgrade_is_its_own_class(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("gpu_driver", driven(gpu_node(), "580.126.20"), **WANT)
    assert plans.rows()[0] == ("package nvidia-open", "580.126.20-1", f"{NEW}-*", "downgrade")


def test_another_branch_and_the_other_flavour_are_removed_first(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    stale = (
        "nvidia-driver-570-server",
        "libnvidia-compute-570",
        "nvidia-fabricmanager-570",
        "linux-modules-nvidia-570-6.8.0-85-generic",
        "cuda-drivers",
        "nvidia-dkms-580",
    )
    for name in (*stale, "nvidia-container-toolkit", "nvidia-settings", "libnvidia-container1", "nvidia-firmware-580-580.95.05"):
        node.packages[name] = "1"
    node.write_packages()
    removed = [what for what, _before, after, _class in planner("gpu_driver", node, **WANT).rows() if after is None]
    assert removed == [f"package {name}" for name in sorted(stale)]


def test_a_held_package_forbids_the_plan(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = driven(gpu_node(), OLD)
    node.hold("nvidia-open")
    assert planner("gpu_driver", node, **WANT).problems() == [
        f"package nvidia-open: is held at {OLD}-1 by apt-mark hold and must become {NEW}-*; lift the hold: apt-mark unhold nvidia-open"
    ]
    assert planner("gpu_driver", node, **{**WANT, "gpu_driver_version": OLD}).problems() == []


def test_packages_in_place_and_another_module_on_disk(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = driven(gpu_node(), NEW)
    node.disk = "570.1.2"
    (problem,) = planner("gpu_driver", node, **WANT).problems()
    assert "version 580.95.05" in problem
    assert "is 570.1.2" in problem


def test_a_masked_unit_is_a_problem(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.tree.link(f"etc/systemd/system/{PERSISTENCED}", "/dev/null")
    (problem,) = obstacles(node, planner("gpu_driver", node, **WANT).plan())
    assert problem.message.endswith(f"systemctl unmask {PERSISTENCED}")
    assert obstacles(node, planner("gpu_driver", node, **WANT, gpu_driver_persistence=False).plan()) == []


def test_a_unit_that_was_masked_while_it_runs(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    """It does not come with the next boot."""
    node = driven(gpu_node(), NEW)
    assert planner("gpu_driver", node, **WANT).plan() == []
    node.tree.link(f"etc/systemd/system/{PERSISTENCED}", "/dev/null")
    changes = planner("gpu_driver", node, **WANT).plan()
    assert ([change.what for change in changes], len(obstacles(node, changes))) == ([f"unit {PERSISTENCED} enabled"], 1)


def test_a_container_s_module_is_the_machine_s_below(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.put("run/.containerenv", "")
    plans = planner("gpu_driver", node, **WANT)
    assert not {"NVIDIA driver loaded", f"unit {PERSISTENCED} running"} & set(plans.whats())
    assert plans.notes()[0].startswith("gpu_driver: this is a container")
    assert plans.run() == []
    assert ("update-initramfs", "-u", "-k", "all") not in node.commands
    node.load(OLD)  # the machine below has a driver: its daemon can run here
    assert plans.run() == []
    assert node.active == {PERSISTENCED}


@pytest.mark.parametrize(
    ("device", "flavour", "allowed"),
    [
        ("0x2901", "proprietary", "open"),
        ("0x2342", "proprietary", "open"),
        ("0x2345", "proprietary", "open"),
        ("0x237f", "proprietary", "open"),
        ("0x1db5", "open", "proprietary"),
    ],
    ids=["Blackwell", "GH200", "a superchip without a name", "the last superchip", "Volta"],
)
def test_a_flavour_that_does_not_drive_the_gpu(
    gpu_node: Callable[..., Any], planner: Callable[..., Any], device: str, flavour: str, allowed: str
) -> None:
    node = gpu_node(gpus=())
    node_gpu.gpus(node.tree, GPUS, device=device)
    (problem,) = planner("gpu_driver", node, **WANT, gpu_driver_flavour=flavour).problems()
    assert device in problem
    assert problem.endswith(f"allowed on this node: {allowed}")
    assert planner("gpu_driver", node, **WANT, gpu_driver_flavour=allowed).problems() == []


def test_a_hopper_that_is_no_superchip_has_both_flavours(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    for device in ("0x2339", "0x2380"):
        node = gpu_node(gpus=())
        node_gpu.gpus(node.tree, GPUS, device=device)
        assert planner("gpu_driver", node, **WANT, gpu_driver_flavour="proprietary").problems() == []


def bridge(node: Any, vpd: bytes | None) -> None:
    """An InfiniBand function of ConnectX-7 on a board whose NVSwitches the PCI bus does not show."""
    node_gpu.gpus(node.tree, GPUS, device="0x2901")
    base = node_gpu.nvidia_function(node.tree, BRIDGE, "0x020700", "0x1021")
    node.put(base + "/vendor", "0x15b3\n")
    if vpd is not None:
        node.tree.write(base + "/vpd", vpd)


def test_a_board_whose_nvswitches_are_hidden_is_told(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node(gpus=())
    bridge(node, None)
    assert "gpu_driver_fabricmanager: true" in planner("gpu_driver", node, **WANT).notes()[0]
    assert planner("gpu_driver", node, **WANT, gpu_driver_fabricmanager=True).notes() == []


def test_nvlink_5_gets_the_fabric_manager_and_what_it_starts(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node(gpus=())
    bridge(node, b"\x90SMDL\x06SW_MNG\x78")
    plans = planner("gpu_driver", node, **WANT)
    packages = {change.package: change.after for change in plans.plan() if change.package}
    assert packages == {
        "nvidia-open": "580.95.05-*",
        "nvidia-fabricmanager": "580.95.05-*",
        "nvlsm": "present",
        "infiniband-diags": "present",
    }
    assert "unit nvidia-fabricmanager.service running" in plans.whats()
    assert plans.notes() == []
    assert planner("gpu_driver", node, **{**WANT, "gpu_driver_source": "distribution", "gpu_driver_version": None}).problems() != []
    without = planner("gpu_driver", node, **WANT, gpu_driver_fabricmanager=False).plan()
    assert not {change.package for change in without} & {"nvidia-fabricmanager", "nvlsm"}


def test_a_rack_gets_imex_in_the_drivers_version(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node(gpus=())
    node_gpu.gpus(node.tree, GPUS, device="0x2941")
    rack = ["192.0.2.11", "192.0.2.12"]
    plans = planner("gpu_driver", node, **WANT, gpu_driver_imex_nodes=rack)
    packages = {change.package: change.after for change in plans.plan() if change.package}
    assert packages == {"nvidia-open": "580.95.05-*", "nvidia-imex": "580.95.05-*"}
    files = {"file " + path for path in (gpu_driver.IMEX_OPTION, gpu_driver.IMEX_NODES)}
    assert files | {"unit nvidia-imex.service enabled", "unit nvidia-imex.service running"} <= set(plans.whats())
    assert "file " + gpu_driver.IMEX_NODES not in planner("gpu_driver", node, **WANT).whats(), "the site's own"
    without = planner("gpu_driver", node, **WANT, gpu_driver_imex=False)
    assert not [what for what in without.whats() if "imex" in what]
    distribution = {**WANT, "gpu_driver_source": "distribution", "gpu_driver_version": None}
    assert planner("gpu_driver", node, **distribution).problems() != []
    assert planner("gpu_driver", node, **distribution, gpu_driver_imex=False).problems() == []


def test_dcgm_has_versions_of_its_own_and_a_daemon(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner("gpu_driver", gpu_node(), **WANT, gpu_driver_dcgm=True)
    packages = {change.package: change.after for change in plans.plan() if change.package}
    assert packages["datacenter-gpu-manager-4-cuda13"] == "present"
    assert {"unit nvidia-dcgm.service enabled", "unit nvidia-dcgm.service running"} <= set(plans.whats())
    assert not [what for what in planner("gpu_driver", gpu_node(), **WANT).whats() if "dcgm" in what]


def test_debian_needs_no_drop_in_and_a_broken_one_is_fixed_on_ubuntu(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    debian = gpu_node("debian12")
    assert not [what for what in planner("gpu_driver", debian, **WANT).whats() if gpu_driver.DROPIN in what]
    ubuntu = driven(gpu_node(), NEW)
    ubuntu.write(gpu_driver.DROPIN, "[Service]\n", 0o644)
    plans = planner("gpu_driver", ubuntu, **WANT)
    assert [row[0::3] for row in plans.rows()] == [("file " + gpu_driver.DROPIN, "restart")]
    assert plans.run() == []
    assert ("systemctl", "restart", PERSISTENCED) in ubuntu.commands


def test_persistence_that_nobody_wants_is_left_as_it_is(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = driven(gpu_node(), NEW)
    assert planner("gpu_driver", node, **WANT, gpu_driver_persistence=False).plan() == []


def test_the_branch_s_own_version_without_one_in_the_inventory(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import BRANCHES

    for branch in BRANCHES:
        rows = planner("gpu_driver", gpu_node(), gpu_driver_branch=branch.name).rows()
        assert rows[0][2].startswith(branch.version)
        assert ("NVIDIA driver loaded", None, branch.version, "none") in rows


def test_an_unknown_system_is_a_problem(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.put("etc/os-release", 'ID=mint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\nPRETTY_NAME="Mint 22"\n')
    assert planner("gpu_driver", node, **WANT).problems() == [
        "gpu_driver_branch: no packages of branch 580 are known for Mint 22 (x86_64); allowed: another gpu_driver_source, or leave it unset"
    ]


def test_an_unreadable_package_database(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    (node.base / "var/lib/dpkg/status").unlink()
    plans = planner("gpu_driver", node, **WANT)
    assert plans.problems() == ["package database: cannot be read (apt); what is installed is not known"]
    assert plans.plan() == []
