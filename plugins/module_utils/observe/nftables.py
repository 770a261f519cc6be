# SPDX-License-Identifier: GPL-3.0-or-later
"""``nft -j list ruleset`` as chains of plain rules: what each asks of a packet, and what it does with it. Pure.

Only what a packet to the node itself can meet: base chains of hook input and the chains that they lead to. A condition
that is not among those below is ``unknown`` and stays in its rule, so that nobody takes the rule for one that always fits.
Source of the form: libnftables-json(5).
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import json_value, list_or_empty, mapping, rows, whole

LIST = ("nft", "-j", "list", "ruleset")
FAMILIES = ("ip", "ip6", "inet")
COMMENT = "railwright"  # marks a rule as ours
MAX_RULES, MAX_VALUES = 2000, 1000
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_/.\\-]{0,127}\Z")  # a table's or a chain's name: it becomes part of a command
_PLAIN = {
    ("meta", "iifname"): "iif", ("meta", "iif"): "iif", ("meta", "l4proto"): "protocol", ("meta", "nfproto"): "family",
    ("meta", "pkttype"): "type", ("ct", "state"): "state", ("ct", "status"): "status",
    ("ip", "protocol"): "protocol", ("ip6", "nexthdr"): "protocol", ("ip", "saddr"): "saddr", ("ip6", "saddr"): "saddr",
    ("ip", "daddr"): "daddr", ("ip6", "daddr"): "daddr",
    ("th", "dport"): "dport", ("th", "sport"): "sport",
}
for _protocol in ("tcp", "udp"):
    _PLAIN[(_protocol, "dport")], _PLAIN[(_protocol, "sport")] = "dport", "sport"
# What a field of a header needs: no packet of TCP has an ICMP type, whichever is asked for.
_NEEDS = {"ip": ("family", "ipv4"), "ip6": ("family", "ipv6"), "tcp": ("protocol", "tcp"), "udp": ("protocol", "udp"),
          "icmp": ("protocol", "icmp"), "icmpv6": ("protocol", "ipv6-icmp"), "sctp": ("protocol", "sctp"), "dccp": ("protocol", "dccp")}
VERBS = ("accept", "drop", "reject", "jump", "goto", "return", "continue", "queue")
# They end no packet's way and ask nothing of it.
SILENT = ("counter", "log", "mangle", "notrack", "ct helper", "meta", "quota", "last", "set")
UNKNOWN: Dict[str, Any] = {"what": "unknown", "not": False, "in": []}
Condition = Dict[str, Any]
Rule = Dict[str, Any]


class Objects(NamedTuple):
    """The ruleset by kind; sets and maps by (family, table, name)."""

    chains: Tuple[Mapping[str, Any], ...]
    rules: Tuple[Mapping[str, Any], ...]
    sets: Dict[Tuple[str, str, str], List[Any]]


def chains_of(text: str) -> Optional[List[Dict[str, Any]]]:
    """The chains that a packet to this node can meet, base chains first and by priority; None when the text is none of nft's."""
    objects = _objects(text)
    if objects is None:
        return None
    found: Dict[Tuple[str, str, str], Dict[str, Any]] = {}
    bases: List[Tuple[int, Tuple[str, str, str]]] = []
    for item in objects.chains:
        key = (str(item.get("family")), str(item.get("table")), str(item.get("name")))
        if key[0] not in FAMILIES or not all(_WORD.match(word) for word in key[1:]):
            continue
        hook = item.get("hook") == "input" and item.get("type") == "filter"
        found[key] = {"owner": "", "family": key[0], "table": key[1], "chain": key[2], "hook": hook,
                      "policy": str(item.get("policy", "accept")) if hook else "", "rules": []}
        if hook:
            bases.append((whole(item.get("prio")) or 0, key))
    for item in objects.rules:
        key = (str(item.get("family")), str(item.get("table")), str(item.get("chain")))
        if key in found:
            found[key]["rules"] += _rules(item, objects)
    return [found[key] for key in _reachable([key for _priority, key in sorted(bases)], found)]


def _objects(text: str) -> Optional[Objects]:
    document = mapping(json_value(text))
    if "nftables" not in document:
        return None
    pairs = [next(iter(item.items()), ("", None)) for item in rows(document["nftables"])]
    known = [(kind, value) for kind, value in pairs if isinstance(value, dict)]
    sets = {(str(value.get("family")), str(value.get("table")), str(value.get("name"))): list_or_empty(value.get("elem"))
            for kind, value in known if kind in ("set", "map")}
    return Objects(tuple(value for kind, value in known if kind == "chain"), tuple(value for kind, value in known if kind == "rule"), sets)


def _reachable(bases: List[Tuple[str, str, str]], found: Dict[Tuple[str, str, str], Dict[str, Any]]) -> List[Tuple[str, str, str]]:
    """The base chains and all that they jump to; what is beyond the limit becomes one rule that nobody can judge."""
    order = list(bases)
    count = 0
    for key in order:
        rules = found[key]["rules"]
        count += len(rules)
        if count > MAX_RULES:
            found[key]["rules"] = rules[:MAX_RULES] + [
                {"if": [UNKNOWN], "then": ["drop", ""], "text": "rules beyond the first %d" % MAX_RULES, "ours": False, "handle": 0}]
        for rule in found[key]["rules"]:
            target = (key[0], key[1], rule["then"][1])
            if rule["then"][0] in ("jump", "goto") and target in found and target not in order and count <= MAX_RULES:
                order.append(target)
    return order


def _rules(item: Mapping[str, Any], objects: Objects) -> List[Rule]:
    """One rule; a verdict map is as many as it has entries."""
    place = (str(item.get("family")), str(item.get("table")))
    conditions: List[Condition] = []
    cases: List[Tuple[List[Condition], List[str]]] = []
    for expression in list_or_empty(item.get("expr")):
        kind, value = next(iter(expression.items())) if isinstance(expression, dict) and expression else ("", None)
        if kind == "match" and isinstance(value, dict):
            conditions += _match(value, place, objects)
        elif kind in VERBS:
            target = str(value.get("target", "")) if kind in ("jump", "goto") and isinstance(value, dict) else ""
            cases.append(([], [kind, target]))
        elif kind == "vmap" and isinstance(value, dict):
            cases += _vmap(value, place, objects)
        elif kind not in SILENT:
            conditions.append(UNKNOWN)  # limit, xt, fib …: it may let the rule fit or not
    handle = item.get("handle")
    head = "%s %s %s, handle %s" % (place + (item.get("chain"), handle))
    ours = item.get("comment") == COMMENT
    return [{"if": conditions + more, "then": then, "text": "%s: %s" % (head, " ".join(then).strip()), "ours": ours,
             "handle": handle if isinstance(handle, int) else 0} for more, then in cases]


def _match(value: Mapping[str, Any], place: Tuple[str, str], objects: Objects) -> List[Condition]:
    conditions = _left(value.get("left"))
    if not conditions or value.get("op") not in ("==", "in", "!="):
        return [UNKNOWN]
    values = _values(value.get("right"), place, objects)
    if values is None:
        return conditions[:-1] + [UNKNOWN]
    conditions[-1] = dict(conditions[-1], **{"not": value.get("op") == "!=", "in": values})
    return conditions


def _left(left: Any) -> List[Condition]:
    """What is asked: first what the question itself needs (a TCP port needs TCP), last the thing without its values."""
    if not isinstance(left, dict):
        return []
    for kind in ("meta", "ct"):
        inner = left.get(kind)
        if isinstance(inner, dict) and (kind, str(inner.get("key"))) in _PLAIN:
            return [_condition(_PLAIN[(kind, str(inner["key"]))])]
    inner = left.get("fib")
    if isinstance(inner, dict) and inner.get("result") == "type" and inner.get("flags") in ("daddr", ["daddr"]):
        return [_condition("type")]
    inner = left.get("payload")
    if not isinstance(inner, dict):
        return []
    protocol, field = str(inner.get("protocol")), str(inner.get("field"))
    needs = [_condition(*_NEEDS[protocol])] if protocol in _NEEDS else []
    return needs + [_condition(_PLAIN.get((protocol, field), "unknown"))]


def _condition(what: str, *values: str) -> Condition:
    return {"what": what, "not": False, "in": list(values)}


def _values(right: Any, place: Tuple[str, str], objects: Objects) -> Optional[List[str]]:
    """Every value as text; None when one of them is of a kind that we do not know."""
    if isinstance(right, str) and right.startswith("@"):
        right = objects.sets.get(place + (right[1:],))
        if right is None:
            return None
    if isinstance(right, dict) and "set" in right:
        right = right["set"]
    items = right if isinstance(right, list) else [right]
    found = [_value(item) for item in items]
    return None if None in found or len(found) > MAX_VALUES else [item for item in found if item is not None]


def _value(item: Any) -> Optional[str]:
    if isinstance(item, bool) or item is None:
        return None
    if isinstance(item, (str, int)):
        return sysfs_values.token(str(item))
    if not isinstance(item, dict):
        return None
    if "elem" in item and isinstance(item["elem"], dict):
        return _value(item["elem"].get("val"))
    prefix, between = item.get("prefix"), item.get("range")
    if isinstance(prefix, dict):
        return sysfs_values.token("%s/%s" % (prefix.get("addr"), prefix.get("len")))
    if isinstance(between, list) and len(between) == 2:
        return sysfs_values.token("%s-%s" % tuple(between))
    return None


def _vmap(value: Mapping[str, Any], place: Tuple[str, str], objects: Objects) -> List[Tuple[List[Condition], List[str]]]:
    """Keys of a map exclude each other, so that one rule after the other says the same."""
    conditions = _left(value.get("key"))
    data = value.get("data")
    if isinstance(data, str) and data.startswith("@"):
        data = objects.sets.get(place + (data[1:],))
    elements = data.get("set") if isinstance(data, dict) else data
    cases: List[Tuple[List[Condition], List[str]]] = []
    for element in elements if isinstance(elements, list) else [None]:
        key, then = element if isinstance(element, list) and len(element) == 2 else (None, None)
        verb, target = next(iter(then.items())) if isinstance(then, dict) and then else ("queue", None)
        found = _values(key, place, objects) if conditions else None
        asked = [UNKNOWN] if found is None else conditions[:-1] + [dict(conditions[-1], **{"in": found})]
        if key == "*":
            asked = [UNKNOWN]  # what no other key fits
        cases.append((asked, [verb, str(target.get("target", "")) if isinstance(target, dict) else ""]))
    return cases
