# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of an NCCL profile. Controller only: a node is handed what comes of it (``fabrics.derived``), not the reasons."""

from __future__ import annotations

from typing import NamedTuple

HCA = "NCCL_IB_HCA"
SOCKET = "NCCL_SOCKET_IFNAME"
NODE_ADDS = (HCA, SOCKET)  # what only the node knows: the rails' devices, and the interface of the bootstrap


class NcclVariable(NamedTuple):
    """``file``: the value names a file of the node, and this is where it comes from."""

    name: str
    value: str
    why: str
    source: str
    file: str = ""


class Correction(NamedTuple):
    """What the source says, what the profile does instead, and why."""

    said: str
    instead: str
    why: str


class Exclusion(NamedTuple):
    """A variable that defeats the profile. ``values`` (): whatever its value; ``severity``: error, or warning where it only costs speed."""

    name: str
    values: tuple[str, ...]
    why: str
    source: str
    severity: str = "error"


class NcclProfile(NamedTuple):
    """One row: everything that a fabric or a cloud needs of NCCL, and what it was corrected against."""

    name: str
    fabrics: tuple[str, ...]
    variables: tuple[NcclVariable, ...]
    address_range: bool  # set NCCL_IB_ADDR_RANGE to the rails' subnet when they share one
    hca_prefix: str | None  # the driver's device names, for documentation; lists are rendered from the match
    why: str
    source: str
    corrected: tuple[Correction, ...] = ()
    qos: str | None = None  # the QoS profile that the fabric's switches know; "none": there must be none; None: any
    nccl: tuple[str | None, str | None] = (None, None)  # first and last release that it is for
    transport: str = ""  # a plugin that brings its own: it finds devices and GIDs, and NCCL_IB_* are not its settings
    node: tuple[str, ...] = NODE_ADDS  # what the node adds
    hcas: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (shape, its HCAs): used where a host has no rails
    excludes: tuple[Exclusion, ...] = ()
    needs: tuple[str, ...] = ()  # what must be there beside it, in words
