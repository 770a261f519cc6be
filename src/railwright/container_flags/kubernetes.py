# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod for one node. Kubernetes puts variables in place of ``$(NAME)``: a dollar of ours before a bracket is written twice.

/dev/infiniband comes from a device plugin, which gives a pod the device nodes that a hostPath volume could not without privileges.
The command are ``args``, as docker run takes it: an entrypoint of the image stays. IPC_LOCK stands for ulimit memlock, since a pod
cannot set limits. With a network of its own the pod's interface is not the host's, and rank 0 is found by the name that a headless
service gives it.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.containers import GPU_RESOURCE, RDMA_RESOURCES
from railwright.container_flags.model import SOCKET, Container
from railwright.container_flags.yamltext import dump

NAME = "rdma"
LABEL = "app"
DEV = "/dev"
SHM = f"{DEV}/shm"  # in the pod
PORT_NAME = "rendezvous"


def documents(container: Container) -> list[dict[str, Any]]:
    """The service first, with rank 0, which needs a name; then the pod."""
    named = container.options.pod_network and container.job.nodes > 1 and container.job.rank == 0
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(container.node), "labels": {LABEL: NAME}},
        "spec": _spec(container),
    }
    return [_service(container), pod] if named else [pod]


def _service(container: Container) -> dict[str, Any]:
    """Pods get names of it before they are ready: rank 0 waits for the others."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL: NAME},
            "ports": [{"name": PORT_NAME, "port": container.job.port}],
        },
    }


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
        found["args"] = [_literal(word) for word in container.launch.command]
    given = variables(container)
    if given:
        found["env"] = [{"name": name, "value": _literal(value)} for name, value in given.items()]
    found["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    found["resources"] = {"limits": limits}
    mounts: list[dict[str, Any]] = [{"name": f"file{at}", "mountPath": path, "readOnly": True} for at, path in enumerate(container.files)]
    found["volumeMounts"] = [{"name": "shm", "mountPath": SHM}, *mounts]
    return found


def variables(container: Container) -> dict[str, str]:
    """A pod with a network of its own has none of the host's interfaces."""
    found = dict(container.variables)
    if container.options.pod_network:
        found[SOCKET] = "=" + container.options.pod_interface
    return dict(sorted(found.items()))


def notes(container: Container) -> list[str]:
    said = ["the RDMA devices come from a device plugin of the cluster, under the name of the resource that the pod asks for"]
    if container.options.pod_network:
        said.append("RoCE and eRDMA need an interface of the NIC in the pod's own network (SR-IOV, macvlan, the cloud's CNI); without "
                    "one use the host's network")
    if container.cpus is not None:
        said.append("a pod cannot choose its CPUs: the kubelet does, by cpuManagerPolicy static and topologyManagerPolicy")
    return said


def text(container: Container) -> str:
    return dump(*documents(container))


def pod_name(node: str) -> str:
    """A DNS label (RFC 1123) of a name in an inventory."""
    label = re.sub(r"[^a-z0-9-]+", "-", f"{NAME}-{node.lower()}")
    return label[:63].strip("-")


def _literal(value: str) -> str:
    return value.replace("$(", "$$(")
