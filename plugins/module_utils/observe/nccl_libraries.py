# SPDX-License-Identifier: GPL-3.0-or-later
"""Every NCCL that a job on this node can load, with the version that the file itself says and who brought it.

The loader's own come first, then /usr/local/lib (found where LD_LIBRARY_PATH names it), what role nccl has put below its prefix, and
what torch brings in the Python environments that the inventory names: a wheel of NCCL beside it or, in older builds, NCCL linked into
torch's own library. NCCL prints its version at start (``NCCL version 2.30.7+cuda13.3``), so the text is in every build, whatever its
file is called. Nothing is loaded or run: a library executes code when it is loaded.
"""

import posixpath
import re
from typing import List, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host
from ..spec.model import Spec
from ..types import Identity

PREFIX = "/opt/railwright/nccl"
CURRENT = "current"  # the link below the prefix to the release that the inventory asks for
NAME = "libnccl.so.2"
LDCONFIG, BELOW_PREFIX = "ldconfig", "prefix"
PACKAGE, TORCH, SITE, AIACC, DEEPNCCL = "package", "torch", "site", "aiacc", "deepnccl"
# Where the text lies: 3 MB into NVIDIA's wheel of 2.30.7, before the GPU code that makes the file large. Only a static
# or an unusual link order moves it behind, so most files are read once and little: the agent has 40 MB in all.
LIMITS = (8 * 1024 * 1024, 16 * 1024 * 1024, 512 * 1024 * 1024)
_VERSION = re.compile(rb"NCCL version (2\.[0-9]{1,3}\.[0-9]{1,3}[a-z0-9.]{0,16})\+cuda([0-9]{1,3}\.[0-9]{1,3})\0")
_CACHED = re.compile(r"^[ \t]+(libnccl\S*) \(([^)\n]*)\) => (/\S+)$", re.MULTILINE)


class LoadableNccl(NamedTuple):
    """``version`` is None where the file does not say one: it is no build of NCCL that we know."""

    path: str
    version: Optional[str]
    origin: str  # LDCONFIG: programs find it by themselves; BELOW_PREFIX: made by role nccl; who brought it


def nccl_libraries(host: Host, prefix: str = PREFIX) -> Tuple[LoadableNccl, ...]:
    """The loader's first, in its order, then what lies below ``prefix``."""
    places = dict.fromkeys(cached_libraries(host), LDCONFIG)
    for path in prefixed_libraries(host, prefix):
        places.setdefault(path, BELOW_PREFIX)
    return tuple(LoadableNccl(path, library_version(host, path)[0], origin) for path, origin in places.items() if host.exists(path))


def library_version(host: Host, path: str) -> Tuple[Optional[str], Optional[str]]:
    """(NCCL's version, CUDA's) of one file; (None, None) where it does not say."""
    for limit in LIMITS:
        content = host.read_bytes(path, limit)
        if content is None or not content.startswith(b"\x7fELF"):
            return None, None
        text = _VERSION.search(content)
        if text is not None:
            return text.group(1).decode("ascii"), text.group(2).decode("ascii")
        if len(content) < limit:
            break
    return None, None


def cached_libraries(host: Host, name: str = NAME) -> List[str]:
    """What the dynamic loader knows of this name. libc6 alone is a 32-bit x86 library, which no GPU program loads."""
    answer = host.run(("ldconfig", "-p"), 10.0)
    rows: List[Tuple[str, str, str]] = _CACHED.findall(answer.out) if answer.ok else []
    return [path for library, kind, path in rows if library == name and kind != "libc6"]


def prefixed_libraries(host: Host, prefix: str) -> List[str]:
    """The one that the inventory asks for, then the newest."""
    names = sorted((name for name in host.listdir(prefix) if is_digits(name[:1])), key=sysfs_values.natural_key, reverse=True)
    current = host.readlink("%s/%s" % (prefix, CURRENT))
    names.sort(key=lambda name: name != current)
    return ["%s/%s/lib/%s" % (prefix, name, NAME) for name in names]


LOCAL = ("/usr/local/lib", "/usr/local/lib64")
ENVIRONMENT = "/opt/railwright/ai"  # the default of ai_environment_path
BACKUP = ".bak"  # DeepNCCL's installer keeps there what it overwrote
_TORCH = re.compile(r"libtorch_cuda(?:_cpp)?\.so\Z")
_PYTHON = re.compile(r"python3(?:\.[0-9]+)?\Z")
_SYSTEM_TOO = re.compile(r"^include-system-site-packages *= *true *$", re.MULTILINE)
# grep reads any size in little memory; torch's library has a gigabyte and more.
_TEXT = r"NCCL version 2\.[0-9]{1,3}\.[0-9]{1,3}[a-z0-9.]{0,16}\+cuda"
_FOUND = re.compile(r"NCCL version (2\.[0-9]{1,3}\.[0-9]{1,3}[a-z0-9.]{0,16})\+cuda\n")
GREP_SECONDS, OWNER_SECONDS = 120.0, 30.0


class Places(NamedTuple):
    """Where to look beside the loader's own: as the inventory says, else the defaults."""

    prefix: str = PREFIX
    environment: str = ENVIRONMENT
    python: str = "python3"


def places_of(spec: Spec) -> Places:
    return Places(spec["nccl_prefix"], spec["ai_environment_path"].rstrip("/"), spec["ddp_benchmark_python"])


def loadable_nccl(host: Host, identity: Identity, places: Optional[Places] = None) -> Tuple[LoadableNccl, ...]:
    """In the order of the module's first words."""
    where = places if places is not None else Places()
    local = ["%s/%s" % (directory, NAME) for directory in LOCAL if host.readlink(directory) is None]
    own, prefixed = dict.fromkeys(cached_libraries(host) + local), prefixed_libraries(host, where.prefix)
    found = [LoadableNccl(path, library_version(host, path)[0], _origin(host, identity, path)) for path in own if host.exists(path)]
    found += [LoadableNccl(path, library_version(host, path)[0], BELOW_PREFIX) for path in prefixed if host.exists(path)]
    for directory in site_packages(host, where):
        found += [row for row in _of_torch(host, directory) if row.path not in [other.path for other in found]]
    return tuple(found)


def site_packages(host: Host, places: Places) -> List[str]:
    """Directories that hold the packages of the environment's Python and of the training benchmark's."""
    python = places.python if "/" in places.python else host.which(places.python) or "/usr/bin/python3"
    home = python.rpartition("/bin/")[0] or "/usr"
    target = host.readlink(home)  # what ``current`` of the environments leads to: each counts once
    home = posixpath.join(home.rpartition("/")[0] + "/", target) if target is not None else home
    prefixes = _environments(host, places.environment) + [home]
    if prefixes[-1] == "/usr" or any(_SYSTEM_TOO.search(host.read(prefix + "/pyvenv.cfg", 65536) or "") for prefix in prefixes):
        prefixes += ["/usr", "/usr/local"]
    libs = [lib for prefix in prefixes for lib in (prefix + "/lib", prefix + "/lib64") if host.readlink(lib) is None]
    pythons = ["%s/%s" % (lib, name) for lib in libs for name in host.listdir(lib) if _PYTHON.match(name)]
    paths = dict.fromkeys("%s/%s-packages" % (python, kind) for python in pythons for kind in ("site", "dist"))
    return [path for path in paths if host.exists(path)]


def _environments(host: Host, path: str) -> List[str]:
    """The environment itself, or its versions below the path; a link among them names one of the others."""
    below = ["%s/%s" % (path, name) for name in host.listdir(path) if not name.startswith(".")]
    return [path] + [item for item in below if host.readlink(item) is None and host.exists(item + "/bin")]


def _of_torch(host: Host, directory: str) -> List[LoadableNccl]:
    wheel = "%s/nvidia/nccl/lib/%s" % (directory, NAME)
    if host.exists(wheel):
        return [LoadableNccl(wheel, library_version(host, wheel)[0], TORCH)]
    paths = ["%s/torch/lib/%s" % (directory, name) for name in host.listdir(directory + "/torch/lib") if _TORCH.match(name)]
    found = [LoadableNccl(path, linked_version(host, path), TORCH) for path in paths]
    return [row for row in found if row.version is not None]  # a torch that loads libnccl.so.2 has no such text


def linked_version(host: Host, path: str) -> Optional[str]:
    """The version of the NCCL that is linked into a library."""
    answer = host.run(("grep", "-m", "1", "-a", "-o", "-E", "-e", _TEXT, "--", path), GREP_SECONDS)
    text = _FOUND.search(answer.out)
    return text.group(1) if text is not None else None


def _origin(host: Host, identity: Identity, path: str) -> str:
    """Who brought a library of the loader's: the package manager knows, and DeepNCCL's installer leaves a mark."""
    if host.exists(path + BACKUP) and path.startswith(LOCAL):
        return DEEPNCCL
    owner = owner_of(host, identity, path)
    if owner is None:
        return SITE
    return DEEPNCCL if owner.startswith("deep") else AIACC if owner.startswith("aiacc") else PACKAGE


def owner_of(host: Host, identity: Identity, path: str) -> Optional[str]:
    if identity.platform.family == "debian":
        # The loader's cache says /lib where packages say /usr/lib.
        for name in [path, "/usr" + path] if path.startswith("/lib") else [path]:
            answer = host.run(("dpkg-query", "-S", name), OWNER_SECONDS)
            if answer.ok:
                return answer.out.partition(":")[0].split(",")[0].strip() or None
        return None
    answer = host.run(("rpm", "-qf", "--qf", "%{NAME}\\n", path), OWNER_SECONDS)
    return next(iter(answer.out.split()), None) if answer.ok else None
