# SPDX-License-Identifier: GPL-3.0-or-later
"""How a switch is asked for its configuration: one fixed command each, which only reads, by ansible_network_os and ansible_connection.

SONiC and Cumulus are Linux: the command goes over plain ssh. The others have a CLI of their own, which the vendors' collections speak.
"""

from typing import Any, NamedTuple

SHOW = "show running-config"
# Vendors' references: sonic-utilities, doc/Command-Reference.md; Cumulus Linux 5, NVUE CLI; the CLI guides of EOS, NX-OS and Onyx.
COMMANDS = {"sonic": "show runningconfiguration all", "nvue": "nv config show -o json", "onyx": SHOW, "eos": SHOW, "nxos": SHOW}
LINUX = ("sonic", "nvue")
VENDORS = {"eos": "arista.eos", "nxos": "cisco.nxos", "onyx": "mellanox.onyx"}
NETCOMMON = "ansible.netcommon"
CLI_COMMAND = f"{NETCOMMON}.cli_command"
API_COMMANDS = {"eos": "arista.eos.eos_command", "nxos": "cisco.nxos.nxos_command"}  # cli_command is for network_cli alone
KNOWN = "arista.eos.eos, cisco.nxos.nxos, mellanox.onyx.onyx, sonic or nvue"


class Way(NamedTuple):
    """``module``: which asks; empty where the command goes over the connection as it is."""

    os: str  # as --os of `railwright switch check` has it
    module: str = ""
    collections: tuple[str, ...] = ()


def way_of(network_os: Any, connection: Any) -> Way:
    """Raises ValueError: which variable says what, and what is allowed."""
    name, kind = str(network_os or ""), str(connection).rpartition(".")[2]
    os = next((word for word in reversed(name.split(".")) if word in COMMANDS), None)
    if os is None:
        raise ValueError(f"ansible_network_os: {name or 'is not set'}; allowed: {KNOWN}")
    vendor = ".".join(name.split(".")[:2]) if name.count(".") == 2 else VENDORS.get(os, "")
    if kind == "network_cli" and os in VENDORS:
        return Way(os, CLI_COMMAND, tuple(dict.fromkeys((NETCOMMON, vendor))))
    if kind == "httpapi" and os in API_COMMANDS:
        return Way(os, API_COMMANDS[os], tuple(dict.fromkeys((NETCOMMON, vendor, VENDORS[os]))))
    if os in LINUX and kind not in ("network_cli", "httpapi"):
        return Way(os)
    allowed = "ssh" if os in LINUX else " or ".join(f"{NETCOMMON}.{one}" for one in ("network_cli", "httpapi")[: 1 + (os in API_COMMANDS)])
    raise ValueError(f"ansible_connection: {connection}: cannot ask {name} for its configuration; allowed: {allowed}")
