# SPDX-License-Identifier: GPL-3.0-or-later
"""Which firewall runs, whose the input chains are, and what they ask: the ``firewall`` part of the facts object.

Several may run at once: every base chain of the kernel is met by every packet. A chain belongs to the front end whose
table or whose chains' names it has, else to whoever wrote it for nftables or iptables. Reading the rules needs root.
``iptables -S`` becomes chains of plain rules in the form of ``nftables.py``: for ufw, for firewalld with its old backend, and for
sites that write iptables rules themselves. A match that is not among those below is ``unknown`` and stays in its rule.
"""

import re
from typing import Any, Dict, List, Optional

from ..formats.outside import lines_in
from ..formats.text import shell_words
from ..host.host import Host
from . import nftables
from .nftables import MAX_RULES, UNKNOWN, Condition, Rule

TOOLS = (("iptables", "ip"), ("ip6tables", "ip6"))
_CHAIN = re.compile(r"[A-Za-z0-9_.:-]{1,63}\Z")
_TARGETS = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "reject", "RETURN": "return"}
_SILENT = ("LOG", "NFLOG", "MARK", "CONNMARK", "TRACE", "AUDIT")
_KNOWN = {"-s": "saddr", "-d": "daddr", "-i": "iif", "-p": "protocol", "--dport": "dport", "--dports": "dport", "--sport": "sport",
          "--sports": "sport", "--ctstate": "state", "--state": "state", "--dst-type": "type", "--pkt-type": "type"}
_SAYS_NOTHING = ("-m", "--comment")  # of a packet: the extension of the options that follow, and words for people


def iptables_chains(text: str, family: str) -> List[Dict[str, Any]]:
    """The chains of table filter, INPUT first."""
    found: Dict[str, Dict[str, Any]] = {}
    for number, line in enumerate(lines_in(text)):
        words = shell_words(line)
        if len(words) >= 2 and words[0] in ("-P", "-N", "-A") and _CHAIN.match(words[1]):
            name = words[1]
            policy = words[2].lower() if words[0] == "-P" and len(words) > 2 and name == "INPUT" else ""
            chain = found.setdefault(name, {"owner": "", "family": family, "table": "filter", "chain": name, "hook": name == "INPUT",
                                            "policy": policy, "rules": []})
            if words[0] == "-A" and number < MAX_RULES:
                chain["rules"].append(_rule(words[2:], line, found))
    order = ["INPUT"] if "INPUT" in found else []
    for name in order:  # grows meanwhile
        order += [target for target in dict.fromkeys(rule["then"][1] for rule in found[name]["rules"])
                  if target in found and target not in order]
    return [found[name] for name in order]


def _rule(words: List[str], line: str, chains: Dict[str, Dict[str, Any]]) -> Rule:
    conditions: List[Condition] = []
    then = ["continue", ""]
    negated = False
    rest = iter(words)
    for word in rest:
        if word in ("-j", "-g"):
            then = _then(next(rest, ""), chains, goto=word == "-g")
            break  # what follows are the target's own options
        if word in _KNOWN:
            conditions.append(_condition(_KNOWN[word], next(rest, ""), negated=negated))
        elif word in _SAYS_NOTHING:
            next(rest, "")
        elif word != "!":
            conditions.append(UNKNOWN)
        negated = word == "!"
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
    if what in ("dport", "sport"):
        value = value.replace(":", "-")
    elif what in ("state", "type"):
        value = value.lower()
    elif what == "iif" and value.endswith("+"):
        value = value[:-1] + "*"
    return {"what": what, "not": negated, "in": [value] if what == "iif" else value.split(",")}


OWNERS = ("firewalld", "ufw", "nftables", "iptables")
TABLE = "firewalld"  # firewalld's own table in nftables
SECONDS = 20.0
UFW_CONF = "/etc/ufw/ufw.conf"
NFTABLES_CONF = ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")
LEGACY = {"ip": "/proc/net/ip_tables_names", "ip6": "/proc/net/ip6_tables_names"}


def observe_firewall(host: Host) -> Dict[str, Any]:
    """``chains`` is None where they cannot be read, and ``missing`` says why."""
    runs = []
    if host.which("firewall-cmd") is not None and host.run(("firewall-cmd", "--state"), SECONDS).out.strip() == "running":
        runs.append("firewalld")
    # Enabled in its file and live: ``ufw disable`` changes both, a stopped service only the rules.
    enabled = host.which("ufw") is not None and any(line.strip() == "ENABLED=yes" for line in lines_in(host.read(UFW_CONF) or ""))
    if enabled and host.run(("ufw", "status"), SECONDS).out.startswith("Status: active"):
        runs.append("ufw")
    chains, missing = _chains(host)
    if chains is None:
        return {"runs": runs, "chains": None, "missing": missing}
    for chain in chains:
        chain["owner"] = _owner(chain, chains, runs)
    runs += [name for name in OWNERS if name not in runs and any(chain["owner"] == name and chain["hook"] for chain in chains)]
    return {"runs": runs, "chains": chains, "missing": None}


def _chains(host: Host) -> Any:
    """(chains, None) or (None, why not)."""
    found: List[Dict[str, Any]] = []
    if host.which("nft") is not None:
        answer = host.run(nftables.LIST, SECONDS)
        native = nftables.chains_of(answer.out) if answer.ok else None
        if native is None:
            return None, "nft -j list ruleset: %s" % ((lines_in(answer.err.strip()) or ["no answer"])[0][:200])
        found = native
    elif not host.live and not any(host.which(tool) for tool, _family in TOOLS):
        return None, "no rules were captured"
    elif host.exists("/sys/module/nf_tables") and host.which("iptables") is None:
        return None, "the kernel has nf_tables, and there is no nft to read its rules"
    written = _written_tables(host)
    for tool, family in TOOLS:
        translated = any(chain["family"] == family and chain["table"] == "filter" and chain["chain"] == "INPUT" for chain in found)
        if (family in written and translated) or not _has_iptables(host, tool, family, translated):
            continue
        answer = host.run((tool, "-S"), SECONDS)
        if not answer.ok:
            return None, "%s -S: %s" % (tool, (lines_in(answer.err.strip()) or ["no answer"])[0][:200])
        # What iptables made in nftables has matches that nft cannot show: iptables' own words are the better ones.
        found = [chain for chain in found if (chain["family"], chain["table"]) != (family, "filter")]
        found += [dict(chain, tool=tool) for chain in iptables_chains(answer.out, family)]
    return found, None


def _has_iptables(host: Host, tool: str, family: str, translated: bool) -> bool:
    """Asking a legacy iptables loads its modules, so it is asked only where they are in use already."""
    if host.which(tool) is None:
        return False
    if translated or "filter" in (host.read(LEGACY[family]) or "").split():
        return True
    return host.which("nft") is None and host.exists("/sys/module/nf_tables")


def _written_tables(host: Host) -> List[str]:
    """Families whose table ``filter`` the site's own nftables file makes: then it is not iptables', whatever its chains are called."""
    files = [(host.read(path) or "").split() for path in NFTABLES_CONF]
    return [family for words in files for table, family, name in zip(words, words[1:], words[2:]) if (table, name) == ("table", "filter")]


def _owner(chain: Dict[str, Any], chains: List[Dict[str, Any]], runs: List[str]) -> str:
    if chain["table"] == TABLE:
        return "firewalld"
    if chain.pop("tool", None) is None:
        return "nftables"
    names = [other["chain"] for other in chains if (other["family"], other["table"]) == (chain["family"], chain["table"])]
    if "ufw" in runs and any(name.startswith(("ufw-", "ufw6-")) for name in names):
        return "ufw"
    if "firewalld" in runs and "INPUT_ZONES" in names:
        return "firewalld"
    return "iptables"


def chains_owned(facts: Dict[str, Any], owner: str) -> Optional[List[Dict[str, Any]]]:
    """The chains of one owner, None where they could not be read."""
    chains = facts["chains"]
    return None if chains is None else [chain for chain in chains if chain["owner"] == owner]
