# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that keeps what it is asked, as the tree that ``TreeHost`` reads: files, links, listings, and the answers of commands.

Secrets are left out before anything is kept, and all of it is bounded. Links are kept as they are, on every way to a file, so that the
tree leads to a file as the node does.
"""

import stat
from typing import Any, Callable, Dict, List, Optional, Sequence

from .host import FAILED, READ_LIMIT, Host, Result, Status, recording_name, resolved
from .write import OUTPUT_LIMIT

ROOM = 16 * 1024 * 1024  # bytes of all contents; a node with eight GPUs has two
LARGEST = 4 * 1024 * 1024  # of one: what the gate takes of a text
FILE, DIRECTORY, LINK = "file", "directory", "link"
Entry = Dict[str, Any]


class RecordingHost(Host):
    """``fit_file`` (path, content) and ``fit_answer`` (command, output) take the secrets out; None: nothing of it is kept.

    ``entries``: by path, ``kind`` with ``data`` of a file, ``to`` of a link, ``names`` of a directory; ``left_out``: what was not kept.
    """

    def __init__(
        self, host: Host, fit_file: Callable[[str, bytes], Optional[bytes]], fit_answer: Callable[[Sequence[str], str], str]
    ) -> None:
        self.host, self.live = host, host.live
        self.entries: Dict[str, Entry] = {}
        self.left_out: List[str] = []
        self._fit_file, self._fit_answer = fit_file, fit_answer
        self._room = ROOM
        self._links: Dict[str, Optional[str]] = {}

    def path(self, path: str) -> str:
        return self.host.path(path)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> Optional[bytes]:
        data = self.host.read_bytes(path, limit)
        if data is not None:
            place = self._place(path)  # both names may say that a file holds keys
            fit = self._fit_file(path, data)
            self._keep(place, fit if fit is None or place == path else self._fit_file(place, fit))
        return data

    def listdir(self, path: str) -> List[str]:
        names = self.host.listdir(path)
        if names:
            self._entry(self._place(path), DIRECTORY)["names"] = [name for name in names if "/" not in name]
        return names

    def readlink(self, path: str) -> Optional[str]:
        found = self.host.readlink(path)
        if found is not None:
            parent, _slash, name = path.rstrip("/").rpartition("/")
            self._entry("%s/%s" % (self._place(parent), name), LINK)["to"] = found
        return found

    def status(self, path: str) -> Optional[Status]:
        found = self.host.status(path)
        if found is not None:
            entry = self._entry(self._place(path), DIRECTORY if stat.S_ISDIR(found.st_mode) else FILE)
            entry.update(mode=stat.S_IMODE(found.st_mode), mtime=found.st_mtime)
        return found

    def which(self, tool: str) -> Optional[str]:
        found = self.host.which(tool)
        if found is not None:
            self._entry(self._place(found), FILE).setdefault("mode", 0o755)
        return found

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: Optional[str] = None, limit: int = OUTPUT_LIMIT) -> Result:
        result = self.host.run(argv, timeout, stdin, limit)
        if stdin is None and result.rc != 127:
            place = "/cmd/" + recording_name(argv)
            self._keep(place, self._fit_answer(argv, result.out).encode("utf-8", "replace"))
            if not result.ok:
                said = "%d\n%s" % (result.rc, self._fit_answer(argv, result.err))
                self._keep(place + FAILED, said.encode("utf-8", "replace"))
        return result

    def _entry(self, place: str, kind: str) -> Entry:
        """The first kind counts, but that a file whose status is known is a directory where it is listed."""
        entry = self.entries.setdefault(place, {"kind": kind})
        if kind == DIRECTORY and entry["kind"] == FILE and "data" not in entry:
            entry["kind"] = DIRECTORY
        return entry

    def _keep(self, place: str, fit: Optional[bytes]) -> None:
        known = len(self.entries.get(place, {}).get("data", b""))
        if fit is None or len(fit) > LARGEST or len(fit) - known > self._room:
            self.left_out.append(place)
        elif len(fit) >= known:
            self._room -= len(fit) - known
            self._entry(place, FILE)["data"] = fit

    def _place(self, path: str) -> str:
        """Where a path leads without a link on the way; each link that is on it is kept."""
        return resolved(path, self._link)

    def _link(self, place: str) -> Optional[str]:
        if place not in self._links:
            self._links[place] = self.host.readlink(place)
            if self._links[place] is not None:
                self._entry(place, LINK)["to"] = self._links[place]
        return self._links[place]
