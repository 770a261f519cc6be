# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for the host's side of lossless RoCE: what is set comes from the QoS profile, these say how."""

from __future__ import annotations

from .key import Key

ROCE_QOS = (
    Key("roce_qos_manage", "roce_qos", "bool", True,
        "Set trust, PFC, DSCP map, ECN, CNP marking and RDMA-CM's defaults as rdma_qos_profile says. false: they are only judged, and a "
        "broken chain warns.",
        "choice: the whole chain is one setting, and NCCL_IB_TC is set from it already"),
    Key("roce_qos_backend", "roce_qos", "str", "auto",
        "The tool for what is set through the kernel's DCB interface. auto: for each part dcb (iproute2) where it can, else mlnx_qos (OFED "
        "and DOCA).",
        "choice: dcb is in every distribution from iproute2 5.11 on; mlnx_qos also sets the trust of mlx5",
        choices=("auto", "dcb", "mlnx_qos")),
    Key("roce_qos_dcbx", "roce_qos", "str", "host",
        "Who owns DCBX. host: the NIC's firmware is told so, and lldpad is stopped and disabled. leave: another owner is a conflict and "
        "nothing is changed.",
        "NVIDIA (mlnx_qos -d os: the host's settings hold; in firmware mode the switch's do)", choices=("host", "leave")),
    Key("roce_qos_buffers", "roce_qos", "dict", {},
        "Receive buffers of every NIC: bytes (of each of the eight buffers) and priorities (the buffer of each of the eight priorities). "
        "Unset: as the NIC's firmware sizes them by MTU and cable length.",
        "NVIDIA (the driver sizes buffers by itself until they are set by hand)",
        form="a mapping of bytes and priorities, eight integers each",
        example={"bytes": [130944, 130944, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 1, 0, 0, 0, 0]}),
    Key("roce_qos_force_tc", "roce_qos", "bool", False,
        "Have the driver put the profile's class on every queue pair, whatever the program asked for (tc/N/traffic_class; OFED and DOCA). "
        "false: only a class that is forced already and breaks the chain is put right.",
        "choice: NCCL and RDMA-CM mark their own traffic, and other programs may want another class"),
)

QOS_ROLES = ("roce_qos",)
QOS_KEYS = ROCE_QOS
