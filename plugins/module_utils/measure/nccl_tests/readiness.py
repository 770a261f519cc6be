# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node brings to the proof: GPUs, driver, NCCL, launchers, the programs. Read-only; what cannot work is a problem in words.

Programs are started as the job user, with the library path that the jobs will have: that they print their help proves that the
loader finds every library, and the help says whether they can write JSON (2.17.3 and later).
"""

import contextlib
import ipaddress
import re
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.aiacc import PLUGIN, VARIABLE
from ...formats import sysfs_values
from ...formats.program_output import one_line, reason
from ...formats.text import grouped
from ...host.commands import check_answers
from ...host.host import Host
from ...observe.accounts import logins_need_job
from ...observe.affinity import affinity, driver_matrix
from ...observe.devices import pci_attribute
from ...observe.gpu_driver import loaded_driver
from ...observe.mpi import Mpi, found_mpi
from ...observe.nccl_libraries import cached_libraries, nccl_libraries
from ...observe.nics import observe_addresses
from ...observe.pci import links_of
from ...observe.qos import roce_places
from ...observe.traffic_counters import Watched
from ...spec.match import management_interface, match_rails
from ...spec.model import Spec
from ...types import Identity, as_dicts
from . import probe
from .affinity import judge_topology
from .dumps import judge_topo_files, nccl_settings
from .inspector import inspector_problems
from .launch import COLLECTIVES
from .processes import account, as_user, rights_of

HELP_SECONDS = 30.0
SLURM_TOOLS = ("srun", "sinfo", "scancel")
_SHA256 = re.compile(r"\\?([0-9a-f]{64}) ")


class Wanted(NamedTuple):
    """What the run is to be made of on this node. ``libraries``: LD_LIBRARY_PATH."""

    user: str
    directory: str
    libraries: Tuple[str, ...]
    collectives: Tuple[str, ...]
    mpi_prefix: Optional[str]
    environment: Mapping[str, str]


def inspect_readiness(host: Host, node: str, spec: Spec, identity: Identity, wanted: Wanted) -> Dict[str, Any]:
    """JSON, for the plan."""
    check_answers(host, wanted.directory)
    who = account(wanted.user)
    said = ask_cuda(host, wanted)
    rows = affinity(host, identity)
    programs = [program(host, wanted, name) for name in wanted.collectives]
    mpi = found_mpi(host, wanted.mpi_prefix, spec["mpi_install"], as_user(host, who, ()))
    with rights_of(host, wanted.user):
        files = nccl_settings(host, wanted.environment, who.home, files_only=True)
        no_library = inspector_problems(host, spec["nccl_tests_inspector"], wanted.user)
    setting = wanted.environment.get(VARIABLE, files[VARIABLE].path if VARIABLE in files else None)
    return {
        "node": node,
        "hostname": host.line("/proc/sys/kernel/hostname") or node,
        "user": wanted.user,
        "python": host.which("python3") or sys.executable,
        "directory": wanted.directory,
        "libraries": list(wanted.libraries),
        "interface": interface(host, spec, identity),
        "cuda": probe.as_dict(said),
        "driver": loaded_driver(host).version,
        "nccl": as_dicts(nccl_libraries(host, spec["nccl_prefix"])),
        "nccl_conf": sorted(files),
        "net_plugins": net_plugins(host, setting, wanted.libraries, mpi),
        "mpi": as_dicts(mpi),
        "slurm": {tool: host.which(tool) for tool in SLURM_TOOLS},
        "needs_job": who.uid != 0 and logins_need_job(host),
        "programs": programs,
        "affinity": rows,
        "places": places(host, spec, identity),
        "ends": ends_of_rails(spec, identity),
        "ports": as_dicts(ports_of_rails(host, spec, identity)),
        "verdicts": as_dicts(judge_topology(node, rows, driver_matrix(host))
                             + judge_topo_files(host, node, wanted.environment, who.home, (who.name, who.uid, who.gid))),
        "problems": ["%s: %s" % (item["name"], item["problem"]) for item in programs if item["problem"] is not None] + no_library,
    }


def places(host: Host, spec: Spec, identity: Identity) -> List[Dict[str, Any]]:
    """Where each GPU and the HCA of each rail hang: what the links above them can carry. ``rail``: None of a GPU."""
    found: List[Tuple[str, Optional[str], Optional[int]]] = [(gpu.pci, None, gpu.numa_node) for gpu in identity.gpus]
    found += [(target.hca.pci, target.rail.name, sysfs_values.integer(pci_attribute(host, target.hca.pci, "numa_node")))
              for target in match_rails(spec, identity)[0] if target.hca is not None and target.hca.pci is not None]
    return [{"pci": pci, "rail": rail, "numa_node": numa, "links": links_of(host, pci)} for pci, rail, numa in found]


def ends_of_rails(spec: Spec, identity: Identity) -> Dict[str, str]:
    """Of each rail its RDMA device and port, as NCCL_IB_HCA has them; a rail that is not there is missing."""
    return {target.rail.name: "%s:%d" % (target.hca.name, target.port) for target in match_rails(spec, identity)[0]
            if target.hca is not None and target.port is not None}


def ports_of_rails(host: Host, spec: Spec, identity: Identity) -> List[Watched]:
    """The HCA port of each rail, and the interfaces that count for it: below a bond its members."""
    members = grouped(((hca.name, port), netdev) for hca, port, netdev in roce_places(host, identity))
    found = []
    for target in match_rails(spec, identity)[0]:
        if target.hca is not None and target.port is not None:
            netdevs = members.get((target.hca.name, target.port)) or [target.netdev or ""]
            found.append(Watched(target.label, target.hca.name, target.port, target.hca.driver, tuple(name for name in netdevs if name)))
    return found


def net_plugins(host: Host, setting: Optional[str], libraries: Sequence[str], mpi: Sequence[Mpi]) -> List[str]:
    """The network plugins that NCCL tries before its own transports; [] where its own are all there is (NCCL 2.30, src/plugin/net.cc).

    ``setting``: NCCL_NET_PLUGIN. An empty one turns plugins off in newer releases and is as good as unset in older ones.
    """
    if setting is not None and setting.lower() == "none":
        return []
    if setting:
        return [one_line(name) for name in setting.split(",") if name]
    places = list(libraries) + ["%s/lib" % item.prefix for item in mpi] + ["/usr/lib64", "/usr/lib"]
    paths = ["%s/%s" % (place.rstrip("/"), PLUGIN) for place in places] + cached_libraries(host, PLUGIN)
    return list(dict.fromkeys(path for path in paths if host.exists(path)))[:8]


def ask_cuda(host: Host, wanted: Wanted) -> probe.Answer:
    """What libcuda lists for the job user, to whom a device file may be closed, and with the jobs' libraries (CUDA's compat among them)."""
    script = with_libraries(wanted, [host.which("python3") or sys.executable, "-I", "-c", probe.SCRIPT])
    result = host.run(as_user(host, account(wanted.user), script), float(probe.SECONDS))
    found = probe.answers(result.out)
    if found:
        return found[0]
    why = "libcuda did not answer in %d s" % probe.SECONDS if result.rc == 124 else "the probe ended with %d: %s" % (
        result.rc, one_line(result.err.strip().rpartition("\n")[2]) or "no word")
    return probe.Answer("unknown", None, (), why, None, None)


def with_libraries(wanted: Wanted, argv: Sequence[str]) -> List[str]:
    return (["env", "LD_LIBRARY_PATH=%s" % ":".join(wanted.libraries)] if wanted.libraries else []) + list(argv)


def program(host: Host, wanted: Wanted, collective: str) -> Dict[str, Any]:
    """``{"name", "path", "sha256", "json", "problem"}``."""
    name = COLLECTIVES[collective]
    path = "%s/%s" % (wanted.directory.rstrip("/"), name)
    found: Dict[str, Any] = {"name": name, "path": path, "sha256": None, "json": False, "problem": None}
    if not host.exists(path):
        found["problem"] = "not in %s" % wanted.directory
        return found
    digest = _SHA256.match(host.run(("sha256sum", path), 120.0).out)
    found["sha256"] = digest.group(1) if digest is not None else None
    result = host.run(as_user(host, account(wanted.user), with_libraries(wanted, [path, "-h"])), HELP_SECONDS)
    found["json"] = "--output_file" in result.out
    if "--minbytes" not in result.out:
        words = reason(result.err) or reason(result.out) or "no word"
        found["problem"] = "does not start (%s): %s" % ("no answer" if result.rc == 124 else "exit %d" % result.rc, words)
    return found


def interface(host: Host, spec: Spec, identity: Identity) -> Optional[Dict[str, Any]]:
    """What the launchers speak over, as NCCL's bootstrap does: its name and its IPv4 network; None when it cannot be told."""
    name = spec["bootstrap_interface"] or management_interface(spec, identity)
    if name is None:
        return None
    return {"name": name, "networks": networks(observe_addresses(host).get(name, ()))}


def networks(addresses: Sequence[str]) -> List[str]:
    """192.0.2.11/24 -> 192.0.2.0/24. Only IPv4: Open MPI's lists of networks know no other."""
    found = []
    for text in addresses:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.ip_interface(text).network)
    return [str(network) for network in found if network.version == 4]
