# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container on this node may be given: devices, GPUs, NUMA, NCCL's variables, runtimes, an image's CUDA. Reads only.

NCCL's variables are those that area nccl would have in /etc/nccl.conf: the container gets what the node gets, whether it was
applied already or not. Without an inventory they are what the node's file says.
"""

from typing import Any, Dict, List, Optional, Tuple

from ..areas.nccl import environment
from ..formats.nccl_conf import conf_variables
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.containers import Runtime, observe_cdi, observe_image, observe_infiniband, observe_numa, observe_runtimes, observe_toolkit
from ..observe.gpu_driver import loaded_driver
from ..observe.hca import observe_hcas
from ..observe.identity import observe_identity
from ..observe.nics import observe_addresses
from ..spec.match import management_interface, match_rails
from ..spec.model import Spec
from ..types import Identity

_IMAGE_VARIABLES = ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA")
_IMAGE_LABELS = ("org.opencontainers.image.ref.name", "org.opencontainers.image.version")


def inspect_container_access(
    live: Host, spec: Optional[Spec], image: Optional[str] = None, management_address: Optional[str] = None
) -> Dict[str, Any]:
    """``spec`` None: a node by itself. ``image``: whose CUDA is read, where a runtime of the node has it."""
    host = InspectedHost(live)
    identity = observe_identity(host, management_address)
    runtimes = observe_runtimes(host)
    variables, notes = job_variables(host, spec, identity)
    toolkit = observe_toolkit(host)
    return {
        "hostname": identity.hostname or None,
        "captured": not host.live,
        "arch": identity.arch or None,
        "infiniband": observe_infiniband(host),
        "hcas": _hcas(host, spec, identity),
        "gpus": [{"pci": gpu.pci, "numa_node": _node(gpu.numa_node)} for gpu in sorted(identity.gpus, key=lambda item: item.pci)],
        "driver": loaded_driver(host).version,
        "numa": observe_numa(host),
        "variables": variables,
        "files": sorted({variables[name] for name in environment.READ_FILES if name in variables and host.exists(variables[name])}),
        "addresses": _addresses(host, spec, identity, variables),
        "runtimes": [dict(item._asdict()) for item in runtimes],
        "toolkit": dict(toolkit._asdict()) if toolkit is not None else None,
        "cdi": [dict(item._asdict()) for item in observe_cdi(host)],
        "image": _image(host, runtimes, image),
        "notes": notes,
    }


def job_variables(host: Host, spec: Optional[Spec], identity: Identity) -> Tuple[Dict[str, str], List[str]]:
    """(NCCL's variables, notes): what area nccl writes on this node."""
    if spec is None:
        return conf_variables(host.read("/etc/nccl.conf")), []
    desired = environment.desired(spec, identity)
    observed = environment.observe(host, desired)
    wrong = environment.problems(spec, identity, desired) + environment.conflicts(desired, observed)
    said = ["%s: %s" % (problem.subject, problem.message) for problem in wrong]
    return dict(environment.variables_of(desired, observed)), said + environment.notes(desired, observed)


def _hcas(host: Host, spec: Optional[Spec], identity: Identity) -> List[Dict[str, Any]]:
    """In natural order, each with the rail that it carries."""
    targets = match_rails(spec, identity)[0] if spec is not None else []
    rails = {target.hca.name: target.rail.name for target in targets if target.hca is not None}
    return [{"name": hca["name"], "numa_node": _node(hca["numa_node"]), "pci": hca["pci_address"], "rail": rails.get(hca["name"])}
            for hca in observe_hcas(host, {})]


def _node(number: Optional[int]) -> Optional[int]:
    """-1 is the kernel's word for unknown."""
    return number if number is not None and number >= 0 else None


def _addresses(host: Host, spec: Optional[Spec], identity: Identity, variables: Dict[str, str]) -> List[str]:
    """Of the interface that NCCL's bootstrap uses: where other ranks reach this node."""
    name = variables.get(environment.SOCKET, "").lstrip("=")
    if name not in [nic.name for nic in identity.nics] and spec is not None:
        name = spec["bootstrap_interface"] or management_interface(spec, identity) or ""
    return [item.partition("/")[0] for item in observe_addresses(host).get(name, ())]


def _image(host: Host, runtimes: Any, image: Optional[str]) -> Optional[Dict[str, Any]]:
    """None where no image was asked for, or no runtime has it. Of its environment only what says its CUDA: the rest may be secret."""
    if image is None:
        return None
    runtime: Runtime
    for runtime in runtimes:
        found = observe_image(host, runtime.name, image)
        if found is not None:
            return {
                "name": image, "runtime": runtime.name,
                "variables": {name: found["env"][name] for name in _IMAGE_VARIABLES if name in found["env"]},
                "labels": {name: found["labels"][name] for name in _IMAGE_LABELS if name in found["labels"]},
            }
    return None
