# SPDX-License-Identifier: GPL-3.0-or-later
"""SONiC: tables of config_db as JSON, and the command lines around them. The whole text is a shell script, and can be checked as one."""

from __future__ import annotations

import json

from railwright.switch_hints.model import MTU, Chain, Platform, Sheet, comma, shared

PORT = "Ethernet0"
FILE = "railwright-qos.json"
MAP = "AZURE"  # the name that every image's template gives its maps
TEMPLATE_LOSSLESS = (3, 4)  # qos_config.j2: LOSSLESS_TC where an SKU has no list of its own
# qos_config.j2, DSCP_TO_TC_MAP AZURE; every other DSCP goes to 1.
TEMPLATE_MAP = {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}
STRICT = "RAILWRIGHT_STRICT"
SHARE = "RAILWRIGHT_ROCE"
WRED = "AZURE_LOSSLESS"
# qos_config.j2, WRED_PROFILE AZURE_LOSSLESS: marks from 1 MiB, at 2 MiB five in a hundred.
WRED_VALUES = {"min_threshold": "1048576", "max_threshold": "2097152", "drop_probability": "5"}


def template_tc(dscp: int) -> int:
    """The traffic class that the images' default map gives a DSCP."""
    return TEMPLATE_MAP.get(dscp, 1)


def write(sheet: Sheet, chain: Chain) -> None:
    lossless = comma(chain.lossless)
    sheet.part("1. the image's own maps, profiles and buffers (rewrites all QoS tables: traffic stops for a moment)")
    sheet.put("sudo config qos reload")
    sheet.part("2. config_db: what of them changes. `config load` adds and replaces entries, and removes none")
    sheet.put(f"cat > {FILE} <<'EOF'", *json.dumps(tables(chain), indent=2).splitlines(), "EOF", f"sudo config load -y {FILE}")
    sheet.part("3. the port")
    for priority in chain.lossless:  # config/main.py: config interface pfc priority <name> <0-7> on|off
        sheet.put(f"sudo config interface pfc priority {PORT} {priority} on")
    for priority in chain.lossless:
        if priority not in TEMPLATE_LOSSLESS:  # the template's BUFFER_PG is 3-4 only
            sheet.put(f"sudo config interface buffer priority-group lossless add {PORT} {priority}")
    sheet.put(f"sudo config interface mtu {PORT} {MTU}")
    # config/main.py: config pfcwd start --action drop PORTS DETECTION --restoration-time N (milliseconds)
    sheet.put(f"sudo config pfcwd start --action drop {PORT} 400 --restoration-time 400")
    sheet.part("4. after the checks below")
    sheet.put("sudo config save -y")
    _traps(sheet, chain)
    sheet.notes(
        "Verify",
        f'sonic-cfggen -d --var-json DSCP_TO_TC_MAP: "{chain.dscp}": "{chain.priority}", "{chain.cnp_dscp}": "{chain.cnp_priority}"',
        f"show pfc priority: {PORT} has {lossless} and nothing else; show pfc asymmetric: off",
        f"show ecn: {WRED} is ecn_all; show queue counters {PORT}: RoCE under load is counted in UC{chain.priority}, CNP in "
        f"UC{chain.cnp_priority}",
        f"show buffer configuration: BUFFER_PG of {PORT} has {lossless} with a pg_lossless profile (xoff and xon are set)",
        f"show pfcwd config and show pfcwd stats; show pfc counters: pauses on {lossless} only; show interfaces status {PORT}: MTU {MTU}",
    )


def tables(chain: Chain) -> dict[str, dict[str, dict[str, str]]]:
    """The entries of config_db. Maps are merged field by field, so only what differs from the template stands here."""
    classes = {*chain.lossless, chain.priority, chain.cnp_priority}
    same = {str(item): str(item) for item in sorted(classes)}
    dscps = dict.fromkeys(chain.crowd(template_tc), 0) | {chain.dscp: chain.priority, chain.cnp_dscp: chain.cnp_priority}
    groups = {item: item if item in chain.lossless else 0 for item in sorted(classes)}
    found: dict[str, dict[str, dict[str, str]]] = {
        "DSCP_TO_TC_MAP": {MAP: {str(dscp): str(dscps[dscp]) for dscp in sorted(dscps)}},
        "TC_TO_QUEUE_MAP": {MAP: same},
        "TC_TO_PRIORITY_GROUP_MAP": {MAP: {str(tc): str(group) for tc, group in groups.items()}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {MAP: {str(item): str(item) for item in chain.lossless}},
        "PORT_QOS_MAP": {PORT: {
            # The map on the port is what "trust DSCP" is called elsewhere.
            "dscp_to_tc_map": MAP, "tc_to_queue_map": MAP, "tc_to_pg_map": MAP, "pfc_to_queue_map": MAP,
            "pfc_enable": comma(chain.lossless), "pfcwd_sw_enable": comma(chain.lossless)}},
        "WRED_PROFILE": {WRED: _wred()},
        "SCHEDULER": {STRICT: {"type": "STRICT"}},
        "QUEUE": {
            # scheduler.1 is the template's own for its lossless queues.
            f"{PORT}|{chain.priority}": {"scheduler": SHARE if chain.own_share else "scheduler.1", "wred_profile": WRED},
            f"{PORT}|{chain.cnp_priority}": {"scheduler": STRICT}},
    }
    if chain.own_share:
        found["SCHEDULER"][SHARE] = {"type": "DWRR", "weight": str(chain.share)}
    return found


def _wred() -> dict[str, str]:
    """Marks instead of drops, for packets of all three colours alike."""
    found = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        found[f"wred_{colour}_enable"] = "true"
        found |= {f"{colour}_{name}": value for name, value in WRED_VALUES.items()}
    return found


def _traps(sheet: Sheet, chain: Chain) -> None:
    was = template_tc(chain.dscp)
    outside = [item for item in chain.lossless if item not in TEMPLATE_LOSSLESS]
    crowd = chain.crowd(template_tc)
    role = "lossless" if template_tc(0) in chain.lossless else "strict"
    if was in TEMPLATE_LOSSLESS:
        fate = "one of the template's lossless classes"
    elif was in chain.lossless:
        fate = "where the template has no PFC and no headroom"
    else:
        fate = "a lossy class (26 and 34 alike): only DSCP 3 and 4 reach the lossless ones"
    sheet.notes(
        "Corrected here",
        f"the default map {MAP} sends DSCP {chain.dscp} to TC {was}, {fate}",
        f"{MAP} also sends {len(crowd)} other DSCPs, best effort among them, to TC {template_tc(0)}, which is {role} now: they go to 0"
        if crowd else "",
        f"PFC and its watchdog are on {comma(TEMPLATE_LOSSLESS)} by default; here on {comma(chain.lossless)}",
        f"queue {chain.cnp_priority} (CNP) is DWRR among the others by default; here strict",
        f"TC {comma(outside)} shares priority group 0 with lossy traffic by default; here it has its own" if outside else "",
        f"the default MTU of a port is 9100; here {MTU}",
    )
    sheet.notes(
        "Traps",
        "`config qos reload` rewrites every table above from the image's template. It comes first, and after each later one (also after an "
        "upgrade of the image) steps 2 and 3 are due again.",
        shared(chain, template_tc),
        "`dot1p_to_tc_map` on the same port trusts the VLAN tag instead: remove it.",
        "Headroom is the ASIC's: on the dynamic buffer model (show buffer information) it follows speed and cable length (config "
        "interface "
        f"cable-length {PORT} 5m), elsewhere pg_profile_lookup.ini of the image does.",
        f"BUFFER_QUEUE keys of {PORT} that hold {comma(outside)} (0-2 or 5-6 in the template) use egress_lossy_profile: split "
        "them, so that "
        f"{PORT}|{outside[0]} has egress_lossless_profile." if outside else "",
        "On ASICs of NVIDIA and Barefoot the port also has pfc_to_pg_map: sonic-db-cli CONFIG_DB HSET "
        f"'PFC_PRIORITY_TO_PRIORITY_GROUP_MAP|{MAP}' {' '.join(f'{item} {item}' for item in outside)}" if outside else "",
        "Images before 202111 write references with their table, [DSCP_TO_TC_MAP|AZURE]; those of 201911 start the watchdog with "
        "`ports all "
        "detection-time 400`.",
        "Enterprise SONiC of Dell and Broadcom have a command line of their own (see sonic_roce of dellemc.enterprise_sonic).",
    )


PLATFORM = Platform(
    "sonic", "SONiC", "#", PORT,
    ("sonic-net/sonic-buildimage files/build_templates/qos_config.j2 (maps, WRED_PROFILE, SCHEDULER, PORT_QOS_MAP)",
     "sonic-net/sonic-utilities config/main.py (config qos, load, interface pfc and mtu, pfcwd)",
     "NVIDIA's guide to SONiC, Quality of Service (config interface buffer priority-group lossless)",
     "sonic-net/SONiC wiki, Enable ECN on lossless queues"),
    write)
