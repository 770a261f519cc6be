# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a Python environment: written last, so what has none is not finished; read back to tell whether it is still whole.

Files are told by path, kind, size and target, not by checksum: an environment with torch has some 10 GB in some 20000 files, and it is
inspected in every run. Bytecode is left out: Python writes it whenever it likes.
"""

import hashlib
from typing import Any, Dict, List, Optional, Sequence

from ...errors import RailwrightError
from ...formats.outside import lines_in
from ...host.host import SEARCH_PATH, Host
from ..installer import CURRENT, MANIFEST, read_manifest, write_manifest

LIST = "railwright.files"
LIMIT = 64 * 1024 * 1024
LIST_SECONDS = 600.0
START_SECONDS = 60.0
NOBODY = "nobody"


def manifest_of(host: Host, directory: str) -> Optional[Dict[str, Any]]:
    """What the directory says of itself; None where it has none."""
    found = read_manifest(host, directory)
    return found if found is not None and isinstance(found.get("files_sha256"), str) else None


def as_reader(host: Host, directory: str, argv: Sequence[str]) -> List[str]:
    """The command line that runs something of the environment: as its owner, as nobody where that is root, and with nothing of ours.

    Wheels are code of others, and an owner may put anything in the place of what was installed: neither runs as root.
    """
    clear = ["env", "-i", "PATH=" + SEARCH_PATH, "HOME=/", "LANG=C", "PYTHONDONTWRITEBYTECODE=1"] + list(argv)
    if host.user() != 0:
        return clear
    owner = host.owner(directory + "/bin")
    return ["runuser", "-u", owner[0] if owner is not None and owner[1] != 0 else NOBODY, "--"] + clear


def listing(host: Host, directory: str) -> str:
    """One line a file. Raises RailwrightError where the directory cannot be read whole."""
    own = ("(", "-path", "%s/%s" % (directory, MANIFEST), "-o", "-path", "%s/%s" % (directory, LIST), ")")
    files, links = ("(", "-type", "f", "-printf", r"%P\tf\t%s\n", ")"), ("-type", "l", "-printf", r"%P\tl\t%l\n")
    argv = ("find", directory, "-xdev", "-name", "__pycache__", "-prune", "-o") + own + ("-o",) + files + ("-o",) + links
    answer = host.run(argv, LIST_SECONDS)
    if not answer.ok:
        raise RailwrightError("%s cannot be read: %s" % (directory, (lines_in(answer.err.strip()) or ["find failed"])[-1]))
    return "".join(sorted(line + "\n" for line in answer.out.split("\n") if line))


def write_list_and_manifest(host: Host, directory: str, said: Dict[str, Any]) -> None:
    """The list first: the manifest is what makes the environment count."""
    files = listing(host, directory)
    host.write("%s/%s" % (directory, LIST), files)
    write_manifest(host, directory, dict(said, files_sha256=_digest(files), files=files.count("\n")))


def what_is_wrong(host: Host, directory: str, manifest: Dict[str, Any]) -> Optional[str]:
    """None for an environment that is as it was made, and whose Python starts."""
    there = listing(host, directory)
    if _digest(there) != manifest["files_sha256"]:
        kept = host.read("%s/%s" % (directory, LIST), LIMIT) or ""
        if _digest(kept) != manifest["files_sha256"]:
            return "%s is not the list that was written" % LIST
        return _difference(kept, there)
    ask = ("%s/bin/python" % directory, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    answer = host.run(as_reader(host, directory, ask), START_SECONDS)
    if answer.out.strip() != manifest.get("python"):
        return "its Python does not start as %s: %s" % (
            manifest.get("python"), (lines_in(answer.err.strip()) or [answer.out.strip() or "no answer"])[-1][:200])
    return None


def _difference(kept: str, there: str) -> str:
    before, now = (dict(line.partition("\t")[::2] for line in text.split("\n") if line) for text in (kept, there))
    gone = [name for name in before if name not in now]
    changed = [name for name in before if name in now and before[name] != now[name]]
    new = [name for name in now if name not in before]
    for names, word in ((gone, "gone"), (changed, "changed"), (new, "new")):
        if names:
            more = " (and %d more)" % (len(names) - 1) if len(names) > 1 else ""
            return "%s is %s%s" % (min(names)[:200], word, more)
    return "the order of its files changed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def current(host: Host, path: str) -> Optional[str]:
    """The directory that the link leads to, by its own name: a process that has it keeps it when the link goes over to another one."""
    target = host.readlink("%s/%s" % (path.rstrip("/"), CURRENT))
    return "%s/%s" % (path.rstrip("/"), target) if target and "/" not in target else None


def steady(host: Host, python: str) -> str:
    """The path of a Python without the link ``current`` in it: who imports late would get half of another environment."""
    path, middle, tail = python.partition("/%s/" % CURRENT)
    directory = current(host, path) if middle else None
    return python if directory is None else "%s/%s" % (directory, tail)
