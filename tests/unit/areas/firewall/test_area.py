# SPDX-License-Identifier: GPL-3.0-or-later
"""The area over what real nft, iptables, ufw and firewalld printed: when something is done, what, and when nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.units import DIRECTORY
from ansible_collections.railwright.rdma.plugins.module_utils.areas.firewall.firewalld import RECORD
from ansible_collections.railwright.rdma.plugins.module_utils.areas.firewall.nftables import RULES, SCRIPT, UNIT

Make = Callable[..., Any]
RULE = 'rule family="ipv4" source address="%s" protocol value="tcp" accept'
SHORT = ("192.0.2.11", "192.0.2.12", "198.18.0.11")
DROPS = ('{"nftables": [{"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter", "hook": "input", '
         '"prio": 0, "policy": "%s"}}%s]}')
# As nft 1.0.6 lists our rule: single addresses bare, the others as ranges or prefixes.
OURS = (', {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 9, "comment": "railwright", "expr": ['
        '{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}, '
        '{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"set": [%s]}}}, '
        '{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}, {"accept": null}]}}')
ALL = '{"range": ["192.0.2.11", "192.0.2.12"]}, "198.18.0.11"'
SITE = (', {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": [{"match": {"op": "==", "left": '
        '{"payload": {"protocol": "tcp", "field": "dport"}}, "right": 23}}, {"drop": null}]}}')


def settled(node: Any) -> None:
    """The unit is enabled and runs, as after an apply."""
    wants = node.base / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / UNIT).symlink_to(f"{DIRECTORY}/{UNIT}")
    node.say(("systemctl", "is-active", UNIT), "active\n")


def write(node: Any, changes: list[Any]) -> None:
    for change in changes:
        for op in change.ops:
            if op.kind == "write":
                node.put(op.path, op.content, op.mode)


def test_no_firewall_no_change(node: Any, planner: Make) -> None:
    node.nft('{"nftables": []}')
    made = planner()
    assert made.plan() == []
    assert made.conflicts() == []
    assert made.notes() == ["firewall: none runs on this node, nothing is to be opened"]


def test_a_chain_that_lets_everything_in_is_left_alone(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("accept", ""))
    made = planner()
    assert made.plan() == []
    assert made.notes() == ["firewall: nftables lets the cluster's nodes in"]


@pytest.mark.parametrize(("policy", "rules"), [("drop", ""), ("accept", SITE)])
def test_nftables(node: Any, planner: Make, policy: str, rules: str) -> None:
    node.nft(DROPS % (policy, rules))
    made = planner()
    changes = {change.what: change for change in made.plan()}
    assert list(changes) == [f"file {SCRIPT}", f"file {RULES}", "rules for the cluster's nodes in nftables", f"file {DIRECTORY}/{UNIT}",
                             f"unit {UNIT} enabled", f"unit {UNIT} running"]
    lines = [line for line in changes[f"file {RULES}"].after.splitlines() if not line.startswith("#")]
    (line,) = lines
    assert line == ('insert rule inet filter input iifname "eth0" ip saddr { 192.0.2.11/32, 192.0.2.12/32, 198.18.0.11/32 } '
                    'meta l4proto tcp accept comment "railwright"')
    load = changes["rules for the cluster's nodes in nftables"]
    assert (load.before, load.after) == (None, ["inet filter input: eth0: tcp from 192.0.2.11/32, 192.0.2.12/32, 198.18.0.11/32"])
    assert [op.argv for op in load.ops] == [(SCRIPT, "load", RULES)]
    assert load.ops[0].undo == ((SCRIPT, "clear"),), "there was none of ours before: they are taken out again"


def test_nftables_as_it_should_be(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("drop", ""))
    made = planner()
    write(node, made.plan())
    settled(node)
    assert made.whats() == ["rules for the cluster's nodes in nftables"]
    node.nft(DROPS % ("drop", OURS % ALL))
    assert made.plan() == []
    node.nft(DROPS % ("drop", (OURS % ALL).replace('"right": "tcp"', '"right": 6')))
    assert made.plan() == [], "nft 1.0.6 prints the number on a node without /etc/protocols"


@pytest.mark.parametrize("live", [
    OURS % '"192.0.2.11", "192.0.2.12"',  # a node came
    OURS % (ALL + ', "192.0.2.13"'),  # a node left
    OURS % ALL + OURS % ALL,  # twice
    SITE + OURS % ALL,  # somebody's drop came before
])
def test_nftables_that_differs_is_loaded_again(node: Any, planner: Make, live: str) -> None:
    node.nft(DROPS % ("drop", ""))
    made = planner()
    write(node, made.plan())
    settled(node)
    node.nft(DROPS % ("drop", live))
    (change,) = made.plan()
    assert change.what == "rules for the cluster's nodes in nftables"
    assert change.before
    assert change.ops[0].undo == (), "a roll-back restores the file and loads that again"


def test_nftables_whose_site_opened_it_meanwhile_keeps_ours_up_to_date(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("accept", OURS % '"192.0.2.11"'))
    assert "rules for the cluster's nodes in nftables" in planner().whats()


def test_soft_roce_opens_its_port_on_the_rails(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("drop", ""))
    found = next(change for change in planner(rdma_stack="soft_roce").plan() if change.what == f"file {RULES}")
    lines = found.after.splitlines()[1:]
    assert len(lines) == 2
    assert 'iifname "eth1" ip saddr { 192.0.2.11/32, 192.0.2.12/32, 198.18.0.11/32 } udp dport 4791 accept' in lines[1]


def test_a_chain_of_ip_gets_no_rule_of_ipv6(node: Any, planner: Make) -> None:
    node.nft((DROPS % ("drop", "")).replace('"inet"', '"ip"'))
    values = {"peers": ["192.0.2.11/32", "2001:db8::11/128"], "unknown": []}
    found = next(change for change in planner(derived=values).plan() if change.what == f"file {RULES}")
    assert [line.split(" iifname")[0] for line in found.after.splitlines()[1:]] == ["insert rule ip filter input"]
    assert "ip6" not in found.after


def ufw(node: Any, recorded: Callable[[str], str], rules: str = "", live: str = "") -> None:
    node.put("/usr/sbin/ufw", "", 0o755)
    node.put("/usr/sbin/iptables", "", 0o755)
    node.put("/etc/ufw/ufw.conf", "ENABLED=yes\nLOGLEVEL=low\n")
    node.put("/etc/default/ufw", 'IPV6=yes\nDEFAULT_INPUT_POLICY="DROP"\n')
    node.put("/etc/ufw/user.rules", "*filter\n### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n" + rules)
    node.put("/proc/net/ip_tables_names", "filter\n")
    node.say(("ufw", "status"), "Status: active\n")
    text = recorded("ufw-0.36-iptables.txt")
    node.say(("iptables", "-S"), text.replace("-A ufw-user-input -p tcp", live + "-A ufw-user-input -p tcp", 1))


TUPLES = "".join(f"### tuple ### allow tcp any 0.0.0.0/0 any {source} in_eth0 comment=7261696c777269676874\n" for source in SHORT)
LIVE = "".join(f"-A ufw-user-input -s {source}/32 -i eth0 -p tcp -j ACCEPT\n" for source in SHORT)


def test_ufw(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    ufw(node, recorded)
    (change,) = planner().plan()
    assert change.what == "rules for the cluster's nodes in ufw"
    rule = ("allow", "in", "on", "eth0", "proto", "tcp", "from", "192.0.2.11/32", "to", "any")
    assert change.ops[0].argv == ("ufw", "prepend", *rule, "comment", "railwright")
    assert change.ops[0].undo == (("ufw", "delete", *rule),)
    assert len(change.ops) == 3


def test_ufw_as_it_should_be(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    ufw(node, recorded, TUPLES, LIVE)
    assert planner().plan() == []


def test_ufw_whose_rules_are_out_of_the_kernel(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    ufw(node, recorded, TUPLES, "".join(LIVE.splitlines(keepends=True)[1:]))
    (change,) = planner().plan()
    assert [op.argv for op in change.ops] == [("ufw", "reload")]


def test_ufw_opens_before_it_closes(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    """And takes away only what carries our comment."""
    theirs = "### tuple ### allow tcp any 0.0.0.0/0 any 192.0.2.99 in_eth0 comment=73697465\n"
    ufw(node, recorded, TUPLES.replace("192.0.2.12", "192.0.2.13") + theirs, LIVE)
    (change,) = planner().plan()
    assert [(op.argv[1], op.argv[op.argv.index("from") + 1]) for op in change.ops] == [
        ("prepend", "192.0.2.12/32"), ("delete", "192.0.2.13/32")]


def firewalld(node: Any, recorded: Callable[[str], str], runtime: list[str], permanent: list[str], *, zone: str | None = "work") -> None:
    node.put("/usr/bin/firewall-cmd", "", 0o755)
    node.nft(recorded("firewalld-1.3.json"))
    command = "firewall-cmd"
    node.say((command, "--state"), "running\n")
    if zone is not None:
        node.say((command, "--get-zone-of-interface=eth0"), zone + "\n")
    node.say((command, "--get-default-zone"), "public\n")
    for name in ("work", "public"):
        mine = name == (zone or "public")
        node.say((command, f"--zone={name}", "--list-rich-rules"), "\n".join(runtime if mine else []) + "\n")
        node.say((command, "--permanent", f"--zone={name}", "--list-rich-rules"), "\n".join(permanent if mine else []) + "\n")
        node.say((command, f"--zone={name}", "--list-interfaces"), "eth0\n" if name == zone else "\n")


def test_firewalld(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    firewalld(node, recorded, [], [])
    changes = planner().plan()
    assert [change.what for change in changes] == [f"file {RECORD}", "rules for the cluster's nodes in firewalld at run time",
                                                   "rules for the cluster's nodes in firewalld permanently"]
    adds = tuple(f"--add-rich-rule={RULE % source}" for source in SHORT)
    assert [op.argv for change in changes[1:] for op in change.ops] == [
        ("firewall-cmd", "--zone=work", *adds), ("firewall-cmd", "--permanent", "--zone=work", *adds)]
    assert changes[2].ops[0].undo == (
        ("firewall-cmd", "--permanent", "--zone=work", *(text.replace("--add", "--remove") for text in adds)),)
    write(node, changes)
    firewalld(node, recorded, [RULE % source for source in SHORT], [RULE % source for source in SHORT])
    assert planner().plan() == []


def test_firewalld_uses_the_default_zone_for_an_interface_without_one(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    firewalld(node, recorded, [], [], zone=None)
    assert planner().plan()[1].ops[0].argv[1] == "--zone=public"


def test_firewalld_keeps_what_the_site_wrote(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    """A rule that was there already is the site's: a node that leaves does not take it along."""
    site = RULE % SHORT[0]
    firewalld(node, recorded, [site], [site])
    write(node, planner().plan())
    assert site not in node.read(RECORD)
    firewalld(node, recorded, [RULE % source for source in SHORT], [RULE % source for source in SHORT])
    changes = planner(derived={"peers": [SHORT[2] + "/32"], "unknown": []}).plan()
    removed = {text for change in changes for op in change.ops for text in op.argv if text.startswith("--remove")}
    assert removed == {f"--remove-rich-rule={RULE % SHORT[1]}"}


def test_firewalld_says_that_a_zone_is_wider_than_an_interface(node: Any, planner: Make, recorded: Callable[[str], str]) -> None:
    firewalld(node, recorded, [], [])
    node.say(("firewall-cmd", "--zone=work", "--list-interfaces"), "eth0 eth7\n")
    assert "zone work of firewalld holds eth7 too" in planner().notes()[-1]


def iptables(node: Any, rules: str) -> None:
    node.put("/usr/sbin/iptables", "", 0o755)
    node.put("/proc/net/ip_tables_names", "filter\n")
    node.say(("iptables", "-S"), "-P INPUT DROP\n" + rules)


def test_iptables_is_refused_with_the_way_out(node: Any, planner: Make) -> None:
    iptables(node, "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n")
    made = planner()
    assert made.plan() == []
    (said,) = made.conflicts()
    assert said.startswith("iptables: stops the cluster's nodes (policy drop of ip filter INPUT); railwright does not write iptables rules")
    assert "firewall_manage: false" in said
    assert planner(firewall_manage=False).conflicts() == []


def test_iptables_that_lets_them_in_is_left_alone(node: Any, planner: Make) -> None:
    iptables(node, "-A INPUT -s 192.0.2.0/24 -j ACCEPT\n-A INPUT -s 198.18.0.0/15 -j ACCEPT\n")
    assert planner(derived={"peers": ["192.0.2.11/32"], "unknown": []}).conflicts() == []


def test_another_firewall_than_the_one_that_was_named(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("drop", ""))
    made = planner(firewall_backend="ufw")
    assert made.plan() == []
    (said,) = made.conflicts()
    assert said == ("nftables: stops the cluster's nodes (policy drop of inet filter input); firewall_backend is ufw: set it to auto or "
                    "nftables, or set firewall_manage: false")
    assert "firewall: firewall_backend is ufw, and it does not run on this node" in made.notes()


@pytest.mark.parametrize(("derived", "words"), [
    ({"peers": [], "unknown": ["node1"]}, "no address of node1 can be derived"),
    ({"peers": ["192.0.2.11/32"], "unknown": ["node2"]}, "no address of node2 can be derived"),
    ({"peers": [], "unknown": []}, "no address can be derived"),
])
def test_peers_that_nobody_knows(node: Any, planner: Make, derived: dict[str, list[str]], words: str) -> None:
    node.nft('{"nftables": []}')
    assert planner(derived=derived).conflicts() == [], "no firewall, no need to know"
    node.nft(DROPS % ("accept", ""))
    assert planner(derived=derived).conflicts() == []
    node.nft(DROPS % ("drop", ""))
    made = planner(derived=derived)
    assert made.plan() == []
    assert words in made.conflicts()[0]
    assert planner(derived=derived, firewall_peers=["192.0.2.0/24"]).conflicts() == []


def test_rules_that_cannot_be_read_are_said(node: Any, planner: Make) -> None:
    node.put("/usr/sbin/nft", "", 0o755)
    made = planner()
    assert made.plan() == []
    assert made.notes() == ["firewall: the kernel's rules cannot be read: nft -j list ruleset: nft: not recorded"]


def test_left_alone(node: Any, planner: Make) -> None:
    node.nft(DROPS % ("drop", ""))
    made = planner(firewall_manage=False)
    assert (made.plan(), made.conflicts(), made.notes()) == ([], [], ["firewall: left alone (firewall_manage: false)"])
