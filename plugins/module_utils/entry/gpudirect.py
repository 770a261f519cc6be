# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of the GPUDirect path for people: which, why, why not the others, and what was read where. Reads only."""

from typing import Any, Dict, Optional

from ..areas.gpu.gpudirect import desired, directory, observe, observe_evidence
from ..areas.gpu.gpudirect_evidence import evidence_of, wants_of
from ..errors import RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.identity import observe_identity
from ..rules.gpudirect import NV_PEER_MEM, choose_path
from ..spec.model import Spec


def explain(live: Host, spec: Optional[Spec]) -> Dict[str, Any]:
    """``spec`` None: a node by itself, without an inventory that asks for anything."""
    host = InspectedHost(live)
    identity = observe_identity(host)
    wants = wants_of(spec, identity)
    evidence, rows = evidence_of(wants, observe_evidence(host, identity))
    choice = choose_path(evidence, wants.path)
    return {
        "path": choice.path,
        "reason": choice.reason,
        "problem": choice.problem,
        "release": choice.release,
        "gpus": evidence.gpus,
        "hcas": [hca.name for hca in evidence.hcas],
        "refused": [dict(item._asdict()) for item in choice.refused],
        "evidence": [dict(row._asdict()) for row in rows],
    }


def needed_source(host: Host, spec: Spec) -> Optional[Dict[str, str]]:
    """The archive that the role has to bring before DKMS can build nv_peer_mem; None where it is there or not needed."""
    wanted = desired(spec, observe_identity(host))
    observed = observe(host, wanted)
    release = observed.choice.release
    if observed.choice.path != NV_PEER_MEM or release is None or observed.sources or not wanted.live:
        return None
    source = wanted.sources.get(release)
    if source is None or source.sha256 is None:
        raise RailwrightError("nv_peer_mem %s has no pinned checksum: set rdma_artifact_pins" % release)
    return {"url": source.url, "sha256": source.sha256, "directory": directory(release), "release": release}
