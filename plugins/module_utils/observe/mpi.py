# SPDX-License-Identifier: GPL-3.0-or-later
"""Which MPI starters a node has: Open MPI, MPICH and HPC-X, by what their own ``mpirun --version`` says.

The same name is another program on every node (Debian's alternatives, EL's directories off PATH, a vendor's own build in
/usr/mpi/gcc), and their command lines differ, so nothing is concluded from a path or a package. Starters that railwright
has no command line for (Intel MPI, Spectrum MPI) are left out.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import SEARCH_PATH, Host, resolved

HPCX_PREFIX = "/opt/railwright/hpcx"
CURRENT = "current"  # a link to the release that the inventory wants
OPENMPI4, OPENMPI5, MPICH = "openmpi4", "openmpi5", "mpich"
NAMES = ("mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra")  # the last three are Debian's alternatives
# Off PATH: EL's packages, what a vendor's RDMA stack brings (DOCA, MLNX_OFED), and what AWS's EFA installer does.
DIRECTORIES = ("/usr/lib64/openmpi/bin", "/usr/lib64/mpich/bin", "/usr/lib64/mpi/gcc/openmpi4/bin", "/opt/amazon/openmpi5/bin",
               "/opt/amazon/openmpi/bin")
VENDOR = "/usr/mpi/gcc"  # openmpi-4.1.9a1/bin/mpirun
HPCX_TAIL = "/ompi/bin/mpirun"  # in every HPC-X, whatever its directory is called
HPCX_PARTS = ("ompi", "ucx", "ucc", "hcoll", "sharp")  # NVIDIA (HPC-X: hpcx-init.sh), without nccl_rdma_sharp_plugin
# orterun says OpenRTE when it is started by another name than mpirun; prterun and prte say PRRTE, and their version is not Open MPI's.
_OPENMPI = re.compile(r"^\S+ \((?:Open MPI|OpenRTE)\) (([0-9]{1,18})\.[0-9][0-9A-Za-z.+-]*)[ \t]*$", re.MULTILINE)
_HYDRA = re.compile(r"^HYDRA build details:\s+Version:\s+([0-9][0-9A-Za-z.+-]*)\s", re.MULTILINE)


class Mpi(NamedTuple):
    """One starter. ``prefix`` is the directory above its bin; ``mpirun`` the path to start it by."""

    kind: str  # openmpi4 (the runtime is ORTE: 3 and 4), openmpi5 (PRRTE: 5 and newer), mpich (Hydra)
    version: str
    prefix: str
    mpirun: str


def found_mpi(host: Host, prefix: Optional[str] = None, install: str = "none", drop: Sequence[str] = ()) -> Tuple[Mpi, ...]:
    """Each starter once, the one to prefer first: below ``prefix`` and nowhere else where that is given, else HPC-X of role mpi
    (the wanted release, then newest first), what is on PATH, and what is known to be off it.

    ``install``: the inventory's mpi_install; what it asks for comes before the rest. ``drop``: the words before a command line that take
    root's rights away; what lies below ``prefix`` may be another user's, and is run with them.
    """
    paths: Dict[str, str] = {}
    for path in filter(host.exists, _places(host, (prefix or "").rstrip("/"))):
        paths.setdefault(resolved(path, host.readlink), path)  # mpirun, /etc/alternatives/mpirun, mpirun.openmpi, orterun
    found: Dict[Tuple[str, str, str], Mpi] = {}
    for mpi in [_asked(host, path, drop if prefix else ()) for path in paths.values()]:
        if mpi is not None:  # mpirun and mpiexec of one installation are often two files of the same program
            found.setdefault((mpi.kind, mpi.version, mpi.prefix), mpi)
    return tuple(sorted(found.values(), key=lambda row: not _wished(row, install)))


def _wished(mpi: Mpi, install: str) -> bool:
    hpcx = opal_prefix(mpi.mpirun) is not None
    return {"openmpi": mpi.kind != MPICH and not hpcx, "mpich": mpi.kind == MPICH, "hpcx": hpcx}.get(install, True)


def version_of(text: str) -> Optional[Tuple[str, str]]:
    """(kind, version) from what ``mpirun --version`` printed; None for a starter that railwright has no command line for."""
    openmpi = _OPENMPI.search(text)
    if openmpi is not None:
        major = int(openmpi.group(2))
        return (OPENMPI5 if major >= 5 else OPENMPI4, openmpi.group(1)) if major >= 3 else None
    hydra = _HYDRA.search(text)
    return (MPICH, hydra.group(1)) if hydra is not None else None


def opal_prefix(mpirun: str) -> Optional[str]:
    """What OPAL_PREFIX must be for this starter: HPC-X was built to lie elsewhere and finds nothing of its own without it."""
    return mpirun[:-len("/bin/mpirun")] if mpirun.endswith(HPCX_TAIL) else None


def hpcx_libraries(mpirun: str) -> Tuple[str, ...]:
    """Directories that HPC-X's programs load from; () for another MPI. Its NCCL plugin stays out: which network NCCL takes is the
    inventory's to say."""
    return _hpcx_directories(mpirun, "lib")


def hpcx_variables(mpirun: str, path: str) -> Dict[str, str]:
    """What HPC-X's own hpcx-init.sh sets for a run, but for the library path; {} for another MPI. ``path``: the PATH that it comes before.

    NVIDIA (HPC-X user manual: Installing and Loading HPC-X; hpcx-init.sh 2.5 to 2.20, whose names are the same throughout). Its PMIx, too,
    was built to lie elsewhere.
    """
    prefix = opal_prefix(mpirun)
    if prefix is None:
        return {}
    return {"HPCX_DIR": prefix.rpartition("/")[0], "HPCX_MPI_DIR": prefix, "OPAL_PREFIX": prefix, "PMIX_INSTALL_PREFIX": prefix,
            "PATH": ":".join(_hpcx_directories(mpirun, "bin") + (path,))}


def hpcx_words(mpirun: str) -> List[str]:
    """The words before a command line of HPC-X's own programs, which find nothing without them; [] for another MPI."""
    opal = opal_prefix(mpirun)
    return ["env", "OPAL_PREFIX=" + opal, "LD_LIBRARY_PATH=" + ":".join(hpcx_libraries(mpirun))] if opal is not None else []


def _hpcx_directories(mpirun: str, name: str) -> Tuple[str, ...]:
    prefix = opal_prefix(mpirun)
    return tuple("%s/%s/%s" % (prefix.rpartition("/")[0], part, name) for part in HPCX_PARTS) if prefix is not None else ()


def _places(host: Host, prefix: str) -> List[str]:
    if prefix:
        return ["%s/bin/%s" % (prefix, name) for name in NAMES] + [prefix + HPCX_TAIL]
    releases = sorted((name for name in host.listdir(HPCX_PREFIX) if is_digits(name[:1])), key=sysfs_values.natural_key, reverse=True)
    wanted = host.readlink("%s/%s" % (HPCX_PREFIX, CURRENT))
    releases.sort(key=lambda name: name != wanted)
    paths = ["%s/%s%s" % (HPCX_PREFIX, name, HPCX_TAIL) for name in releases]
    paths += ["%s/%s" % (directory, name) for name in NAMES for directory in SEARCH_PATH.split(":")]
    vendor = sorted((name for name in host.listdir(VENDOR) if name.startswith("openmpi")), key=sysfs_values.natural_key, reverse=True)
    off = DIRECTORIES + tuple("%s/%s/bin" % (VENDOR, name) for name in vendor)
    return paths + ["%s/%s" % (directory, name) for directory in off for name in NAMES[:2]]


def _asked(host: Host, path: str, drop: Sequence[str]) -> Optional[Mpi]:
    answer = host.run(list(drop) + hpcx_words(path) + [path, "--version"], 20.0)
    told = version_of(answer.out + answer.err) if answer.ok else None
    return Mpi(told[0], told[1], path.rpartition("/bin/")[0], path) if told is not None else None
