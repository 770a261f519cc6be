# SPDX-License-Identifier: GPL-3.0-or-later
"""What each fault of ssh means to a person, and what to do about it."""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import asyncssh

from railwright.report.text import printable

REASON = 300  # characters of what a node says
REMEDIES = (  # asyncssh's and sshd's own words -> what to do
    ("Too many authentication failures", "; the agent offers too many keys: name the one with IdentityFile, and set IdentitiesOnly yes"),
    ("banner", "; is that an sshd?"),
)


class Unreachable(Exception):
    """No command ran on the node, or none to its end; the text says why, and what to do."""


def host_key_text(host: str, port: int, said: str, *, unknown: bool) -> str:
    name = host if port == asyncssh.DEFAULT_PORT else f"[{host}]:{port}"
    if "not trusted" not in said:
        return f"host key verification failed for {name}: {short_reason(said)}"
    if unknown:
        return (f"host key verification failed: no host key of {name} is known; compare it, then add it to known_hosts: ssh-keyscan, "
                "or ssh once")
    return (f"host key verification failed: the host key of {name} is another one than known_hosts has; if the node was installed anew, "
            f"remove the old key: ssh-keygen -R {name}. Else somebody answers in its place")


def login_text(host: str, options: Mapping[str, Any], said: str, hints: Sequence[str]) -> str:
    ways = [name for name, on in (("a key", options["public_key_auth"]), ("a password", options["password_auth"])) if on]
    with_what = " and ".join(ways) or "no way to log in"
    advice = "check ansible_user, the key file or the agent, and the node's authorized_keys and sshd log"
    return "; ".join((f"login as {options['username']} on {host} was refused, with {with_what} ({short_reason(said)})", *hints, advice))


def fault_text(host: str, port: int, error: Exception, *, began: bool = False) -> str:
    """``began``: whether the login was over, and the command ran."""
    place = f"{host} port {port}"
    if isinstance(error, TimeoutError):
        return f"no answer from {place} in time; is the node up, and does a firewall let ssh through?"
    if isinstance(error, ConnectionRefusedError):
        return f"connection to {place} refused; is sshd running there?"
    if isinstance(error, socket.gaierror):
        return f"the name {host} cannot be resolved; set ansible_host, or correct DNS"
    if isinstance(error, asyncssh.ChannelOpenError):
        return (f"{place} cannot be reached through the jump host ({short_reason(error.reason)}); is the node up, and AllowTcpForwarding "
                "on there?")
    if isinstance(error, asyncssh.ConnectionLost | ConnectionError) and began:
        return f"{place} closed the connection in the middle of its answer ({short_reason(str(error))}); did the node go down or reboot?"
    if isinstance(error, asyncssh.ConnectionLost | ConnectionError):
        return (f"{place} closed the connection before the login ({short_reason(str(error))}); see sshd's log there: MaxStartups, or sshd "
                "is ending")
    remedy = next((text for words, text in REMEDIES if words in str(error)), "")
    return f"ssh to {place} failed: {short_reason(str(error) or type(error).__name__)}{remedy}"


def short_reason(text: str) -> str:
    """What a node had a say in, for one line."""
    return printable(" ".join(text.split()))[:REASON] or "no reason given"
