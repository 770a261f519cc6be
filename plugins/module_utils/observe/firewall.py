# SPDX-License-Identifier: GPL-3.0-or-later
"""Which firewall runs, whose the input chains are, and what they ask: the ``firewall`` part of the facts object.

Several may run at once: every base chain of the kernel is met by every packet. A chain belongs to the front end whose
table or whose chains' names it has, else to whoever wrote it for nftables or iptables. Reading the rules needs root.
"""

from typing import Any, Dict, List, Optional

from ..host.host import Host
from . import iptables, nftables

OWNERS = ("firewalld", "ufw", "nftables", "iptables")
TABLE = "firewalld"  # firewalld's own table in nftables
SECONDS = 20.0
UFW_CONF = "/etc/ufw/ufw.conf"
NFTABLES_CONF = ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")
LEGACY = {"ip": "/proc/net/ip_tables_names", "ip6": "/proc/net/ip6_tables_names"}


def observe_firewall(host: Host) -> Dict[str, Any]:
    """``chains`` is None where they cannot be read, and ``missing`` says why."""
    runs = [name for name, active in (("firewalld", firewalld_runs(host)), ("ufw", ufw_runs(host))) if active]
    chains, missing = _chains(host)
    if chains is None:
        return {"runs": runs, "chains": None, "missing": missing}
    for chain in chains:
        chain["owner"] = _owner(chain, chains, runs)
    runs += [name for name in OWNERS if name not in runs and any(chain["owner"] == name and chain["hook"] for chain in chains)]
    return {"runs": runs, "chains": chains, "missing": None}


def firewalld_runs(host: Host) -> bool:
    return host.which("firewall-cmd") is not None and host.run(("firewall-cmd", "--state"), SECONDS).out.strip() == "running"


def ufw_runs(host: Host) -> bool:
    """Enabled in its file and live: ``ufw disable`` changes both, a stopped service only the rules."""
    if host.which("ufw") is None or not any(line.strip() == "ENABLED=yes" for line in (host.read(UFW_CONF) or "").splitlines()):
        return False
    return host.run(("ufw", "status"), SECONDS).out.startswith("Status: active")


def _chains(host: Host) -> Any:
    """(chains, None) or (None, why not)."""
    found: List[Dict[str, Any]] = []
    if host.which("nft") is not None:
        answer = host.run(nftables.LIST, SECONDS)
        native = nftables.chains_of(answer.out) if answer.ok else None
        if native is None:
            return None, "nft -j list ruleset: %s" % ((answer.err.strip().splitlines() or ["no answer"])[0][:200])
        found = native
    elif not host.live and not any(host.which(tool) for tool, _family in iptables.FAMILIES):
        return None, "no rules were captured"
    elif host.exists("/sys/module/nf_tables") and host.which("iptables") is None:
        return None, "the kernel has nf_tables, and there is no nft to read its rules"
    written = _written_tables(host)
    for tool, family in iptables.FAMILIES:
        translated = any(chain["family"] == family and chain["table"] == "filter" and chain["chain"] == "INPUT" for chain in found)
        if (family in written and translated) or not _has_iptables(host, tool, family, translated):
            continue
        answer = host.run((tool, "-S"), SECONDS)
        if not answer.ok:
            return None, "%s -S: %s" % (tool, (answer.err.strip().splitlines() or ["no answer"])[0][:200])
        # What iptables made in nftables has matches that nft cannot show: iptables' own words are the better ones.
        found = [chain for chain in found if (chain["family"], chain["table"]) != (family, "filter")]
        found += [dict(chain, tool=tool) for chain in iptables.chains_of(answer.out, family)]
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
    found = []
    for path in NFTABLES_CONF:
        words = (host.read(path) or "").split()
        found += [words[at + 1] for at in range(len(words) - 2) if words[at] == "table" and words[at + 2] == "filter"]
    return found


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
