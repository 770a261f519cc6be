# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether NCCL_IB_HCA of /etc/nccl.conf names RDMA devices of this node. Without any of them NCCL passes over to TCP sockets.

A list that excludes (``^``) may name devices that only other nodes have. NCCL 2.28, src/misc/utils.cc (parseStringList).
"""

from typing import List

from ...formats.masking import HIDDEN
from ...formats.text import first_of, join_names
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided
from ...rules.nccl_gids import names_port
from ...types import Verdict
from .gid_index import HCA, settings

CHECK = "nccl.hcas"


def judge_hca_list(seen: Inspection) -> List[Verdict]:
    """Nothing is said where the variable is not set, or the node has no RDMA device at all."""
    value, hcas = settings(seen.spec, seen.facts).get(HCA), seen.identity.hcas
    if not value or not hcas:
        return []
    taken = list(dict.fromkeys(hca.name for hca in hcas for port in hca.ports if names_port(value, hca, port)))
    excludes, exact = value.startswith("^"), "=" if value.startswith("=") else ""
    items = [] if excludes else [item for item in value[len(exact):].split(",") if item]
    absent = [item for item in items if not any(names_port(exact + item, hca, port) for hca in hcas for port in hca.ports)]
    names = "this node has %s" % first_of([hca.name for hca in hcas], 4)
    return [decided(
        CHECK, VerdictSubject(seen.node, None, None, HCA),
        (HIDDEN in value, "unknown", "RDMA devices of this node", None, UNREADABLE % ("%s, which is hidden," % HCA)),
        (not taken, "fail", "RDMA devices of this node", value, "%s=%s leaves NCCL no RDMA device, so that it uses TCP sockets; %s" % (
            HCA, value, names)),
        (absent, "warn", "RDMA devices of this node", value, "%s names %s, and %s" % (HCA, join_names(absent), names)),
        (True, "pass", "RDMA devices of this node", value, "%s selects %s" % (HCA, first_of(taken, 4))))]
