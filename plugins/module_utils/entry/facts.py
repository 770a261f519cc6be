# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_facts module."""

import re
from typing import Any, Dict

from ..errors import RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.facts import observe_facts
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address
from ..observe.ranks import Wanted, observe_ranks
from ..scheduler import kubernetes, slurm

# A job as its scheduler names it: no option, no list, nothing that a label selector or squeue would take for more.
JOBS = {"slurm": re.compile(r"[0-9]{1,10}(_[0-9]{1,10})?"),
        "kubernetes": re.compile(r"([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9.-]{0,252}")}
POD = re.compile(r"[0-9a-f-]{8,64}")
LONGEST = 600  # seconds


def answer(live: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """The facts under their own name; the action plugin makes them a host fact too. Ranks are read of the live node: nothing is kept."""
    mode = params.get("mode")
    if mode == "job":
        kind, job = params["scheduler"], params["job"] or ""
        if kind not in JOBS or JOBS[kind].fullmatch(job) is None:
            raise RailwrightError("job: %r; allowed: the id of a job of Slurm, or [NAMESPACE/]NAME of one of Kubernetes" % job[:100])
        return {"job": slurm.inspect_job(live, job) if kind == "slurm" else kubernetes.inspect_job(live, job)}
    if mode == "nodes":
        return {"job": {"nodes": slurm.selected_nodes(live, params["select"] or "")}}
    if mode == "ranks":
        pods = [pod for pod in params["pods"] if POD.fullmatch(pod)]
        wanted = Wanted(params["job"], params["uid"], pods, params["process"])
        if not (wanted.job or wanted.pods or wanted.process) or not 1 <= params["seconds"] <= LONGEST:
            raise RailwrightError("ranks: needs a job, pods or process, and seconds of 1 to %d" % LONGEST)
        return {"ranks": observe_ranks(live, wanted, params["seconds"])}
    host = InspectedHost(live)
    return {"rdma": observe_facts(host, observe_identity(host, ancestors_connection_address(host)))}
