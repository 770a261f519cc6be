# SPDX-License-Identifier: GPL-3.0-or-later
"""A node during one inspection: each file, directory, link and command is asked for once, whoever asks how often.

Whoever inspects makes one, uses it and drops it: what it has read is as old as itself. After a change the node is inspected with a new
one. It changes nothing, and what it keeps is bounded: what does not fit is asked for again.
"""

import errno
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .host import READ_LIMIT, Host, Made, Status, refuse
from .write import OUTPUT_LIMIT, Result

ROOM = 64 * 1024 * 1024  # bytes of all that is kept
LARGEST = 8 * 1024 * 1024  # of them in one file or answer: what is larger is parsed once, or searched
OVERHEAD = 256  # bytes of an entry beside its content
CHANGES = ("acting_as", "append", "create", "lock", "make_directory", "remove", "restore", "rmdir", "set_value", "shielded", "signal_group",
           "signal_process", "spawn", "sweep", "write")


class InspectedHost(Host):
    """Reads and runs as the host that it was made from, once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.live = host.live
        self._known: Dict[Tuple[Any, ...], Any] = {}
        self._room = ROOM

    def _kept(self, key: Tuple[Any, ...], ask: Callable[[], Made], size: Callable[[Made], int] = lambda _found: 0) -> Made:
        found: Made = self._known[key] if key in self._known else ask()
        if key not in self._known:
            self._keep(key, found, size(found))
        return found

    def _keep(self, key: Tuple[Any, ...], found: Any, size: int) -> None:
        size += OVERHEAD
        if size <= min(self._room, LARGEST):
            self._room -= size
            self._known[key] = found

    def path(self, path: str) -> str:
        return self.host.path(path)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        return self._kept(("once", name), make)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> Optional[bytes]:
        """Asked for again only for more of a file than was read before."""
        key = ("file", path)
        data, before = self._known.get(key, (b"", 0))
        if data is not None and len(data) >= before and before < limit:
            data = self.host.read_bytes(path, limit)
            self._keep(key, (data, limit), len(data or b""))
        return None if data is None else bytes(data[:limit])

    def listdir(self, path: str) -> List[str]:
        return list(self._kept(("directory", path), lambda: self.host.listdir(path), lambda names: sum(len(name) + 64 for name in names)))

    def readlink(self, path: str) -> Optional[str]:
        return self._kept(("link", path), lambda: self.host.readlink(path))

    def status(self, path: str) -> Optional[Status]:
        return self._kept(("status", path), lambda: self.host.status(path))

    def which(self, tool: str) -> Optional[str]:
        return self._kept(("tool", tool), lambda: self.host.which(tool))

    def free_bytes(self, path: str) -> Optional[int]:
        return self.host.free_bytes(path)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        """Observers run only what changes nothing; one that did not answer is not asked again. What is given an input is no question."""
        if stdin is not None or limit != OUTPUT_LIMIT:
            return self.host.run(argv, timeout, stdin, limit)
        return self._kept(
            ("command", tuple(argv)), lambda: self.host.run(argv, timeout), lambda result: len(result.out) + len(result.err))

    def exchange(self, *given: Any, **named: Any) -> List[bytes]:
        return self.host.exchange(*given, **named)


refuse(InspectedHost, CHANGES, errno.EROFS, "an inspection changes nothing")
