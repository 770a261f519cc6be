# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's topology files of a node: what a run wrote, for the report, and what NCCL is told to read.

NCCL passes over a NCCL_TOPO_FILE that it cannot open without a word (a line of NCCL_DEBUG=INFO), and then sees the machine as its
virtual machine shows it: on clouds that is a part of the bandwidth. One that it cannot parse ends every job. Both are found here, by
reading files as NCCL does, which is not as XML is read; all of it is bounded.
"""

import contextlib
import re
from typing import Any, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...formats.nccl_conf import conf_variables
from ...host.host import Host
from ...rules.comparisons import VerdictSubject, verdict
from ...types import Verdict

# NCCL's parser (src/graph/xml.cc) takes elements, attributes and comments; an XML declaration, a tab between elements or a line break
# between attributes makes it fail. It knows no entities, so a file cannot make this one swell or fetch anything either. ``rendered`` writes
# a file anew from what was understood: NCCL's own elements, attributes with plain names and values, nothing else of the node's bytes.

MAX_BYTES = 1 << 19  # a node with 8 GPUs and 10 HCAs has about 20 KB; reports keep no more than this
MAX_ELEMENTS = 20000
MAX_DEPTH = 64
FILE_ELEMENTS = 256  # NCCL_TOPO_XML_MAX_NODES of NCCL 2.30.7: more in a file that it is given end in an error
MAX_VALUE = 253  # MAX_STR_LEN 255, less the end and the quote

TOPOLOGY: Dict[str, Tuple[str, ...]] = {
    "": ("system",), "system": ("cpu",), "cpu": ("pci", "nic"), "pci": ("pci", "gpu", "nic", "pcilink"), "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
}
GRAPHS: Dict[str, Tuple[str, ...]] = {"": ("graphs",), "graphs": ("graph",), "graph": ("channel",), "channel": ("net", "gpu")}

_BLANK = re.compile(r"[ \n\r]*")
_CLOSE = re.compile(r"</([^\s=/>]{1,254})>")
_OPEN = re.compile(r"<([^\s=/>!?][^\s=/>]{0,253})")
_ATTRIBUTE = re.compile(r" +([^\s=/>\"']{1,253})=(?:\"([^\"]*)\"|'([^']*)')")
_END = re.compile(r" *(/?)>")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}\Z")
_UNPLAIN = re.compile(r"[^A-Za-z0-9 _.,:;+*/()@-]")


class Element(NamedTuple):
    """``children`` is filled while reading."""

    name: str
    attributes: Tuple[Tuple[str, str], ...]
    children: List["Element"]


class Unreadable(Exception):
    """NCCL fails on this file; the message says where and why, without the file's own words."""


def read_file(text: str, grammar: Dict[str, Tuple[str, ...]]) -> Element:
    """The root element. Raises Unreadable for what NCCL does not read, and for a file without its root, which it passes over in silence."""
    if len(text) > MAX_BYTES:
        raise Unreadable("is larger than %d bytes" % MAX_BYTES)
    root = next((item for item in _top_elements(text) if item.name in grammar[""]), None)
    if root is None:
        raise Unreadable("has no element <%s>: NCCL passes over the file without a word" % grammar[""][0])
    if dict(root.attributes).get("version") != "1":
        raise Unreadable("has no version 1 in <%s>, which NCCL asks for" % root.name)
    return root


def _top_elements(text: str) -> List[Element]:
    position, count = _passed(text, 0), 0
    path = [Element("", (), [])]  # the element that is open, and those that it is in
    while position < len(text):
        closing = _CLOSE.match(text, position)
        if closing is not None:
            if closing.group(1) != path[-1].name:
                raise _error(text, position, "an element is closed that is not open")
            path.pop()
            position = _passed(text, closing.end())
            continue
        element, position, single = _opened(text, position)
        count += 1
        if count > MAX_ELEMENTS or len(path) > MAX_DEPTH:
            raise Unreadable("has more than %d elements, or more than %d within each other" % (MAX_ELEMENTS, MAX_DEPTH))
        path[-1].children.append(element)
        if not single:
            path.append(element)
        position = _passed(text, position)
    if len(path) > 1:
        raise _error(text, position, "the file ends before its last element does: it was cut off")
    return path[0].children


def _passed(text: str, position: int) -> int:
    """Behind blanks and comments."""
    while True:
        found = _BLANK.match(text, position)
        position = found.end() if found is not None else position
        if not text.startswith("<!--", position):
            return position
        end = text.find("-->", position + 4)
        if end < 0:
            raise _error(text, position, "a comment does not end")
        position = end + 3


def _opened(text: str, position: int) -> Tuple[Element, int, bool]:
    """(the element, where to go on, whether it is closed at once)."""
    start = _OPEN.match(text, position)
    if start is None:
        what = {"<?": "an XML declaration", "<!": "a document type"}.get(text[position:position + 2])
        what = what or {"\t": "a tab", "<": "half an element"}.get(text[position:position + 1], "something")
        raise _error(text, position, "%s where NCCL reads elements and blanks only" % what)
    at: int = start.end()
    attributes: List[Tuple[str, str]] = []
    while True:
        found = _ATTRIBUTE.match(text, at)
        if found is None:
            break
        value = found.group(2) if found.group(2) is not None else found.group(3)
        if len(value) > MAX_VALUE:
            raise _error(text, at, "a value of more than %d characters" % MAX_VALUE)
        attributes.append((found.group(1), value))
        at = found.end()
    end = _END.match(text, at)
    if end is None:
        raise _error(text, at, "an element that does not end behind its attributes, or attributes in several lines")
    return Element(start.group(1), tuple(attributes), []), end.end(), bool(end.group(1))


def _error(text: str, position: int, what: str) -> Unreadable:
    return Unreadable("line %d: %s" % (text.count("\n", 0, position) + 1, what))


def elements(root: Element, grammar: Dict[str, Tuple[str, ...]]) -> int:
    """How many elements NCCL keeps; those that it does not know it passes over."""
    return 1 + sum(elements(child, grammar) for child in root.children if child.name in grammar.get(root.name, ()))


def rendered(root: Element, grammar: Dict[str, Tuple[str, ...]], indent: int = 0) -> str:
    """The file anew, in the layout that NCCL writes."""
    words = "".join(' %s="%s"' % (key, _UNPLAIN.sub("?", value)) for key, value in root.attributes if _KEY.match(key))
    inner = "".join(rendered(child, grammar, indent + 2) for child in root.children if child.name in grammar.get(root.name, ()))
    space = " " * indent
    if not inner:
        return "%s<%s%s/>\n" % (space, root.name, words)
    return "%s<%s%s>\n%s%s</%s>\n" % (space, root.name, words, inner, space, root.name)


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
