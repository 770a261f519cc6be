# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a wheel can be installed on a node, told from its name: known before it travels there. pip has the last word. Pure."""

import re
from typing import NamedTuple, Optional, Tuple

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[A-Za-z0-9.!+_]+)(-[0-9][A-Za-z0-9_.]*)?-(?P<python>[A-Za-z0-9_.]+)"
    r"-(?P<abi>[A-Za-z0-9_.]+)-(?P<platform>[A-Za-z0-9_.]+)\.whl\Z")
_CPYTHON = re.compile(r"cp3([0-9]{1,2})\Z")
_GLIBC = re.compile(r"manylinux_([0-9]{1,18})_([0-9]{1,18})_(.+)\Z")
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}  # PEP 600 gives them these numbers


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


def fits(wheel: Wheel, python: Python) -> bool:
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
