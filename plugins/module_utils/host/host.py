# SPDX-License-Identifier: GPL-3.0-or-later
"""All I/O of the core but writing (``host/write.py``) and how a command is run (``host/run.py``): read, list, lock, all bounded.

``Host`` is a live node. ``TreeHost`` is a captured directory (``sys/``, ``proc/``, ``etc/`` …, with recorded command output under
``cmd/``): it runs nothing and never leaves its directory, whatever the symbolic links in it say.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import pwd
import re
import select
import signal
import stat
import struct
import subprocess
import time
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

from ..errors import RailwrightError
from .run import run_bounded
from .write import CUT, OUTPUT_LIMIT, Result, Snapshot, Writer, open_own, open_regular

__all__ = ["CUT", "Host", "Result", "Snapshot", "TreeHost", "recording_name"]

READ_LIMIT = 4 * 1024 * 1024  # no file that we judge is larger; a runaway proc file must not fill memory
NAMES_LIMIT = 200 * 1024  # of a directory: whoever fills his own must not fill our memory
MAX_LINKS = 40
NAME_LIMIT, FAILED = 240, ".rc"  # of a recording: a file's name has 255 bytes at most
SOL_PACKET, PACKET_ADD_MEMBERSHIP = 263, 1  # linux/socket.h, linux/if_packet.h
LOCK_STEP_S = 0.05  # between two tries to take a lock
FRAME_LIMIT = 2048  # bytes of a frame that we read: what we ask for is shorter
Made = TypeVar("Made")
Status = os.stat_result
SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/mellanox/iproute2/sbin"


def search_environment() -> Dict[str, str]:
    """What every command gets: the C locale, and the directories that ``which`` looks in."""
    return dict(os.environ, LC_ALL="C", LANG="C", PATH=SEARCH_PATH)


class Account(NamedTuple):
    """A user of the node."""

    name: str
    uid: int
    gid: int
    home: str


def account(name: str, key: str) -> Account:
    """``key``: of the inventory, which names the user. Raises RailwrightError where the node has none of that name."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise RailwrightError("%s: %s: this node has no such user; allowed: one who exists on every node" % (key, name)) from error
    return Account(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


class Host(Writer):
    """A live node. Reading never raises: what cannot be read is None (or empty)."""

    live = True

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> Optional[bytes]:
        """Return the first ``limit`` bytes of a file, or None when it is absent or unreadable (EINVAL of sysfs too). An ordinary user gets
        less from sysfs, not an error: 64 bytes of PCI configuration space."""
        try:
            fd = self._open_file(self.path(path))
        except (OSError, ValueError):
            return None
        try:
            chunks: List[bytes] = []
            left = limit
            piece = max(65536, os.fstat(fd).st_size)  # a file in one piece: joining many takes twice the memory
            while left > 0:
                try:
                    chunk = os.read(fd, min(piece, left))
                except BrokenPipeError:  # /dev/kmsg: the kernel has overwritten records that were next
                    continue
                except BlockingIOError:  # a device that has no more to read now
                    chunk = b""
                chunks.append(chunk)
                left = left - len(chunk) if chunk else 0
            return b"".join(chunks)
        except OSError:
            return None
        finally:
            os.close(fd)

    def read(self, path: str, limit: int = READ_LIMIT) -> Optional[str]:
        """The text of a file (its first ``limit`` bytes), or None when it is absent or unreadable."""
        data = self.read_bytes(path, limit)
        return None if data is None else data.decode("utf-8", "replace")

    def line(self, path: str) -> Optional[str]:
        """A one-value file stripped of white space; None when absent, unreadable or empty."""
        return (self.read(path) or "").strip() or None

    def listdir(self, path: str) -> List[str]:
        """The names in a directory, of more than ``NAMES_LIMIT`` any so many; [] when it is absent or unreadable."""
        try:
            with os.scandir(self.path(path)) as entries:
                return sorted(entry.name for entry in itertools.islice(entries, NAMES_LIMIT))
        except (OSError, ValueError):
            return []

    def exists(self, path: str) -> bool:
        return self.status(path) is not None

    def _asked(self, ask: Callable[[str], Made], path: str) -> Optional[Made]:
        try:
            return ask(self.path(path))
        except (OSError, ValueError):
            return None

    def readlink(self, path: str) -> Optional[str]:
        return self._asked(os.readlink, path)

    def status(self, path: str) -> Optional[Status]:
        """What stat(2) says of a file, or of what a link leads to; None when it is absent."""
        return self._asked(os.stat, path)

    def mode(self, path: str) -> Optional[int]:
        """Permission bits of a file, or None when it is absent."""
        status = self.status(path)
        return None if status is None else stat.S_IMODE(status.st_mode)

    def mtime(self, path: str) -> Optional[float]:
        """When the content of a file last changed, in seconds since the epoch; None when it is absent."""
        status = self.status(path)
        return None if status is None else status.st_mtime

    def size(self, path: str) -> Optional[int]:
        """Bytes of a file, or None when it is absent."""
        status = self.status(path)
        return None if status is None else status.st_size

    def free_bytes(self, path: str) -> Optional[int]:
        info = self.filesystem(path)
        return None if info is None else info.f_bavail * info.f_frsize

    def filesystem(self, path: str) -> Optional[os.statvfs_result]:
        """What statvfs(2) says of the file system that a path is on; None when it is absent."""
        return self._asked(os.statvfs, path)

    def sync_fault(self, path: str) -> Optional[int]:
        """What keeps the file system of a directory from writing, by fsync(2) of it, which changes nothing; None where nothing does."""
        fd = self._asked(lambda place: os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
        try:
            if fd is not None:
                os.fsync(fd)
        except OSError as error:
            return error.errno if error.errno in (errno.EROFS, errno.EIO) else None  # others cannot sync a directory at all
        finally:
            if fd is not None:
                os.close(fd)
        return None

    def which(self, tool: str) -> Optional[str]:
        """The node's own path of a tool; sbin is searched for ordinary users too."""
        paths = ("%s/%s" % (directory, tool) for directory in SEARCH_PATH.split(":"))
        # Asked: a captured tree may hold a loop of links.
        return next((path for path in paths if self._asked(lambda full: os.access(full, os.X_OK), path)), None)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What ``make`` gives: what is read of a node and costs much to parse. ``InspectedHost`` makes each name once."""
        return make()

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        """Run a command without a shell, in the C locale, in a session of its own. Never raises.

        It takes no longer than its time (s), but for the seconds in which ``host/run.py`` ends it, and says no more than ``limit`` bytes
        on each of its streams: see ``Result``.
        """
        return run_bounded(argv, search_environment(), timeout, stdin, limit)

    def spawn(
        self, argv: Sequence[str], log: str, environment: Optional[Dict[str, str]] = None, owner: Optional[Tuple[str, int, int]] = None
    ) -> int:
        """Start a command that outlives us, in a session of its own, with its output in ``log``; returns its pid. Raises OSError.

        ``environment``: all that it gets, in place of ours; ``owner`` (name, uid, gid): whose rights the log is made with.
        """
        with self.acting_as(*(owner or ("", self.user(), 0))):
            fd = open_own(self.path(log), os.O_WRONLY | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as stream:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, close_fds=True, cwd="/",
                env=search_environment() if environment is None else environment, start_new_session=True)
        process.returncode = 0  # nobody will wait for it: init inherits it, and Popen must not warn about that
        return process.pid

    def exchange(
        self, netdev: str, protocol: int, frames: Sequence[bytes], seconds: float, limit: int, wanted: Callable[[bytes], bool],
        group: Optional[bytes] = None,
    ) -> List[bytes]:
        """Send Ethernet frames out of an interface, and gather the wanted ones of a protocol that come in. Raises OSError.

        They are spread over the first half of the time, so that the last one can be answered too. It ends after
        ``seconds``, whatever comes in, or with ``limit`` frames. ``group``: an address that the interface must take frames for.
        """
        import socket  # no inspection needs it otherwise

        found: List[bytes] = []
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:  # protocol 0: deaf until it is bound
            raw.bind((netdev, protocol))
            if group is not None:  # packet(7): struct packet_mreq, of type PACKET_MR_MULTICAST
                member = struct.pack("iHH8s", socket.if_nametoindex(netdev), 0, len(group), group)
                raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
            begin = time.monotonic()
            due = [begin + seconds / 2 * at / len(frames) for at in range(len(frames))]
            sent = 0
            while len(found) < limit:
                now = time.monotonic()
                if now >= begin + seconds:
                    break
                if sent < len(due) and now >= due[sent]:
                    raw.send(frames[sent])
                    sent += 1
                    continue
                until = due[sent] if sent < len(due) else begin + seconds
                if select.select([raw], [], [], until - now)[0]:
                    frame = raw.recv(FRAME_LIMIT)
                    found += [frame] if wanted(frame) else []
        return found

    def signal_group(self, leader: int, number: int) -> None:
        """Signal a process group that ``spawn`` made; one that has ended already is no error."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, number)

    def signal_process(self, pid: int, number: int) -> None:
        """Signal one process; one that has ended already, or is another user's, is no error."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)

    @staticmethod
    def process() -> int:
        """Our own process, which is never among those that are to be ended."""
        return os.getpid()

    @staticmethod
    def unheard() -> bool:
        """Whether nobody reads what this process writes: the connection that it was started over has ended."""
        watched = select.poll()
        watched.register(1, 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _descriptor, event in watched.poll(0))

    @staticmethod
    def login() -> str:
        """Whom Ansible logged in as: sudo and doas tell, and without them it is who we are."""
        return os.environ.get("SUDO_USER") or os.environ.get("DOAS_USER") or pwd.getpwuid(os.getuid()).pw_name

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """What is inside is finished, or undone, though the connection breaks: sshd then hangs up on us.

        Commands that run inside inherit it, so that none of them ends half-way either.
        """
        numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        before: List[Any] = [signal.signal(number, signal.SIG_IGN) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before):
                signal.signal(number, handler)

    def owner(self, path: str) -> Optional[Tuple[str, int, int]]:
        """(name, uid, gid) for ``acting_as``; None when it is absent, or its owner is in no user list."""
        try:
            state = os.lstat(self.path(path))
            return pwd.getpwuid(state.st_uid).pw_name, state.st_uid, state.st_gid
        except (OSError, ValueError, KeyError):
            return None

    def lock(self, path: str, seconds: float = 0.0) -> Optional[int]:
        """Take an exclusive lock that ends with this process, within so long; None when another one keeps it. Raises OSError when there
        can be none."""
        deadline = time.monotonic() + seconds
        lock = self._lock(path)
        while lock is None and time.monotonic() < deadline:
            time.sleep(LOCK_STEP_S)
            lock = self._lock(path)
        return lock

    def _lock(self, path: str) -> Optional[int]:
        fd = open_own(self.path(path), os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return fd

    @staticmethod
    def unlock(lock: int) -> None:
        os.close(lock)


def resolved(path: str, link_of: Callable[[str], Optional[str]]) -> str:
    """Where a path leads without a link on the way: absolute links start at its root, ``..`` stops there. ``link_of``: what a place links
    to, None where it is no link. Raises OSError for a loop."""
    pending = [part for part in path.split("/") if part][::-1]
    current = ""
    links = 0
    while pending:
        part = pending.pop()
        if part in (".", ".."):
            current = current if part == "." else current.rpartition("/")[0]
            continue
        target = link_of("%s/%s" % (current, part))
        if target is None:
            current = "%s/%s" % (current, part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        current = "" if target.startswith("/") else current
        pending.extend([piece for piece in target.split("/") if piece][::-1])
    return current


class TreeHost(Host):
    """A captured node under a directory. Commands are answered from ``cmd/`` or not at all."""

    live = False
    _open_file = staticmethod(open_regular)

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._directories: Dict[str, str] = {}

    def path(self, path: str) -> str:
        """Resolve inside the tree: absolute links start at its root, ``..`` stops there."""
        parent, _slash, name = path.rstrip("/").rpartition("/")
        if name in ("..", "."):
            return self._resolve(path)
        if parent not in self._directories:
            self._directories[parent] = self._resolve(parent)
        full = os.path.join(self._directories[parent], name) if name else self._directories[parent]
        if os.path.islink(full):
            return self._resolve(path)
        return full

    def _resolve(self, path: str) -> str:
        return self.root + resolved(path, lambda full: os.readlink(self.root + full) if os.path.islink(self.root + full) else None)

    def readlink(self, path: str) -> Optional[str]:
        parent, _slash, name = path.rstrip("/").rpartition("/")
        try:
            return os.readlink(os.path.join(self._resolve(parent), name))
        except (OSError, ValueError):
            return None

    def which(self, tool: str) -> Optional[str]:
        """A captured tree has a tool when it has its file or a recording of it."""
        found = super().which(tool)
        if found is not None:
            return found
        recorded = any(name == tool or name.startswith((tool + "_", tool + ".")) for name in self.listdir("/cmd"))
        return "/usr/bin/" + tool if recorded else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        """The recording of exactly this command line; see ``recording_name``."""
        for name in (recording_name(argv), recording_name(argv) + ".txt"):
            text = self.read("/cmd/" + name)
            if text is not None:
                code, _line, err = (self.read("/cmd/" + name + FAILED) or "").partition("\n")
                return Result(int(code) if re.match(r"-?[0-9]{1,5}\Z", code) else 0, text, err)
        return Result(127, "", "%s: not recorded" % argv[0])


def refuse(kind: Type[Host], names: Sequence[str], number: int, message: str) -> None:
    """These methods of a kind of host raise OSError."""
    def refused(_host: Host, *_arguments: Any, **_named: Any) -> None:
        raise OSError(number, message)

    for name in names:
        setattr(kind, name, refused)


refuse(TreeHost, ("spawn", "exchange", "signal_group", "signal_process"), errno.EPERM, "a captured tree runs nothing and has no network")


def recording_name(argv: Sequence[str]) -> str:
    """The file under ``cmd/`` that holds a command's output: ``ip -j addr`` is ``ip_-j_addr``. One with ``FAILED`` behind its name has
    the exit code of a command that failed, and what it said as an error."""
    name = "_".join(part.replace("/", "-") for part in [os.path.basename(argv[0])] + list(argv[1:]))
    data = name.encode("utf-8", "replace")
    return name if len(data) <= NAME_LIMIT else "%s_%08x" % (name[:NAME_LIMIT // 4], zlib.crc32(data))
