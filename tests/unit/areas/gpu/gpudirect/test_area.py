# SPDX-License-Identifier: GPL-3.0-or-later
"""The area gpudirect: what each path needs, in what order it was built, and a plan that does not change when the driver comes."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import gpudirect
from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu.gpudirect import BOOT_FILE, DROP_IN
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.dkms import dkms_builds
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from node_trees import NODES

OLD = "4.18.0-553.el8_10.x86_64"
PROPRIETARY = "NVIDIA"
STACK_CRC, OTHER_CRC = "0x7d5b1b8e", "0x1f2e3d4c"
FILES = [f"file {BOOT_FILE}", f"file {DROP_IN}"]
LOADED = "module nvidia_peermem loaded"
REBUILT = "modules of the GPU driver built for this RDMA stack"
DOCA = ("doca-ofed", "3.2.3-019000")
CAPTURED = sorted(path.name for path in NODES.iterdir() if path.is_dir())

MakePlanner = Callable[..., Any]


def test_dma_buf_needs_nothing(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.driver("580.95.05")
    assert plans.plan() == []
    assert plans.problems() == plans.notes() == []


def test_without_gpu_or_rdma_device_nothing_is_set_up_and_a_note_says_why(planner: MakePlanner) -> None:
    plans = planner(gpus=(), rdma_stack="doca", gpudirect_path="nvidia_peermem")
    assert plans.plan() == plans.problems() == []
    assert plans.notes() == ["gpudirect: this node has no NVIDIA GPU; nothing to set up"]
    plans = planner(hcas=())
    assert plans.plan() == plans.problems() == []
    assert plans.notes() == ["gpudirect: this node has no RDMA device; nothing to set up"]


def test_peermem_in_one_apply_and_nothing_in_the_next(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=STACK_CRC)
    assert plans.keys() == [*FILES, LOADED]
    assert {change.disruption for change in plans.plan()} == {"none"}
    plans.converge()
    assert plans.node.read(BOOT_FILE).splitlines()[-1] == "nvidia_peermem"
    assert plans.node.read(DROP_IN).splitlines()[1:] == ["[Service]", "ExecStartPost=-/sbin/modprobe nvidia_peermem"]
    assert ("systemctl", "daemon-reload") in plans.node.commands


def test_each_part_is_fixed_alone(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=STACK_CRC)
    plans.converge()
    plans.node.unload("nvidia_peermem")
    assert plans.keys() == [LOADED]
    plans.converge()
    for path in (BOOT_FILE, DROP_IN):
        plans.node.remove(path)
        assert plans.keys() == [f"file {path}"]
        plans.converge()


def test_an_old_kernel_takes_peermem_by_itself(planner: MakePlanner) -> None:
    plans = planner(kernel=OLD, rdma_stack="doca")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=STACK_CRC)
    assert plans.keys() == [*FILES, LOADED]


@pytest.mark.parametrize("crc", [None, OTHER_CRC], ids=["built before OFED", "built against another OFED"])
def test_the_wrong_order_is_named_before_anything_is_loaded_and_fixed(planner: MakePlanner, crc: str | None) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=crc)
    [*_files, change, loaded] = plans.plan()
    assert (change.what, change.disruption, loaded.what) == (REBUILT, "none", LOADED)
    assert change.before == ("other_stack" if crc else "without_client")
    assert [op.argv for op in change.ops] == [
        ("dkms", "remove", "nvidia/580.95.05", "-k", plans.node.kernel),
        ("dkms", "install", "nvidia/580.95.05", "-k", plans.node.kernel),
    ]
    assert all(op.undo for op in change.ops)
    assert change.ops[1].seconds >= 1800
    plans.converge()
    assert plans.node.crc == STACK_CRC


def test_one_that_is_loaded_and_not_registered_is_exchanged_with_consent(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=OTHER_CRC)
    plans.converge()
    plans.node.crc = OTHER_CRC
    plans.node.load("nvidia_peermem", registered=False)
    plans.node.put("/proc/modules", "ib_core 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\n")
    (change,) = plans.plan()
    assert (change.what, change.disruption) == (REBUILT, "reload")
    assert [op.argv[:2] for op in change.ops][2:] == [("modprobe", "-r"), ("modprobe", "nvidia_peermem")]
    plans.node.crc = STACK_CRC
    (change,) = plans.plan()
    assert (change.what, change.disruption) == ("module nvidia_peermem registered with ib_core", "reload")
    plans.converge()


def test_a_working_module_is_not_unloaded_for_the_next_boots_build(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=STACK_CRC)
    plans.converge()
    plans.node.crc = OTHER_CRC
    (change,) = plans.plan()
    assert (change.what, change.disruption) == (REBUILT, "none")
    assert [op.argv for op in change.ops if op.argv[0] == "modprobe"] == [("modprobe", "nvidia_peermem")]


def test_an_upgrade_of_the_stack_leaves_the_module_loaded(planner: MakePlanner) -> None:
    """The restart of openibd unloads it, and its old build does not come back: the rebuild ends with loading it."""
    plans = planner(kernel=OLD, rdma_stack="doca")
    plans.node.stack("doca-ofed", "3.1.0-091000")
    plans.node.driver("580.95.05", crc=STACK_CRC)
    plans.node.load("nvidia_peermem")
    changes = plans.plan()
    assert [change.what for change in changes] == [*FILES, REBUILT]
    plans.node.stack(*DOCA)
    plans.node.crc = OTHER_CRC  # what lies there was built against 3.1
    assert plans.keys() == [change.what for change in changes]
    plans.node.unload("nvidia_peermem")
    plans.node.apply(changes)
    assert plans.plan() == []


def test_without_a_dkms_source_the_wrong_order_is_refused(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=None, dkms=False)
    [problem] = plans.problems()
    assert problem.startswith("nvidia_peermem: /lib/modules/")
    assert "DKMS has no source of driver 580.95.05" in problem


@pytest.mark.parametrize("kernel", [OLD, "6.8.0-85-generic"])
@pytest.mark.parametrize("path", ["auto", "nvidia_peermem"])
def test_the_plan_for_a_bare_node_holds_when_driver_and_stack_have_come(planner: MakePlanner, kernel: str, path: str) -> None:
    """Planned before anything is there; the package step then brings stack and driver, in this order."""
    plans = planner(kernel=kernel, rdma_stack="doca", gpudirect_path=path, gpu_driver_branch="580", gpu_driver_version="580.95.05")
    before = plans.keys()
    assert before == ([] if (kernel, path) == ("6.8.0-85-generic", "auto") else [*FILES, LOADED])
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", loaded=False, crc=STACK_CRC)
    assert plans.keys() == before
    assert plans.problems() == []
    plans.converge()


def test_a_migration_to_ofed_plans_the_rebuild_before_the_stack_is_there(planner: MakePlanner) -> None:
    """The driver was built against the inbox stack and stays; its modules must be built again, and the plan says so at once."""
    plans = planner(kernel=OLD, rdma_stack="doca")
    plans.node.driver("580.95.05", crc=None)
    before = plans.keys()
    assert before == [*FILES, REBUILT, LOADED]
    plans.node.stack(*DOCA)
    assert plans.keys() == before
    plans.converge()


def test_back_to_the_inbox_stack_our_files_go(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", crc=STACK_CRC)
    plans.converge()
    back = planner(rdma_stack="inbox")
    back.node.versions, back.node.crc = plans.node.versions, STACK_CRC
    changes = back.plan()
    assert [(change.what, change.after) for change in changes] == [(name, None) for name in FILES]
    back.converge()
    back.node.put(BOOT_FILE, "nvidia_peermem\n")
    assert back.plan() == []  # somebody else's file is theirs


def test_a_leftover_module_is_a_note_and_not_touched(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.driver("580.95.05")
    plans.node.load("nvidia_peermem", registered=False)
    assert plans.plan() == []
    assert "loaded and not registered" in plans.notes()[0]


def test_the_module_waits_for_the_boot_that_brings_its_driver(planner: MakePlanner) -> None:
    """nouveau holds the GPUs, or another version of the driver runs: modprobe would fail now."""
    plans = planner(kernel=OLD, rdma_stack="doca")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", loaded=False, crc=STACK_CRC)
    plans.node.load("nouveau")
    assert plans.keys() == FILES
    assert plans.notes() == ["gpudirect: nvidia_peermem is loaded by the next boot: another driver holds the GPUs until then"]
    plans.node.unload("nouveau")
    assert plans.keys() == [*FILES, LOADED]


def test_a_new_kernel_without_the_driver_changes_and_refuses_nothing(planner: MakePlanner) -> None:
    """Seen in a lab VM: after a kernel upgrade the driver is registered with DKMS and not built. To refuse the path would forbid the very
    apply that builds it, and to take our files away would have to be undone right after."""
    plans = planner(rdma_stack="doca", gpudirect_path="nvidia_peermem")
    plans.node.stack(*DOCA)
    plans.node.put(BOOT_FILE, "# Managed by railwright\nnvidia_peermem\n")
    assert plans.problems() != [], "no driver at all: the path cannot work"
    plans.node.put("/var/lib/dkms/nvidia/580.95.05/5.10.0-1-older/x86_64/module/nvidia.ko", "")
    plans.node.put("/usr/src/nvidia-580.95.05/dkms.conf", "")
    assert plans.plan() == plans.problems() == []
    (note,) = plans.notes()
    assert note == f"gpudirect: left as it is: kernel {plans.node.kernel} has no GPU driver yet, DKMS has nvidia/580.95.05 to build"


def test_a_container_gets_files_only(planner: MakePlanner) -> None:
    plans = planner(kernel=OLD, rdma_stack="doca", capabilities=("container", "systemd"))
    plans.node.driver("580.95.05", crc=None)
    assert plans.keys() == FILES
    assert plans.problems() == []
    assert "this is a container" in plans.notes()[0]


def test_a_path_that_cannot_work_is_refused_and_nothing_changes(planner: MakePlanner) -> None:
    plans = planner(rdma_stack="doca", gpudirect_path="nv_peer_mem")
    plans.node.stack(*DOCA)
    plans.node.driver("580.95.05", PROPRIETARY)
    [problem] = plans.problems()
    assert problem.startswith("gpudirect_path: nv_peer_mem cannot work on this node: obsolete: since R470 the driver (580.95.05 here)")
    assert plans.plan() == []


PINS = {"nv_peer_mem": "a" * 64, "nv_peer_mem-1.3": "b" * 64}


def old_driver(planner: MakePlanner, **values: Any) -> Any:
    plans = planner(kernel=OLD, rdma_stack="mlnx_ofed", **values)
    plans.node.stack("mlnx-ofed-all", "24.10-4.1.4.0")
    plans.node.driver("460.106.00", PROPRIETARY)
    return plans


def test_nv_peer_mem_is_built_by_dkms_from_its_source(planner: MakePlanner) -> None:
    plans = old_driver(planner, artifact_pins=PINS)
    module = f"DKMS module nv_peer_mem/1.3 for kernel {OLD}"
    assert plans.keys() == [*FILES, module, "module nv_peer_mem loaded"]
    assert plans.problems() == []
    plans.node.put("/usr/src/nv_peer_mem-1.3/dkms.conf", "")
    change = plans.plan()[2]
    assert [op.argv for op in change.ops] == [
        ("dkms", "add", "nv_peer_mem/1.3"),
        ("dkms", "install", "nv_peer_mem/1.3", "-k", OLD),
    ]
    assert all(op.undo for op in change.ops)
    plans.converge()
    assert plans.node.read(BOOT_FILE).endswith("\nnv_peer_mem\n")
    assert [build.state for build in dkms_builds(plans.node) if build.module == "nv_peer_mem"] == ["installed"]


def test_nv_peer_mem_without_a_pin_is_refused(planner: MakePlanner) -> None:
    """Nobody here has computed the checksum of that archive."""
    [problem] = old_driver(planner).problems()
    assert problem.startswith("nv_peer_mem: https://")
    assert problem.endswith("set rdma_artifact_pins: {nv_peer_mem-1.3: its sha256}")


def test_nv_peer_mem_whose_source_is_there_needs_no_pin(planner: MakePlanner) -> None:
    plans = old_driver(planner)
    plans.node.put("/usr/src/nv_peer_mem-1.3/dkms.conf", "")
    assert plans.problems() == []


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("path", ["auto", "nvidia_peermem", "none"])
def test_every_captured_node_can_be_planned(name: str, path: str, make_spec: Callable[..., Any]) -> None:
    """Broken ones too: nothing crashes, and the same node gives the same plan."""
    host = TreeHost(str(NODES / name))
    identity = observe_identity(host)
    wanted = gpudirect.desired(make_spec(rdma_stack="doca", gpudirect_path=path), identity)
    observed = gpudirect.observe(host, wanted)
    changes = gpudirect.plan(wanted, observed)
    assert gpudirect.plan(wanted, gpudirect.observe(host, wanted)) == changes
    assert bool(gpudirect.notes(wanted, observed)) or bool(identity.gpus)
    gpudirect.conflicts(wanted, observed)


def test_a_captured_node_that_works_needs_nothing_but_our_files(make_spec: Callable[..., Any]) -> None:
    """ib8: peermem loaded, registered and built against the stack."""
    host = TreeHost(str(NODES / "ib8"))
    wanted = gpudirect.desired(make_spec(rdma_stack="doca", gpudirect_path="nvidia_peermem"), observe_identity(host))
    changes = gpudirect.plan(wanted, gpudirect.observe(host, wanted))
    assert {change.what for change in changes} - {REBUILT} == set(
        FILES
    )  # the pinned stack is another release, so the rebuild comes with it
