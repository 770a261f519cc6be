# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of a container on one node, in the form that whoever starts it reads. Nothing here talks to a node.

``model.py`` is what all forms share. docker, podman and nerdctl: one command line, quoted for a shell. Compose: a service; it puts
variables in place of ``$NAME``, so a dollar of ours is written twice. Kubernetes: a pod, which puts them in place of ``$(NAME)``.

/dev/infiniband comes from a device plugin, which gives a pod the device nodes that a hostPath volume could not without privileges.
The command are ``args``, as docker run takes it: an entrypoint of the image stays. IPC_LOCK stands for ulimit memlock, since a pod
cannot set limits. With a network of its own the pod's interface is not the host's, and rank 0 is found by the name that a headless
service gives it.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.containers import GPU_RESOURCE, RDMA_RESOURCES
from railwright.container_flags import containerfile
from railwright.container_flags.model import SOCKET, Container
from railwright.report.text import printable

BETWEEN = "---\n"
WIDE = 1000  # a command line stays on its line


class _Dumper(yaml.SafeDumper):
    """Without anchors: they say that two values are the same one, which helps no reader."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def dump(*documents: Any) -> str:
    """Several documents with the line between them that YAML has for it, and none before the first."""
    texts = [yaml.dump(item, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=WIDE) for item in documents]
    return BETWEEN.join(texts)


RUNTIME_VARIABLES = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}  # what the nvidia runtime reads
DEV = "/dev"
CDI_DEVICE = "nvidia.com/gpu=all"


def argv(container: Container) -> list[str]:
    """The words of the command. Without a command of the user's it is an interactive container."""
    words = [container.runtime, "run", "--rm"]
    if not container.launch.command:
        words += ["--interactive", "--tty"]
    words += ["--network=host"]
    words += [f"--shm-size={container.options.shm_size}"] if container.options.shm_size else ["--ipc=host"]
    words += ["--ulimit=memlock=-1:-1"]
    words += [f"--device={device}" for device in container.devices]
    words += [f"--volume={path}:{path}:ro" for path in container.files]
    words += {"cdi": [f"--device={CDI_DEVICE}"], "gpus": ["--gpus=all"], "runtime": ["--runtime=nvidia"]}.get(container.gpu or "", [])
    if container.cpus is not None:
        words += [f"--cpuset-cpus={container.cpus}", f"--cpuset-mems={container.mems}"]
    variables = (RUNTIME_VARIABLES if container.gpu == "runtime" else {}) | dict(container.variables)
    words += [f"--env={name}={value}" for name, value in variables.items()]
    return [*words, container.image, *container.launch.command]


def command_text(container: Container) -> str:
    """One option a line. The image and the command are one line together: they are what a reader looks for."""
    words = argv(container)
    tail = 1 + len(container.launch.command)
    options = words[3:-tail]
    lines = [shlex.join(words[:3]), *(shlex.quote(word) for word in options), shlex.join(words[-tail:])]
    return " \\\n  ".join(lines) + "\n"


NAME = "rdma"  # of the service, the pod's container


def compose_document(container: Container) -> dict[str, Any]:
    service: dict[str, Any] = {"image": _doubled("$", container.image), "network_mode": "host"}
    if container.options.shm_size:
        service["shm_size"] = container.options.shm_size
    else:
        service["ipc"] = "host"
    service["ulimits"] = {"memlock": {"soft": -1, "hard": -1}}
    service["devices"] = [f"{device}:{device}" for device in container.devices]
    variables = dict(container.variables)
    if container.gpu == "cdi":
        service["devices"].append(CDI_DEVICE)
    elif container.gpu == "gpus":
        reserved = [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
        service["deploy"] = {"resources": {"reservations": {"devices": reserved}}}
    elif container.gpu == "runtime":
        service["runtime"] = "nvidia"
        variables = RUNTIME_VARIABLES | variables
    if container.files:
        service["volumes"] = [{"type": "bind", "source": path, "target": path, "read_only": True} for path in container.files]
    if container.cpus is not None:
        service["cpuset"] = container.cpus
    if variables:
        service["environment"] = {name: _doubled("$", value) for name, value in variables.items()}
    if container.launch.command:
        service["command"] = [_doubled("$", word) for word in container.launch.command]
    return {"services": {NAME: service}}


def _compose_notes(container: Container) -> list[str]:
    if container.mems is None:
        return []
    return [f"Compose has no word for --cpuset-mems={container.mems}: memory comes from that node only as long as it has some free"]


def kubernetes_documents(container: Container) -> list[dict[str, Any]]:
    """The service first, with rank 0, which needs a name; then the pod."""
    named = container.options.pod_network and container.job.nodes > 1 and container.job.rank == 0
    metadata = {"name": pod_name(container.node), "labels": {"app": NAME}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(container)}
    return [_service(container), pod] if named else [pod]


def _service(container: Container) -> dict[str, Any]:
    """Pods get names of it before they are ready: rank 0 waits for the others."""
    ports = [{"name": "rendezvous", "port": container.job.port}]
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": NAME}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": spec}


def _spec(container: Container) -> dict[str, Any]:
    spec: dict[str, Any] = {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": container.hostname}}
    if container.options.pod_network:
        spec |= {"hostname": pod_name(container.node), "subdomain": NAME}
    else:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    memory: dict[str, str] = {"medium": "Memory"}
    if container.options.shm_size:
        memory["sizeLimit"] = container.options.shm_size[:-1] + container.options.shm_size[-1].upper() + "i"
    spec["containers"] = [_container(container)]
    files = [{"name": f"file{at}", "hostPath": {"path": path, "type": "File"}} for at, path in enumerate(container.files)]
    spec["volumes"] = [{"name": "shm", "emptyDir": memory}, *files]
    return spec


def _container(container: Container) -> dict[str, Any]:
    resource = container.options.rdma_resource or RDMA_RESOURCES.get(container.options.fabric or "", RDMA_RESOURCES["roce"])
    limits: dict[str, Any] = {resource: 1}
    if container.gpus:
        limits[GPU_RESOURCE] = container.gpus
    found: dict[str, Any] = {"name": NAME, "image": container.image}
    if container.launch.command:
        found["args"] = [_doubled("$(", word) for word in container.launch.command]
    # A pod with a network of its own has none of the host's interfaces.
    own = {SOCKET: "=" + container.options.pod_interface} if container.options.pod_network else {}
    if variables := dict(container.variables) | own:
        found["env"] = [{"name": name, "value": _doubled("$(", value)} for name, value in sorted(variables.items())]
    found["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    found["resources"] = {"limits": limits}
    mounts: list[dict[str, Any]] = [{"name": f"file{at}", "mountPath": path, "readOnly": True} for at, path in enumerate(container.files)]
    found["volumeMounts"] = [{"name": "shm", "mountPath": f"{DEV}/shm"}, *mounts]
    return found


def _kubernetes_notes(container: Container) -> list[str]:
    said = ["the RDMA devices come from a device plugin of the cluster, under the name of the resource that the pod asks for"]
    if container.options.pod_network:
        said.append("RoCE and eRDMA need an interface of the NIC in the pod's own network (SR-IOV, macvlan, the cloud's CNI); without "
                    "one use the host's network")
    if container.cpus is not None:
        said.append("a pod cannot choose its CPUs: the kubelet does, by cpuManagerPolicy static and topologyManagerPolicy")
    return said


def pod_name(node: str) -> str:
    """A DNS label (RFC 1123) of a name in an inventory."""
    label = re.sub(r"[^a-z0-9-]+", "-", f"{NAME}-{node.lower()}")
    return label[:63].strip("-")


def _doubled(dollar: str, value: str) -> str:
    return value.replace(dollar, f"${dollar}")


NUMACTL = ("numactl in front of docker run binds the client alone: the container is started by a daemon. --cpuset-cpus and --cpuset-mems "
           "bind the container")
RUNTIMES = ("docker", "podman", "nerdctl")
# The text of each form, and what its reader must know beside what all forms say. A new form is one more row.
FORMS: dict[str, tuple[Callable[[Container], str], Callable[[Container], list[str]]]] = {
    **dict.fromkeys(RUNTIMES, (command_text, lambda container: [] if container.cpus is None else [NUMACTL])),
    "compose": (lambda container: dump(compose_document(container)), _compose_notes),
    "kubernetes": (lambda container: dump(*kubernetes_documents(container)), _kubernetes_notes),
    "containerfile": (containerfile.text, containerfile.notes),
}


def told(form: str, container: Container) -> list[str]:
    """What a reader must know, in the order of weight."""
    said = [*container.notes, *FORMS[form][1](container)]
    if container.job.nodes > 1 and form != "containerfile":
        where = f"; rank 0 is at {container.job.master}, {container.job.why}" if container.job.master and container.job.why else ""
        said.append(f"rank {container.job.rank} of {container.job.nodes} nodes{where}: torchrun {' '.join(container.launch.flags)}")
    return said


def rendered(form: str | None, made: Sequence[Container]) -> str:
    """One text for all nodes; ``form`` None: the command line of each node's runtime."""
    in_yaml = form in ("compose", "kubernetes")
    return (BETWEEN if in_yaml else "\n").join(_one(form or item.runtime, item) for item in made)


def _one(form: str, container: Container) -> str:
    """The form with its notes as comments above it: # is a comment in a shell, in YAML and in a Containerfile."""
    head = "".join(f"# {printable(line)}\n" for line in (container.node, *told(form, container)))
    return head + FORMS[form][0](container)


def as_document(container: Container) -> dict[str, Any]:
    """Every form of one container as data."""
    fit = container.cuda
    return {
        "runtime": container.runtime, "argv": argv(container), "compose": compose_document(container),
        "kubernetes": kubernetes_documents(container), "containerfile": None if container.system.problem else containerfile.text(container),
        "devices": list(container.devices), "environment": dict(container.variables), "files": list(container.files), "gpu": container.gpu,
        "cpuset": None if container.cpus is None else {"cpus": container.cpus, "mems": container.mems},
        "torchrun": list(container.launch.flags), "cuda": None if fit is None else {"fits": fit.fits, "message": fit.message},
        "notes": list(container.notes), "problems": list(container.problems),
    }  # fmt: skip
