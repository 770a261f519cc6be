# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that this node runs when the controller's own ssh asks it, as bytecode of its own Python: entry/boot.py loads it.

Without it everything is sent with each question, and compiled. The controller names the code in the Spec (``code_derived``) by the SHA-256
of its sources; with an apply come the sources themselves, and the node compiles what it was sent and nothing else.
"""

import base64
import importlib.util
import marshal
import re
import sys
import zlib
from importlib.machinery import SourceFileLoader
from typing import List, NamedTuple, Optional, Tuple

from ...errors import RailwrightError
from ...formats.outside import read_json
from ...host.disk import refusing_disk
from ...host.host import Host, Status
from ...spec.model import Spec
from ...types import FILE, Change, Identity, Op, Subject, remove_file, run, write_file
from ..common.files import HEADER

NAME = "node_code"
DIRECTORY = "/usr/local/libexec/railwright"
FILES = re.compile(r"[0-9a-f]{64}\.[A-Za-z0-9_-]+")
WHAT = "railwright's code"
WHY = "a drift inspection without it takes twice the CPU time: its code is sent and compiled each time"
SOURCE = "choice: written by root for root; rdma_keep_code: false forbids it"


class Desired(NamedTuple):
    file: str  # '': nothing is wanted
    packed: str  # base64 of zlib of a JSON object of sources by path; '' where this is no apply


class Observed(NamedTuple):
    whole: bool
    files: Tuple[str, ...]  # all of ours, the wanted one among them
    directory: Optional[Status]
    refused: Optional[str]  # why nothing can be written there


def desired(spec: Spec, identity: Identity) -> Desired:
    code = spec["code_derived"] if spec["keep_code"] else {}
    return Desired("%s.%s" % (code["digest"], sys.implementation.cache_tag) if code else "", code.get("code", ""))


def observe(host: Host, desired: Desired) -> Observed:
    if not desired.file:
        return Observed(True, (), None, None)
    path = "%s/%s" % (DIRECTORY, desired.file)
    state = host.status(path)
    whole = (state is not None and host.readlink(path) is None and only_root_writes(state)
             and host.read(path, len(head(0))) == head(state.st_size))
    names = tuple(name for name in host.listdir(DIRECTORY) if FILES.fullmatch(name))
    return Observed(whole, names, host.status(DIRECTORY), refusing_disk(host, (DIRECTORY,)))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    old = [name for name in observed.files if name != desired.file]
    trusted = observed.directory is None or only_root_writes(observed.directory)
    if not desired.file or observed.refused or (observed.whole and trusted and not old):
        return []
    before = [title(name) for name in observed.files if trusted and (observed.whole or name in old)]
    ops: List[Op] = []
    if observed.directory is not None and not trusted:
        state = observed.directory
        ops.append(run(("install", "-d", "-o", "root", "-g", "root", "-m", "0755", DIRECTORY), (
            ("chown", "%d:%d" % (state.st_uid, state.st_gid), DIRECTORY), ("chmod", "%o" % (state.st_mode & 0o7777), DIRECTORY))))
    # What is there and does not fit goes first: a file that replaces another one keeps its owner.
    ops += [remove_file("%s/%s" % (DIRECTORY, name)) for name in observed.files if name in old or not observed.whole]
    if not observed.whole:
        ops.append(write_file("%s/%s" % (DIRECTORY, desired.file), compiled(desired) if desired.packed else ""))
    return [Change(NAME, WHAT, "; ".join(before) or None, title(desired.file), "none", WHY, SOURCE, tuple(ops),
                   Subject(FILE, "%s/%s" % (DIRECTORY, desired.file)))]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if observed.whole or observed.refused is None:
        return []
    return ["%s: %s, so every inspection sends the code; rdma_keep_code: false says that it is meant" % (NAME, observed.refused)]


def only_root_writes(state: Status) -> bool:
    return state.st_uid == 0 and not state.st_mode & 0o022


def title(name: str) -> str:
    digest, _dot, tag = name.partition(".")
    return "%s %s for %s" % (WHAT, digest[:12], tag)


def head(size: int) -> str:
    """The first two lines of a file of this size. Bytecode fits Pythons of one magic number."""
    return HEADER + "%s %09d\n" % (importlib.util.MAGIC_NUMBER.hex(), size)


def compiled(desired: Desired) -> str:
    """What the file holds: the head, then in one line base64 of zlib of what marshal makes of {path: bytecode}."""
    import hashlib  # openssl's; no inspection compiles

    data = zlib.decompress(base64.b64decode(desired.packed))
    if hashlib.sha256(data).hexdigest() != desired.file.partition(".")[0]:
        raise RailwrightError("%s: what was sent is not the code that it should be" % NAME)
    code = {path: marshal.dumps(SourceFileLoader(path, path).source_to_code(text.encode("utf-8"), path))
            for path, text in read_json(data.decode("ascii")).items()}
    body = base64.b64encode(zlib.compress(marshal.dumps(code), 6)).decode("ascii") + "\n"
    return head(len(head(0)) + len(body)) + body
