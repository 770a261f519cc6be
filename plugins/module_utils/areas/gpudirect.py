# SPDX-License-Identifier: GPL-3.0-or-later
"""How the HCAs reach GPU memory: DMA-BUF, nvidia-peermem or nv_peer_mem, decided, set up and kept."""

from typing import Any, List

from ..host import Host
from ..spec.model import Spec
from ..types import Change, Identity, Problem

NAME = "gpudirect"


def desired(spec, identity):
    # type: (Spec, Identity) -> Any
    return None


def observe(host, desired):
    # type: (Host, Any) -> Any
    return None


def plan(desired, observed):
    # type: (Any, Any) -> List[Change]
    return []


def problems(spec, identity, desired):
    # type: (Spec, Identity, Any) -> List[Problem]
    return []


def conflicts(desired, observed):
    # type: (Any, Any) -> List[Problem]
    return []


def notes(desired, observed):
    # type: (Any, Any) -> List[str]
    return []
