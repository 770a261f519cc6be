# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes one interface of a container look like an IPoIB interface: runs on the node, before the role.

``ipoib_sysfs.py OLD NEW PCI``: interface OLD becomes NEW, of link type InfiniBand, on a PCI function, in
datagram mode. MTU, flags and state stay the kernel's own. A copy of /sys/class/net on a tmpfs makes room for it.
"""

import subprocess
import sys
from pathlib import Path

CLASS = Path("/sys/class/net")
INFINIBAND = "32"  # ARPHRD_INFINIBAND
ADDRESS = "00:00:10:49:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:ab:cd:ef"

old, new, pci = sys.argv[1:]
for words in (("set", "dev", old, "down"), ("set", "dev", old, "name", new), ("set", "dev", new, "up")):
    subprocess.run(("ip", "link", *words), check=True)
links = {path.name: path.readlink() for path in CLASS.iterdir() if path.is_symlink()}
subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(CLASS)), check=True)
for name, target in links.items():
    if name != new:
        (CLASS / name).symlink_to(target)
directory = CLASS / new
directory.mkdir()
for attribute in (CLASS / links[new]).iterdir():
    (directory / attribute.name).symlink_to(attribute.resolve())
for name, content in (("type", INFINIBAND), ("address", ADDRESS), ("mode", "datagram")):
    (directory / name).unlink(missing_ok=True)
    (directory / name).write_text(content + "\n", encoding="ascii")
(directory / "device").symlink_to(f"../../../devices/pci0000:00/{pci}")
