# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of eRDMA's driver: whose it is, its letter, the kinds of its devices, whether it fits the RDMA core, and its users.

Lines of modinfo, modprobe and Module.symvers are those of driver 0.2.37, built here by DKMS 3.0.10 for Debian's 6.1.0-47-amd64; sysfs is
a captured tree, or one made of documented formats.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.node_tree import Device, Port, Tree

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.erdma import eadm_version, observe_driver, references, users
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import letter_of_type

KERNEL = "6.1.0-47-amd64"
FILE = "updates/dkms/erdma.ko"
PARAMETERS = (
    "rand_qpn:randomized qpn (bool)\nwwi_perf:Write with Immediate optimize (bool)\nvector_num:number of compeletion vectors (uint)\n"
    "default_cc:default cc method (int)\ncompat_mode:compat mode support (bool)\nlegacy_mode:legacy mode support (bool)\n"
    "reserve_ports_base:ports reserved in compat mode (ushort)\n"
)
SYMVERS = "0x386be204\tib_register_device\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The driver on disk, as DKMS installs it on Debian."""
    made = Tree(tmp_path / "node")
    made.write(f"lib/modules/{KERNEL}/modules.dep", f"{FILE}: kernel/drivers/infiniband/core/ib_core.ko\n")
    made.write(f"lib/modules/{KERNEL}/{FILE}", "")
    made.write(f"cmd/modinfo_-k_{KERNEL}_-F_parm_erdma", PARAMETERS)
    made.write(f"cmd/modprobe_--dump-modversions_-lib-modules-{KERNEL}-updates-dkms-erdma.ko", "0x386be204\tib_register_device\n")
    another = "0x01b43cfc\tib_unregister_device_queued\tib_core\tEXPORT_SYMBOL\t\n"
    made.write(f"lib/modules/{KERNEL}/build/Module.symvers", another + SYMVERS)
    return made


def load(tree: Tree, letter: str | None, kind: str) -> None:
    tree.write("proc/modules", "erdma 200704 0 - Live 0x0000000000000000 (OE)\nib_core 462848 2 erdma,ib_uverbs, Live 0x0\n")
    if letter is not None:
        tree.write("sys/module/erdma/parameters/compat_mode", letter + "\n")
    port = Port(link_layer="Ethernet")
    tree.hca(Device("erdma_0", "pci0000:00/0000:00:08.0", "erdma", "0216:3eff:fe11:2200", (port,), node_type=kind))
    tree.hca(Device("mlx5_0", "pci0000:00/0000:00:09.0", "mlx5_core", "b8ce:f603:00ab:cdef", (port,), node_type="1: CA"))
    for number, name in enumerate(("erdma_0", "mlx5_0")):
        tree.write(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", name + "\n")


@pytest.mark.parametrize(("letter", "kind", "alibabas"), [("Y", "1: CA", True), ("N", "4: RNIC", True), (None, "4: RNIC", False)])
def test_a_loaded_driver_by_its_parameter_and_its_devices(tree: Tree, letter: str | None, kind: str, alibabas: bool) -> None:
    load(tree, letter, kind)
    driver = observe_driver(TreeHost(str(tree.root)), KERNEL)
    assert (driver.loaded, driver.letter, driver.alibabas) == (True, letter, alibabas)
    assert driver.types == (("erdma_0", kind.partition(": ")[2]),), "and no device of another driver"
    assert letter in (None, letter_of_type(driver.types[0][1]))


def test_a_driver_on_disk_is_told_by_the_parameters_of_its_file(tree: Tree) -> None:
    driver = observe_driver(TreeHost(str(tree.root)), KERNEL)
    assert (driver.loaded, driver.letter, driver.path, driver.parameter, driver.alibabas) == (False, None, FILE, True, True)
    tree.write(f"cmd/modinfo_-k_{KERNEL}_-F_parm_erdma", "")
    assert observe_driver(TreeHost(str(tree.root)), KERNEL).alibabas is False


@pytest.mark.parametrize(
    ("exported", "expected"),
    [("0x386be204", "fits"), ("0x0386be20", "other_core"), (None, "fits")],
    ids=["OFED of this build", "another OFED", "no OFED: the kernel's own"],
)
def test_whether_it_fits_the_rdma_core(tree: Tree, exported: str | None, expected: str) -> None:
    if exported is not None:
        tree.write(f"usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers", f"{exported}\tib_register_device\tib_core\tEXPORT_SYMBOL\t\n")
    assert observe_driver(TreeHost(str(tree.root)), KERNEL).fits == expected


def test_where_nothing_tells_nothing_is_said_of_the_fit(tree: Tree) -> None:
    (tree.root / f"lib/modules/{KERNEL}/build/Module.symvers").unlink()
    assert observe_driver(TreeHost(str(tree.root)), KERNEL).fits is None


def test_users_are_dependent_modules_and_processes_with_a_device_open(tree: Tree) -> None:
    load(tree, "Y", "1: CA")
    host = TreeHost(str(tree.root))
    assert (users(host), references(host)) == ([], 0)
    tree.write("proc/modules", "erdma 200704 2 smc, Live 0x0\n")
    for pid, name, target in ((4711, "python3", "uverbs0"), (4712, "opensm", "uverbs1"), (4713, "sshd", "rdma_cm")):
        tree.write(f"proc/{pid}/comm", name + "\n")
        tree.link(f"proc/{pid}/fd/9", f"/dev/infiniband/{target}")
    host = TreeHost(str(tree.root))
    assert (users(host), references(host)) == (["module smc", "python3 (4711)"], 2)


def test_in_a_container_the_disk_is_not_inspected(tree: Tree) -> None:
    load(tree, "N", "4: RNIC")
    driver = observe_driver(TreeHost(str(tree.root)), KERNEL, live=False)
    assert (driver.loaded, driver.letter, driver.path, driver.builds, driver.fits) == (True, "N", None, (), None)


def test_eadm_only_where_it_is_and_one_bounded_line_of_it(tree: Tree) -> None:
    assert eadm_version(TreeHost(str(tree.root))) is None
    tree.write("cmd/eadm_ver", "\neadm version: 1.2.3\nmore\n")
    assert eadm_version(TreeHost(str(tree.root))) == "eadm version: 1.2.3"
    tree.write("cmd/eadm_ver", "\x1b[31m{{ evil }}\x00\n")
    assert eadm_version(TreeHost(str(tree.root))) is None


def test_facts_of_a_captured_node_with_alibabas_driver(nodes: Path) -> None:
    host = TreeHost(str(nodes / "erdma2"))
    driver = observe_driver(host, "5.10.134-17.3.al8.x86_64")
    assert (driver.loaded, driver.version, driver.source, driver.letter) == (True, "0.2.38", "unknown", "Y")


def test_facts_tell_dkms_and_mainline_apart(tree: Tree) -> None:
    load(tree, "Y", "1: CA")
    assert observe_driver(TreeHost(str(tree.root)), KERNEL).source == "dkms"
    (tree.root / "sys/module/erdma/parameters/compat_mode").unlink()
    assert observe_driver(TreeHost(str(tree.root)), KERNEL).source == "mainline"


def test_facts_of_a_node_without_the_driver(nodes: Path) -> None:
    driver = observe_driver(TreeHost(str(nodes / "nohca")), "6.1.0-26-amd64")
    assert (driver.loaded, driver.version, driver.source, driver.letter) == (False, None, None, None)
