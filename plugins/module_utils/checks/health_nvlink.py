# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on NVLinks and on NVLink domains. Pure.

The number and the rate of a GPU's links come from the table of boards: GPUs that all lost the same links look alike. Peer GPUs count only
where the board is not in the table, or where the number of links depends on the bridges that are installed.
"""

from typing import Any, List, Mapping, Sequence, Tuple

from ..catalogue.boards import BRIDGE, NO_NVLINK, RACK, SWITCH, linked_board
from ..formats.text import first_of, grouped
from .signs import Sign, gpu_rows, gpu_sign, majority

# The share of its rate below which a link is slow: drivers print NVLink 5 with the line's coding (53.125 GB/s) or without it (50).
SLOW = 0.94
COMPLETED, SUCCESS = "Completed", "Success"
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def nvlink_signs(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[Sign]:
    gpus = _judged(facts, health)
    found: List[Sign] = []
    for gpu in gpus:
        board = linked_board(str(gpu.get("name")))
        if board is not None and board.nvlink in (SWITCH, RACK):
            found += _by_board(gpu, board.nvlinks, board.link_gbs or 0.0, facts.get("virtual"))
    return found + _by_peers(facts, gpus)


def nvlinks_judged(facts: Mapping[str, Any], health: Mapping[str, Any]) -> bool:
    """Whether every GPU has links that could be judged: without that, no pass."""
    gpus = facts.get("gpus") or []
    counted = all(None not in (row.get("nvlink_errors") or {}).values() for row in gpu_rows(health))
    return bool(gpus) and counted and len(_judged(facts, health)) == len(gpus) and all(gpu.get("nvlinks") for gpu in gpus)


def _judged(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """GPUs whose links mean something. With MIG on, A100 switches its links off (NVIDIA, Fabric Manager User Guide)."""
    partitioned = [row["pci"] for row in gpu_rows(health) if row.get("mig") == "Enabled"]
    known = [row["pci"] for row in gpu_rows(health)]
    return [gpu for gpu in facts.get("gpus") or [] if gpu.get("pci") in known and gpu["pci"] not in partitioned]


def _by_board(gpu: Mapping[str, Any], count: int, rate: float, virtual: Any) -> List[Sign]:
    links = gpu.get("nvlinks")
    if not links and virtual:  # nvidia-smi nvlink --status then prints nothing: driver 580.159 on an H200, 2026-11
        text = "no NVLink is up: so it is in a virtual machine, or a container in one, that got a GPU without its NVSwitches"
        return [gpu_sign("gpu.nvlink", gpu["pci"], "skipped", "0 links", text)]
    if links is None:
        return [gpu_sign("gpu.nvlink", gpu["pci"], "unknown", "unread", "nvidia-smi nvlink --status does not show the GPU's links")]
    found: List[Sign] = []
    if len(links) < count:
        text = "%d of the board's %d NVLinks are up" % (len(links), count)
        found.append(gpu_sign("gpu.nvlink", gpu["pci"], "fail", "%d links" % len(links), text))
    slow = [link for link in links if 0 < link < SLOW * rate]
    if slow:
        text = "%d of its NVLinks run at %g GB/s, the board's run at %g GB/s" % (len(slow), min(slow), rate)
        found.append(gpu_sign("gpu.nvlink", gpu["pci"], "fail", "%g GB/s" % min(slow), text))
    return found


def _by_peers(facts: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> List[Sign]:
    """Compare with the peer GPU that has the most links. A card without links may be installed without a bridge; behind NVSwitches it may
    not. On bridged cards fewer links only warn."""
    switched = COMPLETED in (((facts.get("gpu_driver") or {}).get("fabricmanager") or {}).get("states") or [])
    kinds = grouped((str(gpu.get("device_id")), gpu) for gpu in gpus if gpu.get("nvlinks") is not None)
    found: List[Sign] = []
    for peers in kinds.values():
        best, fastest = max(len(gpu["nvlinks"]) for gpu in peers), max([rate for gpu in peers for rate in gpu["nvlinks"]] or [0.0])
        for gpu in peers:
            board = linked_board(str(gpu.get("name")))
            kind = board.nvlink if board is not None else ""
            if kind in (SWITCH, RACK, NO_NVLINK):
                continue
            count, slow = len(gpu["nvlinks"]), [rate for rate in gpu["nvlinks"] if 0 < rate < SLOW * fastest]
            if count < best and (count or (switched and kind != BRIDGE)):
                text = "%d NVLinks are up, %d on its peer GPUs" % (count, best)
                found.append(gpu_sign("gpu.nvlink", gpu["pci"], "warn" if kind == BRIDGE else "fail", "%d links" % count, text))
            if slow:
                text = "%d of its NVLinks run at %g GB/s, others at %g GB/s" % (len(slow), min(slow), fastest)
                found.append(gpu_sign("gpu.nvlink", gpu["pci"], "warn", "%g GB/s" % min(slow), text))
    return found


# The NVLink domain (NVML API Reference, nvmlGpuFabricInfo_v2_t): GPUs reach each other over NVLink only with the same cluster UUID and the
# same clique ID. Of one machine's own fabric (HGX) the UUID is zero and the clique 0.


def domain_signs(facts: Mapping[str, Any], health: Mapping[str, Any]) -> List[Sign]:
    rows = _joined(health)
    found = [_unfinished(row) for row in rows if row.get("fabric_status") not in (None, SUCCESS)]
    members = [row for row in rows if row.get("fabric_status") == SUCCESS and _named(row)]
    usual = majority([_domain(row) for row in members])
    if usual is not None:
        found += [_elsewhere(row, usual) for row in members if _domain(row) != usual]
    elif members:
        domains = grouped((_domain(row), row["pci"]) for row in members)
        text = "; ".join("%s in %s" % (first_of(gpus, 4), _text(domain)) for domain, gpus in domains.items())
        found.append(Sign("gpu.domain", "GPUs", None, "fail", "%d domains" % len(domains), "NVLink domains differ: %s" % text))
    return found + [sign for row in members for sign in _without_rack(facts, row)]


def domains_judged(health: Mapping[str, Any]) -> bool:
    """Whether every GPU has joined a fabric and names its domain."""
    rows = _joined(health)
    return bool(rows) and len(rows) == len(gpu_rows(health)) and all(row.get("fabric_status") and _named(row) for row in rows)


def _joined(health: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """Cluster, clique and status are valid only of these."""
    return [row for row in gpu_rows(health) if row.get("fabric_state") == COMPLETED]


def _named(row: Mapping[str, Any]) -> bool:
    return row.get("fabric_cluster") is not None and row.get("fabric_clique") is not None


def _domain(row: Mapping[str, Any]) -> Tuple[str, str]:
    return str(row["fabric_cluster"]).lower(), str(row["fabric_clique"])


def _text(domain: Tuple[str, str]) -> str:
    return "cluster %s clique %s" % domain


def _unfinished(row: Mapping[str, Any]) -> Sign:
    text = "its state in the NVLink fabric is %s with status %s: it has joined no domain" % (COMPLETED, row["fabric_status"])
    return gpu_sign("gpu.domain", row["pci"], "fail", str(row["fabric_status"]), text)


def _elsewhere(row: Mapping[str, Any], usual: Tuple[str, str]) -> Sign:
    text = "it is in NVLink domain %s, most GPUs of the node in %s" % (_text(_domain(row)), _text(usual))
    return gpu_sign("gpu.domain", row["pci"], "fail", "another domain", text)


def _without_rack(facts: Mapping[str, Any], row: Mapping[str, Any]) -> List[Sign]:
    """Judge a GPU of a rack's board without a cluster UUID: it fails on nodes with IMEX, which only nodes of a rack need."""
    board = linked_board(str(row.get("name")))
    if board is None or board.nvlink != RACK or _domain(row)[0] != NO_CLUSTER:
        return []
    imex = (facts.get("gpu_driver") or {}).get("imex") or {}
    status = "fail" if imex.get("running") or imex.get("channels") else "warn"
    text = "it has joined the NVLink fabric and has no cluster UUID: no GPU of another node can reach it"
    return [gpu_sign("gpu.domain", row["pci"], status, "no cluster", text)]
