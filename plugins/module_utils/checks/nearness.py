# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether each GPU of a node has a rail that NCCL would reach without the CPU, and each rail such a GPU. Pure.

NCCL uses GPUDirect RDMA between a GPU and an HCA that are no further apart than NCCL_NET_GDR_LEVEL, PXB unless somebody says otherwise
(ncclTopoCheckGdr in its src/graph/paths.cc), and copies through host memory beyond it. Its PHB is what nvidia-smi calls PHB or NODE. A
GPU that is far itself may hand its data over NVLink to one that is near (PXN). A GPU that is part of its CPU (Grace) counts the HCAs of
that CPU as near (NCCL_NET_GDR_C2C).
"""

from typing import Any, Dict, List, Optional

from ..areas.network.verdicts import ports_of
from ..formats.text import first_of
from ..observe.affinity import nearest
from ..rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ..types import Verdict

LEVEL = "NCCL_NET_GDR_LEVEL"
DEFAULT = "PXB"
_STEPS = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 3, "SYS": 4}
_NEARER = ("LOC", "NVL", "NVB", "C2C")  # than any HCA is
_NUMBERS = {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 4}  # of NCCL before 2.5, still read


def judge_nearness(seen: Inspection) -> List[Verdict]:
    """One verdict ``gpu.near`` a node that has GPUs; it warns, since a job may be meant to go through host memory."""
    if not seen.identity.gpus:
        return []
    where = VerdictSubject(seen.node, None, None, "GPUs and rails")
    variables = ((seen.facts.get("nccl") or {}).get("conf") or {}).get("variables") or {}
    if variables.get("NCCL_TOPO_FILE"):
        return [verdict("gpu.near", where, "skipped", None, None, "NCCL takes the distances from NCCL_TOPO_FILE, not from the PCI tree")]
    rows = seen.facts.get("affinity")
    if rows is None:
        return [unreadable("gpu.near", where, DEFAULT, "the PCI tree")]
    rails = {(where.hca, where.port) for _target, where, _port in ports_of(seen)}
    rows = [row for row in rows if (row.get("hca"), row.get("port")) in rails]
    lost = sorted({str(row.get("gpu")) for row in rows if row.get("path") not in _STEPS})
    if lost:
        return [unreadable("gpu.near", where, DEFAULT, "how far %s and the rails are apart in the PCI tree" % first_of(lost, 4))]
    if not rows:
        return [verdict("gpu.near", where, "skipped", None, None, "no rail of this node is a PCI function")]
    return [_judged(seen, where, rows, str(variables.get(LEVEL) or DEFAULT))]


def _judged(seen: Inspection, where: VerdictSubject, rows: List[Dict[str, Any]], level: str) -> Verdict:
    allowed = _allowed(level, seen.facts.get("arch"))
    if allowed is None:
        return verdict("gpu.near", where, "unknown", None, level, "%s=%s in nccl.conf is no distance that NCCL knows" % (LEVEL, level[:20]))
    gpus = {gpu: _best(rows, "gpu", gpu) for gpu in sorted({row["gpu"] for row in rows})}
    rails = {hca: _best(rows, "hca", hca) for hca in sorted({row["hca"] for row in rows})}
    far = [gpu for gpu, path in gpus.items() if _STEPS[path] > allowed]
    linked = any(gpu.get("nvlinks") for gpu in seen.facts.get("gpus") or [])
    if linked and len(far) < len(gpus):
        far = []
    far += [hca for hca, path in rails.items() if _STEPS[path] > allowed]
    if not far:
        return verdict("gpu.near", where, "pass", level, gpus, "each GPU and each rail has one of the other kind within %s" % level)
    paths = sorted({{**gpus, **rails}[one] for one in far})
    words = "%s: nothing of the other kind is nearer than %s, and NCCL uses GPUDirect RDMA up to %s: data goes through host memory" % (
        first_of(far, 4), " or ".join(paths), level)
    return verdict("gpu.near", where, "warn", level, gpus, words)


def _best(rows: List[Dict[str, Any]], key: str, name: str) -> str:
    return str(nearest(row["path"] for row in rows if row[key] == name))


def _allowed(level: str, arch: Any) -> Optional[int]:
    """The largest step; None for a word that NCCL does not know."""
    if level in _NUMBERS:
        return _NUMBERS[level]
    word = {"P2C": DEFAULT, "PXN": DEFAULT}.get(level, level)
    steps = _STEPS.get(word) if word != "NODE" else None
    if word in _NEARER:
        return 0
    return max(steps, _STEPS["PHB"]) if steps is not None and arch == "aarch64" else steps
