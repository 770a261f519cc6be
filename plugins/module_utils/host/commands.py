# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that must succeed and files that must be the right ones, for what brings a release or a build to a node."""

import re
from typing import Dict, Optional, Sequence

from ..errors import RailwrightError
from .host import Host, Result

HASH_SECONDS = 300.0
ANSWER_SECONDS = 20.0
LINES = 20
_SHA256 = re.compile(r"^\\?([0-9a-f]{64})[ \t][ *](.*)$", re.MULTILINE)


def must(host: Host, argv: Sequence[str], what: str, seconds: float = 60.0) -> str:
    """What the command printed. Raises RailwrightError with what it was for and its last line where it fails."""
    answer = host.run(argv, seconds)
    if not answer.ok:
        last = (answer.err or answer.out).strip().rpartition("\n")[2]
        raise RailwrightError("cannot %s: %s" % (what, last or "exit %d" % answer.rc))
    return answer.out


def told(host: Host, argv: Sequence[str], what: str, seconds: float) -> None:
    """As ``must``, for what prints much: of a failure the end of what it said as an error, or else at all."""
    answer = host.run(argv, seconds)
    if not answer.ok:
        lines = [line for line in (answer.err.strip() or answer.out.strip()).split("\n") if line.strip()][-LINES:]
        ended = "did not end in %d s" % seconds if answer.rc == 124 else "exit %d" % answer.rc
        raise RailwrightError("cannot %s (%s):\n%s" % (what, ended, "\n".join(lines)))


def check_answers(host: Host, path: str) -> None:
    """Raises RailwrightError where the file system that holds ``path`` does not answer. statfs(2) always asks the server of a mount, where
    other answers may come from the node's memory."""
    on_mount(host, path, ("stat", "--file-system", "--", path))


def on_mount(host: Host, path: str, argv: Sequence[str]) -> Result:
    """The command's answer about ``path``. Raises RailwrightError where none came: an NFS mount keeps everybody who looks at it for as long
    as its server is away. So a child looks, since no limit ends a system call of our own; one that cannot be killed is left alone.
    """
    answer = host.run(argv, ANSWER_SECONDS)
    if answer.rc == 124:
        raise RailwrightError("%s does not answer in %d s: the file server behind this mount is away, or the way to it; run it "
                              "again once the server is back" % (path, ANSWER_SECONDS))
    return answer


def sums(host: Host, directory: str, names: Sequence[str]) -> Dict[str, str]:
    """sha256 by name; a file that cannot be read is left out."""
    if not names:
        return {}
    answer = host.run(("sha256sum", "--") + tuple("%s/%s" % (directory, name) for name in names), HASH_SECONDS)
    found = {path.rpartition("/")[2]: digest for digest, path in _SHA256.findall(answer.out)}
    return {name: found[name] for name in names if name in found}


def sum_of(host: Host, path: str) -> Optional[str]:
    directory, _slash, name = path.rpartition("/")
    return sums(host, directory, [name]).get(name)


def check_brought(host: Host, file: str, artifact: str, sha256: str) -> None:
    """The file that was brought to the node is the one that somebody pins. Raises RailwrightError where it is not."""
    found = sum_of(host, file)
    if found != sha256:
        raise RailwrightError("%s has the sha256 %s and not %s, which the inventory or the catalogue pins; it is not used" % (
            artifact, found or "nothing (it cannot be read)", sha256))
