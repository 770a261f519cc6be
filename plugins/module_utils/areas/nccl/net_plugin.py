# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the network plugin that a cloud's NCCL profile relies on is on the node.

Nothing here installs it. Without it NCCL passes over to TCP sockets without an error, at a tenth of the speed. Jobs in containers bring
NCCL and plugin of their own, so a node without an NCCL is not judged, and a missing plugin is no failure.
"""

from typing import List

from ...catalogue.net_plugins import NET_PLUGINS
from ...rules.comparisons import Inspection, VerdictSubject, decided
from ...types import Verdict

CHECK = "nccl.plugin"


def judge_net_plugin(seen: Inspection) -> List[Verdict]:
    transport = seen.spec["nccl_derived"]["transport"]
    row = next((row for row in NET_PLUGINS if row.transport == transport), None)
    if row is None:
        return []
    nccl = seen.facts.get("nccl") or {}
    found, others = nccl.get("cloud_plugins"), nccl.get("plugins") or []
    paths = [path for path in row.paths if path in (found or [])]
    profile = "rdma_nccl_profile: %s" % seen.spec["nccl_profile"]
    return [decided(
        CHECK, VerdictSubject(seen.node, None, None, transport),
        (paths, "pass", transport, paths[0] if paths else None, "%s is on the node" % transport),
        (not seen.facts.get("nccl_libraries"), "skipped", transport, None,
         "no NCCL is on this node: jobs in containers bring theirs, and %s" % transport),
        (found is None, "unknown", transport, None, "where %s could be was not read on this node" % transport),
        (others, "unknown", transport, others[0] if others else None,
         "%s is another place than those of %s, and nothing says which plugin it is" % (others[0] if others else "", transport)),
        (True, "warn", transport, None,
         "%s (%s) is in none of %s: jobs of the node's own NCCL use TCP sockets. Install it, or run jobs in an image that has it" % (
             transport, profile, ", ".join(sorted({path.rpartition("/")[0] for path in row.paths})))))]
