# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets a node up as a site would have it: one firewall that lets ssh in, or none. Usage: site_firewall.py nftables|firewalld|ufw|none"""

import subprocess
import sys
from pathlib import Path

# Two base chains that stop what they do not know: each of them must let the cluster's nodes in. A file of the site's is included too.
NFTABLES = """#!/usr/sbin/nft -f
flush ruleset

include "/etc/nftables.d/*.nft"

table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        ct state vmap { established : accept, related : accept, invalid : drop }
        iifname "lo" accept
        tcp dport 22 accept comment "site"
        meta l4proto { icmp, ipv6-icmp } accept
    }
}
"""
SECOND = """table ip guard {
    set open_ports {
        type inet_service
        elements = { 22, 80 }
    }
    chain check {
        tcp dport @open_ports accept
        ct state new reject
    }
    chain late {
        type filter hook input priority filter + 5; policy accept;
        iifname "eth*" jump check
    }
}
"""


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


kind = sys.argv[1]
for unit in ("nftables", "firewalld", "ufw"):
    if unit != kind:
        run("systemctl", "disable", "--quiet", "--now", unit)
if kind not in ("none", "firewalld"):
    run("systemctl", "mask", "--quiet", "firewalld")
if kind == "nftables":
    included = Path("/etc/nftables.d")
    included.mkdir(exist_ok=True)
    (included / "guard.nft").write_text(SECOND, encoding="utf-8")
    Path("/etc/nftables.conf").write_text(NFTABLES, encoding="utf-8")
    run("systemctl", "enable", "--quiet", "--now", "nftables")
elif kind == "ufw":
    # ufw starts before the network is there; in a container its unit is the one that boots, as on a machine.
    run("ufw", "allow", "22/tcp")
    run("ufw", "deny", "from", "203.0.113.0/24")
    run("ufw", "--force", "enable")
elif kind == "firewalld":
    run("systemctl", "enable", "--quiet", "--now", "firewalld")
    run("firewall-cmd", "--quiet", "--permanent", "--add-rich-rule=rule family=ipv4 source address=203.0.113.7 service name=http accept")
    run("firewall-cmd", "--quiet", "--reload")
