# SPDX-License-Identifier: GPL-3.0-or-later
"""The only file of the core that does I/O: read, list, run, write, all bounded.

``Host`` is a live node. ``TreeHost`` is a captured directory (``sys/``, ``proc/``,
``etc/`` …, with recorded command output under ``cmd/``): it runs nothing and never
leaves its directory, whatever the symbolic links in it say.
"""

import errno
import fcntl
import os
import stat
import subprocess
import tempfile
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

READ_LIMIT = 4 * 1024 * 1024  # no file that we judge is larger; a runaway proc file must not fill memory
MAX_LINKS = 40
SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/mellanox/iproute2/sbin"


class Result(NamedTuple):
    """What a command did. ``rc`` is 127 when it does not exist and 124 when it ran out of time."""

    rc: int
    out: str
    err: str

    @property
    def ok(self):
        # type: () -> bool
        return self.rc == 0


class Host:
    """A live node. Reading never raises: what cannot be read is None (or empty)."""

    live = True

    def path(self, path):
        # type: (str) -> str
        """Where a node's path lies on this machine."""
        return path

    def read(self, path, limit=READ_LIMIT):
        # type: (str, int) -> Optional[str]
        """The text of a file (its first ``limit`` bytes), or None when it is absent or unreadable (EINVAL of sysfs too)."""
        try:
            fd = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            chunks = []  # type: List[bytes]
            left = limit
            while left > 0:
                chunk = os.read(fd, min(65536, left))
                if not chunk:
                    break
                chunks.append(chunk)
                left -= len(chunk)
            return b"".join(chunks).decode("utf-8", "replace")
        except OSError:
            return None
        finally:
            os.close(fd)

    def line(self, path):
        # type: (str) -> Optional[str]
        """A one-value file stripped of white space; None when absent, unreadable or empty."""
        text = self.read(path)
        if text is None:
            return None
        return text.strip() or None

    def listdir(self, path):
        # type: (str) -> List[str]
        try:
            return sorted(os.listdir(self.path(path)))
        except (OSError, ValueError):
            return []

    def exists(self, path):
        # type: (str) -> bool
        try:
            return os.path.exists(self.path(path))
        except (OSError, ValueError):
            return False

    def readlink(self, path):
        # type: (str) -> Optional[str]
        try:
            return os.readlink(self.path(path))
        except (OSError, ValueError):
            return None

    def mode(self, path):
        # type: (str) -> Optional[int]
        """Permission bits of a file, or None when it is absent."""
        try:
            return stat.S_IMODE(os.stat(self.path(path)).st_mode)
        except (OSError, ValueError):
            return None

    def free_bytes(self, path):
        # type: (str) -> Optional[int]
        try:
            info = os.statvfs(self.path(path))
        except (OSError, ValueError):
            return None
        return info.f_bavail * info.f_frsize

    def which(self, tool):
        # type: (str) -> Optional[str]
        """The node's own path of a tool; sbin is searched for ordinary users too."""
        for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/mellanox/iproute2/sbin"):
            full = directory + "/" + tool
            try:
                if os.access(self.path(full), os.X_OK):
                    return full
            except (OSError, ValueError):  # a captured tree may hold a loop of links
                continue
        return None

    def run(self, argv, timeout=30.0, stdin=None):
        # type: (Sequence[str], float, Optional[str]) -> Result
        """Run a command without a shell, in the C locale. Never raises."""
        env = dict(os.environ, LC_ALL="C", LANG="C", PATH=SEARCH_PATH)
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, close_fds=True, cwd="/",
            )
        except OSError as error:
            return Result(127, "", "%s: %s" % (argv[0], error.strerror))
        try:
            out, err = process.communicate(stdin.encode() if stdin is not None else None, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return Result(124, out.decode("utf-8", "replace"), "%s: no answer in %g s" % (argv[0], timeout))
        return Result(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def spawn(self, argv, log):
        # type: (Sequence[str], str) -> int
        """Start a command that outlives us, in a session of its own, with its output in ``log``; returns its pid. Raises OSError."""
        env = dict(os.environ, LC_ALL="C", LANG="C", PATH=SEARCH_PATH)
        with open(self.path(log), "wb") as stream:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=env, close_fds=True, cwd="/",
                start_new_session=True)
        process.returncode = 0  # nobody will wait for it: init inherits it, and Popen must not warn about that
        return process.pid

    def signal_group(self, leader, number):
        # type: (int, int) -> None
        """Signal a process group that ``spawn`` made; one that has ended already is no error."""
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            return

    def write(self, path, content, mode=0o644):
        # type: (str, str, int) -> None
        """Replace a file in one step: beside its target, synced, renamed. Raises OSError."""
        full = self.path(path)
        directory = os.path.dirname(full)
        os.makedirs(directory, exist_ok=True)
        if os.path.islink(full):
            full = os.path.realpath(full)  # keep the operator's link, replace what it names
            directory = os.path.dirname(full)
        fd, temporary = tempfile.mkstemp(prefix=".railwright-", dir=directory)
        try:
            with os.fdopen(fd, "wb") as stream:
                stream.write(content.encode("utf-8"))
                stream.flush()
                os.fchmod(stream.fileno(), mode)
                try:
                    kept = os.stat(full)
                    os.fchown(stream.fileno(), kept.st_uid, kept.st_gid)
                except FileNotFoundError:
                    pass
                os.fsync(stream.fileno())
            os.rename(temporary, full)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        self._sync_directory(directory)

    def remove(self, path):
        # type: (str) -> None
        try:
            os.unlink(self.path(path))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def rmdir(self, path):
        # type: (str) -> None
        """Remove a directory if it is empty; anything else is left alone."""
        try:
            os.rmdir(self.path(path))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def lock(self, path):
        # type: (str) -> Optional[int]
        """Take an exclusive lock that ends with this process; None when another one has it."""
        fd = os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd

    @staticmethod
    def unlock(lock):
        # type: (int) -> None
        os.close(lock)

    def set_value(self, path, value):
        # type: (str, str) -> None
        """Write a kernel attribute in place. Raises OSError with the kernel's answer."""
        fd = os.open(self.path(path), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode("utf-8"))
        finally:
            os.close(fd)

    @staticmethod
    def _sync_directory(directory):
        # type: (str) -> None
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class TreeHost(Host):
    """A captured node under a directory. Commands are answered from ``cmd/`` or not at all."""

    live = False

    def __init__(self, root):
        # type: (str) -> None
        self.root = os.path.realpath(root)
        self._directories = {}  # type: Dict[str, str]

    def path(self, path):
        # type: (str) -> str
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

    def _resolve(self, path):
        # type: (str) -> str
        pending = [part for part in path.split("/") if part][::-1]
        current = []  # type: List[str]
        links = 0
        while pending:
            part = pending.pop()
            if part == ".":
                continue
            if part == "..":
                current = current[:-1]
                continue
            full = os.path.join(self.root, *(current + [part]))
            if os.path.islink(full):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, "too many links in captured tree", path)
                target = os.readlink(full)
                if target.startswith("/"):
                    current = []
                pending.extend([piece for piece in target.split("/") if piece][::-1])
                continue
            current.append(part)
        return os.path.join(self.root, *current)

    def readlink(self, path):
        # type: (str) -> Optional[str]
        parent, _slash, name = path.rstrip("/").rpartition("/")
        try:
            return os.readlink(os.path.join(self._resolve(parent), name))
        except (OSError, ValueError):
            return None

    def which(self, tool):
        # type: (str) -> Optional[str]
        """A captured tree has a tool when it has its file or a recording of it."""
        found = super().which(tool)
        if found is not None:
            return found
        return "/usr/bin/" + tool if self._recordings(tool) else None

    def _recordings(self, tool):
        # type: (str) -> List[str]
        names = self.listdir("/cmd")
        return [name for name in names if name == tool or name.startswith((tool + "_", tool + "."))]

    def run(self, argv, timeout=30.0, stdin=None):
        # type: (Sequence[str], float, Optional[str]) -> Result
        """The recording of exactly this command line; see ``recording_name``."""
        for name in (recording_name(argv), recording_name(argv) + ".txt"):
            text = self.read("/cmd/" + name)
            if text is not None:
                return Result(0, text, "")
        return Result(127, "", "%s: not recorded" % argv[0])

    def spawn(self, argv, log):
        # type: (Sequence[str], str) -> int
        raise OSError(errno.EPERM, "a captured tree runs nothing", argv[0])

    def signal_group(self, leader, number):
        # type: (int, int) -> None
        raise OSError(errno.EPERM, "a captured tree has no processes")


def recording_name(argv):
    # type: (Sequence[str]) -> str
    """The file under ``cmd/`` that holds a command's output: ``ip -j addr`` is ``ip_-j_addr``."""
    parts = (os.path.basename(argv[0]),) + tuple(argv[1:])  # type: Tuple[str, ...]
    return "_".join(part.replace("/", "-") for part in parts)
