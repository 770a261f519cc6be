# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's disk as a shell tells of it, where no Python of ours runs: judged as on the node (module_utils/host/disk.py), in its words."""

import errno
import os
import shlex

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, whole
from ansible_collections.railwright.rdma.plugins.module_utils.host import disk
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.host.kernel_ring import KMSG

ABOVE = sorted({place[:end] or "/" for place in disk.PLACES for end in range(len(place) + 1) if place[end : end + 1] in ("", "/")})
LINES, CHARACTERS = 20, 400  # of the kernel's log
# `sync PLACE` (coreutils, busybox) syncs that place alone.
SCRIPT = f"""
echo "user $(id -u)"
errors=$(cat /sys/fs/ext4/*/errors_count 2>/dev/null | grep -v '^0$'; grep ' - xfs ' {disk.MOUNTS})
for place in {" ".join(disk.PLACES)}; do
  [ -d "$place" ] || continue
  echo "place $place"
  stat -f -c "size $place %S %b %f %a %c %d" "$place" 2>/dev/null
  [ -z "$errors" ] || sync "$place" 2>&1 | while read -r said; do echo "fault $place ${{said##*: }}"; done
done
while read -r id parent device root point rest; do
  case $point in {"|".join(ABOVE)})
    echo "mount $id $parent $device $root $point $rest"; echo "device $device $(readlink "/sys/dev/block/$device")";;
  esac
done 2>/dev/null <{disk.MOUNTS}
grep '^btime ' /proc/stat
dd if={KMSG} bs=8192 iflag=nonblock 2>/dev/null | grep -E '{disk.GAVE_UP}|{disk.FOUND}' | tail -n {LINES} | cut -c1-{CHARACTERS}
""".strip()
COMMAND = shlex.join(["/bin/sh", "-c", "LC_ALL=C; export LC_ALL\n" + SCRIPT])
FAULTS = {os.strerror(number): number for number in (errno.EROFS, errno.EIO)}  # as sync_fault has it; what sync says besides is no fault
SIZES, MOST = 6, 1 << 63
LIMIT = 64 * 1024  # characters of what it prints


class ToldHost(Host):
    """As much of a node as ``refusing_disk`` asks for, out of the script's lines."""

    def __init__(self, text: str) -> None:
        self._rows: dict[str, list[str]] = {}
        self._log: list[str] = []
        for line in lines_in(text):
            word, _blank, rest = line.partition(" ")
            if line[:1].isdigit():
                self._log.append(line)
            else:
                self._rows.setdefault(word, []).append(rest)
        self.places = [place for place in disk.PLACES if place in self._rows.get("place", [])]

    def _first(self, word: str, name: str) -> str | None:
        """What the first line of this kind says of a name; None where there is no such line, or nothing in it."""
        found = (rest.partition(" ") for rest in self._rows.get(word, []))
        return next((said for own, _blank, said in found if own == name and said), None)

    def exists(self, path: str) -> bool:
        return path in self.places

    def filesystem(self, path: str) -> os.statvfs_result | None:
        """With the blocks that who asked may use as the free ones, whoever asks here."""
        numbers = [number for number in (whole(word, 0, MOST) for word in (self._first("size", path) or "").split()) if number is not None]
        if len(numbers) != SIZES:
            return None
        size, blocks, free, available, files, free_files = numbers
        usable = free if self._rows.get("user") == ["0"] else available
        return os.statvfs_result((size, size, blocks, usable, usable, files, free_files, free_files, 0, 255))

    def user(self) -> int:
        return 0 if self._rows.get("user", ["0"]) == ["0"] else 1

    def sync_fault(self, path: str) -> int | None:
        return FAULTS.get(self._first("fault", path) or "")

    def read(self, path: str, *_limit: int) -> str | None:
        if path == disk.MOUNTS:
            return "\n".join(self._rows.get("mount", []))
        return "\n".join(f"btime {rest}" for rest in self._rows.get("btime", [])) if path == disk.BOOT else None

    def readlink(self, path: str) -> str | None:
        return self._first("device", path.rpartition("/")[2])

    def read_bytes(self, path: str, *_limit: int) -> bytes | None:
        return "\n".join(self._log).encode() if path == KMSG else None


def told_fault(text: str) -> str | None:
    """What ``refusing_disk`` would say on the node whose shell printed this."""
    host = ToldHost(text)
    return disk.refusing_disk(host, host.places)
