# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's topology files of a node: what a run wrote, for the report, and what NCCL is told to read.

NCCL passes over a NCCL_TOPO_FILE that it cannot open without a word (a line of NCCL_DEBUG=INFO), and then sees the machine as its
virtual machine shows it: on clouds that is a part of the bandwidth. One that it cannot parse ends every job. Both are found here.
"""

import contextlib
from typing import Any, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...formats.nccl_conf import conf_variables
from ...host.host import Host
from ...rules.comparisons import VerdictSubject, verdict
from ...types import Verdict
from .topology_xml import FILE_ELEMENTS, GRAPHS, MAX_BYTES, TOPOLOGY, Unreadable, elements, read_file, rendered

CONF = "/etc/nccl.conf"
DEFAULT_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"  # read where NCCL_TOPO_FILE is not set (src/graph/topo.cc)
_CONF_BYTES = 1 << 18
_FILES = (("NCCL_TOPO_FILE", TOPOLOGY), ("NCCL_GRAPH_FILE", GRAPHS))

User = Tuple[str, int, int]  # name, uid, gid: as Host.acting_as takes them


class Named(NamedTuple):
    """A file that NCCL is told to read, and where it is told so."""

    path: str
    origin: str


def collected(host: Host, topology: str, graphs: str, user: Optional[User] = None) -> Dict[str, Any]:
    """``{"nccl_topo", "nccl_graph", "notes"}`` from the two files of a run; None where NCCL wrote none (rank 0 of a run writes them).

    The directory belongs to the job user: with ``user`` files are read with that user's rights. What comes back is NCCL's vocabulary only.
    """
    notes: List[str] = []
    with _as(host, user):
        found = {"nccl_topo": _dump(host, topology, TOPOLOGY, notes), "nccl_graph": _dump(host, graphs, GRAPHS, notes)}
    return dict(found, notes=notes)


def _as(host: Host, user: Optional[User]) -> ContextManager[Any]:
    return host.acting_as(*user) if user is not None else contextlib.ExitStack()


def _dump(host: Host, path: str, grammar: Dict[str, Tuple[str, ...]], notes: List[str]) -> Optional[str]:
    if host.readlink(path) is not None:
        notes.append("%s is a link and was not read" % path)
        return None
    text = host.read(path, MAX_BYTES + 1)
    if text is None:
        return None
    try:
        found = rendered(read_file(text, grammar), grammar)
    except Unreadable as error:
        notes.append("%s: %s" % (path, error))
        return None
    if len(found) > MAX_BYTES:  # without its indentation it was smaller
        notes.append("%s: is larger than %d bytes" % (path, MAX_BYTES))
        return None
    return found


def judge_topo_files(
    host: Host, node: str, environment: Mapping[str, str], home: Optional[str] = None, user: Optional[User] = None
) -> List[Verdict]:
    """``nccl.topo_file`` for each file that NCCL is told to read on this node; [] where there is none.

    ``environment``: variables of the run; ``home``: of the job user, for ~/.nccl.conf; ``user``: files are read with that user's
    rights, as NCCL will read them (root would find what the job does not).
    """
    found: List[Verdict] = []
    with _as(host, user):
        settings = nccl_settings(host, environment, home)
        for name, grammar in _FILES:
            named = settings.get(name)
            if named is None and name == "NCCL_TOPO_FILE" and host.exists(DEFAULT_TOPOLOGY):
                named = Named(DEFAULT_TOPOLOGY, "NCCL's default")
            if named is not None and named.path:
                found.append(_judge(host, VerdictSubject(node, None, None, "%s of %s" % (name, named.origin)), named.path, grammar))
    return found


def nccl_settings(host: Host, environment: Mapping[str, str], home: Optional[str], *, files_only: bool = False) -> Dict[str, Named]:
    """The names with who set them first: the environment, then NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf."""
    found = {} if files_only else {name: Named(value, "the environment") for name, value in environment.items()}
    own = environment.get("NCCL_CONF_FILE") or (home.rstrip("/") + "/.nccl.conf" if home else "")
    for path in (own, CONF):
        for name, value in conf_variables(host.read(path, _CONF_BYTES)).items() if path else ():
            found.setdefault(name, Named(value, path))
    return found


def _judge(host: Host, where: VerdictSubject, path: str, grammar: Dict[str, Tuple[str, ...]]) -> Verdict:
    expected = "a file that NCCL reads"

    def failed(message: str) -> Verdict:
        return verdict("nccl.topo_file", where, "fail", expected, path, message)

    if not path.startswith("/"):
        return failed("%r is relative to the directory in which a rank happens to start" % path)
    text = host.read(path, MAX_BYTES + 1)
    if text is None:
        return failed("%s is not there or cannot be read; NCCL passes over it and guesses the topology" % path)
    try:
        root = read_file(text, grammar)
    except Unreadable as error:
        return failed("%s %s" % (path, error))
    count = elements(root, grammar)
    if grammar is TOPOLOGY and count > FILE_ELEMENTS:
        return failed("%s has %d elements; NCCL takes %d" % (path, count, FILE_ELEMENTS))
    return verdict("nccl.topo_file", where, "pass", expected, path, "%s has %d elements that NCCL reads" % (path, count))
