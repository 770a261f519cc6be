# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for containers. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key

IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
IMAGE_FORM = "the name of an image, like registry.example.com/train:1"
SIZE = r"^[1-9][0-9]*[kmg]$"

CONTAINERS = (
    Key("containers_runtime", "containers", "str", "auto",
        "What starts containers. auto: what is on the node, docker before podman before nerdctl; a docker that does not run comes last. "
        "none: nothing is set up for containers.",
        "choice: sites bring their own runtime", choices=("auto", "docker", "podman", "nerdctl", "none")),
    Key("containers_gpu", "containers", "str", "auto",
        "How a container gets the GPUs: a CDI specification, or the nvidia runtime of docker. auto: for `container flags` the first that "
        "the node has; apply sets up CDI where containers_toolkit_install is true, and nothing else. cdi and nvidia are set up with the "
        "toolkit that is on the node.", "NVIDIA (container toolkit: CDI is what it recommends)", choices=("auto", "cdi", "nvidia", "none")),
    Key("containers_image", "containers", "str", None, "Image that `container flags` puts in where --image says nothing.",
        "choice: a site's image", pattern=IMAGE, form=IMAGE_FORM, example="registry.example.com/train:1"),
    Key("containers_shm_size", "containers", "str", None,
        "Size of /dev/shm in a container. Unset: the host's own (--ipc=host); in a pod a memory volume without a limit of its own.",
        "S4:94 has both; NCCL's and PyTorch's workers share memory there, and 64 MiB, the default, is too little",
        pattern=SIZE, form="a number with k, m or g, like 16g", example="16g"),
    Key("containers_pod_interface", "containers", "str", "eth0",
        "Interface of a pod that has a network of its own: NCCL_SOCKET_IFNAME there. The host's NICs, and ib0, do not exist in it.",
        "Kubernetes (CNI: the first interface of a pod is eth0)", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,14}$",
        form="the name of an interface", example="eth0"),
    Key("containers_toolkit_install", "containers", "bool", False,
        "Install NVIDIA's container toolkit from the CUDA repository, on nodes with a GPU and a container runtime.",
        "choice: images of clouds bring it already"),
)

CONTAINERS_ROLES = ("containers",)
CONTAINERS_KEYS = CONTAINERS
