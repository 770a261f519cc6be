# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for what nodes talk over: eRDMA, the firewall, lossless RoCE, ssh between them. ``schema.py`` joins them."""

from .key import USER, USER_FORM, Key
from .keys_drivers import FINGERPRINT, FINGERPRINT_FORM, URL, URL_FORM

ERDMA = (
    Key("erdma_repository", "str", "auto",
        "Take the user space of eRDMA (libibverbs and its provider) from Alibaba's repository. auto: where rdma_fabric is erdma and the "
        "distribution's rdma-core is not known to have the provider (43 and newer have it). true: always; false: never, the distribution's "
        "packages are taken as they are. Of no effect with a vendor's stack, which has the provider.",
        "linux-rdma/rdma-core (provider erdma since 43); the guide to eRDMA, lines 60 to 88", choices=("auto", "true", "false")),
    Key("erdma_repository_url", "str", None,
        "A repository in place of Alibaba's. On apt the URL before the suite CODENAME/erdma (component main), on dnf the whole baseurl. "
        "Unset: the catalogue's (or the mirror's).", "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("erdma_repository_key_url", "str", None, "Where that repository's signing key is. Unset: Alibaba's (or the mirror's).",
        "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("erdma_repository_fingerprint", "str", None,
        "Fingerprint that the signing key must have. Nobody here has read the one of Alibaba's key: without this key, or "
        "rdma_artifact_pins: {erdma-key: FINGERPRINT}, the repository is refused.",
        "choice: a fingerprint that nobody here read is not written down", pattern=FINGERPRINT, form=FINGERPRINT_FORM),
    Key("erdma_driver", "str", "auto",
        "The kernel driver. dkms: Alibaba's, built from its source. mainline: the kernel's own, which has no modes. leave: whatever is "
        "there, driver and mode untouched. auto: a driver with modes that is there is kept; the kernel's own is taken where its devices "
        "show that they are RoCE-compatible (`1: CA`) and the mode is compat; else dkms.",
        "ERD, ERC (compat.go: what is installed is kept); docs/erdma.md", choices=("auto", "dkms", "mainline", "leave")),
    Key("erdma_driver_version", "str", None,
        "Release of Alibaba's driver: 0.2.37, the public source, or a release of the vendor's installer such as 1.5.7, of which only the "
        "source is taken. Unset: 0.2.37, and a driver that is there already stays.", "ERD (r0.2.37); ALI (erdma-usage)",
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", form="a release of three numbers, in quotes"),
    Key("erdma_mode", "str", "auto",
        "Mode of the driver: default (iWARP-like, RDMA-CM only), compat (RoCE-compatible: NCCL, UCX), ofed (compat on top of MLNX_OFED). "
        "auto: ofed on nodes with an NVIDIA GPU, else compat. Nodes in default cannot talk RDMA to the others.",
        "ERC (internal/drivers: ofed where there is a GPU), ALI", choices=("auto", "default", "compat", "ofed")),
    Key("erdma_instance_type", "str", None,
        "ECS instance type of the node, such as ecs.ebmgn7ex.32xlarge. It says how many eRDMA devices there must be, whether MTU 8500 is "
        "possible, and what bandwidth validate and bench expect, as far as the catalogue knows the type. Unset: rdma_expect.hcas and the "
        "thresholds say it, or nothing is judged; the rate in sysfs is 100 Gb/sec on every type.",
        "docs/erdma-instances.md", pattern=r"^ecs\.[a-z][a-z0-9-]*\.[a-z0-9]+$",
        form="the name of an ECS instance type, like ecs.ebmgn7ex.32xlarge"),  # no example: commented in, it would be wrong elsewhere
    Key("erdma_route_metric", "int", 200,
        "Metric of the route to a rail's own subnet, now and after a reboot. A second network interface in the subnet of the first would "
        "otherwise carry that one's traffic. A rail with a metric has a routing table of its own, also where it is the only one. 0: "
        "whatever the network manager gives it. Of the interface that the controller comes in by the metric is left as it is.",
        "ERC (internal/drivers/netdev.go: 200, and never below what is there)", minimum=0, maximum=4294967295),
)

FIREWALL = (
    Key("firewall_manage", "bool", True,
        "Where a firewall runs and stops the cluster's nodes, they are let in: all TCP on the bootstrap interface, and UDP 4791 on the "
        "rails with soft_roce. false: nothing is changed, only judged.",
        "NCCL (src/misc/socket.cc: ports that the kernel hands out); choice: nothing more is opened"),
    Key("firewall_backend", "str", "auto",
        "Which firewall is told: auto is every one whose rules stop the cluster's nodes. Another name is that one alone, and what another "
        "one stops is refused.", "firewalld, ufw and nftables are what the supported systems ship",
        choices=("auto", "nftables", "firewalld", "ufw")),
    Key("firewall_peers", "list", [],
        "Who is let in, as addresses or networks. Empty: the addresses of all nodes of group rdma that the inventory knows: ansible_host "
        "where it is an IP address, rdma_rails[].address, ssh_mesh_addresses.",
        "choice: the addresses of the cluster's nodes and nothing more", elements="str", pattern=r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
        form="a list of IP addresses and networks, like 192.0.2.0/24", example=["192.0.2.0/24"]),
)

ROCE_QOS = (
    Key("roce_qos_manage", "bool", True,
        "Set trust, PFC, DSCP map, ECN, CNP marking and RDMA-CM's defaults as rdma_qos_profile says. false: they are only judged, and a "
        "broken chain warns.", "choice: the whole chain is one setting, and NCCL_IB_TC is set from it already"),
    Key("roce_qos_backend", "str", "auto",
        "The tool for what is set through the kernel's DCB interface. auto: for each part dcb (iproute2) where it can, else mlnx_qos (OFED "
        "and DOCA).", "choice: dcb is in every distribution from iproute2 5.11 on; mlnx_qos also sets the trust of mlx5",
        choices=("auto", "dcb", "mlnx_qos")),
    Key("roce_qos_dcbx", "str", "host",
        "Who owns DCBX. host: the NIC's firmware is told so, and lldpad is stopped and disabled. leave: another owner is a conflict and "
        "nothing is changed.", "NVIDIA (mlnx_qos -d os: the host's settings hold; in firmware mode the switch's do)",
        choices=("host", "leave")),
    Key("roce_qos_buffers", "dict", {},
        "Receive buffers of every NIC: bytes (of each of the eight buffers) and priorities (the buffer of each of the eight priorities). "
        "Unset: as the NIC's firmware sizes them by MTU and cable length.",
        "NVIDIA (the driver sizes buffers by itself until they are set by hand)",
        form="a mapping of bytes and priorities, eight integers each",
        example={"bytes": [130944, 130944, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 1, 0, 0, 0, 0]}),
    Key("roce_qos_force_tc", "bool", False,
        "Have the driver put the profile's class on every queue pair, whatever the program asked for (tc/N/traffic_class; OFED and DOCA). "
        "false: only a class that is forced already and breaks the chain is put right.",
        "choice: NCCL and RDMA-CM mark their own traffic, and other programs may want another class"),
)

SSH_MESH = (
    Key("ssh_mesh_state", "str", "present",
        "present: the job user logs into every other node of the mesh with the mesh's key. absent: key, authorization, host keys and "
        "client configuration are taken away, and the other nodes get another key.", "choice", choices=("present", "absent")),
    Key("ssh_mesh_user", "str", None, "The user that starts jobs; the same on every node. Unset: the user that Ansible logs in as.",
        "ERC (passwordless ssh between the nodes for the user that runs mpirun)", pattern=USER, form=USER_FORM, example="mpi"),
    Key("ssh_mesh_generation", "int", 1,
        "Number of the mesh's key. Another number makes a new key on the next apply, and the old one stops working.",
        "choice: a key that may have leaked is replaced by a change in the inventory, so that everybody sees when and why", minimum=1,
        maximum=999999999),
    Key("ssh_mesh_addresses", "list", [],
        "Addresses of a host that the mesh is made of: where it is reached and where it comes from (from= of the key); the first one is "
        "what its name leads to. Empty: what ansible_host or the name of the host leads to on the controller, then those of its rails.",
        "choice: the addresses that the controller and the inventory know", elements="str", pattern=r"^[0-9a-fA-F.:]+$",
        form="a list of IP addresses", example=["192.0.2.11"]),
)
