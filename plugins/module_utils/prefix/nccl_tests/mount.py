# SPDX-License-Identifier: GPL-3.0-or-later
"""``nccl_tests_nfs``: a systemd mount unit of ours, or the clear line why there is none.

What somebody else mounted is never taken away: where it is the wanted export it is used as it is, where it is another one the node is
refused.
"""

from typing import Any, Dict, NamedTuple, Optional

from ...errors import RailwrightError
from ...formats.outside import lines_in
from ...host.disk import plain_path
from ...host.host import Host
from ...observe.qos_boot import escape

UNITS = "/etc/systemd/system"
MARK = "# Written by railwright (nccl_tests_nfs); changes here are lost."


class Mounted(NamedTuple):
    """What lies on a mount point now."""

    source: str
    kind: str


def unit_name(path: str) -> str:
    """systemd's own name for a mount point (systemd-escape --path --suffix=mount)."""
    parts = [part for part in path.split("/") if part]
    return ("-".join(escape(part, first=at == 0) for at, part in enumerate(parts)) or "-") + ".mount"


def unit_text(source: str, path: str) -> str:
    """Mounted now and at boot; remote-fs.target wants it and does not require it, so that a server that is away stops no boot."""
    lines = [MARK, "[Unit]", "Description=nccl-tests of the cluster", "After=network-online.target", "Wants=network-online.target", "",
             "[Mount]", "What=" + source, "Where=" + path.rstrip("/"), "Type=nfs", "Options=nosuid,nodev,_netdev", "TimeoutSec=60", "",
             "[Install]", "WantedBy=remote-fs.target", ""]
    return "\n".join(lines)


def mounted(host: Host, path: str) -> Optional[Mounted]:
    """The uppermost mount on exactly this path (proc(5), mountinfo: fields 5, and after the dash type and source)."""
    found = None
    for line in lines_in(host.read("/proc/self/mountinfo") or ""):
        left, separator, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if separator and len(fields) > 4 and len(rest) > 1 and plain_path(fields[4]) == path.rstrip("/"):
            found = Mounted(plain_path(rest[1]), rest[0])
    return found


def inspect_mount(host: Host, source: str, path: str) -> Dict[str, Any]:
    """``{"unit", "file", "text", "write", "start"}``: whether the unit is to be written, and to be started. Raises where it cannot be."""
    name = unit_name(path)
    file = "%s/%s" % (UNITS, name)
    text = host.read(file)
    ours = text is not None and text.startswith(MARK)
    now = mounted(host, path)
    right = now is not None and now.kind.startswith("nfs") and now.source.rstrip("/") == source.rstrip("/")
    wanted = unit_text(source, path)
    result = {"unit": name, "file": file, "text": wanted, "write": text != wanted, "start": not right}
    if right and not ours:  # the site's own mount, of fstab or by hand
        return dict(result, write=False, start=False)
    if text is not None and not ours:
        raise RailwrightError("%s was not written by railwright; move it away, or mount %s on %s yourself" % (file, source, path))
    if now is not None and not right and not (ours and "\nWhat=%s\n" % now.source in (text or "")):
        raise RailwrightError("%s (%s) is mounted on %s, and nccl_tests_nfs is %s; railwright does not unmount what it did not mount" % (
            now.source, now.kind, path, source))
    if not right and not (host.exists("/sbin/mount.nfs") or host.exists("/usr/sbin/mount.nfs")):
        raise RailwrightError("this node cannot mount NFS: there is no mount.nfs. Install nfs-common (Debian, Ubuntu) or nfs-utils (EL)")
    if not host.exists("/run/systemd/system"):
        raise RailwrightError("this node does not run systemd; mount %s on %s yourself" % (source, path))
    return result
