# SPDX-License-Identifier: GPL-3.0-or-later
"""``iptables -S`` as chains of plain rules, in the form of ``nftables.py``. Pure.

For ufw, for firewalld with its old backend, and for sites that write iptables rules themselves. A match that is not among
those below is ``unknown`` and stays in its rule.
"""

import re
import shlex
from typing import Any, Dict, List

from .nftables import MAX_RULES, UNKNOWN, Condition, Rule

FAMILIES = (("iptables", "ip"), ("ip6tables", "ip6"))
_CHAIN = re.compile(r"[A-Za-z0-9_.:-]{1,63}\Z")
_TARGETS = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "reject", "RETURN": "return"}
_SILENT = ("LOG", "NFLOG", "MARK", "CONNMARK", "TRACE", "AUDIT")
_KNOWN = {"-s": "saddr", "-d": "daddr", "-i": "iif", "-p": "protocol", "--dport": "dport", "--dports": "dport", "--sport": "sport",
          "--sports": "sport", "--ctstate": "state", "--state": "state", "--dst-type": "type", "--pkt-type": "type"}
_ALONE = ("-m",)  # names the extension of the options that follow
_EMPTY = ("--comment",)  # says nothing about a packet


def chains_of(text: str, family: str) -> List[Dict[str, Any]]:
    """The chains of table filter, INPUT first."""
    found: Dict[str, Dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines()):
        words = _words(line)
        if len(words) >= 2 and words[0] in ("-P", "-N", "-A") and _CHAIN.match(words[1]):
            name = words[1]
            policy = words[2].lower() if words[0] == "-P" and len(words) > 2 and name == "INPUT" else ""
            chain = found.setdefault(name, {"owner": "", "family": family, "table": "filter", "chain": name, "hook": name == "INPUT",
                                            "policy": policy, "rules": []})
            if words[0] == "-A" and number < MAX_RULES:
                chain["rules"].append(_rule(words[2:], line, found))
    order = ["INPUT"] if "INPUT" in found else []
    at = 0
    while at < len(order):
        for rule in found[order[at]]["rules"]:
            if rule["then"][1] in found and rule["then"][1] not in order:
                order.append(rule["then"][1])
        at += 1
    return [found[name] for name in order]


def _words(line: str) -> List[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _rule(words: List[str], line: str, chains: Dict[str, Dict[str, Any]]) -> Rule:
    conditions: List[Condition] = []
    then = ["continue", ""]
    negated = False
    at = 0
    while at < len(words):
        word = words[at]
        value = words[at + 1] if at + 1 < len(words) else ""
        if word == "!":
            negated = True
            at += 1
            continue
        if word in ("-j", "-g"):
            then = _then(value, chains, goto=word == "-g")
            at = len(words)  # what follows are the target's own options
        elif word in _KNOWN:
            conditions.append(_condition(_KNOWN[word], value, negated=negated))
            at += 2
        elif word in _ALONE or word in _EMPTY:
            at += 2
        else:
            conditions.append(UNKNOWN)
            at += 1
        negated = False
    text = " ".join(line.split())
    return {"if": conditions, "then": then, "text": text if len(text) < 200 else text[:197] + "...", "ours": False, "handle": 0}


def _then(target: str, chains: Dict[str, Dict[str, Any]], *, goto: bool) -> List[str]:
    """Chains are named before the first rule, so a target that is no chain is the kernel's or an extension's."""
    if target in chains:
        return ["goto" if goto else "jump", target]
    if target in _SILENT:
        return ["continue", ""]
    return [_TARGETS.get(target, "queue"), ""]


def _condition(what: str, value: str, *, negated: bool) -> Condition:
    values = value.split(",")
    if what in ("dport", "sport"):
        values = [item.replace(":", "-") for item in value.split(",")]
    elif what in ("state", "type"):
        values = [item.lower() for item in value.split(",")]
    elif what == "iif":
        values = [value[:-1] + "*"] if value.endswith("+") else [value]
    return {"what": what, "not": negated, "in": values}
