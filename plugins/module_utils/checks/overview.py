# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as it is seen, a line each: label -> text, in the order of reading. Pure; of facts of which any part may be missing."""

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from ..formats.outside import mapping, rows
from ..formats.text import first_of, grouped
from ..rules.comparisons import number_text
from .health_accelerators import accelerators_of, described
from .peers import FAMILIES, roce_families
from .rails import FAR, MANAGEMENT, roles_of

LABELS = ("node", "HCAs", "ports", "GIDs", "GPUs", "PCIe", "stack", "NCCL", "rights")
UNPRIVILEGED = "not root: what cannot be read may be readable with sudo"
SHOWN = 6  # names in a line


def overview(
    facts: Mapping[str, Any], summary: Mapping[str, str], jobs: Iterable[Tuple[str, Mapping[str, str]]], root: bool
) -> Dict[str, str]:
    """``summary``: observe.facts.stack_summary. ``jobs``: NCCL's variables as each way of starting a job gets them, by what it is."""
    hcas, gpus, others = rows(facts.get("hcas")), rows(facts.get("gpus")), accelerators_of(facts)
    numa = mapping(facts.get("pci")).get("numa_nodes")
    system = [mapping(facts.get("os")).get("name"), "kernel %s" % summary.get("kernel"), facts.get("arch"), facts.get("virtual"),
              "%s NUMA node%s" % (numa, "" if numa == 1 else "s") if numa else None]
    lines = {
        "node": ", ".join(str(part) for part in system if part),
        "HCAs": _hcas(hcas),
        "ports": _ports(hcas) + _no_rails(facts),
        "GIDs": _gids(hcas),
        "GPUs": "; ".join(filter(None, (_gpus(gpus, summary), _not_judged(others)))),
        "PCIe": "; ".join(filter(None, (_links("HCAs", hcas), _links("GPUs", gpus), _links("accelerators", others)))),
        "stack": "%s; DKMS: %s" % (summary.get("stack"), summary.get("DKMS")) if hcas else "",
        "NCCL": _nccl(facts, jobs),
    }
    found = {label: text for label, text in lines.items() if text}
    return found if root else dict(found, rights=UNPRIVILEGED)


def counted(words: Iterable[str]) -> str:
    """``7 ACTIVE 400 Gb/s, 1 DOWN``: the most frequent first."""
    return ", ".join("%d %s" % (many, word) for word, many in Counter(words).most_common(SHOWN))


def _hcas(hcas: List[Dict[str, Any]]) -> str:
    if not hcas:
        return "no RDMA device"
    words = [" ".join(str(part) for part in (hca.get("hca_type"), "firmware %s" % hca["fw_ver"] if hca.get("fw_ver") else None,
                                             "(%s)" % hca["driver"] if hca.get("driver") else None) if part) or "unknown" for hca in hcas]
    nodes = Counter("NUMA %s" % hca["numa_node"] for hca in hcas if isinstance(hca.get("numa_node"), int) and hca["numa_node"] >= 0)
    return counted(words) + ("; " + ", ".join("%d on %s" % (nodes[name], name) for name in sorted(nodes)) if len(nodes) > 1 else "")


def _ports(hcas: List[Dict[str, Any]]) -> str:
    words, down = [], []
    for hca in hcas:
        for port in rows(hca.get("ports")):
            rate, active = port.get("rate_gbps"), port.get("state") == "ACTIVE"
            speed = "%s Gb/s" % number_text(float(rate)) if active and isinstance(rate, (int, float)) else None
            mtu = "MTU %s" % port["active_mtu"] if active and port.get("active_mtu") else None
            parts = [port.get("state") or "unknown", speed, port.get("link_layer"), mtu]
            words.append(" ".join(str(part) for part in parts if part))
            if not active:
                down.append("%s/%s" % (hca.get("name"), port.get("number")))
    return counted(words) + (" (%s)" % first_of(down, 3) if down else "")


def _no_rails(facts: Mapping[str, Any]) -> str:
    """The ports with a link that are no rails, by what they are."""
    roles = roles_of(facts)
    named = [(role, ["%s/%s" % place for place, own in roles.items() if own == role]) for role in (MANAGEMENT, FAR)]
    return "".join("; %s: %s" % (role, first_of(names, 4)) for role, names in named if names)


def _gids(hcas: List[Dict[str, Any]]) -> str:
    """Of RoCE: at which index the first GID of version 2 with an IP address is, which is what NCCL_IB_GID_INDEX names; IPv4 before IPv6."""
    ports = [("%s/%s" % (hca.get("name"), port.get("number")), roce_families(port)) for hca in hcas for port in rows(hca.get("ports"))
             if port.get("link_layer") == "Ethernet" and port.get("state") == "ACTIVE"]
    first = {name: next(((family, str(found[family])) for family in FAMILIES if family in found), None)
             for name, found in ports if found is not None}
    parts = []
    for family in FAMILIES:
        indexes = Counter(entry[1] for entry in first.values() if entry is not None and entry[0] == family)
        if indexes:
            parts.append("RoCE v2 with an %s address: %s" % (
                family, ", ".join("index %s on %d" % (index, many) for index, many in sorted(indexes.items()))))
    without = [name for name, entry in first.items() if entry is None]
    unread = [name for name, found in ports if found is None]
    return "; ".join(parts + (["none on %s" % first_of(without, 4)] if without else [])
                     + (["unreadable on %s" % first_of(unread, 4)] if unread else []))


def _gpus(gpus: List[Dict[str, Any]], summary: Mapping[str, str]) -> str:
    if not gpus:
        return ""
    names = counted(str(gpu.get("name") or gpu.get("device_id") or "unknown") for gpu in gpus)
    return "%s; driver %s; peer memory %s" % (names, str(summary.get("GPU driver")).partition(",")[0], summary.get("peer memory"))


def _not_judged(accelerators: List[Dict[str, Any]]) -> str:
    """``8 AMD MI300X (amdgpu 6.10.5): not judged``: each model that no check of GPUs covers."""
    models = grouped((str(item.get("model")), item) for item in accelerators)
    return "; ".join("%s: not judged" % described(model, peers) for model, peers in models.items())


def _links(what: str, devices: List[Dict[str, Any]]) -> str:
    """The slowest link on the way to each, as it runs now."""
    links = [[(link["speed_gts"], link["width"]) for link in rows(mapping(device.get("link")).get("links"))
              if isinstance(link.get("speed_gts"), (int, float)) and isinstance(link.get("width"), int)] for device in devices]
    slowest = [min(own, key=lambda link: link[0] * link[1]) for own in links if own]
    words = ["%s GT/s x%d" % (number_text(float(speed)), width) for speed, width in slowest]
    return "%s %s" % (what, counted(words)) if words else ""


def _nccl(facts: Mapping[str, Any], jobs: Iterable[Tuple[str, Mapping[str, str]]]) -> str:
    """The library, and the variables as jobs get them: those of all ways alike once, of the others each."""
    library = mapping(mapping(facts.get("nccl")).get("library"))
    ways = grouped((" ".join("%s=%s" % item for item in sorted(variables.items())) or "nothing set", way) for way, variables in jobs)
    parts = ["%s" % (library.get("version") or library.get("path"))] if library else ["no system library"]
    if len(ways) == 1:
        return "; ".join(parts + list(ways))
    return "; ".join(parts + ["%s: %s" % (" and ".join(names), text) for text, names in ways.items()])
