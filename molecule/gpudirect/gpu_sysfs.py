# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a container a ConnectX-7 and, with ``gpu``, an H100 in sysfs: runs on the node, before the role.

Formats are those of the captured nodes (tests/fixtures). tmpfs over /sys/class and /sys/bus/pci/devices makes room; the
interfaces keep their links, since the role reads them too. The kernel below may be built without what DMA-BUF needs: a
configuration in /boot says otherwise, since the choice is under test here and not that kernel.
"""

import subprocess
import sys
from pathlib import Path

CLASS, BUS = Path("/sys/class"), Path("/sys/bus/pci/devices")
GPU, HCA = "0000:1b:00.0", "0000:18:00.0"
GUID = "b8ce:f603:00ab:cdef"


def files(directory: Path, **values: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (directory / name).write_text(value + "\n", encoding="ascii")
    return directory


links = {path.name: path.readlink() for path in (CLASS / "net").iterdir() if path.is_symlink()}
for target in (CLASS, BUS):
    subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(target)), check=True)
(CLASS / "net").mkdir()
for name, link in links.items():
    (CLASS / "net" / name).symlink_to(link)
if "gpu" in sys.argv[1:]:
    files(BUS / GPU, vendor="0x10de", device="0x2330", numa_node="0", **{"class": "0x030200"})
function = files(
    BUS / HCA, vendor="0x15b3", device="0x1021", numa_node="0", uevent=f"DRIVER=mlx5_core\nPCI_SLOT_NAME={HCA}", **{"class": "0x020000"}
)
device = files(
    CLASS / "infiniband" / "mlx5_0", node_type="1: CA", node_guid=GUID, sys_image_guid=GUID, fw_ver="28.41.1000", hca_type="MT4129"
)
(device / "device").symlink_to(function)
files(device / "ports" / "1", state="4: ACTIVE", phys_state="5: LinkUp", rate="400 Gb/sec (4X NDR)", link_layer="InfiniBand")
kernel = Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
options = ("DMA_SHARED_BUFFER", "PCI_P2PDMA", "INFINIBAND_ON_DEMAND_PAGING")
files(Path("/boot"), **{f"config-{kernel}": "\n".join(f"CONFIG_{option}=y" for option in options)})
