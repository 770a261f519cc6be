# SPDX-License-Identifier: GPL-3.0-or-later
"""The area erdma on a simulated node: each driver, each mode, with and without a GPU, in use, in a container; a second plan is empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.files import MARK
from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma import erdma
from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.erdma import BOOT_FILE, OPTIONS_FILE

MakePlanner = Callable[..., Any]
KERNEL = "5.15.0-130-generic"
OTHER_CRC = "0x11112222"
BUILD = f"DKMS module erdma/0.2.37 for kernel {KERNEL}"
FILES = [f"file {OPTIONS_FILE}", f"file {BOOT_FILE}"]
LOADED, MODE, DRIVER = "module erdma loaded", "mode of the eRDMA driver", "driver of eRDMA in use"
OPTIONS_CHANGED = "options of DKMS module erdma/0.2.37"
CONF, SCRIPT = "/usr/src/erdma-0.2.37/dkms.conf", "/usr/src/erdma-0.2.37/railwright-build.sh"


def disruptions(plans: Any) -> dict[str, str]:
    return {change.what: change.disruption for change in plans.plan()}


@pytest.mark.parametrize(("mode", "letter", "mad"), [("compat", "Y", True), ("default", "N", False), ("auto", "Y", True)])
def test_a_bare_node_gets_the_driver_in_its_mode_in_one_apply(planner: MakePlanner, mode: str, letter: str, mad: bool) -> None:
    plans = planner(erdma_mode=mode)
    assert plans.whats() == [BUILD, *FILES, LOADED]
    assert set(disruptions(plans).values()) == {"none"}
    plans.converge()
    assert (plans.node.letter, plans.node.mad) == (letter, {"0.2.37": mad})
    assert plans.node.read(OPTIONS_FILE).splitlines()[1:] == ["softdep erdma pre: ib_uverbs", f"options erdma compat_mode={letter}"]
    assert plans.node.read(BOOT_FILE).splitlines()[1:] == ["ib_core", "ib_uverbs", "erdma"]


def test_a_gpu_node_is_ofed_and_needs_mlnx_ofed(planner: MakePlanner) -> None:
    plans = planner(gpus=True)
    (problem,) = plans.problems()
    assert problem == (
        "erdma_mode: is ofed here (auto, on a node with an NVIDIA GPU), and MLNX_OFED is neither on this node nor asked for: set "
        "rdma_stack: mlnx_ofed, or erdma_mode: compat, which talks to nodes in either"
    )
    plans.node.ofed()
    plans.converge()
    assert (plans.node.letter, plans.wire()) == ("Y", {"mode": "ofed", "letter": "Y"})
    assert planner(gpus=True, node=plans.node, erdma_mode="compat").problems() == []


def test_mlnx_ofed_that_is_asked_for_is_enough(planner: MakePlanner) -> None:
    plans = planner(gpus=True, rdma_stack="mlnx_ofed", rdma_stack_activation="reboot")
    assert plans.problems() == []


def test_another_mode_is_a_reload_with_consent_and_not_only_at_boot(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    other = planner(node=plans.node, erdma_mode="default")
    assert disruptions(other) == {FILES[0]: "none", MODE: "reload"}
    change = other.change(MODE)
    assert (change.before, change.after) == ("compat_mode=Y, compat or ofed (RoCE-compatible)", "compat_mode=N, default (iWARP-like)")
    other.converge()
    assert other.node.letter == "N"
    assert ("rmmod", "erdma") in other.node.commands


def test_runtime_and_boot_are_compared_each_by_itself(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.drop(OPTIONS_FILE[1:])
    assert plans.whats() == [FILES[0]], "the running mode is right, the next boot's would not be"
    plans.converge()
    plans.node.run(("rmmod", "erdma"))
    plans.node.run(("modprobe", "erdma", "compat_mode=N"))
    assert plans.whats() == [MODE], "the next boot would be right, the running mode is not"
    plans.converge()
    plans.node.run(("rmmod", "erdma"))
    assert plans.whats() == [LOADED]
    plans.node.drop(BOOT_FILE[1:])
    assert plans.whats() == [FILES[1], LOADED]
    plans.converge()


def test_default_to_compat_builds_the_driver_again_with_what_compat_needs(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="default")
    plans.converge()
    other = planner(node=plans.node, erdma_mode="compat")
    assert other.whats() == [OPTIONS_CHANGED, FILES[0], DRIVER]
    assert other.change(DRIVER).disruption == "reload"
    other.converge()
    assert (other.node.letter, other.node.mad) == ("Y", {"0.2.37": True})
    back = planner(node=plans.node, erdma_mode="default")
    assert back.whats() == [FILES[0], MODE], "a driver that has it serves every mode"
    back.converge()


def test_a_reload_that_is_reverted_leaves_the_old_mode_running(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.drop(OPTIONS_FILE[1:])  # somebody loaded it by hand in the other mode, and no file says so
    plans.node.run(("rmmod", "erdma"))
    plans.node.run(("modprobe", "erdma", "compat_mode=N"))
    for op in plans.apply():
        plans.node.do(op)
    assert plans.node.letter == "N"
    assert plans.node.read(OPTIONS_FILE) is None


def test_an_exchange_that_is_reverted_leaves_the_old_driver_running(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="default")
    plans.converge()
    before = (plans.node.read(SCRIPT), plans.node.read(OPTIONS_FILE))
    other = planner(node=plans.node, erdma_mode="compat")
    undo = other.converge()
    for op in undo:
        plans.node.do(op)
    assert (plans.node.letter, plans.node.mad) == ("N", {"0.2.37": False})
    assert (plans.node.read(SCRIPT), plans.node.read(OPTIONS_FILE)) == before
    assert plans.plan() == []


def test_a_reverted_first_apply_leaves_nothing_in_dkms_and_nothing_loaded(planner: MakePlanner) -> None:
    plans = planner()
    for op in plans.converge():
        plans.node.do(op)
    assert not plans.node.loaded
    assert plans.node.read(CONF) is None
    assert plans.node.listdir("/var/lib/dkms/erdma") == []
    assert plans.whats() == [BUILD, *FILES, LOADED]


@pytest.mark.parametrize("kind", ["storage", "plain"])
def test_a_reload_under_storage_is_another_class_and_names_it(planner: MakePlanner, kind: str) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    if kind == "storage":
        plans.node.put("proc/mounts", "10.0.0.1:/data /data nfs4 rw,proto=rdma 0 0\n")
    other = planner(node=plans.node, erdma_mode="default")
    change = other.change(MODE)
    assert change.disruption == ("storage" if kind == "storage" else "reload")
    assert ("NFS over RDMA /data" in change.why) is (kind == "storage")


def test_unloading_a_driver_in_use_is_refused_with_its_users(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.open_device(4711, "python3")
    assert plans.problems() == [], "nothing is to be unloaded"
    other = planner(node=plans.node, erdma_mode="default")
    assert other.problems() == [
        f"module erdma: is in use by python3 (4711), and {MODE} needs it unloaded: stop what uses RDMA on this node first"]
    plans.node.module_row(1, "smc,")
    plans.node.drop("proc/4711/fd/7")
    assert "in use by module smc," in other.problems()[0]
    plans.node.module_row(2)
    assert "in use by somebody (2 references)" in other.problems()[0]
    plans.node.module_row(0)
    other.converge()


def test_a_stranger_with_another_verbs_device_is_nobodys_user(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.put("proc/99/comm", "opensm\n")
    plans.node.tree.link("proc/99/fd/3", "/dev/infiniband/uverbs7")
    assert planner(node=plans.node, erdma_mode="default").problems() == []


# The driver that is there.


def test_the_driver_of_an_image_is_kept_and_only_its_mode_is_ours(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="default")
    plans.node.vendor_package()
    plans.node.run(("modprobe", "erdma"))
    assert plans.whats() == [*FILES, MODE]
    plans.converge()
    assert plans.node.letter == "N"
    assert plans.node.listdir("/var/lib/dkms/erdma") == ["1.0.2", f"kernel-{KERNEL}-x86_64"]


@pytest.mark.parametrize("wish", [{"erdma_driver_version": "0.2.37"}, {"erdma_driver": "mainline"}], ids=["a release", "mainline"])
def test_another_ones_driver_is_not_fought(planner: MakePlanner, wish: dict[str, str]) -> None:
    plans = planner(**wish)
    plans.node.mainline()
    plans.node.vendor_package()
    (problem,) = plans.problems()
    assert problem.startswith("erdma_driver: DKMS has erdma/1.0.2 from somebody else, and ")
    assert "dkms remove erdma/1.0.2 --all" in problem


def test_the_inventorys_release_replaces_an_older_one_of_ours(planner: MakePlanner) -> None:
    pins = {"erdma-installer": "a" * 64}
    plans = planner(erdma_driver_version="1.5.9", artifact_pins=pins)
    plans.node.source("1.5.9")
    plans.converge()
    plans.node.source("0.2.37")
    newer = planner(node=plans.node, erdma_driver_version="0.2.37")
    assert newer.whats() == ["DKMS module erdma/1.5.9 removed", BUILD, DRIVER]
    undo = newer.converge()
    assert list(newer.node.mad) == ["0.2.37"]
    for op in undo:
        newer.node.do(op)
    assert list(newer.node.mad) == ["1.5.9"]
    assert newer.node.letter == "Y"
    assert planner(node=plans.node).plan() == [], "what DKMS has of ours stays where no release is named"


def test_a_driver_of_another_rdma_core_is_built_again(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.ofed(running=False)  # MLNX_OFED came afterwards
    what = "DKMS module erdma/0.2.37 built for this RDMA core"
    assert plans.whats() == [what], "and nothing is reloaded: the old core may run until the next boot"
    assert (plans.change(what).before, plans.change(what).after) == ("other_core", "fits")
    plans.converge()


WAITS = "erdma: the driver is loaded in its mode with the next boot: the RDMA core that runs is not the one that it is built for"


def test_while_mlnx_ofed_awaits_a_reboot_the_driver_is_built_not_loaded(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="ofed")
    plans.node.ofed(running=False)
    assert plans.whats() == [BUILD, *FILES]
    assert plans.notes() == [WAITS]
    plans.converge()
    assert not plans.node.loaded
    plans.node.ofed()  # the reboot
    assert plans.whats() == [LOADED]
    assert plans.notes() == []
    plans.converge()


def test_a_rebuild_for_planned_mlnx_ofed_packages_is_in_the_plan(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.put("var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\nVersion: 5.1\n\n")
    wishes = {"erdma_mode": "ofed", "rdma_stack": "mlnx_ofed", "rdma_stack_activation": "reboot"}
    coming = planner(node=plans.node, **wishes)
    what = "DKMS module erdma/0.2.37 built for this RDMA core"
    (before,) = erdma.plan(*coming.seen)
    assert (before.what, before.ops, before.before) == (what, (), "the RDMA core is exchanged by packages to come")
    coming.node.put("var/lib/dpkg/status", "Package: mlnx-ofed-all\nStatus: install ok installed\nVersion: 24.10-4.1.4.0\n\n")
    coming.node.ofed(running=False)
    assert coming.whats() == [what], "the same key, with something to do now: the apply that was consented to goes on"
    coming.converge()


def test_the_vendors_driver_of_another_rdma_core_is_built_again_too(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.vendor_package()
    plans.converge()
    plans.node.ofed(running=False)
    assert plans.whats() == ["DKMS module erdma/1.0.2 built for this RDMA core"]
    plans.converge()


# The kernel's own driver.


def test_mainline_that_is_roce_compatible_satisfies_compat_by_itself(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.mainline()
    plans.node.run(("modprobe", "erdma"))
    assert plans.whats() == [FILES[1]]
    plans.converge()
    assert plans.node.read(OPTIONS_FILE) is None, "it has no parameter to set"
    assert plans.notes() == ["erdma: the kernel's own driver is left in place: the kernel's own driver has its devices as CA"]


def test_mainline_that_is_iwarp_gives_way_to_alibabas_under_auto(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.mainline_type = "4: RNIC"
    plans.node.mainline()
    plans.node.run(("modprobe", "erdma"))
    assert plans.whats() == [BUILD, *FILES, DRIVER]
    assert plans.change(DRIVER).before == "no modes"
    undo = plans.converge()
    assert plans.node.letter == "Y"
    for op in undo:
        plans.node.do(op)
    assert plans.node.loaded
    assert plans.node.letter is None


def test_mainline_that_is_not_loaded_proves_nothing(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.mainline()
    assert plans.whats() == [BUILD, *FILES, LOADED]


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("compat", "4: RNIC", ("4: RNIC", "1: CA", "default")),
        ("default", "1: CA", ("1: CA", "4: RNIC", "compat")),
    ],
)
def test_mainline_in_the_wrong_mode_is_one_clear_problem(planner: MakePlanner, mode: str, kind: str, words: tuple[str, str, str]) -> None:
    plans = planner(erdma_driver="mainline", erdma_mode=mode)
    plans.node.mainline_type = kind
    plans.node.mainline()
    plans.node.run(("modprobe", "erdma"))
    found, needed, other = words
    (problem,) = plans.problems()
    assert problem == (
        f"erdma_driver: erdma_0, erdma_1 reads `{found}` with the kernel's own driver, and mode {mode} needs `{needed}`; use "
        f"erdma_mode: {other} on every node, or erdma_driver: dkms, which has modes"
    )


def test_mainline_of_a_kernel_that_has_none(planner: MakePlanner) -> None:
    assert planner(erdma_driver="mainline").problems() == [
        "erdma_driver: this kernel has no module erdma; use a newer kernel, or erdma_driver: dkms, which has modes"]


def test_mainline_never_satisfies_ofed(planner: MakePlanner) -> None:
    plans = planner(gpus=True, erdma_driver="mainline")
    plans.node.mainline()
    plans.node.ofed()
    (problem,) = plans.problems()
    assert problem == (
        "erdma_driver: mode ofed needs Alibaba's driver: the kernel's own does not load on top of MLNX_OFED; use erdma_mode: compat, or "
        "erdma_driver: dkms, which has modes"
    )


def test_back_to_mainline_takes_ours_out_of_dkms(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.node.mainline()
    plans.converge()
    back = planner(node=plans.node, erdma_driver="mainline", erdma_mode="compat")
    assert back.whats() == ["DKMS module erdma/0.2.37 removed", f"file {OPTIONS_FILE}", DRIVER]
    undo = back.converge()
    assert back.node.letter is None
    assert back.node.loaded
    for op in undo:
        back.node.do(op)
    assert back.node.letter == "Y"


# What is left alone, and what stands in the way.


def test_leave_changes_nothing_and_says_so(planner: MakePlanner) -> None:
    plans = planner(erdma_driver="leave")
    plans.node.vendor_package()
    plans.node.run(("modprobe", "erdma", "compat_mode=N"))
    assert plans.plan() == plans.problems() == []
    assert plans.notes() == ["erdma: driver and mode are left as they are (erdma_driver: leave)"]
    assert plans.wire() == {"mode": "leave", "letter": "N"}


def test_leave_where_nothing_tells(planner: MakePlanner) -> None:
    assert planner(erdma_driver="leave").wire() == {"mode": "leave", "letter": None}


def test_in_a_container_only_files_are_managed(planner: MakePlanner) -> None:
    plans = planner(capabilities=("systemd", "container"))
    assert plans.whats() == FILES
    plans.converge()
    assert plans.notes() == [
        f"erdma: this is a container, modules cannot be loaded here; only {OPTIONS_FILE} and {BOOT_FILE} are managed"]
    assert not [command for command in plans.node.commands if command[0] in ("dkms", "rmmod")]


def test_another_fabric_has_none_of_it_and_loses_our_files(planner: MakePlanner) -> None:
    plans = planner()
    plans.converge()
    roce = planner(node=plans.node, fabric="roce", mtu=9000)
    assert roce.whats() == FILES
    assert roce.wire() is None
    roce.converge()
    plans.node.put(BOOT_FILE[1:], "erdma\n")
    assert roce.plan() == [], "a file that somebody else wrote stays"


def test_packages_and_headers_that_the_build_needs(planner: MakePlanner) -> None:
    plans = planner()
    for path in ("usr/bin/dkms", "usr/bin/cmake", f"lib/modules/{KERNEL}/build/Makefile"):
        plans.node.drop(path)
    assert plans.whats()[:3] == ["package dkms", "package cmake", f"package linux-headers-{KERNEL}"]
    assert all(not change.ops for change in plans.plan() if change.package)


@pytest.mark.parametrize("version", ["1.5.7", "1.4.3"])
def test_releases_of_the_installer_have_a_checksum(planner: MakePlanner, version: str) -> None:
    plans = planner(erdma_driver_version=version)
    assert plans.problems() == []
    assert plans.whats()[0] == f"DKMS module erdma/{version} for kernel {KERNEL}"


def test_an_initramfs_with_the_driver_is_rebuilt_with_driver_and_mode(planner: MakePlanner) -> None:
    image = f"boot/initrd.img-{KERNEL}"
    plans = planner(erdma_mode="compat")
    plans.node.put(image, f"usr/lib/modules/{KERNEL}/kernel/drivers/infiniband/hw/erdma/erdma.ko\n")
    assert plans.whats() == [BUILD, *FILES, f"erdma in /{image}", LOADED]
    plans.converge()
    assert plans.node.read("/" + image).endswith("updates/dkms/erdma.ko\n")
    other = planner(node=plans.node, erdma_mode="default")
    assert other.whats() == [FILES[0], f"erdma in /{image}", MODE], "its options file is in the image too"
    other.converge()
    other.node.put(image, "usr/lib/modules/x/virtio_net.ko\n")
    assert planner(node=plans.node, erdma_mode="compat").whats() == [FILES[0], MODE], "an image without the driver is nobody's business"


def test_secure_boot_without_an_enrolled_key_is_refused_before_a_build(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.put("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\x00\x00\x00\x01")
    (problem,) = plans.problems()
    assert problem.startswith("Secure Boot: is on, and there is no key yet that DKMS could sign with")


def test_a_kernel_that_is_not_the_next_one_is_refused_before_a_build(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.put("boot/vmlinuz-5.15.0-999-generic")
    plans.node.put("lib/modules/5.15.0-999-generic/modules.dep")
    (problem,) = plans.problems()
    assert "is not the one that the next boot starts" in problem


def test_what_overrules_our_file_at_boot_is_named(planner: MakePlanner) -> None:
    plans = planner(erdma_mode="compat")
    plans.converge()
    plans.node.put("etc/modprobe.d/zz-site.conf", "options erdma vector_num=8 compat_mode=0\n")
    assert plans.problems() == [
        f"erdma_mode: /etc/modprobe.d/zz-site.conf sets compat_mode=N at boot, and is read after {OPTIONS_FILE}: remove that"]
    plans.node.put("etc/modprobe.d/zz-site.conf", "options erdma compat_mode\n")
    assert plans.problems() == [], "a bool without a value is true"
    plans.node.put("etc/modprobe.d/erdma.conf", "options erdma compat_mode=N\n")
    assert plans.problems() == [], "read before ours, so ours wins"
    plans.node.put("proc/cmdline", "ro quiet erdma.compat_mode=N\n")
    (problem,) = plans.problems()
    assert problem.startswith("erdma_mode: the kernel's command line sets compat_mode=N at boot")


def test_a_module_that_is_forbidden_to_load(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.put("etc/modprobe.d/site.conf", "blacklist erdma\n")
    assert plans.problems() == [
        "module erdma: /etc/modprobe.d/site.conf forbids to load erdma, so it would be missing after a reboot; remove that line"]


def test_our_files_say_so_and_a_foreign_one_is_in_the_restore_point(planner: MakePlanner) -> None:
    plans = planner()
    plans.node.put(OPTIONS_FILE[1:], "options erdma compat_mode=N\n")
    assert "was not written by railwright" in plans.change(FILES[0]).why
    plans.converge()
    for path in (OPTIONS_FILE, BOOT_FILE, CONF):
        assert plans.node.read(path).startswith(MARK)
    assert plans.node.read(SCRIPT).splitlines()[1].startswith(MARK)
    assert plans.node.mode(SCRIPT) == 0o755
