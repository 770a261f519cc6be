# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node with two eRDMA devices: modprobe, rmmod, modinfo and dkms have their real effect on a tree.

The driver takes its mode at loading from what modprobe gives it (the files in modprobe.d in the order of their names, the words of
its command line last) and shows it below /sys/module and in its devices; nothing else changes a mode.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_text import OS_RELEASE
from tests.fixtures.node_tree import Device, Port, Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma import erdma
from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import planned_wire
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Gpu, Identity, Op
from field_specs import build_spec

KERNEL = "5.15.0-130-generic"
GPU = Gpu("0000:1b:00.0", "0x2330", 0)
INBOX_CRC, OFED_CRC = "0x386be204", "0x5f0d2c11"
MAINLINE = "kernel/drivers/infiniband/hw/erdma/erdma.ko"
BUILT = "updates/dkms/erdma.ko"
TYPES = {"Y": "1: CA", "N": "4: RNIC"}
OFED_RELEASE = "24.10-4.1.4"
OPTIONS = "etc/modprobe.d/railwright-erdma.conf"
SOURCE = "usr/src/erdma-0.2.37"
HEADERS = f"lib/modules/{KERNEL}/build"


class Node(TreeHost):
    """What apply runs here does what it does on a node; an unknown command is not answered."""

    def __init__(self, root: Path, mainline_type: str = "1: CA") -> None:
        super().__init__(str(root))
        self.tree = Tree(root)
        self.tree.root.mkdir(parents=True, exist_ok=True)
        self.commands: list[tuple[str, ...]] = []
        self.mainline_type = mainline_type
        self.built_with: dict[str, str] = {}  # file below /lib/modules/KERNEL: checksum of the RDMA core
        self.mad: dict[str, bool] = {}  # DKMS version: built for compat mode without OFED
        self.build_fails = self.load_fails = False

    def put(self, path: str, text: str | bytes = "") -> None:
        self.tree.write(path, text)

    def drop(self, path: str) -> None:
        full = self.tree.root / path
        if full.is_symlink() or full.is_file():
            full.unlink()

    # What is on the node, in the words of an administrator.

    def mainline(self) -> None:
        """The kernel brings a driver without modes."""
        self.put(f"lib/modules/{KERNEL}/{MAINLINE}")
        self.built_with[MAINLINE] = INBOX_CRC
        self.depmod()

    def vendor_package(self, version: str = "1.0.2") -> None:
        """Alibaba's own package: its source, and DKMS has built it."""
        self.source(version, conf='PACKAGE_NAME="erdma"\n')
        self.run(("dkms", "add", f"erdma/{version}"))
        self.mad[version] = True
        assert self.run(("dkms", "install", f"erdma/{version}", "-k", KERNEL)).ok

    def source(self, version: str = "0.2.37", conf: str | None = None) -> None:
        """As the role leaves it."""
        self.put(f"usr/src/erdma-{version}/CMakeLists.txt", "project(erdma C)\n")
        if conf is not None:
            self.put(f"usr/src/erdma-{version}/dkms.conf", conf)

    def ofed(self, crc: str = OFED_CRC, *, running: bool = True) -> None:
        """MLNX_OFED: its headers, and the RDMA core that modprobe loads; ``running``: it is the one that is loaded, too."""
        self.put("sys/module/ib_core/version" if running else "sys/module/ib_core/refcnt", f"{OFED_RELEASE if running else 0}\n")
        self.put(f"usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers", f"{crc}\tib_register_device\tib_core\tEXPORT_SYMBOL\t\n")
        self.put(f"lib/modules/{KERNEL}/updates/dkms/ib_core.ko")
        self.depmod()

    @property
    def core(self) -> str:
        """The checksum of the RDMA core that a build takes now."""
        found = self.read(f"/usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers")
        return found.split("\t")[0] if found else INBOX_CRC

    @property
    def running_core(self) -> str:
        """The checksum of the RDMA core that is loaded: OFED's, once it is in use."""
        return self.core if self.line("/sys/module/ib_core/version") else INBOX_CRC

    def open_device(self, pid: int, name: str) -> None:
        """A process with a context on erdma_0: the driver's reference count grows."""
        self.put(f"proc/{pid}/comm", name + "\n")
        self.tree.link(f"proc/{pid}/fd/7", "/dev/infiniband/uverbs0")
        self.module_row(1)

    def module_row(self, references: int = 0, users: str = "-") -> None:
        core = "ib_uverbs 163840 1 erdma, Live 0x0\nib_core 1 0 - Live 0x0\n"
        self.put("proc/modules", f"erdma 200704 {references} {users} Live 0x0\n{core}")

    @property
    def loaded(self) -> bool:
        return "erdma " in (self.read("/proc/modules") or "")

    @property
    def letter(self) -> str | None:
        return self.line("/sys/module/erdma/parameters/compat_mode")

    # What the programs do.

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        self._directories.clear()  # a captured tree does not change under its reader; this one does
        known: dict[str, Callable[[tuple[str, ...]], Result]] = {
            "modprobe": self._modprobe,
            "rmmod": self._rmmod,
            "dkms": self._dkms,
            "modinfo": self._modinfo,
            "lsinitramfs": self._lsinitramfs,
            "update-initramfs": self._update_initramfs,
            "true": lambda _argv: Result(0, "", ""),
        }
        return known[command[0]](command) if command[0] in known else super().run(argv, timeout, stdin)

    @property
    def on_disk(self) -> str | None:
        """DKMS's directory comes before the kernel's own."""
        return next((path for path in (BUILT, MAINLINE) if self.exists(f"/lib/modules/{KERNEL}/{path}")), None)

    def depmod(self) -> None:
        paths = [self.on_disk] if self.on_disk else []
        core = "updates/dkms/ib_core.ko" if self.exists("/usr/src/ofa_kernel") else "kernel/drivers/infiniband/core/ib_core.ko"
        self.put(f"lib/modules/{KERNEL}/modules.dep", "".join(f"{path}: {core}\n" for path in paths) + core + ":\n")

    def _modinfo(self, argv: tuple[str, ...]) -> Result:
        if len(argv) == 4:
            return self._modinfo_of(argv[3])
        assert argv == ("modinfo", "-k", KERNEL, "-F", "parm", "erdma"), argv
        parameters = "rand_qpn:randomized qpn (bool)\ncompat_mode:compat mode support (bool)\n"
        return Result(0, parameters if self.on_disk == BUILT else "", "") if self.on_disk else Result(1, "", "modinfo: ERROR: not found")

    def _modinfo_of(self, name: str) -> Result:
        """Of a module of the RDMA core; the kernel's own have no version."""
        version = f"version:        {OFED_RELEASE}\n" if name == "ib_core" and self.exists("/usr/src/ofa_kernel") else ""
        return Result(0, f"filename:       /lib/modules/{KERNEL}/{name}.ko\n{version}", "")

    def _lsinitramfs(self, argv: tuple[str, ...]) -> Result:
        return Result(0, self.read(argv[1]) or "", "")

    def _update_initramfs(self, argv: tuple[str, ...]) -> Result:
        """The driver that is on disk goes into the image, if one was in it; the image is newer than the driver then."""
        assert argv == ("update-initramfs", "-u", "-k", KERNEL)
        self.put(f"boot/initrd.img-{KERNEL}", f"usr/lib/modules/{KERNEL}/{self.on_disk}\n")
        later = time.time() + 60
        os.utime(self.tree.root / f"boot/initrd.img-{KERNEL}", (later, later))
        return Result(0, "", "")

    def _modprobe(self, argv: tuple[str, ...]) -> Result:
        if argv[1] == "--dump-modversions":
            crc = self.built_with.get(argv[2].partition(f"/lib/modules/{KERNEL}/")[2])
            return Result(0, f"{crc}\tib_register_device\n", "") if crc else Result(1, "", "modprobe: FATAL")
        if argv[1] == "-r":
            return self._rmmod(argv[1:])
        assert argv[1] == "erdma"
        path = self.on_disk
        if path is None:
            return Result(1, "", "modprobe: FATAL: Module erdma not found")
        if self.load_fails or self.built_with[path] != self.running_core:
            return Result(1, "", "modprobe: ERROR: could not insert 'erdma': Invalid argument")
        if self.loaded:
            return Result(0, "", "")
        letter = None
        if path == BUILT:
            letter = "Y" if any(self.mad.values()) else "N"
            for value in self._configured() + [word.partition("=")[2] for word in argv[2:]]:
                letter = value
        self._start(letter)
        return Result(0, "", "")

    def _configured(self) -> list[str]:
        files = sorted(self.listdir("/etc/modprobe.d"))
        texts = [self.read(f"/etc/modprobe.d/{name}") or "" for name in files]
        return [value for text in texts for value in re.findall(r"^options erdma compat_mode=(\S)", text, re.MULTILINE)]

    def _start(self, letter: str | None) -> None:
        self.module_row()
        if letter is not None:
            self.put("sys/module/erdma/parameters/compat_mode", letter + "\n")
        else:
            self.put("sys/module/erdma/refcnt", "0\n")
        kind = self.mainline_type if letter is None else TYPES[letter]
        for number in range(2):
            device = Device(
                f"erdma_{number}", f"pci0000:00/0000:00:{8 + number:02x}.0", "erdma", f"0216:3eff:fe11:22{number:02x}",
                (Port(rate="100 Gb/sec (4X EDR)", link_layer="Ethernet"),), vendor="0x1ded", device="0x107f", node_type=kind)
            self.tree.hca(device)
            self.put(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"erdma_{number}\n")

    def _rmmod(self, argv: tuple[str, ...]) -> Result:
        row = next((line.split() for line in (self.read("/proc/modules") or "").splitlines() if line.startswith("erdma ")), None)
        if row is None:
            return Result(1, "", "rmmod: ERROR: Module erdma is not currently loaded")
        if row[2] != "0":
            return Result(1, "", "rmmod: ERROR: Module erdma is in use")
        self.put("proc/modules", "ib_uverbs 163840 0 - Live 0x0\nib_core 1 0 - Live 0x0\n")
        for name in ("module/erdma/parameters/compat_mode", "module/erdma/refcnt", "class/infiniband/erdma_0", "class/infiniband/erdma_1"):
            self.drop("sys/" + name)
        for path in ("sys/module/erdma/parameters", "sys/module/erdma"):
            full = self.tree.root / path
            if full.is_dir():
                full.rmdir()
        for number in range(2):
            shutil.rmtree(self.tree.root / f"sys/devices/pci0000:00/0000:00:{8 + number:02x}.0/infiniband")
        return Result(0, "", "")

    def _dkms(self, argv: tuple[str, ...]) -> Result:
        if argv[1:] == ("status",):
            return Result(0, "", "")  # asked only where the tree is empty
        verb, version = argv[1], argv[2].partition("/")[2]
        base = f"var/lib/dkms/erdma/{version}"
        there = (self.tree.root / base / "source").is_symlink()
        if verb == "add" or (verb == "install" and not there):
            if not self.exists(f"/usr/src/erdma-{version}/dkms.conf"):
                return Result(2, "", "Error! Could not find dkms.conf")
            self.tree.link(f"{base}/source", f"/usr/src/erdma-{version}")
        if verb == "install":
            return self._build(argv, version, base)
        if verb in ("uninstall", "remove"):
            if not there:
                return Result(3, "", "Error! The module is not located in the DKMS tree")
            self._take_off(version, base, whole=verb == "remove")
        return Result(0, "", "")

    def _build(self, argv: tuple[str, ...], version: str, base: str) -> Result:
        if self.build_fails:
            return Result(10, "", "Error! Bad return status for module build on kernel")
        if "--force" not in argv and self.exists(f"/lib/modules/{KERNEL}/{MAINLINE}"):
            return Result(0, "DKMS will not replace this module.\nYou may override by specifying --force.", "")  # seen with 3.0.10
        if not self.exists(f"/usr/src/erdma-{version}/CMakeLists.txt"):
            return Result(8, "", "Error! The directory does not appear to have module source located within it")
        script = self.read(f"/usr/src/erdma-{version}/railwright-build.sh")
        if script is not None:  # else it is the vendor's own, built by its package
            self.mad[version] = "ERDMA_FORCE_MAD_ENABLE=1" in script
        self.put(f"{base}/{KERNEL}/x86_64/module/erdma.ko")
        self.drop(f"var/lib/dkms/erdma/kernel-{KERNEL}-x86_64")
        (self.tree.root / f"var/lib/dkms/erdma/kernel-{KERNEL}-x86_64").symlink_to(f"{version}/{KERNEL}/x86_64")
        self.put(f"lib/modules/{KERNEL}/{BUILT}")
        self.built_with[BUILT] = self.core
        self.depmod()
        return Result(0, "", "")

    def _take_off(self, version: str, base: str, *, whole: bool) -> None:
        self.drop(f"var/lib/dkms/erdma/kernel-{KERNEL}-x86_64")
        self.drop(f"lib/modules/{KERNEL}/{BUILT}")
        self.depmod()
        if whole:
            self.mad.pop(version, None)
            root = self.tree.root / base
            for path in sorted(root.rglob("*"), reverse=True):
                path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
            root.rmdir()

    # What apply does with the ops, and what a failure reverts.

    def do(self, op: Op) -> list[Op]:
        """The effect; the ops that revert it, as the journal has them."""
        if op.kind == "write":
            old, mode = self.read(op.path), self.mode(op.path) or 0o644
            self.write(op.path, op.content, op.mode)
            return [Op("remove", op.path, "", 0, (), ()) if old is None else Op("write", op.path, old, mode, (), ())]
        if op.kind == "remove":
            old, mode = self.read(op.path) or "", self.mode(op.path) or 0o644
            self.remove(op.path)
            return [Op("write", op.path, old, mode, (), ())]
        assert op.kind == "run", op
        done = self.run(op.argv)
        assert done.ok, done.err
        return [Op("run", "", "", 0, argv, ()) for argv in op.undo]


class Planner:
    """The area against the node, as plan.py calls it."""

    def __init__(self, node: Node, spec: Spec, **identity: Any) -> None:
        self.node, self.spec, self.changed = node, spec, identity

    @property
    def identity(self) -> Identity:
        return observe_identity(self.node)._replace(**self.changed)

    @property
    def seen(self) -> tuple[erdma.Desired, erdma.Observed]:
        self.node._directories.clear()
        wanted = erdma.desired(self.spec, self.identity)
        return wanted, erdma.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes = erdma.plan(*self.seen)
        assert all(change.area == "erdma" and change.why and change.source and (change.ops or change.package) for change in changes)
        return changes

    def whats(self) -> list[str]:
        return [change.what for change in self.plan()]

    def change(self, what: str) -> Change:
        return next(change for change in self.plan() if change.what == what)

    def problems(self) -> list[str]:
        return [f"{item.subject}: {item.message}" for item in erdma.conflicts(*self.seen)]

    def notes(self) -> list[str]:
        return erdma.notes(*self.seen)

    def wire(self) -> dict[str, Any] | None:
        return planned_wire(self.node, self.spec, self.identity)

    def apply(self) -> list[Op]:
        """Every change; the ops that would revert it all, in the order of reverting."""
        undo: list[Op] = []
        for op in [op for change in self.plan() for op in change.ops]:
            undo = self.node.do(op) + undo
        return undo

    def converge(self) -> list[Op]:
        assert self.problems() == []
        undo = self.apply()
        assert self.plan() == []
        assert self.problems() == []
        return undo


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        spec, findings = build_spec({"fabric": "erdma", "mtu": 8500, **values}, "node1")
        assert spec is not None, findings
        return spec

    return build


@pytest.fixture
def planner(tmp_path: Path, make_spec: Callable[..., Spec]) -> Callable[..., Planner]:
    """Ubuntu 22.04 on bare metal with headers, dkms and cmake, nothing of eRDMA's driver; ``gpus``: with an NVIDIA GPU."""

    def build(gpus: bool = False, node: Node | None = None, capabilities: tuple[str, ...] = ("systemd",), **values: Any) -> Planner:
        found = node or Node(tmp_path / "node")
        if node is None:
            found.tree.system(OS_RELEASE["ubuntu2204"], KERNEL, "node1", "ib_uverbs 163840 0 - Live 0x0\nib_core 1 0 - Live 0x0\n")
            found.put(f"{HEADERS}/Makefile", "")
            found.put(f"{HEADERS}/Module.symvers", f"{INBOX_CRC}\tib_register_device\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n")
            found.put(f"boot/vmlinuz-{KERNEL}", "")
            found.put("sys/firmware/memmap/0/type", "System RAM\n")
            for tool in ("dkms", "cmake"):
                found.put(f"usr/bin/{tool}", "")
                (found.tree.root / "usr/bin" / tool).chmod(0o755)
            found.source()
            found.depmod()
        return Planner(found, make_spec(**values), gpus=(GPU,) if gpus else (), capabilities=capabilities)

    return build
