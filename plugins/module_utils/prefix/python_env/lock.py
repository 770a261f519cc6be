# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a Python environment: pip's file with checksums, conda's explicit list, or the wheels of a directory. Pure.

Everything in it is one version with checksums. What pip would also take (another file, a URL, a directory, an option) is refused:
it would bring what is not pinned. Whether a wheel can be installed on a node is told from its name: known before it travels
there. pip has the last word.
"""

import hashlib
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import RailwrightError
from ...formats.text import PYTHON_LINE_END

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[A-Za-z0-9.!+_]+)(-[0-9][A-Za-z0-9_.]*)?-(?P<python>[A-Za-z0-9_.]+)"
    r"-(?P<abi>[A-Za-z0-9_.]+)-(?P<platform>[A-Za-z0-9_.]+)\.whl\Z")
_CPYTHON = re.compile(r"cp3([0-9]{1,2})\Z")
_GLIBC = re.compile(r"manylinux_([0-9]{1,18})_([0-9]{1,18})_(.+)\Z")
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}  # PEP 600 gives them these numbers
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9,._ -]*\])? ?== ?(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*) ?(?P<marker>;[^#]*)?\Z")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\Z")
_CONDA = re.compile(r"(?P<url>(https?|file)://\S+)#(?P<sum>[0-9a-f]{64}|[0-9a-f]{32}|sha256:[0-9a-f]{64})\Z")
_PACKAGE = re.compile(r"/(?P<name>[A-Za-z0-9._-]+)-(?P<version>[A-Za-z0-9._!+]+)-(?P<build>[A-Za-z0-9._]+)\.(conda|tar\.bz2)\Z")


class Wheel(NamedTuple):
    """What a wheel's name says."""

    file: str
    name: str  # normalised: nvidia-nccl-cu12
    version: str
    python: Tuple[str, ...]
    abi: Tuple[str, ...]
    platform: Tuple[str, ...]


class Python(NamedTuple):
    """What it has to fit."""

    minor: int  # of Python 3
    arch: str
    glibc: Tuple[int, int]

    @property
    def version(self) -> str:
        return "3.%d" % self.minor


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_of(file: str) -> Optional[Wheel]:
    """None for a file that is no wheel by its name."""
    found = _NAME.match(file)
    if found is None:
        return None
    tags = [tuple(found.group(part).split(".")) for part in ("python", "abi", "platform")]
    return Wheel(file, normalised(found.group("name")), found.group("version").replace("_", "-"), tags[0], tags[1], tags[2])


def wheel_fits(wheel: Wheel, python: Python) -> bool:
    """CPython on Linux with glibc, which is what torch is built for."""
    return any(_platform_fits(platform, abi, python) and _interpreter_fits(tag, abi, python)
               for tag in wheel.python for abi in wheel.abi for platform in wheel.platform)


def _interpreter_fits(tag: str, abi: str, python: Python) -> bool:
    own = "cp3%d" % python.minor
    generic = re.match(r"py3([0-9]{0,2})\Z", tag)
    if generic is not None:
        return abi == "none" and int(generic.group(1) or 0) <= python.minor
    built = _CPYTHON.match(tag)
    if built is None:
        return False
    if abi == "abi3":  # the stable interface: from that Python on
        return 2 <= int(built.group(1)) <= python.minor
    return tag == own and abi in (own, own + "m" if python.minor < 8 else own, "none")


def _platform_fits(tag: str, abi: str, python: Python) -> bool:
    if tag == "any":
        return abi == "none"  # what is built for an interface is built for a machine
    if tag == "linux_" + python.arch:
        return True
    numbered = _GLIBC.match(tag)
    if numbered is not None:
        return numbered.group(3) == python.arch and (int(numbered.group(1)), int(numbered.group(2))) <= python.glibc
    name, _underscore, arch = tag.partition("_")
    return name in _OLD and arch == python.arch and _OLD[name] <= python.glibc


class Entry(NamedTuple):
    """One package of the lock. ``marker``: only where that holds (; python_version < "3.12")."""

    name: str
    version: str
    marker: str
    hashes: Tuple[str, ...]

    @property
    def line(self) -> str:
        return "%s==%s%s %s" % (self.name, self.version, " " + self.marker if self.marker else "",
                                " ".join("--hash=sha256:" + item for item in self.hashes))


def parse_lock(text: str, file: str) -> List[Entry]:
    """Every entry. Raises RailwrightError that names file and line for the first one that is no pinned package with checksums."""
    found: List[Entry] = []
    for number, line in _logical(text):
        entry, options = _parted(line)
        match = _ENTRY.match(entry)
        where = "%s:%d" % (file, number)
        if match is None:
            raise RailwrightError("%s: %s is no pinned package; allowed: NAME==VERSION --hash=sha256:…, and no options, files or URLs" % (
                where, _shown(line)))
        hashes = tuple(sorted(_sha256(item, where) for item in options))
        if not hashes:
            raise RailwrightError("%s: %s==%s has no checksum; allowed: --hash=sha256:… behind every package" % (
                where, match.group("name"), match.group("version")))
        marker = " ".join((match.group("marker") or "").split())
        found.append(Entry(normalised(match.group("name")), match.group("version"), marker, hashes))
    if not found:
        raise RailwrightError("%s: holds no package; allowed: NAME==VERSION --hash=sha256:…" % file)
    return found


def _parted(line: str) -> Tuple[str, List[str]]:
    """The entry without the checksums at its end, and these; blanks in it are single ones already."""
    words = line.split(" ")
    end = len(words)
    while words[end - 1].startswith("--hash=") and end > 1:
        end -= 1
    return " ".join(words[:end]), words[end:]


def _shown(line: str) -> str:
    """The first word: what follows may be a URL with a password in it."""
    word = line.split(maxsplit=1)[0]
    return word if "://" not in word and "@" not in word else "a URL"


def _sha256(option: str, where: str) -> str:
    match = _HASH.match(option)
    if match is None:
        raise RailwrightError("%s: %s is no sha256; allowed: --hash=sha256: and 64 hexadecimal digits" % (where, option[:40]))
    return match.group(1)


def _logical(text: str) -> List[Tuple[int, str]]:
    """(number, line) without comments and with what a backslash continues, as pip reads it."""
    found: List[Tuple[int, str]] = []
    begun: int = 0
    parts: List[str] = []
    for number, raw in enumerate(PYTHON_LINE_END.split(text), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        begun = begun or number
        parts.append(line[:-1] if line.endswith("\\") else line)
        if not line.endswith("\\"):
            whole = " ".join(" ".join(parts).split())
            found += [(begun, whole)] if whole else []
            begun, parts = 0, []
    whole = " ".join(" ".join(parts).split())
    return found + ([(begun, whole)] if whole else [])


def parse_explicit(text: str, file: str) -> Dict[str, str]:
    """Version by name of conda's packages. Raises RailwrightError for a line without a checksum, or with a secret in it."""
    found: Dict[str, str] = {}
    for number, line in _logical(re.sub(r"(?m)^#.*$", "", text)):
        where = "%s:%d" % (file, number)
        if line == "@EXPLICIT":
            continue
        match = _CONDA.match(line)
        if match is None:
            raise RailwrightError("%s: is no package with a checksum; allowed: URL#SHA256, as conda list --explicit --sha256 writes "
                                  "it" % where)
        url = match.group("url")
        if "@" in url.partition("://")[2].partition("/")[0] or "/t/" in url:
            raise RailwrightError("%s: has a password or a token in its URL; allowed: URLs without; conda takes them from the node" % where)
        package = _PACKAGE.search(url)
        if package is None:
            raise RailwrightError("%s: names no package of conda; allowed: …/NAME-VERSION-BUILD.conda or .tar.bz2" % where)
        found[package.group("name").lower()] = package.group("version")
    if "@EXPLICIT" not in text or "python" not in found:
        raise RailwrightError("%s: holds no %s; allowed: @EXPLICIT on a line of its own, and python among the packages" % (
            file, "python" if "@EXPLICIT" in text else "@EXPLICIT"))
    return found


def fitting(files: Mapping[str, str], python: Python) -> List[Tuple[Wheel, str]]:
    """(wheel, sha256) of those that fit, by name. ``files``: sha256 by file."""
    read = [(wheel_of(file), sums) for file, sums in sorted(files.items())]
    return [(wheel, sums) for wheel, sums in read if wheel is not None and wheel_fits(wheel, python)]


def lock_of_wheels(files: Mapping[str, str], python: Python, directory: str) -> List[Entry]:
    """The directory is the lock: one version of each package that fits. Raises RailwrightError where there are two."""
    versions: Dict[str, Dict[str, List[str]]] = {}
    for wheel, digest in fitting(files, python):
        versions.setdefault(wheel.name, {}).setdefault(wheel.version, []).append(digest)
    for name, found in sorted(versions.items()):
        if len(found) > 1:
            raise RailwrightError("%s has %s in %d versions that fit this node (%s); allowed: one, or ai_environment_requirements that "
                                  "says which" % (directory, name, len(found), ", ".join(sorted(found))))
    return [Entry(name, version, "", tuple(sorted(digests))) for name, found in sorted(versions.items())
            for version, digests in found.items()]


def missing_wheels(entries: Sequence[Entry], files: Mapping[str, str], python: Python) -> List[Tuple[Entry, List[str]]]:
    """Entries that no fitting wheel of the directory has the checksum of, each with the files of that name. Not those with a marker."""
    there = {(wheel.name, digest) for wheel, digest in fitting(files, python)}
    found = []
    for entry in entries:
        if not entry.marker and not any((entry.name, digest) in there for digest in entry.hashes):
            wheels = [wheel for wheel in map(wheel_of, sorted(files)) if wheel is not None and wheel.name == entry.name]
            found.append((entry, [wheel.file for wheel in wheels]))
    return found


def lock_text(entries: Sequence[Entry]) -> str:
    """The file that pip gets, and what an environment's identity is made of: the same lock in another order is the same text."""
    return "".join(line + "\n" for line in sorted(entry.line for entry in entries))


def version_in(entries: Sequence[Entry], name: str) -> Optional[str]:
    return next((entry.version for entry in entries if entry.name == normalised(name)), None)


def digest_of(parts: Mapping[str, Any]) -> str:
    """Twelve digits for a directory's name."""
    text = "\n".join("%s=%s" % (key, parts[key]) for key in sorted(parts))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
