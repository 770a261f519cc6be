# SPDX-License-Identifier: GPL-3.0-or-later
"""What DKMS has built and installed, read from its own tree: no dkms command is needed.

    /var/lib/dkms/M/V/source                    link to /usr/src/M-V: the module is registered
    /var/lib/dkms/M/V/K/ARCH/module/*.ko*       built for kernel K
    /var/lib/dkms/M/kernel-K-ARCH               link to V/K/ARCH: that build is the installed one
    /var/lib/dkms/M/V/build/make.log            log of a build that failed
    /var/lib/dkms/M/V/K/ARCH/log/make.log       log of one that did not

States: ``added`` (registered, built for no kernel: ``kernel`` is None), ``built``, ``installed`` (the link is there and
the module lies below /lib/modules/K), ``broken`` (``kernel`` None: the source is gone; else the modules are gone).
``dkms status`` is asked only where the tree cannot be read.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from .modules import module_path

TREE = "/var/lib/dkms"
SOURCES = "/usr/src"
ADDED, BUILT, INSTALLED, BROKEN = "added", "built", "installed", "broken"
# Where DKMS puts modules: Debian and Ubuntu, the Red Hat family (extra, links from weak-updates), SUSE.
PLACES = ("updates/dkms", "extra", "updates", "weak-updates")
# DKMS names of what is neither the stack nor nobody's business; packagers differ: nvidia, nvidia-current, nvidia-srv …
GPU_DRIVER = re.compile(r"nvidia(?!.*peer)[A-Za-z0-9_.-]*\Z")
PEER_MEMORY = re.compile(r"(?:nv_peer_mem|nvidia[_-]peer.*)\Z")
GDRCOPY = re.compile(r"gdrdrv\Z")
ERDMA = re.compile(r"erdma\Z")
_LOG_LIMIT = 4 * 1024 * 1024
_KO = re.compile(r"([A-Za-z0-9_.+-]+)\.ko(?:\.(?:gz|xz|zst|bz2))?\Z")
_TARGET = re.compile(r"(?:.*/)?([^/]+)/([^/]+)/([^/]+)/?\Z")  # of the link kernel-K-ARCH: V/K/ARCH
# dkms 3: "M/V, K, ARCH: installed"; dkms 2: "M, V, K, ARCH: installed"; both add remarks in brackets behind the state.
_BAD_REMARKS = ("WARNING", "Diff", "missing")  # that the module on disk is another one than the built one; "Original modules exist" is fine
_STATUS_LINE = re.compile(r"([^\s,/:]+)(?:/|, )([^\s,/:]+)(?:, ([^\s,/:]+), ([^\s,/:]+))?: (added|built|installed|broken)\b(.*)")


class Build(NamedTuple):
    """One module version, registered (``kernel`` and ``arch`` None) or built for a kernel."""

    module: str
    version: str
    kernel: Optional[str]
    arch: Optional[str]
    state: str


def dkms_builds(host: Host) -> Tuple[Build, ...]:
    return host.once("DKMS builds", lambda: _builds(host))


def _builds(host: Host) -> Tuple[Build, ...]:
    names = host.listdir(TREE)
    if not names and host.which("dkms") is not None:
        # The tree lies elsewhere (dkms_tree in /etc/dkms/framework.conf) or cannot be read: dkms itself may know.
        return parse_status(host.run(("dkms", "status"), 60.0).out)
    modules = [name for name in names if sysfs_values.is_name(name)]
    return tuple(build for module in modules for version in _versions(host, module) for build in _builds_of(host, module, version))


def builds_for(builds: Sequence[Build], kernel: str, module: Optional[str] = None) -> List[Build]:
    return [build for build in builds if build.kernel == kernel and module in (None, build.module)]


def make_log_tail(host: Host, module: str, version: str, lines: int = 20) -> Optional[str]:
    """The end of the log of the last build: the failed one where there is one, else None."""
    if not (sysfs_values.is_name(module) and sysfs_values.is_name(version)):
        return None
    text = host.read("%s/%s/%s/build/make.log" % (TREE, module, version), _LOG_LIMIT)
    if not text:
        return None
    return "\n".join("".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in lines_in(text)[-lines:])


def _versions(host: Host, module: str) -> List[str]:
    """A version is a directory with a link ``source``, also one that leads nowhere any more or is lost."""
    base = "%s/%s" % (TREE, module)
    return [
        name for name in host.listdir(base) if sysfs_values.is_name(name) and name != "original_module" and (
            host.readlink("%s/%s/source" % (base, name)) is not None or host.exists("%s/%s-%s/dkms.conf" % (SOURCES, module, name)))]


def _builds_of(host: Host, module: str, version: str) -> List[Build]:
    base = "%s/%s/%s" % (TREE, module, version)
    whole = host.exists(base + "/source/dkms.conf")
    kernels = [kernel for kernel in host.listdir(base) if kernel not in ("source", "build") and sysfs_values.is_name(kernel)]
    places = [(kernel, arch) for kernel in kernels for arch in host.listdir("%s/%s" % (base, kernel)) if sysfs_values.is_name(arch)]
    found = [Build(module, version, kernel, arch, _state(host, module, version, kernel, arch)) for kernel, arch in places
             if host.exists("%s/%s/%s/module" % (base, kernel, arch))]
    if not whole:  # dkms refuses to do anything with it until the package has been installed anew
        return [Build(module, version, None, None, BROKEN)] + found
    return found or [Build(module, version, None, None, ADDED)]


def _state(host: Host, module: str, version: str, kernel: str, arch: str) -> str:
    files = filter(_KO.match, host.listdir("%s/%s/%s/%s/%s/module" % (TREE, module, version, kernel, arch)))
    link = _TARGET.match(host.readlink("%s/%s/kernel-%s-%s" % (TREE, module, kernel, arch)) or "")
    if link is None or link.groups() != (version, kernel, arch):
        return BUILT
    there = [module_on_disk(host, kernel, _stem(name)) for name in files]
    return INSTALLED if there and all(there) else BROKEN


def module_on_disk(host: Host, kernel: str, name: str) -> bool:
    """Whether a DKMS directory of that kernel has the module: where depmod says, or in one of the usual places."""
    if not sysfs_values.is_name(kernel):
        return False
    root = "/lib/modules/%s/" % kernel
    path = module_path(host, kernel, name.replace("-", "_"))
    if path is not None and not path.startswith("kernel/") and host.exists(root + path):
        return True
    return any(_KO.match(file) and _stem(file).replace("-", "_") == name.replace("-", "_")
               for place in PLACES for file in host.listdir(root + place))


def _stem(name: str) -> str:
    found = _KO.match(name)
    return found.group(1) if found else name


def parse_status(text: str) -> Tuple[Build, ...]:
    """The lines of ``dkms status``."""
    rows = [parts.groups() for parts in (_STATUS_LINE.match(line.strip()) for line in lines_in(text)) if parts is not None]
    return tuple(Build(module, version, kernel, arch, BROKEN if any(word in remark for word in _BAD_REMARKS) else state)
                 for module, version, kernel, arch, state, remark in rows
                 if all(sysfs_values.is_name(name) for name in (module, version, kernel, arch) if name is not None))
