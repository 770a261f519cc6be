# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a container captured GPUs: runs on the node, before the role. ``gpu_pci.py VERSION|none ADDRESS=CLASS:DEVICE[:VENDOR] ...``

The machine's own PCI functions stay, but for NVIDIA's; the named ones come beside them. VERSION is of the driver that seems to be
loaded, in the words of its /proc files. Both are copies on a tmpfs: nothing reaches the machine below.
"""

import subprocess
import sys
from pathlib import Path

DEVICES, PROC = Path("/sys/bus/pci/devices"), Path("/proc/driver")
GPU = "0x0302"
MANAGES_NVSWITCHES = b"\x90\x09\x00V3\x06SW_MNG\x78"  # the Vital Product Data of a bridge of NVLink 5


def cover(directory):
    """A tmpfs in place of a directory whose entries are links; returns those."""
    links = {path.name: path.readlink() for path in directory.iterdir() if path.is_symlink()} if directory.is_dir() else {}
    subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(directory)), check=True)
    return links


def functions(wanted, driver):
    others = {name for name in (path.name for path in DEVICES.iterdir()) if (DEVICES / name / "vendor").read_text().strip() != "0x10de"}
    for name, target in cover(DEVICES).items():
        if name in others:
            (DEVICES / name).symlink_to(target)
    for address, kind, device, *vendor in wanted:
        directory = DEVICES / address
        directory.mkdir()
        for attribute, value in (("vendor", (vendor or ["0x10de"])[0]), ("class", kind), ("device", device), ("numa_node", "0")):
            (directory / attribute).write_text(value + "\n", encoding="ascii")
        if vendor:
            (directory / "vpd").write_bytes(MANAGES_NVSWITCHES)
        if driver:
            (directory / "driver").symlink_to("../../../../bus/pci/drivers/nvidia")


def loaded(version, addresses):
    cover(PROC)
    (PROC / "nvidia").mkdir()
    line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (captured)\n"
    (PROC / "nvidia/version").write_text(line, encoding="ascii")
    for number, address in enumerate(addresses):
        directory = PROC / "nvidia/gpus" / address
        directory.mkdir(parents=True)
        uuid = f"GPU-00000000-0000-4000-8000-{number:012x}"
        text = f"Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t {uuid}\nBus Location: \t {address}\n"
        (directory / "information").write_text(text, encoding="ascii")


version, rows = sys.argv[1], [tuple(word.replace("=", " ").replace(":0x", " 0x").split()) for word in sys.argv[2:]]
functions(rows, version != "none")
if version != "none":
    loaded(version, [address for address, kind, *_device in rows if kind.startswith(GPU)])
