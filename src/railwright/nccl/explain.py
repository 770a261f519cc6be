# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL's names mean, for people: a variable, a profile of the catalogue, and what comes of it on a host without asking the host."""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.rules.nccl_gids import finds_it
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import (
    DEFAULT_NCCL,
    GID_INDEX,
    HCA,
    SOCKET,
    NcclProfile,
    origins,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import (
    NEVER_IN_NCCL,
    PLUGIN_VARIABLES,
    REMOVED,
    VARIABLES,
    VERSION,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nccl_overrides import meant, owner_of


def explanation(name: str) -> dict[str, Any]:
    """``{"variable", "known", "meaning", …}``; ``known`` is True only for what NCCL or a plugin in its source tree reads."""
    row = VARIABLES.get(name) or PLUGIN_VARIABLES.get(name)
    if row is not None:
        reader = f"NCCL {VERSION}" if name in VARIABLES else "a plugin in NCCL's source tree"
        found: dict[str, Any] = {
            "variable": name, "known": True, "meaning": row.meaning, "type": row.type, "default": row.default,
            "values": list(row.values), "since": row.since or None, "read by": reader}
        if row.deprecated is not None:
            found["deprecated"] = f"use {row.deprecated}" if row.deprecated else "leave it out"
        return found
    found = {"variable": name, "known": False}
    if name in REMOVED:
        gone = REMOVED[name]
        return {**found, "meaning": f"removed from NCCL; it existed in {gone.existed}", "use instead": gone.replacement}
    if name in NEVER_IN_NCCL:
        return {**found, "meaning": "has never been a variable of NCCL", "use instead": NEVER_IN_NCCL[name]}
    if (owner := owner_of(name)) is not None:
        return {**found, "meaning": f"is not read by NCCL but by {owner.owner}", "use instead": owner.use_instead}
    return {**found, "meaning": f"is no variable of NCCL {VERSION}", "nearest": meant(name)}


ON_THE_NODE = "the catalogue's rule; the node decides"
OLDER = "where an NCCL before 2.21 is in use, the index that all HCAs of the node share (nccl_gid_index: auto)"


def profile_document(row: NcclProfile) -> dict[str, Any]:
    """All that the catalogue knows of a profile."""
    first, last = row.nccl
    return {
        "name": row.name,
        "description": row.why,
        "source": row.source,
        "fabrics": list(row.fabrics),
        "default_for": [fabric for fabric, name in DEFAULT_NCCL.items() if name == row.name],
        "variables": [{"name": item.name, "value": item.value, "why": item.why, "source": item.source, "file": item.file or None}
                      for item in row.variables],
        "address_range": row.address_range,
        "node_adds": list(row.node),
        "shapes": [{"shape": shape, "hcas": list(devices)} for shape, devices in row.hcas],
        "corrected": [dict(item._asdict()) for item in row.corrected],
        "needs": {"nccl": {"first": first, "last": last}, "qos_profile": row.qos, "transport": row.transport or None,
                  "other": list(row.needs)},
        "excludes": [{**item._asdict(), "values": list(item.values)} for item in row.excludes],
    }


def of_host(spec: Spec) -> dict[str, Any]:
    """What a host's file will hold and whose each value is. ``value`` None: the node finds it, or (``origin`` override) it is left out."""
    rows = [dict(item._asdict()) for item in origins(spec)] + _of_node(spec)
    derived = spec["nccl_derived"]
    if derived["gid"] == "auto" and not (derived["nccl"] is not None and finds_it(derived["nccl"])):
        _say_index(rows)
    rows.sort(key=lambda row: str(row["name"]))
    return {"profile": spec["nccl_profile"], "path": spec["nccl_conf_path"], "variables": rows}


def _of_node(spec: Spec) -> list[dict[str, Any]]:
    """What goes in beside the inventory's own, as far as it is known without the node."""
    derived, rows = spec["nccl_derived"], []
    if HCA in derived["adds"]:
        rows += _hcas(spec, derived)
    if SOCKET in derived["adds"]:
        named = spec["bootstrap_interface"]
        if named is not None:
            rows.append(_row(SOCKET, f"={named}", "inventory", "rdma_bootstrap_interface"))
        else:
            rows.append(_row(SOCKET, None, "node", "the interface of the default route, or of the controller's connection"))
    return rows


def _say_index(rows: list[dict[str, Any]]) -> None:
    """The index that the node may have to write, in place of the profile's -1 where there is one."""
    own = [row for row in rows if row["name"] == GID_INDEX]
    for row in own:
        row["why"] += f" {OLDER[0].upper()}{OLDER[1:]}."
    if not own:
        rows.append(_row(GID_INDEX, None, "node", f"left out; {OLDER}"))


def _hcas(spec: Spec, derived: dict[str, Any]) -> list[dict[str, Any]]:
    if spec.rails and spec.rdma_stack == "soft_roce":
        links = "=" + ",".join(f"rxe{rail.index}:1" for rail in spec.rails)
        return [_row(HCA, links, "inventory", "the links that rdma_stack: soft_roce makes on the rails")]
    if spec.rails:
        return [_row(HCA, None, "node", f"exactly the ports of {', '.join(rail.name for rail in spec.rails)}, found by their match")]
    return [_row(HCA, "=" + ",".join(devices), "profile", f"the list of {shape}, since the host has no rails")
            for shape, devices in derived["hcas"][:1]]


def _row(name: str, value: str | None, origin: str, why: str) -> dict[str, Any]:
    source = {"node": ON_THE_NODE, "profile": "the profile's shapes"}.get(origin, "the inventory")
    return {"name": name, "value": value, "origin": origin, "why": why, "source": source}
