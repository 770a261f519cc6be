# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdict nccl.gid: which GID NCCL takes on each HCA, with the settings that are on the node and every NCCL that a job can load. Pure.

The file decides, not the inventory: whether they agree is ``config.nccl``. A wrong GID is a job that hangs in its first
connection, or RoCE v1 that no router carries, without a word about it.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...rules.nccl_gids import FINDS_IT_TEXT, GID_INDEX, GidPort, automatic, described, finds_it, judge_index, right_indexes, selected
from ...rules.path_mtu import as_int, port_facts
from ...spec.model import Spec
from ...types import Verdict

CHECK = "nccl.gid"
CONF = "/etc/nccl.conf"  # what facts read
HCA = "NCCL_IB_HCA"


def judge_nccl_gid(seen: Inspection) -> List[Verdict]:
    """One verdict for each HCA that NCCL is told to use, or one for the node where there is nothing to judge."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    if spec.fabric == "infiniband":  # NCCL returns before it reads an index there
        return []
    reason = nothing_to_judge(spec)
    found = [target for target in seen.targets if target.hca is not None]
    rails = {(target.hca.name, target.port or 1): target for target in found if target.hca is not None}
    variables = settings(spec, facts)
    addresses = {key: target.rail.address for key, target in rails.items()}
    ports = [port for port in selected(variables.get(HCA, ""), seen.identity, addresses)
             if not spec.rails or (port.hca, port.port) in rails]
    if reason is not None:
        return [verdict(CHECK, Where(node, None, None, GID_INDEX), "skipped", None, variables.get(GID_INDEX), reason)]
    labels = {key: target.label for key, target in rails.items()}
    verdicts = [_judge_port(Where(node, port.hca, port.port, labels.get((port.hca, port.port), port.label)), port, spec, variables, facts)
                for port in ports]
    return [item for item in verdicts if item is not None]


def nothing_to_judge(spec: Spec) -> Optional[str]:
    transport = spec["nccl_derived"]["transport"]
    if transport:
        return "%s is the transport, and finds GIDs by itself" % transport
    overrides = spec["nccl_overrides"]
    if GID_INDEX in overrides and overrides[GID_INDEX] is None:
        return "nccl_overrides leaves %s to the jobs" % GID_INDEX
    return None


def settings(spec: Spec, facts: Mapping[str, Any]) -> Dict[str, str]:
    """What NCCL reads on the node; where its file is not the one that facts know, what the inventory wants in it."""
    if spec["nccl_conf_path"] != CONF:
        return dict(spec["nccl_derived"]["variables"])
    conf = (facts.get("nccl") or {}).get("conf") or {}
    return dict(conf.get("variables") or {})


def _judge_port(where: Where, port: GidPort, spec: Spec, variables: Mapping[str, str], facts: Mapping[str, Any]) -> Optional[Verdict]:
    """None where no GID is right, or none can be read: rail.gid says that, and once is enough."""
    expected = "RoCE v2 GID with %s" % (port.address.partition("/")[0] if port.address is not None else "an address")
    gids = (port_facts(facts, port.hca, port.port) or {}).get("gids")
    number = as_int(variables.get(GID_INDEX))
    if number is not None and number >= 0:
        if gids is None:
            return unreadable(CHECK, where, expected, "the GID table")
        status, text = judge_index(number, gids, port)
        return verdict(CHECK, where, status, expected, "index %d" % number, "%s=%s: %s" % (GID_INDEX, variables[GID_INDEX], text))
    table = gids or []
    right = right_indexes(table, port.address)
    if port.address is None or not right:
        return None
    chosen = automatic(table, variables)
    found = None if chosen is None else "index %d" % chosen
    if chosen is None or chosen not in right:
        return verdict(CHECK, where, "fail", expected, found, _wrong_choice(chosen, right, table, port))
    older = _older(spec, table, port, number, facts)
    if older is not None:
        return verdict(CHECK, where, older[0], expected, found, older[1])
    return verdict(CHECK, where, "pass", expected, found, "NCCL %s and later take index %d by themselves: it %s" % (
        FINDS_IT_TEXT, chosen, described(table, chosen)))


def _wrong_choice(chosen: Optional[int], right: List[int], gids: List[Dict[str, Any]], port: GidPort) -> str:
    what = "index %d of %s, which %s" % (chosen, port.label, described(gids, chosen)) if chosen is not None else "none of %s" % port.label
    return "NCCL takes %s; the right one is index %d: set NCCL_IB_ADDR_RANGE to the rail's subnet, or nccl_gid_index" % (what, right[0])


def _older(
    spec: Spec, gids: List[Dict[str, Any]], port: GidPort, number: Optional[int], facts: Mapping[str, Any]
) -> Optional[Tuple[str, str]]:
    """An NCCL on the node that cannot find the GID: what it takes instead. A leftover beside the inventory's own NCCL is only warned of."""
    rows = [row for row in facts.get("nccl_libraries") or [] if row.get("version") and not finds_it(row["version"])]
    if not rows or (number is None and judge_index(0, gids, port)[0] == "pass"):
        return None
    wanted = spec["nccl_derived"]["nccl"]
    takes = "takes -1 for an index, which none is" if number is not None else "takes index 0, which %s" % described(gids, 0)
    text = "NCCL %s (%s) finds no GID by itself: it %s on %s; NCCL %s and later does" % (
        rows[0]["version"], rows[0]["path"], takes, port.label, FINDS_IT_TEXT)
    return "warn" if wanted is not None and finds_it(wanted) else "fail", text
