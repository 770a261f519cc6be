# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that railwright owns whole: how they are marked, inspected and planned.

Every such file starts with the same line, so that a person who opens it knows who
writes it, and so that we can tell our own file from one that somebody put there first.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...host.host import Host
from ...types import AT_BOOT, FILE, Change, Op, Subject, remove_file, write_file

MARK = "# Managed by railwright"
HEADER = MARK + " (railwright.rdma): the next apply overwrites changes made here.\n"


class FileState(NamedTuple):
    """What is at a path now; ``text`` is None when nothing (readable) is."""

    path: str
    text: Optional[str]
    mode: Optional[int]

    @property
    def foreign(self) -> bool:
        """Somebody else wrote this file."""
        return bool(self.text) and not is_ours(self.text or "")


def is_ours(text: str) -> bool:
    if text.startswith("#!"):
        text = text.partition("\n")[2]  # a script's first line is its interpreter
    return text.startswith(MARK)


def observe_file(host: Host, path: str) -> FileState:
    return FileState(path, host.read(path), host.mode(path))


def plan_file(
    area: str, state: FileState, content: str, why: str, source: str, mode: int = 0o644, then: Tuple[Op, ...] = (), disruption: str = "none"
) -> List[Change]:
    """The change that makes a file hold exactly ``content``; ``then`` makes a daemon notice it.

    The permission bits count too: a file that its readers may not open is as bad as none.
    """
    if state.text == content and state.mode == mode:
        return []
    before, after = ({"mode": octal(state.mode)}, {"mode": octal(mode)}) if state.text == content else (state.text, content)
    ops = (write_file(state.path, content, mode),) + tuple(then)
    if state.foreign:
        why += "; the file there was not written by railwright, its content is kept in the restore point"
    return [_change(area, state.path, before, after, disruption, why, source, ops)]


def removed_file(
    area: str, path: str, before: Any, why: str, source: str, then: Tuple[Op, ...] = (), *, first: Tuple[Op, ...] = (),
    disruption: str = "none",
) -> Change:
    """The change that takes a file away, between ``first`` and ``then``."""
    return _change(area, path, before, None, disruption, why, source, first + (remove_file(path),) + then)


def forget_file(area: str, state: FileState, why: str, source: str, then: Tuple[Op, ...] = ()) -> List[Change]:
    """Take away what an earlier apply left. A file that somebody else wrote stays."""
    return [removed_file(area, state.path, state.text, why, source, then)] if is_ours(state.text or "") else []


def _change(area: str, path: str, before: Any, after: Any, disruption: str, why: str, source: str, ops: Tuple[Op, ...]) -> Change:
    return Change(area, "file " + path, before, after, disruption, why, source, ops, Subject(FILE, path), AT_BOOT)


def later_files(host: Host, directories: Sequence[str], name: str) -> List[str]:
    """The .conf files of a drop-in directory that are read after ``name`` ('': all of them) and so win over it, in order.

    All of sysctl.d, limits.d, modprobe.d and systemd read by name, whatever the directory; a file in
    an earlier one of ``directories`` hides those of the same name in later ones.
    """
    paths: Dict[str, str] = {}
    for directory in directories:
        for found in host.listdir(directory):
            if found.endswith(".conf") and found > name:
                paths.setdefault(found, "%s/%s" % (directory, found))
    return [paths[found] for found in sorted(paths)]


def octal(mode: Optional[int]) -> Optional[str]:
    return None if mode is None else "0%03o" % mode
