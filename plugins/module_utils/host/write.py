# SPDX-License-Identifier: GPL-3.0-or-later
"""The half of ``Host`` that changes files: replace in one step, keep byte for byte, restored.

A file that is replaced keeps its owner, its ACL and other extended attributes, its SELinux
label among them; one that is new gets the label that the node's policy wants.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

SNAPSHOT_LIMIT = 64 * 1024 * 1024  # files of /etc that we replace have kilobytes; this only keeps a journal from filling the disk
SELINUX = "security.selinux"
ATTRIBUTES = ("system.posix_acl_access", "security.", "trusted.", "user.")
SIGNATURES = ("security.ima", "security.evm")  # the kernel's own, of one content and one inode
CAPABILITY = "security.capability"  # goes with the content: the kernel takes it away when a file is written
Attributes = Tuple[Tuple[str, bytes], ...]
GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS of linux/fs.h on x86-64 and arm64; what lsattr asks
FLAGS = ((0x10, "immutable", "i"), (0x20, "append-only", "a"))  # FS_IMMUTABLE_FL, FS_APPEND_FL: no rename, no unlink, not by root either
READ_ONLY = 1  # ST_RDONLY
PREFIX = ".railwright-"
TEMPORARY = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkstemp calls them


FULL = (errno.ENOSPC, errno.EDQUOT)
OUTPUT_LIMIT = 16 * 1024 * 1024  # bytes of one stream of a command: some hundred times what we ask for
CUT = 125


@contextlib.contextmanager
def named_errors(full: str) -> Iterator[None]:
    """Raise what the file system refuses with the name of the file: write(2) and fsync(2) have none. A full one says what to do."""
    try:
        yield
    except OSError as error:
        hint = "; free space on its file system: df -h %s" % (os.path.dirname(full) or ".") if error.errno in FULL else ""
        raise OSError(error.errno, "%s%s" % (error.strerror, hint), full) from error


class Result(NamedTuple):
    """What a command did. ``rc`` is 127 when it does not exist, 124 when it ran out of time, and ``CUT`` when it said more than we take:
    then ``out`` is empty, and ``err`` says so in one line. ``stuck``: it ran out of time, and nothing ends it."""

    rc: int
    out: str
    err: str
    stuck: bool = False

    @property
    def ok(self) -> bool:
        return self.rc == 0


class Snapshot(NamedTuple):
    """A file as it is, byte for byte: what it takes to restore it. ``content`` is None for a link that leads nowhere.

    ``attributes`` is None in what a version kept that did not inspect them.
    """

    content: Optional[bytes]
    mode: int
    owner: Tuple[int, int]
    link: Optional[str]
    attributes: Optional[Attributes] = ()


def open_file(full: str) -> int:
    """Open a file for reading. A pipe is not waited for, and a terminal does not become the one that sends this process signals."""
    return os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def open_regular(full: str) -> int:
    """As ``open_file``. Raises OSError for anything but a regular file, without opening it: opening a device may start something."""
    held = os.open(full, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", full)
        return open_file("/proc/self/fd/%d" % held)
    finally:
        os.close(held)


def is_own(state: os.stat_result, *, alone: bool = True) -> bool:
    """Whether it is a regular file of this user with one name, which (``alone``) nobody else may write."""
    return (stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and state.st_nlink == 1
            and not (alone and state.st_mode & 0o022))


def open_own(full: str, flags: int, mode: int = 0o600, *, renew: bool = False) -> int:
    """Open or create a regular file of this user; return its descriptor. Raise OSError for a link, a file with a second name, and a
    file of another user: such a file is never written to. ``renew`` removes it, and one that others may write, and creates the file.

    In a directory that others may write to, any of these may be a trap.
    """
    plain = flags & ~os.O_TRUNC | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = None
    try:
        fd = os.open(full, plain, mode)
    except OSError as error:
        if not renew or error.errno not in (errno.ELOOP, errno.ENXIO, errno.EACCES):  # a link; a pipe; fs.protected_regular
            raise
    if fd is not None:
        if is_own(os.fstat(fd), alone=renew):
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
            return fd
        os.close(fd)
    if not renew:
        raise OSError(errno.EPERM, "is a link, has a second name, or is not a regular file of this user; remove it", full)
    os.unlink(full)
    return os.open(full, plain | os.O_EXCL, mode)


class Writer:
    """Changes files of a node. ``Host`` adds reading and running."""

    _open_file = staticmethod(open_file)

    def path(self, path: str) -> str:
        """Where a node's path lies on this machine."""
        return path

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        raise NotImplementedError

    def snapshot(self, path: str) -> Optional[Snapshot]:
        """A regular file as it is, or None when there is none. Raises OSError where ``read`` would shrug:
        a file that cannot be read whole cannot be restored, so it must not be touched."""
        full = self.path(path)
        link = os.readlink(full) if os.path.islink(full) else None
        try:
            fd = self._open_file(full)
        except FileNotFoundError:
            return None if link is None else Snapshot(None, 0o644, (0, 0), link)
        with os.fdopen(fd, "rb") as stream:
            state = os.fstat(fd)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", path)
            content = stream.read(SNAPSHOT_LIMIT + 1)
            attributes = _attributes(fd)
        if len(content) > SNAPSHOT_LIMIT:
            raise OSError(errno.EFBIG, "is too large to keep a copy of", path)
        return Snapshot(content, stat.S_IMODE(state.st_mode), (state.st_uid, state.st_gid), link, attributes)

    def restore(self, path: str, kept: Optional[Snapshot]) -> None:
        """Make a file what ``snapshot`` saw. Raises OSError."""
        full = self.path(path)
        if kept is None:
            return self.remove(path)
        if kept.link is not None and not os.path.lexists(full):
            os.symlink(kept.link, full)
            self._sync_directory(os.path.dirname(full))
        if kept.content is not None:
            self._replace(os.path.realpath(full), kept.content, kept.mode, kept.owner, kept.attributes)
        elif os.path.exists(full):
            self._unlink(os.path.realpath(full))  # the link led nowhere before
        return None

    def write(self, path: str, content: str, mode: int = 0o644, *, follow: bool = True) -> None:
        """Replace a file in one step: beside its target, synced, renamed; of an operator's link what it names, or (``follow`` False) the
        link itself. Raises OSError."""
        full = self.path(path)
        place = os.path.realpath(full) if follow else os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        self._replace(place, content.encode("utf-8"), mode)

    def sweep(self, path: str) -> None:
        """Remove what a writer that died left beside a file. For who knows that it died, and that no other one is at work."""
        directory = os.path.dirname(os.path.realpath(self.path(path)))
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):  # it harms nobody: nothing reads files of this name
                    os.unlink(os.path.join(directory, name))

    def obstacle(self, path: str, *, removing: bool = False) -> Optional[str]:
        """Why ``write`` or ``remove`` would fail by the marks of the file or its directory, in one sentence; None where none is found."""
        named = self.path(path)
        full = named if removing else os.path.realpath(named)
        if removing and not os.path.lexists(full):
            return None
        if os.path.exists(named) and not os.path.isfile(named):
            masked = os.path.realpath(named) == os.devnull
            return "%s %s" % (named, "leads to /dev/null, which masks it; to allow it: rm " + named if masked else "is not a regular file")
        directory = os.path.dirname(full)
        while not os.path.isdir(directory):
            directory = os.path.dirname(directory)
        for place in (full, directory):
            for flag, name, letter in FLAGS:
                if _flags(place) & flag:
                    return "%s is %s; to allow it: chattr -%s %s" % (place, name, letter, place)
        # A service with ProtectSystem= sees its whole machine read-only; root alone writes here, and to root it is so for the node.
        if not self.user() and os.statvfs(directory).f_flag & READ_ONLY:
            return "%s is on a file system that is mounted read-only" % directory
        return None

    def create(self, path: str, content: str, mode: int = 0o644) -> bool:
        """A new file, whole from its first moment on: a link to what was written beside it. False where there is one. Raises OSError."""
        try:
            self._replace(self.path(path), content.encode("utf-8"), mode, new=True)
        except FileExistsError:
            return False
        return True

    def _replace(
        self, full: str, content: bytes, mode: int, owner: Optional[Tuple[int, int]] = None, attributes: Optional[Attributes] = None, *,
        new: bool = False,
    ) -> None:
        directory = os.path.dirname(full)
        import tempfile  # brings shutil and random, which no inspection needs

        if not new and os.path.lexists(full) and not os.path.isfile(full):  # /dev/null, say, where a link masks a unit
            raise OSError(errno.EINVAL, "is not a regular file", full)
        made = self._make(directory)
        fd, temporary = tempfile.mkstemp(prefix=PREFIX, dir=directory)
        try:
            with named_errors(full), os.fdopen(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                labelled = self._like(stream.fileno(), full, owner, attributes)
                os.fchmod(stream.fileno(), mode)
                os.fsync(stream.fileno())
            (os.link if new else os.rename)(temporary, full)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        self._sync_directory(directory)
        if not labelled and os.path.exists(self.path("/sys/fs/selinux/enforce")):
            self.run(("restorecon", "-R", made or full))  # the policy may want another label than the directory's

    def _make(self, directory: str) -> Optional[str]:
        """A directory and those above it, their names on the disk; the first that was not there."""
        missing = []
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process was faster, or it is a file: then what comes next says so
                os.mkdir(path)
            self._sync_directory(os.path.dirname(path))
        return missing[-1] if missing else None

    @staticmethod
    def _like(fd: int, full: str, owner: Optional[Tuple[int, int]], attributes: Optional[Attributes]) -> bool:
        """Owner and attributes of the file that is about to be replaced, where nothing else is given. Whether it has its SELinux label
        by that: False for a new file."""
        try:
            before = os.stat(full)
        except FileNotFoundError:
            if owner is not None:
                os.fchown(fd, *owner)
            if attributes is not None:
                _give(fd, attributes)
            return SELINUX in dict(attributes or ())
        os.fchown(fd, *(owner or (before.st_uid, before.st_gid)))
        _give(fd, attributes if attributes is not None else [item for item in _attributes(full) if item[0] != CAPABILITY])
        return True

    def user(self) -> int:
        """Whose rights this process has."""
        return os.geteuid()

    def may_open(self, path: str) -> bool:
        """What access(2) says of reading and writing a file; no driver is woken."""
        return os.access(self.path(path), os.R_OK | os.W_OK)

    @contextlib.contextmanager
    def acting_as(self, name: str, uid: int, gid: int) -> Iterator[None]:
        """What is inside touches files with a user's rights, as in a home: root would follow the links that the user put there."""
        if os.geteuid() != 0 or uid == 0:
            yield
            return
        groups, group = os.getgroups(), os.getegid()
        os.setgroups(os.getgrouplist(name, gid))
        try:
            os.setegid(gid)
            os.seteuid(uid)
            yield
        finally:
            os.seteuid(0)
            os.setegid(group)
            os.setgroups(groups)

    def make_directory(self, path: str, mode: int, owner: Optional[Tuple[int, int]] = None) -> None:
        """One directory; one that is there already keeps its mode and its owner. ``owner`` is to be had as root only. Raises OSError."""
        full = self.path(path)
        if os.path.isdir(full):
            return
        os.mkdir(full, mode)
        os.chmod(full, mode)  # whatever the umask took away
        if owner is not None and os.geteuid() == 0:
            os.chown(full, *owner)
        self._sync_directory(os.path.dirname(full))
        if os.path.exists(self.path("/sys/fs/selinux/enforce")):
            self.run(("restorecon", full))

    def remove(self, path: str) -> None:
        """A file that is gone also after a power cut; one that is not there is no error."""
        self._unlink(self.path(path))

    def _unlink(self, full: str) -> None:
        try:
            os.unlink(full)
        except FileNotFoundError:
            return
        self._sync_directory(os.path.dirname(full))

    def rmdir(self, path: str) -> None:
        """Remove a directory if it is empty; anything else is left alone."""
        try:
            os.rmdir(self.path(path))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def append(self, path: str, line: str, mode: int = 0o644) -> None:
        """One more line, on the disk when this returns. What a power cut left of the last one keeps a line of its own. Raises OSError."""
        full = self.path(path)
        self._make(os.path.dirname(full))
        fd = open_own(full, os.O_RDWR | os.O_APPEND, mode)
        with named_errors(full), os.fdopen(fd, "rb+", 0) as stream:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            data = (b"\n" if torn else b"") + line.encode("utf-8") + b"\n"
            if stream.write(data) != len(data):
                raise OSError(errno.ENOSPC, "was written in part")
            os.fdatasync(fd)

    def set_value(self, path: str, value: str) -> None:
        """Write a kernel attribute in place. Raises OSError with the kernel's answer."""
        fd = os.open(self.path(path), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode("utf-8"))
        finally:
            os.close(fd)

    @staticmethod
    def _sync_directory(directory: str) -> None:
        """So that the names in it outlive a power cut."""
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:  # who may write into a directory need not be allowed to open it
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _flags(full: str) -> int:
    """The inode flags of a file or directory; 0 where it has none, or there is none."""
    try:
        state = os.lstat(full)
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):  # a device's driver may mean something else by the number
            return 0
        fd = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(struct.unpack_from("i", fcntl.ioctl(fd, GET_FLAGS, b"\0" * 8))[0])
    except OSError:  # a file system without flags
        return 0
    finally:
        os.close(fd)


def _attributes(file: Union[int, str]) -> Attributes:
    """What ls does not show of a file; nothing on a file system that has no such thing. Raises OSError."""
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.EPERM):
            return ()
        raise
    found = []
    for name in sorted(names):
        if name.startswith(ATTRIBUTES) and name not in SIGNATURES:
            with contextlib.suppress(OSError):  # a label that is not ours to read (containers)
                found.append((name, os.getxattr(file, name)))
    return tuple(found)


def _give(fd: int, wanted: Iterable[Tuple[str, bytes]]) -> None:
    """These and no others: a directory's default ACL would open a file that had none. Raises OSError."""
    here, values = dict(_attributes(fd)), dict(wanted)
    for name in here:
        if name not in values and not name.startswith("security."):  # a label is the policy's
            os.removexattr(fd, name)
    for name, value in values.items():
        try:
            if here.get(name) != value:
                os.setxattr(fd, name, value)
        except OSError:
            if not name.startswith("security."):  # no SELinux here, or not ours to say (containers)
                raise
