# SPDX-License-Identifier: GPL-3.0-or-later
"""Who could have written a file of the controller, by the rules of sshd's StrictModes. Each part of a path is held while it is checked."""

import errno
import os
import pwd
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from railwright.exitcodes import InputError
from railwright.writing import MAX_LINKS, xdg

HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def fault(path: Path, state: os.stat_result) -> str:
    """Return why users other than we and root could have put this there, and what to do; empty if they could not."""
    mode, ours, link = stat.S_IMODE(state.st_mode), state.st_uid == os.geteuid(), stat.S_ISLNK(state.st_mode)
    theirs = not ours and state.st_uid != 0
    if not theirs and (link or not mode & 0o022):
        return ""
    try:
        owner = pwd.getpwuid(state.st_uid).pw_name
    except KeyError:
        owner = f"uid {state.st_uid}"
    about = f"(owner {owner}, mode {mode:04o})"
    if theirs:
        return f"{path} {'is a link of' if link else 'belongs to'} another user {about}; remove it, or use your own"
    fix = f"fix it: chmod go-w {shlex.quote(str(path))}" if ours and not mode & stat.S_ISVTX else "use a directory of your own"
    return f"{path} is writable by others {about}; {fix}"


def state_directory(*names: str) -> Path:
    """Return a directory of ours below the state home. Raises InputError if another user could have put something in it."""
    path = xdg("XDG_STATE_HOME", ".local/state")
    for name in ("railwright", *names):
        path /= name
        with suppress(FileNotFoundError):
            if why := fault(path, path.lstat()) or fault(path, path.stat()):
                raise InputError(f"{why}; or set XDG_STATE_HOME to another directory", path)
    return path


def open_checked(path: Path) -> tuple[int, str]:
    """Open a regular file or a directory for reading. Return its descriptor, and why it is not trusted (empty if it is).

    Trusted are a file and the directories of its real path up to the home directory, or to the root, if nobody but we and root may write
    them, and links that we or root made. Raises OSError, InputError.
    """
    held: list[tuple[Path, int]] = [(Path("/"), os.open("/", HOLD))]
    try:
        links = _walk(held, path)
        state = os.fstat(held[-1][1])
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            raise InputError(f"{path}: is neither a file nor a directory", path)
        why = links or next(filter(None, _faults(held)), "")
        return os.open(f"/proc/self/fd/{held[-1][1]}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), why
    finally:
        for _real, descriptor in held:
            os.close(descriptor)


def _walk(held: list[tuple[Path, int]], path: Path) -> str:
    """Hold each part of the real path. Return the fault of the first link that has one."""
    why, links = "", 0
    pending = list(reversed(path.absolute().parts[1:]))
    while pending:
        name = pending.pop()
        above, directory = held[-1]
        if name == "..":
            if len(held) > 1:
                os.close(held.pop()[1])
            continue
        descriptor = os.open(name, HOLD, dir_fd=directory)
        state = os.fstat(descriptor)
        if not stat.S_ISLNK(state.st_mode):
            held.append((above / name, descriptor))
            continue
        links += 1
        why = why or fault(above / name, state)
        target = Path(os.readlink("", dir_fd=descriptor))
        os.close(descriptor)
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        while target.is_absolute() and len(held) > 1:
            os.close(held.pop()[1])
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return why


def _faults(held: list[tuple[Path, int]]) -> list[str]:
    """The file's own, then those of its directories, from below."""
    home, found = None, []
    with suppress(OSError, RuntimeError):
        home = Path.home().stat()
    for path, descriptor in reversed(held):
        state = os.fstat(descriptor)
        found.append(fault(path, state))
        if home is not None and os.path.samestat(state, home):  # whoever may rename our home directory has it already
            break
    return found
