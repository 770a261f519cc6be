# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that shows more of what a verdict is about, by the beginning of its code. Pure; each of them only reads."""

import re
from typing import Any, List, Mapping, Tuple

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
# The longest beginning counts. {hca}, {port} and {pci} are of the verdict; a word without its
# value is left out, and the option before it.
COMMANDS: Tuple[Tuple[str, str], ...] = (
    ("", "journalctl -k -b -p warning"),
    ("aiacc.", "cat /etc/nccl.conf; ldconfig -p | grep nccl"),
    ("cpu.", "cat /proc/cmdline"),
    ("erdma.", "dmesg | grep -i erdma; rdma link"),
    ("firmware.", "mlxfwmanager --query -d {pci}"),
    ("gds.", "/usr/local/cuda/gds/tools/gdscheck -p"),
    ("gpu.", "nvidia-smi -q -i {pci}"),
    ("gpu.driver", "cat /proc/driver/nvidia/version; modinfo -F version nvidia"),
    ("gpu.fabricmanager", "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric"),
    ("gpu.imex", "systemctl status nvidia-imex; nvidia-imex-ctl -N"),
    ("gpu.near", "nvidia-smi topo -m"),
    ("gpu.nouveau", "lsmod | grep nouveau; cat /etc/modprobe.d/*nouveau*"),
    ("gpu.persistence", "systemctl status nvidia-persistenced; nvidia-smi -q | grep -i persist"),
    ("gpu.sxid", "dmesg | grep -i sxid; systemctl status nvidia-fabricmanager"),
    ("gpu.xid", "dmesg | grep -i xid; nvidia-smi -q"),
    ("gpudirect.", "lsmod | grep -i peer; dmesg | grep -i peer"),
    ("hca.", "ibv_devinfo -d {hca}"),
    ("kernel.", "uname -r; dkms status"),
    ("node.clock", "timedatectl; chronyc tracking"),
    ("node.disk", "df -h; dmesg | grep -iE 'i/o error|read-only'"),
    ("node.hangs", "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
    ("node.hung", "ps -eo pid,stat,wchan:32,args | grep ' D'; dmesg | tail -40"),
    ("node.memory", "grep -r . /sys/devices/system/edac/mc/mc*/*_count"),
    ("node.memlock", "systemctl show -p DefaultLimitMEMLOCK; ulimit -l"),
    ("opensm.", "systemctl status opensm; sminfo"),
    ("pci.", "sudo lspci -vv -s {pci}"),
    ("pci.acs", "sudo lspci -vvv | grep -i acsctl"),
    ("pci.aer", "dmesg | grep -i aer; sudo lspci -vv -s {pci}"),
    ("pci.iommu", "cat /proc/cmdline; dmesg | grep -i iommu"),
    ("port.", "rdma link show {hca}/{port}; ibstat {hca}"),
    ("port.flaps", "dmesg | grep -iE 'link (is )?(up|down)'; rdma link show {hca}/{port}"),
    ("port.optics", "sudo mlxlink -d {hca} -m"),
    ("stack.", "ofed_info -s; modinfo -n mlx5_core"),
    ("stack.dkms", "dkms status"),
    ("stack.headers", "uname -r; ls /usr/src /lib/modules"),
    ("stack.packages", "dpkg --audit"),
    ("stack.secure_boot", "mokutil --sb-state; mokutil --list-enrolled"),
)


def next_command(item: Mapping[str, Any]) -> str:
    """Of a verdict's JSON form. What a node calls its devices is put in only where it is a plain name."""
    check = str(item.get("check"))
    command = max((row for row in COMMANDS if check.startswith(row[0])), key=lambda row: len(row[0]))[1]
    hca, port, pci = str(item.get("hca")), item.get("port"), _PCI.search(str(item.get("subject")))
    values = {"{hca}": hca if item.get("hca") and _PLAIN.match(hca) else "", "{port}": "%d" % port if isinstance(port, int) else "",
              "{pci}": pci.group(0) if pci else ""}
    return "; ".join(_filled(part, values) for part in command.split("; "))


def _filled(part: str, values: Mapping[str, str]) -> str:
    words: List[str] = []
    for word in part.split(" "):
        if any(name in word and not value for name, value in values.items()):
            del words[len(words) - (1 if words[-1].startswith("-") else 0):]
            continue
        words.append(word.replace("{hca}", values["{hca}"]).replace("{port}", values["{port}"]).replace("{pci}", values["{pci}"]))
    return " ".join(words)
